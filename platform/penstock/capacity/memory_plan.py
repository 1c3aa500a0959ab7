"""The memory of one engine on its GPUs, line by line, and the engine settings that follow from it. Pure.

Parts unknown before an engine runs (activations, CUDA graphs, buffers between GPUs) are assumed, and their lines say
so; weights and KV cache are computed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.capacity.bounds import BOUNDS, GPUS_OF_A_NODE, ON_ONE_NODE, check
from penstock.capacity.gpus import GIB, Gpu
from penstock.capacity.kv import CacheSettings, Layout, layout
from penstock.capacity.offloading import Offloading, PrefixHistory, offloading
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Architecture, AttentionKind
from penstock.domain.models.model import slot_rank
from penstock.domain.models.steps import StepModel, pairs_of

USED_RATIO = 0.90
"""vLLM's default of ``gpu_memory_utilization``: the rest is for driver and fragmentation."""
GRAPHS_BYTES = 1 * GIB
"""Captured CUDA graphs: half to one and a half GiB in vLLM's logs."""
EXCHANGE_BYTES = int(0.6 * GIB)
"""NCCL's buffers, if weights are spread: 0.3 to 1 GiB."""
FRAGMENTS_RATIO = 0.02
KV_BYTES = {"bfloat16": 2.0, "fp8": 1.0}
MOST_SEQUENCES = 1024
SURE = 2.33
"""Standard deviations above the mean that cover the requested blocks in 99 of 100 moments."""
LEAST_STEP = 256
"""The least tokens of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLine:
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

    @property
    def means(self) -> tuple[float, float]:
        prompts, outputs = zip(*self.pairs, strict=True)
        return sum(prompts) / len(self.pairs), sum(outputs) / len(self.pairs)

    @property
    def brought(self) -> float:
        """Prompt tokens of a step per decoding sequence, if as many requests start as end."""
        prompt, output = self.means
        return prompt / output


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
    """``missing_bytes`` above zero: the engine does not fit, and the settings are invalid."""

    gpu: Gpu
    target: Target
    lines: tuple[MemoryLine, ...]
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
    by_itl: int
    """Sequences of the largest step, with the prompts that they bring, within the ITL objective; 0 if none is."""
    max_num_seqs: int
    seqs_because: str
    max_num_batched_tokens: int
    tokens_because: str
    offloading: Offloading

    @property
    def fits(self) -> bool:
        return self.missing_bytes == 0


def stored_bytes(model: Architecture) -> int:
    """The weights' size, computed from the architecture."""
    held = model.parameters
    wide = (held.embedding + held.head) * 16.0
    return math.ceil((wide + held.dense * model.bits + held.experts * model.expert_bits) / 8)


