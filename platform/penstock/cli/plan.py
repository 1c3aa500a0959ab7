"""`penstock plan …`: the machines that a model or a traffic needs, before anything is bought or started."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.capacity.bounds import BOUNDS
from penstock.capacity.cold_start import Machine
from penstock.cli import screen
from penstock.cli.arguments import TYPICAL_OUTPUT, TYPICAL_PROMPT
from penstock.cli.terminal import AsJson
from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.views import plans, plots

if TYPE_CHECKING:
    from penstock.capacity.capacity_plan import PeakDemand
    from penstock.capacity.cold_start import Start
    from penstock.capacity.gpus import Gpu
    from penstock.capacity.memory_plan import Target
    from penstock.capacity.traffic import Traffic
    from penstock.domain.models.curves import Curve
    from penstock.views.elements import Record

app = typer.Typer(
    no_args_is_help=True, help="Memory and capacity plans, by formulas and measured curves; nothing is started."
)


def _number(field: str, words: str, default: str = "") -> typer.models.OptionInfo:
    """Return the option of a bounded number; the plan refuses others, with the remedy."""
    bound = BOUNDS[field]
    found: typer.models.OptionInfo = typer.Option(
        bound.option, help=f"{words} ({bound.told}).", show_default=default or True
    )
    return found


Model = Annotated[str, typer.Argument(help="A known model, a folder in Hugging Face layout, or its config.json.")]
GpuName = Annotated[str, typer.Option(help="The GPU, or a MIG slice of it: H100, L40S, A100-80/3g.40gb.")]
TensorParallel = Annotated[int, _number("tensor_parallel", "Tensor parallelism: the GPUs that share each layer")]
PipelineParallel = Annotated[
    int, _number("pipeline_parallel", "Pipeline parallelism: the GPUs that share out the layers")
]
Context = Annotated[int, _number("context_tokens", "The longest context")]
Prompt = Annotated[int, _number("prompt", "Prompt of a typical request")]
Output = Annotated[int, _number("output", "Output of a typical request")]
ItlMs = Annotated[float, _number("itl_s", "The objective for the time between tokens (ITL)")]
Version = Annotated[str, typer.Option(help="A version as name@digest; its measured curve and its ledger are used.")]
Days = Annotated[int | None, _number("days", "Days of the version's ledger from which peak and lengths are taken")]
Cache = Annotated[str, typer.Option(help="The data type of the KV cache: bfloat16 or fp8.")]


@app.command("memory")
def memory(  # noqa: PLR0913  one for each option
    model: Model,
    gpu: GpuName,
    *,
    tensor_parallel: TensorParallel = 1,
    pipeline_parallel: PipelineParallel = 1,
    context: Context = 8192,
    prompt: Prompt = TYPICAL_PROMPT,
    output: Output = TYPICAL_OUTPUT,
    itl_ms: ItlMs = 50.0,
    kv: Cache = "bfloat16",
    block: Annotated[int, _number("block_tokens", "Tokens per KV block")] = 16,
    adapters: Annotated[str, typer.Option(help="LoRA adapters in one batch, as SLOTSxRANK: 8x16.")] = "",
    host_gib: Annotated[int, _number("host_bytes", "Host memory for evicted KV blocks")] = 0,
    hits: Annotated[float, _number("hits", "Part of prompt tokens found in the prefix cache")] = 0.0,
    evicted: Annotated[float, _number("evicted", "Part seen before, and evicted since")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Show what fills the memory of a GPU with this model, how many requests fit, and the engine settings for that.

    For example: penstock plan memory Llama-3.1-8B --gpu L40S --itl-ms 40
    """
    from penstock.capacity import nearest, told
    from penstock.capacity.gpus import gpu as known
    from penstock.capacity.memory_plan import plan
    from penstock.capacity.offloading import PrefixHistory
    from penstock.cli import planned

    with _planned():
        slots, rank = _adapters(adapters)
        wanted = _target(context, (prompt, output), itl_ms, (tensor_parallel, pipeline_parallel), kv)
        past = PrefixHistory(hits=hits, evicted=evicted) if hits or evicted else None
        offered = replace(wanted, host_bytes=host_gib << 30, history=past)
        target = replace(offered, block_tokens=block, adapter_slots=slots, adapter_rank=rank)
        name, shape, size = planned.shape_of(model)
        on = known(gpu)
        found = plan(shape, size, on, target)
        record = told.told(
            name,
            found,
            fitting=() if found.fits else nearest.fitting(shape, size, on, target),
            precisions=nearest.precisions(shape, size, on, target) if found.fits else (),
            slices=nearest.slices(shape, size, on, target) if found.fits else (),
        )
        screen.tell(record, lambda: plans.memory(record), as_json=as_json)


