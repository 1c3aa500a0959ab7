"""The memory of one engine on its GPUs, line by line, and the engine settings that follow from it. Pure.

Parts unknown before an engine runs (activations, CUDA graphs, buffers between GPUs) are assumed, and their lines say
so; weights and KV cache are computed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.capacity.gpus import GIB, Gpu
from penstock.capacity.kv import CacheSettings, Layout, layout
from penstock.capacity.offloading import Offloading, PrefixHistory, offloading
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Architecture
from penstock.domain.models.steps import StepModel, pairs_of

USED_RATIO = 0.90
"""vLLM's default of ``gpu_memory_utilization``: the rest is for driver and fragmentation."""
GRAPHS_BYTES = 1 * GIB
"""Captured CUDA graphs: half to one and a half GiB in vLLM's logs."""
EXCHANGE_BYTES = int(0.6 * GIB)
"""NCCL's buffers, if weights are spread: 0.3 to 1 GiB."""
FRAGMENTS_RATIO = 0.02
KV_BYTES = {"bfloat16": 2.0, "fp8": 1.0}
NODE_GPUS = 8
MOST_SEQUENCES = 1024
SURE = 2.33
"""Standard deviations above the mean that cover the requested blocks in 99 of 100 moments."""
LEAST_STEP, STEP_MULTIPLE = 256, 128
"""The least tokens of a step, and the multiple to which it is rounded down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    name: str
    size_bytes: int
    because: str
    is_assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Distribution of requests' lengths: pairs of prompt and output tokens, all equally likely."""

    pairs: tuple[tuple[int, int], ...]

    def held(self) -> Sequence[int]:
        return [prompt + output // 2 for prompt, output in self.pairs]

    @property
    def typical(self) -> int:
        return sum(self.held()) // len(self.pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    context_tokens: int
    lengths: Lengths
    itl_s: float
    """The bound on a step: the ITL objective."""
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    kv_dtype: str = "bfloat16"
    block_tokens: int = 16
    adapter_slots: int = 0
    adapter_rank: int = 0
    host_bytes: int = 0
    """Host memory of a worker for KV blocks that leave its GPUs."""
    history: PrefixHistory | None = None

    @property
    def gpus(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """The plan of one engine. ``missing_bytes`` above zero: the engine does not fit, and the settings are invalid."""

    gpu: Gpu
    target: Target
    lines: tuple[Line, ...]
    """The memory of the fullest GPU; the KV cache takes the rest."""
    kv_bytes: int
    """KV cache of one GPU."""
    missing_bytes: int
    cache: Layout
    steps: StepModel
    at_longest: float
    """Concurrent requests of the longest context."""
    at_lengths: int
    """Concurrent requests of these lengths, in 99 of 100 moments."""
    max_num_seqs: int
    seqs_because: str
    max_num_batched_tokens: int
    tokens_because: str
    offloading: Offloading

    @property
    def fits(self) -> bool:
        return self.missing_bytes == 0


def stored_bytes(model: Architecture) -> int:
    """Return the bytes of a model's weights computed from its architecture, if its files are not there."""
    held = model.parameters
    wide = (held.embedding + held.head) * 16.0
    return math.ceil((wide + held.dense * model.bits + held.experts * model.expert_bits) / 8)


def plan(
    model: Architecture, weight_bytes: int, on: Gpu, target: Target, measured: StepModel | None = None
) -> MemoryPlan:
    """Return the plan of one engine over ``tensor_parallel * pipeline_parallel`` GPUs of this kind.

    ``weight_bytes`` is the size of all weights in the model's files. Steps are ``measured``, or by data sheet. Raises
    ``ArtifactRefused`` for GPUs beyond one node, a context beyond the model's, and layers without a known layout in
    vLLM.
    """
    _check(model, target)
    steps = measured or from_datasheet(
        model, on, tensor_parallel=target.tensor_parallel, kv_bytes=KV_BYTES[target.kv_dtype]
    )
    typical = target.lengths.typical
    tokens, tokens_because = _step_tokens(steps, target, typical)
    lines = _lines(model, weight_bytes, on, target, tokens)
    usable = int(on.memory_bytes * USED_RATIO)
    left = usable - sum(line.size_bytes for line in lines)
    settings = CacheSettings(
        block_tokens=target.block_tokens,
        element_bytes=KV_BYTES[target.kv_dtype],
        context_tokens=target.context_tokens,
        step_tokens=tokens,
        tensor_parallel=target.tensor_parallel,
        pipeline_parallel=target.pipeline_parallel,
    )
    cache = layout(model, settings)
    least = cache.request_bytes(target.context_tokens)
    pool_bytes = max(0, left)
    at_lengths = _surely(cache, pool_bytes, target.lengths)
    by_itl = steps.batch(target.itl_s, context=typical, most=MOST_SEQUENCES)
    seqs = max(1, min(at_lengths, by_itl, MOST_SEQUENCES))
    return MemoryPlan(
        gpu=on,
        target=target,
        lines=lines,
        kv_bytes=pool_bytes,
        missing_bytes=max(0, least - left),
        cache=cache,
        steps=steps,
        at_longest=cache.concurrency(pool_bytes, target.context_tokens),
        at_lengths=at_lengths,
        max_num_seqs=seqs,
        seqs_because=_seqs_because(seqs, at_lengths, by_itl),
        max_num_batched_tokens=tokens,
        tokens_because=tokens_because,
        offloading=_offloading(cache, steps, on, target),
    )


def _offloading(cache: Layout, steps: StepModel, on: Gpu, target: Target) -> Offloading:
    prompts = [max(1, prompt) for prompt, _ in target.lengths.pairs]
    prompt = sum(prompts) // len(prompts)
    return offloading(
        target.host_bytes,
        target.history,
        link_s=cache.request_bytes(prompt) / prompt / on.link_per_s,
        compute_s=steps.seconds(decoding=0, prompt=prompt, pairs=pairs_of(prompt)) / prompt,
    )


def _check(model: Architecture, target: Target) -> None:
    if target.history is not None and not target.history.is_valid:
        raise ArtifactRefused("hits and evicted are parts of the same prompt tokens: 0 to 1, and 1 at most together")
    if target.gpus > NODE_GPUS:
        raise ArtifactRefused(f"{target.gpus} GPUs are more than one node's {NODE_GPUS}: a worker stays on one node")
    if target.tensor_parallel > 1 and model.heads % target.tensor_parallel:
        raise ArtifactRefused(f"{model.heads} heads do not divide over {target.tensor_parallel} GPUs")
    if model.longest and target.context_tokens > model.longest:
        raise ArtifactRefused(f"a context of {target.context_tokens:,} is beyond the model's {model.longest:,} tokens")


def _lines(model: Architecture, weight_bytes: int, on: Gpu, target: Target, step_tokens: int) -> tuple[Line, ...]:
    weights = math.ceil(weight_bytes / target.gpus)
    wide = 2 * model.hidden + 2 * model.intermediate // target.tensor_parallel
    activations = 2 * step_tokens * wide * 2 + min(step_tokens, MOST_SEQUENCES) * model.vocabulary * 4
    lines = [
        Line(name="weights", size_bytes=weights, because=f"{weight_bytes:,} bytes over {target.gpus} GPUs"),
        Line(
            name="activations",
            size_bytes=activations,
            because=f"a step of {step_tokens:,} tokens, and the logits of its sequences",
            is_assumed=True,
        ),
        Line(name="CUDA graphs", size_bytes=GRAPHS_BYTES, because="0.5 to 1.5 GiB in logs", is_assumed=True),
        Line(
            name="fragments",
            size_bytes=int(on.memory_bytes * FRAGMENTS_RATIO),
            because=f"{FRAGMENTS_RATIO:.0%} of the memory",
            is_assumed=True,
        ),
    ]
    if target.tensor_parallel > 1:
        lines.append(Line(name="exchange", size_bytes=EXCHANGE_BYTES, because="NCCL: 0.3 to 1 GiB", is_assumed=True))
    if slots := target.adapter_slots * target.adapter_rank:
        size = math.ceil(slots * _adapter_row_bytes(model) / target.tensor_parallel)
        lines.append(
            Line(name="adapters", size_bytes=size, because=f"{target.adapter_slots} of rank {target.adapter_rank}")
        )
    return tuple(lines)


def _adapter_row_bytes(model: Architecture) -> int:
    sides = 0
    for layer in model.layers:
        heads = model.heads * layer.head_dim
        keys = layer.kv_heads * layer.head_dim
        sides += 2 * (model.hidden + heads) + 2 * (model.hidden + keys) + 3 * (model.hidden + model.intermediate)
    return sides * 2


def _step_tokens(steps: StepModel, target: Target, typical: int) -> tuple[int, str]:
    batch = max(1, steps.batch(target.itl_s, context=typical, most=MOST_SEQUENCES) // 2)
    free = steps.prompt_tokens(target.itl_s, decoding=batch, context=batch * typical)
    tokens = min(max(LEAST_STEP, free // STEP_MULTIPLE * STEP_MULTIPLE), max(target.context_tokens, LEAST_STEP))
    if free < LEAST_STEP:
        return tokens, f"the least: no step of this GPU is within {target.itl_s * 1e3:.0f} ms beside prompts"
    return tokens, f"a step with {batch} decoding sequences stays within {target.itl_s * 1e3:.0f} ms"


def _surely(cache: Layout, pool_bytes: int, lengths: Lengths) -> int:
    """Return the concurrent requests that fit in the pool 99 % of the time, if their lengths are independent."""
    blocks = [cache.blocks(held) for held in lengths.held()]
    mean = sum(blocks) / len(blocks)
    spread = math.sqrt(sum((one - mean) ** 2 for one in blocks) / len(blocks))
    pool = cache.pool_blocks(pool_bytes)
    # n * mean + SURE * spread * sqrt(n) = pool, solved for the root of n.
    root = (-SURE * spread + math.sqrt((SURE * spread) ** 2 + 4 * mean * pool)) / (2 * mean)
    return int(root * root)


def _seqs_because(seqs: int, by_memory: int, by_itl: int) -> str:
    if by_itl < 1:
        return "one: a step of this GPU is never within the ITL objective"
    if seqs == by_memory:
        return "the KV cache holds no more"
    return "a larger batch misses the ITL objective" if seqs == by_itl else "the engine's bound"


WEIGHTS_READ, CONTEXT_READ = 0.70, 0.60
"""Parts of a GPU's bandwidth that reading weights and KV cache reach."""
WIDE_READ, WIDE = 0.60, 8
"""The part for weights from this tensor parallelism on: their slices are thin."""
SEQUENCE_S = 10e-6
"""Of a sequence in the batch: sampling, and the scheduler."""
EXCHANGE_S = 24e-6
"""Of a layer's two exchanges between GPUs."""


def from_datasheet(model: Architecture, on: Gpu, *, tensor_parallel: int = 1, kv_bytes: float = 2.0) -> StepModel:
    """Return the step model of a GPU by its data sheet: unmeasured, a default for planning."""
    stored = model.parameters
    weight_bytes = (stored.dense * model.bits + stored.active_experts * model.expert_bits) / 8
    computed = stored.dense + stored.active_experts
    read = WIDE_READ if tensor_parallel >= WIDE else WEIGHTS_READ
    cached = sum(layer.elements() for layer in model.layers) * kv_bytes
    exchange = EXCHANGE_S * len(model.layers) if tensor_parallel > 1 else 0.0
    return StepModel(
        fixed_s=weight_bytes / (tensor_parallel * read * on.bandwidth_per_s) + exchange,
        token_s=2 * computed / (tensor_parallel * on.reached * on.flops),
        context_s=cached / (tensor_parallel * CONTEXT_READ * on.bandwidth_per_s),
        sequence_s=SEQUENCE_S,
    )
