"""Translates metrics of vLLM and of the torch engine, which has no KV cache and counts batches as steps, into the
platform's names.

A restarted engine's counters start from zero, like any process's.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.domain.ids import VersionId
from penstock.telemetry import names
from penstock.telemetry.definitions import Label, Metric, MetricKind

NAMES: dict[str, Metric] = {
    "torch:items_running": names.ENGINE_RUNNING,
    "torch:items_waiting": names.ENGINE_WAITING,
    "torch:batches_total": names.ENGINE_STEPS,
    "torch:tokens_total": names.ENGINE_STEP_TOKENS,
    "vllm:num_requests_running": names.ENGINE_RUNNING,
    "vllm:num_requests_waiting": names.ENGINE_WAITING,
    "vllm:kv_cache_usage_perc": names.KV_USED_RATIO,
    "vllm:prefix_cache_queries_total": names.PREFIX_QUERIED_TOKENS,
    "vllm:num_preemptions_total": names.PREEMPTIONS,
    "vllm:iteration_tokens_total_count": names.ENGINE_STEPS,
    "vllm:iteration_tokens_total_sum": names.ENGINE_STEP_TOKENS,
}
_HITS = "vllm:prompt_tokens_cached_by_source_total"
_SOURCE = re.compile(r'[{,]source="(\w+)"')
_ALWAYS = "device"
"""The tier whose hits are told even if there are none; the others exist with offloading alone."""
_PROGRESS = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
    "torch:batches_total",
)
"""Counters of which each engine step moves at least one, also a chunk of a long prefill without a token."""
_RUNNING = ("vllm:num_requests_running", "torch:items_running")
_WAITING = ("vllm:num_requests_waiting", "torch:items_waiting")
_ENGINES = ("vllm:", "torch:")

KV_BLOCKS = "num_gpu_blocks"
"""A label of vLLM's ``cache_config_info``: the number of KV blocks, on any device."""
_CACHE_CONFIG = "vllm:cache_config_info{"
_BLOCKS = re.compile(rf'{KV_BLOCKS}="(\d+)"')
_NULL_BLOCK = 1
"""The block count of vLLM's pool for a model without KV cache: nothing is stored in it."""

_WANTED = frozenset((*NAMES, *_PROGRESS, _HITS))


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineNumbers:
    """``progress`` differs between two readings if the engine did any work."""

    values: dict[str, float]

    @property
    def running(self) -> int:
        return int(sum(self.values.get(name, 0) for name in _RUNNING))

    @property
    def waiting(self) -> int:
        return int(sum(self.values.get(name, 0) for name in _WAITING))

    @property
    def kv_used_ratio(self) -> float:
        return self.values.get("vllm:kv_cache_usage_perc", 0.0)

    @property
    def kv_blocks(self) -> int:
        return int(self.values.get(KV_BLOCKS, 0))

    @property
    def progress(self) -> tuple[float, ...]:
        return tuple(self.values.get(name, 0.0) for name in _PROGRESS)


def parse(text: str) -> EngineNumbers:
    """Samples of several engines in one process are summed."""
    values: dict[str, float] = {}
    for name, value in _samples(text):
        values[name] = values.get(name, 0.0) + value
    for line in text.splitlines():
        found = _BLOCKS.search(line) if line.startswith(_CACHE_CONFIG) else None
        if found and int(found[1]) > _NULL_BLOCK:
            values[KV_BLOCKS] = values.get(KV_BLOCKS, 0.0) + float(found[1])
    return EngineNumbers(values=values)


def exposition(numbers: EngineNumbers, version: VersionId) -> str:
    lines: list[str] = []
    for theirs, metric in NAMES.items():
        if theirs not in numbers.values:
            continue
        sample = f"{metric.name}_total" if metric.kind is MetricKind.COUNTER else metric.name
        lines += [
            f"# HELP {sample} {metric.help}",
            f"# TYPE {sample} {metric.kind}",
            f'{sample}{{{Label.VERSION}="{version}"}} {numbers.values[theirs]}',
        ]
    lines += _hits(numbers, version)
    return "".join(f"{line}\n" for line in lines)


def _hits(numbers: EngineNumbers, version: VersionId) -> list[str]:
    """Cached prompt tokens by the tier that had them."""
    metric, sample = names.PREFIX_HIT_TOKENS, f"{names.PREFIX_HIT_TOKENS.name}_total"
    tiers = {name.removeprefix(_HITS): value for name, value in numbers.values.items() if name.startswith(_HITS)}
    told = [
        f'{sample}{{{Label.VERSION}="{version}",{Label.TIER}="{tier}"}} {value}'
        for tier, value in tiers.items()
        if value or tier == _ALWAYS
    ]
    return [f"# HELP {sample} {metric.help}", f"# TYPE {sample} {metric.kind}", *told] if told else []


def _samples(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if not line.startswith(_ENGINES):
            continue
        name = line[: line.index("{")] if "{" in line else line.split(" ", 1)[0]
        if name in _WANTED:
            source = _SOURCE.search(line) if name == _HITS else None
            yield name + (source[1] if source else ""), float(line.rsplit(" ", 1)[1])