@app.command("capacity")
def capacity(  # noqa: PLR0913  one for each option
    model: Model,
    gpu: GpuName,
    *,
    peak: Annotated[float, _number("requests_per_s", "The peak", "the ledger's")] = 0.0,
    version: Version = "",
    from_ledger: Days = None,
    tensor_parallel: TensorParallel = 1,
    pipeline_parallel: PipelineParallel = 1,
    context: Context = 8192,
    prompt: Prompt = TYPICAL_PROMPT,
    output: Output = TYPICAL_OUTPUT,
    ttft_ms: Annotated[float, _number("ttft_s", "The objective for the time to first token (TTFT)")] = 1000.0,
    itl_ms: ItlMs = 50.0,
    kv: Cache = "bfloat16",
    load: Annotated[float, _number("target_load", "The share of a replica's highest rate that the peak may use")] = 0.8,
    zones: Annotated[int, _number("zones", "Zones of the fleet; any one may be lost (with 1, none)")] = 3,
    other_region: Annotated[float, _number("other_region_per_s", "What comes here if another region is lost")] = 0.0,
    price: Annotated[float | None, _number("gpu_per_hour", "The price of one such GPU")] = None,
    plot: Annotated[Path | None, typer.Option(help="Also write replicas over traffic to this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute replicas, GPUs and dollars from peak traffic, with the formulas and their error.

    Step times come from the curve measured for the version on this GPU, else from the GPU's data sheet.

    For example: penstock plan capacity Llama-3.1-8B --gpu H100 --peak 100 --price 6.88
    """
    from penstock.capacity.capacity_plan import PeakDemand
    from penstock.capacity.gpus import gpu as known

    with _planned():
        curve = _curve(version, gpu, tensor_parallel * pipeline_parallel)
        if from_ledger is not None:
            BOUNDS["days"].check(from_ledger)
            past = _past(version, from_ledger)
            peak, prompt, output = past.requests_per_s, past.prompt_tokens, past.output_tokens
        target = _target(context, (prompt, output), itl_ms, (tensor_parallel, pipeline_parallel), kv)
        demand = PeakDemand(
            requests_per_s=peak,
            ttft_s=ttft_ms / 1e3,
            target_load=load,
            zones=zones,
            other_region_per_s=other_region,
        )
        record = _sheet(model, demand, target, known(gpu), curve, price, plot)
        screen.tell(record, lambda: plans.capacity(record), as_json=as_json)


@app.command("start")
def start(
    model: Model,
    *,
    machine: Annotated[Machine, typer.Option(help="The pool's machines when a worker is asked for.")] = Machine.NEW,
    version: Annotated[str, typer.Option(help="A version as name@digest; the starts of its workers are used.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show the seconds of a cold start, from launching a machine to right golden prompts, and each part's source.

    Parts that a worker of the version has measured replace published ones.

    For example: penstock plan start Llama-3.1-8B --machine warm
    """
    from penstock.capacity.cold_start import budget, measured
    from penstock.cli import planned

    with _planned():
        name, _, size = planned.shape_of(model)
        parts = measured(budget(machine, size), _starts(version))
        rows = [{"part": one.part, "seconds": one.seconds, "source": one.source} for one in parts]
        record = {"model": name, "machine": machine, "parts": rows, "seconds": sum(one.seconds for one in parts)}
        screen.tell(record, lambda: plans.start(record), as_json=as_json)


def _starts(version: str) -> "list[Start]":
    """Return the starts of a version's workers that serve; none if no version is named."""
    from penstock.cli import planned
    from penstock.local.connections import operator
    from penstock.settings import load

    return planned.starts_of(operator(load()).get("/workers")["workers"], version) if version else []


def _sheet(  # noqa: PLR0913, PLR0917  the parts of a sheet
    model: str,
    demand: "PeakDemand",
    target: "Target",
    on: "Gpu",
    curve: "Curve | None",
    price: float | None,
    plot: Path | None,
) -> "Record":
    from penstock.capacity import told
    from penstock.capacity.capacity_plan import DATASHEET_ERROR, plan, sizes
    from penstock.capacity.memory_plan import plan as plan_memory
    from penstock.cli import planned

    name, shape, size = planned.shape_of(model)
    held = plan_memory(shape, size, on, target, curve.model if curve else None)
    found = plan(demand, held, price, curve.error_median if curve else DATASHEET_ERROR)
    if plot is not None:
        peak = demand.requests_per_s
        title = f"{name} on {on.name}: {found.replicas} replicas for {peak:,.4g} requests/s"
        plot.write_text(plots.replicas(sizes(demand, held), (peak, found.replicas), title))
    return told.sheet(name, demand, found, held, curve)


def _curve(version: str, gpu: str, gpus: int) -> "Curve | None":
    """Return the version's measured curve on this GPU; None if no version is named, or it has none there."""
    from penstock.cli import planned
    from penstock.local.connections import operator
    from penstock.settings import load

    if not version:
        return None
    return planned.curve_on(operator(load()).get(f"/models/{version}/curves")["curves"], gpu, gpus)


def _past(version: str, days: int) -> "Traffic":
    from penstock.cli import planned
    from penstock.cli.usage import rows_of
    from penstock.domain.clock import SystemClock
    from penstock.local.connections import operator
    from penstock.settings import load

    if not version:
        raise typer.BadParameter("needs --version", param_hint="--from-ledger")
    now = SystemClock().now()
    return planned.traffic_of(rows_of(operator(load()), "", now - days * 86_400.0, now), version)


@contextmanager
def _planned() -> Iterator[None]:
    try:
        yield
    except ArtifactRefused as error:
        raise CommandError(str(error)) from error


def _target(context: int, lengths: tuple[int, int], itl_ms: float, gpus: tuple[int, int], kv: str) -> "Target":
    """Return the plan's target; ``gpus`` are the degrees of tensor and pipeline parallelism."""
    from penstock.capacity.memory_plan import KV_BYTES, Lengths, Target

    if kv not in KV_BYTES:
        raise typer.BadParameter(f"{' or '.join(KV_BYTES)}", param_hint="--kv")
    return Target(
        context_tokens=context,
        lengths=Lengths(pairs=(lengths,)),
        itl_s=itl_ms / 1e3,
        tensor_parallel=gpus[0],
        pipeline_parallel=gpus[1],
        kv_dtype=kv,
    )


def _adapters(text: str) -> tuple[int, int]:
    if not text:
        return 0, 0
    slots, _, rank = text.partition("x")
    if not (slots.isdecimal() and rank.isdecimal() and len(text) < 10):  # noqa: PLR2004
        raise typer.BadParameter("SLOTSxRANK, for example 8x16", param_hint="--adapters")
    BOUNDS["adapter_slots"].check(int(slots))
    BOUNDS["adapter_rank"].check(int(rank))
    return int(slots), int(rank)
