"""The GPUs that given traffic needs: formulas from a peak to machines and money. Pure.

Prefill and decode are sized separately and combined in one step: a batch in balance starts as many prompts as it ends
answers. KV memory bounds the batch, the ITL objective bounds the step.

Trade-off: one mean length and a steady peak are assumed.
"""

import math
from dataclasses import dataclass

from penstock.capacity.bounds import BOUNDS, check
from penstock.capacity.memory_plan import MOST_SEQUENCES, MemoryPlan
from penstock.domain.errors import ArtifactRefused

DATASHEET_ERROR = 0.15
"""Median error of predicted steps (from data sheets) against published runs; for a batch in balance it is as large."""

STEPS = 40
"""Points of a plot up to the peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakDemand:
    """One version's peak, and the failures to survive at that time."""

    requests_per_s: float
    ttft_s: float
    target_load: float = 0.8
    """The part of a replica's rate that the peak may take; the rest is for bursts."""
    zones: int = 3
    """The replicas are spread equally over these zones, and any one may be lost at the peak; 1 survives none."""
    other_region_per_s: float = 0.0
    """Requests a second that arrive here if another region is lost; 0: no room is kept for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    formula: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityPlan:
    figures: tuple[Figure, ...]
    binding: str
    """The bound that a larger batch would exceed first."""
    replica_per_s: float
    replicas: int
    gpus: int
    replicas_if_slower: int
    """Replicas if steps take longer by the model's error."""
    per_hour: float | None
    """Dollars; None if no price is known."""
    next_tenth: int
    """Replicas to add for the next 10 % of traffic."""
    next_tenth_per_hour: float | None
    misses_ttft: bool
    """Whether a prompt alone takes longer than the TTFT objective."""


def plan(
    demand: PeakDemand, memory: MemoryPlan, gpu_per_hour: float | None, error: float = DATASHEET_ERROR
) -> CapacityPlan:
    """Plan replicas with batch and lengths of ``memory``.

    ``gpu_per_hour`` is in dollars, None if unknown. Raises ``ArtifactRefused`` if a replica can't serve one request.
    """
    check(demand)
    if gpu_per_hour is not None:
        BOUNDS["gpu_per_hour"].check(gpu_per_hour)
    rate, figures, binding = _replica(memory)
    peak = demand.requests_per_s + demand.other_region_per_s
    replicas = _replicas(peak, rate, demand)
    slower = _replicas(peak, rate / (1 + error), demand)
    gpus = memory.target.gpus
    spread = demand.zones / (demand.zones - 1) if demand.zones > 1 else 1.0
    figures += (
        Figure(name="peak", formula="requests/s here + requests/s of a lost region", value=peak, unit="requests/s"),
        Figure(
            name="needed",
            formula=f"peak / (rate x {demand.target_load:g} target load)",
            value=peak / (rate * demand.target_load),
            unit="replicas",
        ),
        Figure(
            name="with zones",
            formula=f"needed x {spread:.2f} (z / (z - 1), {demand.zones} zones), whole, and equally many in each zone",
            value=replicas,
            unit="replicas",
        ),
    )
    tenth = _replicas(1.1 * peak, rate, demand) - replicas
    prefill_s = memory.steps.seconds(decoding=0, prompt=memory.target.lengths.means[0])
    return CapacityPlan(
        figures=figures,
        binding=binding,
        replica_per_s=rate,
        replicas=replicas,
        gpus=replicas * gpus,
        replicas_if_slower=slower,
        per_hour=_priced(replicas * gpus, gpu_per_hour),
        next_tenth=tenth,
        next_tenth_per_hour=_priced(tenth * gpus, gpu_per_hour),
        misses_ttft=prefill_s > demand.ttft_s,
    )


def _priced(gpus: int, gpu_per_hour: float | None) -> float | None:
    return None if gpu_per_hour is None else gpus * gpu_per_hour


def sizes(demand: PeakDemand, memory: MemoryPlan) -> list[tuple[float, int]]:
    """Rates up to one and a half times the peak, each with its replicas."""
    rate, _, _ = _replica(memory)
    peaks = [demand.requests_per_s * part / STEPS for part in range(1, STEPS + STEPS // 2 + 1)]
    return [(peak, _replicas(peak + demand.other_region_per_s, rate, demand)) for peak in peaks]


def _replica(memory: MemoryPlan) -> tuple[float, tuple[Figure, ...], str]:
    """Requests a second, the rows that derive them, and the binding bound."""
    target, steps, batch = memory.target, memory.steps, memory.max_num_seqs
    held, (_, output) = target.lengths.typical, target.lengths.means
    if not memory.fits:
        raise ArtifactRefused(
            f"--gpu: the model does not fit {target.gpus} x {memory.gpu.name}: see penstock plan memory"
        )
    brought = round(batch * target.lengths.brought)
    step_s = steps.seconds(decoding=batch, prompt=brought, context=batch * held)
    if memory.by_itl < 1:
        raise ArtifactRefused(
            f"--itl-ms: no engine step that also reads prompts is within {target.itl_s * 1e3:g} ms on {memory.gpu.name}"
            f": allow at least {math.ceil(step_s * 1e3):,} ms, or take a faster GPU, or more of them (--tp)"
        )
    decode_s = steps.seconds(decoding=batch, context=batch * held)
    rate = batch / (output * step_s)
    figures = (
        Figure(name="live tokens", formula="prompt + output / 2", value=held, unit="tokens"),
        Figure(
            name="batch by KV",
            formula="KV blocks / blocks of the live tokens",
            value=memory.at_lengths,
            unit="sequences",
        ),
        Figure(
            name="batch by ITL",
            formula="the largest with a step, batch x prompt / output prompt tokens in it, within the objective",
            value=memory.by_itl,
            unit="sequences",
        ),
        Figure(name="batch", formula="the smaller: max_num_seqs of the memory plan", value=batch, unit="sequences"),
        Figure(name="step", formula="max(weights, tokens) + context + sequences", value=step_s * 1e3, unit="ms"),
        Figure(
            name="prefill",
            formula="step without its prompts, taken from the step",
            value=(step_s - decode_s) / step_s * 100,
            unit="% of a step",
        ),
        Figure(name="rate", formula="batch / (output x step)", value=rate, unit="requests/s"),
    )
    if batch == MOST_SEQUENCES:
        return rate, figures, "the engine's most sequences"
    return rate, figures, "KV memory" if memory.at_lengths < memory.by_itl else "the ITL objective"


def _replicas(peak: float, rate: float, demand: PeakDemand) -> int:
    needed = peak / (rate * demand.target_load)
    if demand.zones == 1:
        return math.ceil(needed)
    in_each = math.ceil(needed / (demand.zones - 1))
    return in_each * demand.zones
