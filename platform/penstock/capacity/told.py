"""Plans as records: the fields of ``penstock plan … --json``, and of its screens."""

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.capacity.capacity_plan import DATASHEET_ERROR, CapacityPlan, PeakDemand
from penstock.capacity.memory_plan import USED_RATIO, MemoryPlan
from penstock.capacity.nearest import Way
from penstock.domain.models.curves import Curve


def told(
    name: str, found: MemoryPlan, *, fitting: Sequence[Way], precisions: Sequence[Way], slices: Sequence[Way]
) -> Mapping[str, Any]:
    target = found.target
    return {
        "model": name,
        "gpu": found.gpu.name,
        "gpus": target.gpus,
        "memory_bytes": found.gpu.memory_bytes,
        "used_ratio": USED_RATIO,
        "context_tokens": target.context_tokens,
        "lines": [
            {"name": one.name, "bytes": one.size_bytes, "because": one.because, "is_assumed": one.is_assumed}
            for one in found.lines
        ],
        "kv_bytes": found.kv_bytes,
        "fits": found.fits,
        "missing_bytes": found.missing_bytes,
        "kv_tokens": found.cache.told_tokens(found.kv_bytes),
        "at_longest": round(found.at_longest, 2),
        "at_lengths": found.at_lengths,
        "settings": settings(found) if found.fits else [],
        "fitting": [_way(one) for one in fitting],
        "precisions": [_way(one) for one in precisions],
        "slices": [_way(one) for one in slices],
    }


def settings(found: MemoryPlan) -> list[Mapping[str, Any]]:
    target = found.target
    named: list[tuple[str, object, str]] = [
        ("max_model_len", target.context_tokens, "as asked"),
        ("max_num_seqs", found.max_num_seqs, found.seqs_because),
        ("max_num_batched_tokens", found.max_num_batched_tokens, found.tokens_because),
        ("kv_cache_bytes", found.kv_bytes, "what weights and the rest leave"),
        ("kv_cache_dtype", target.kv_dtype if target.kv_dtype != "bfloat16" else "auto", "as asked"),
        ("kv_offload_bytes", found.offloading.size_bytes, found.offloading.because),
        ("block_size", target.block_tokens, "as asked"),
        ("tensor_parallel_size", target.tensor_parallel, "as asked"),
    ]
    if target.pipeline_parallel > 1:
        named.append(("pipeline_parallel_size", target.pipeline_parallel, "as asked; versions have no such setting"))
    if target.adapter_slots:
        named += [
            ("adapter_slots", target.adapter_slots, "as asked"),
            ("adapter_rank", target.adapter_rank, "as asked"),
        ]
    return [{"name": name, "value": value, "because": because} for name, value, because in named]


def _way(one: Way) -> Mapping[str, Any]:
    found = one.plan
    batch = max(1, found.max_num_seqs if found.fits else 1)
    context = batch * found.target.lengths.typical
    return {
        "way": one.told,
        "fits": found.fits,
        "weight_bytes": found.lines[0].size_bytes,
        "kv_tokens": found.cache.told_tokens(found.kv_bytes),
        "at_lengths": found.at_lengths,
        "step_ms": round(found.steps.seconds(decoding=batch, context=context) * 1e3, 2),
    }


def sheet(
    name: str, demand: PeakDemand, found: CapacityPlan, memory: MemoryPlan, curve: Curve | None = None
) -> Mapping[str, Any]:
    target = memory.target
    prompt, output = target.lengths.means
    tokens_per_h = 3600 * (prompt + output) * demand.requests_per_s
    return {
        "model": name,
        "gpu": memory.gpu.name,
        "gpus_of_a_replica": target.gpus,
        "figures": [
            {"name": one.name, "formula": one.formula, "value": one.value, "unit": one.unit} for one in found.figures
        ],
        "binding": found.binding,
        "replicas": found.replicas,
        "replicas_if_slower": found.replicas_if_slower,
        "gpus": found.gpus,
        "per_hour": _rounded(found.per_hour, 4),
        "per_1k_tokens": _rounded(found.per_hour, 8, 1000 / tokens_per_h),
        "next_tenth_replicas": found.next_tenth,
        "next_tenth_per_hour": _rounded(found.next_tenth_per_hour, 4),
        "misses_ttft": found.misses_ttft,
        "curve": curve.hardware if curve else "data sheet",
        "curve_error": curve.error_median if curve else DATASHEET_ERROR,
        "curve_measured_at": curve.measured_at if curve else None,
        "curve_origin": str(curve.origin) if curve else "default",
        "peak_per_s": demand.requests_per_s,
        "max_num_seqs": memory.max_num_seqs,
        "prompt_tokens": round(prompt),
        "output_tokens": round(output),
        "other_region_per_s": demand.other_region_per_s,
        "zones": demand.zones,
    }


def _rounded(dollars: float | None, digits: int, times: float = 1.0) -> float | None:
    return None if dollars is None else round(times * dollars, digits)