def plan(
    model: Architecture, weight_bytes: int, on: Gpu, target: Target, measured: StepModel | None = None
) -> MemoryPlan:
    """Raises ``ArtifactRefused`` for GPUs beyond one node, a context beyond the model's, and layers unknown to vLLM."""
    check(target, target.history)
    _check(model, on, target)
    steps = measured or from_datasheet(
        model, on, tensor_parallel=target.tensor_parallel, kv_bytes=KV_BYTES[target.kv_dtype]
    )
    most = max(target.context_tokens, LEAST_STEP)
    while True:
        found = _within(model, weight_bytes, on, target, steps, most)
        if found.fits or found.max_num_batched_tokens == LEAST_STEP:
            return found
        most = max(LEAST_STEP, found.max_num_batched_tokens // 2)


def _within(model: Architecture, weight_bytes: int, on: Gpu, target: Target, steps: StepModel, most: int) -> MemoryPlan:
    by_itl, tokens, tokens_because = _step_tokens(steps, target, most)
    lines = _lines(model, weight_bytes, on, target, tokens)
    left = int(on.memory_bytes * USED_RATIO) - sum(line.size_bytes for line in lines)
    settings = CacheSettings(
        block_tokens=target.block_tokens,
        element_bytes=KV_BYTES[target.kv_dtype],
        context_tokens=target.context_tokens,
        step_tokens=tokens,
        tensor_parallel=target.tensor_parallel,
        pipeline_parallel=target.pipeline_parallel,
    )
    cache = layout(model, settings)
    pool_bytes = max(0, left)
    at_lengths = _surely(cache, pool_bytes, target.lengths)
    seqs = max(1, min(at_lengths, by_itl))
    return MemoryPlan(
        gpu=on,
        target=target,
        lines=lines,
        kv_bytes=pool_bytes,
        missing_bytes=max(0, cache.request_bytes(target.context_tokens) - left),
        cache=cache,
        steps=steps,
        at_longest=cache.concurrency(pool_bytes, target.context_tokens),
        at_lengths=at_lengths,
        by_itl=by_itl,
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


def _check(model: Architecture, on: Gpu, target: Target) -> None:
    for prompt, output in target.lengths.pairs:
        BOUNDS["prompt"].check(prompt)
        BOUNDS["output"].check(output)
        if prompt + output > target.context_tokens:
            raise ArtifactRefused(
                f"--context: prompt and output, {prompt:,} + {output:,} tokens, exceed {target.context_tokens:,}"
                ": raise --context, or lower --prompt or --output"
            )
    if (past := target.history) is not None and past.hits + past.evicted > 1:
        raise ArtifactRefused("--hits and --evicted are parts of the same prompt tokens: give 1 at most together")
    if model.longest and target.context_tokens > model.longest:
        raise ArtifactRefused(
            f"--context: {target.context_tokens:,} is beyond the model's {model.longest:,} tokens: give at most that"
        )
    if target.gpus > 1:
        _check_gpus(model, on, target)


def _check_gpus(model: Architecture, on: Gpu, target: Target) -> None:
    """Refuse what vLLM does: heads and layers that it can't spread over the GPUs."""
    tensor, stages = target.tensor_parallel, target.pipeline_parallel
    if "/" in on.name:
        raise ArtifactRefused(
            f"--tp, --pp: a worker has one MIG slice, not {target.gpus}: plan a larger slice or whole GPUs"
        )
    if target.gpus > GPUS_OF_A_NODE:
        raise ArtifactRefused(
            f"--tp x --pp: {target.gpus} GPUs are more than one node's {GPUS_OF_A_NODE}: {ON_ONE_NODE}"
        )
    if stages > len(model.layers):
        raise ArtifactRefused(f"--pp: {len(model.layers)} layers do not spread over {stages} GPUs: lower --pp")
    if model.heads % tensor:
        raise ArtifactRefused(
            f"--tp: {model.heads} heads do not divide over {tensor} GPUs: give a divisor of the heads"
        )
    for keys in {layer.kv_heads for layer in model.layers if layer.kind is not AttentionKind.LATENT}:
        if keys % tensor and tensor % keys:
            raise ArtifactRefused(
                f"--tp: {keys} KV heads do not divide over {tensor} GPUs, nor these over them: give a divisor of them"
            )


def _lines(model: Architecture, weight_bytes: int, on: Gpu, target: Target, step_tokens: int) -> tuple[MemoryLine, ...]:
    weights = math.ceil(weight_bytes / target.gpus)
    wide = 2 * model.hidden + 2 * model.intermediate // target.tensor_parallel
    activations = 2 * step_tokens * wide * 2 + min(step_tokens, MOST_SEQUENCES) * model.vocabulary * 4
    lines = [
        MemoryLine(name="weights", size_bytes=weights, because=f"{weight_bytes:,} bytes over {target.gpus} GPUs"),
        MemoryLine(
            name="activations",
            size_bytes=activations,
            because=f"a step of {step_tokens:,} tokens, and the logits of its sequences",
            is_assumed=True,
        ),
        MemoryLine(name="CUDA graphs", size_bytes=GRAPHS_BYTES, because="0.5 to 1.5 GiB in logs", is_assumed=True),
        MemoryLine(
            name="fragments",
            size_bytes=int(on.memory_bytes * FRAGMENTS_RATIO),
            because=f"{FRAGMENTS_RATIO:.0%} of the memory",
            is_assumed=True,
        ),
    ]
    if target.tensor_parallel > 1:
        lines.append(
            MemoryLine(name="exchange", size_bytes=EXCHANGE_BYTES, because="NCCL: 0.3 to 1 GiB", is_assumed=True)
        )
    if target.adapter_slots:
        rank = slot_rank(target.adapter_rank)
        size = math.ceil(target.adapter_slots * rank * _adapter_row_bytes(model) / target.tensor_parallel)
        lines.append(MemoryLine(name="adapters", size_bytes=size, because=f"{target.adapter_slots} of rank {rank}"))
    return tuple(lines)


def _adapter_row_bytes(model: Architecture) -> int:
    sides = 0
    for layer in model.layers:
        heads = model.heads * layer.head_dim
        keys = layer.kv_heads * layer.head_dim
        sides += 2 * (model.hidden + heads) + 2 * (model.hidden + keys) + 3 * (model.hidden + model.intermediate)
    return sides * 2


def _step_tokens(steps: StepModel, target: Target, most: int) -> tuple[int, int, str]:
    """Sequences of the largest step within the ITL objective, its tokens, and their reason."""
    context, brought = target.lengths.typical, target.lengths.brought
    held = min(MOST_SEQUENCES, int(most / (1 + brought)))
    by_itl = steps.batch(target.itl_s, context=context, prompt=brought, most=held)
    batch = max(1, by_itl)
    free = batch + steps.prompt_tokens(target.itl_s, decoding=batch, context=batch * context)
    tokens = min(max(LEAST_STEP, free), most)
    if free < LEAST_STEP:
        return by_itl, tokens, f"the least: a step of more is beyond {target.itl_s * 1e3:g} ms"
    return by_itl, tokens, f"a step with {batch} decoding sequences stays within {target.itl_s * 1e3:g} ms"


def _surely(cache: Layout, pool_bytes: int, lengths: Lengths) -> int:
    """Concurrent requests that fit 99 % of the time, if their lengths are independent."""
    blocks = [cache.blocks(held) for held in lengths.held()]
    mean = sum(blocks) / len(blocks)
    spread = math.sqrt(sum((one - mean) ** 2 for one in blocks) / len(blocks))
    pool = cache.pool_blocks(pool_bytes)
    # n * mean + SURE * spread * sqrt(n) = pool, solved for the root of n.
    root = (-SURE * spread + math.sqrt((SURE * spread) ** 2 + 4 * mean * pool)) / (2 * mean)
    return int(root * root + 1e-9)


def _seqs_because(seqs: int, by_memory: int, by_itl: int) -> str:
    if by_itl < 1:
        return "one: no step with a sequence and its prompts is within the ITL objective"
    if seqs == by_memory:
        return "the KV cache holds no more"
    return (
        "the engine's bound" if seqs == MOST_SEQUENCES else "a larger batch, with its prompts, misses the ITL objective"
    )


WEIGHTS_READ, CONTEXT_READ = 0.70, 0.60
"""Parts of a GPU's bandwidth that reading weights and KV cache reach."""
WIDE_READ, WIDE = 0.60, 8
"""The part for weights from this tensor parallelism on: their slices are thin."""
SEQUENCE_S = 10e-6
"""Of a sequence in the batch: sampling, and the scheduler."""
EXCHANGE_S = 24e-6
"""Of a layer's two exchanges between GPUs."""


def from_datasheet(model: Architecture, on: Gpu, *, tensor_parallel: int = 1, kv_bytes: float = 2.0) -> StepModel:
    """Return a GPU's default step model for plans without measurements."""
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
