"""Alternatives for running a model: precisions compared, slices of the GPU, and the nearest plan that fits. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock.capacity.bounds import GPUS_OF_A_NODE
from penstock.capacity.gpus import GPUS, Gpu, gpu
from penstock.capacity.memory_plan import KV_BYTES, MemoryPlan, Target, plan, stored_bytes
from penstock.domain.errors import ArtifactRefused
from penstock.domain.models.architecture import Architecture

FP8_BITS = 8.0
LEAST_CONTEXT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    told: str
    plan: MemoryPlan


def precisions(model: Architecture, weight_bytes: int, on: Gpu, target: Target) -> tuple[Way, ...]:
    """Weights as stored and in 8 bits, each with the KV cache in 16 and 8 bits."""
    narrow = _narrow(model)
    shapes = [("as stored", model, weight_bytes)]
    if model.bits > FP8_BITS:
        shapes.append(("fp8", narrow, min(weight_bytes, stored_bytes(narrow))))
    return tuple(
        Way(told=f"weights {weights}, KV {kv}", plan=plan(shape, size, on, replace(target, kv_dtype=kv)))
        for weights, shape, size in shapes
        for kv in KV_BYTES
    )


def slices(model: Architecture, weight_bytes: int, on: Gpu, target: Target) -> tuple[Way, ...]:
    if target.gpus > 1:
        return ()
    parts = [gpu(f"{on.name}/{one.profile}") for one in on.slices]
    return tuple(Way(told=part.name, plan=plan(model, weight_bytes, part, target)) for part in parts)


def fitting(model: Architecture, weight_bytes: int, on: Gpu, target: Target) -> tuple[Way, ...]:
    """Nearest first, one of each kind; empty if none fits on one node."""
    found: list[Way] = []
    for kind in (_smaller_cache, _shorter, _more_gpus, _narrower, _larger_gpu):
        for way in kind(model, weight_bytes, on, target):
            if way.plan.fits:
                found.append(way)
                break
    return tuple(found)


def _smaller_cache(model: Architecture, size: int, on: Gpu, target: Target) -> Iterator[Way]:
    if target.kv_dtype != "fp8":
        yield Way(told="KV cache in fp8", plan=plan(model, size, on, replace(target, kv_dtype="fp8")))


def _shorter(model: Architecture, size: int, on: Gpu, target: Target) -> Iterator[Way]:
    context = target.context_tokens // 2
    longest = max(prompt + output for prompt, output in target.lengths.pairs)
    while context >= max(LEAST_CONTEXT, longest):
        yield Way(told=f"a context of {context:,}", plan=plan(model, size, on, replace(target, context_tokens=context)))
        context //= 2


def _more_gpus(model: Architecture, size: int, on: Gpu, target: Target) -> Iterator[Way]:
    parts = target.tensor_parallel * 2
    while parts * target.pipeline_parallel <= GPUS_OF_A_NODE and "/" not in on.name:
        try:
            yield Way(told=f"over {parts} GPUs", plan=plan(model, size, on, replace(target, tensor_parallel=parts)))
        except ArtifactRefused:
            return
        parts *= 2


def _narrower(model: Architecture, size: int, on: Gpu, target: Target) -> Iterator[Way]:
    if model.bits > FP8_BITS:
        narrow = _narrow(model)
        yield Way(told="weights in fp8", plan=plan(narrow, min(size, stored_bytes(narrow)), on, target))


def _larger_gpu(model: Architecture, size: int, on: Gpu, target: Target) -> Iterator[Way]:
    for one in sorted(GPUS.values(), key=lambda other: other.memory_bytes):
        if one.memory_bytes > on.memory_bytes:
            yield Way(told=f"on {one.name}", plan=plan(model, size, one, target))


def _narrow(model: Architecture) -> Architecture:
    return replace(model, bits=min(model.bits, FP8_BITS), expert_bits=min(model.expert_bits, FP8_BITS))
