"""The measurements of a diagnosis as plain data: samples of its metrics over one time window."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.telemetry import names
from penstock.telemetry.definitions import Metric, MetricKind
from penstock.telemetry.series import Sample

DEVICE_BUSY_PERCENT = "DCGM_FI_DEV_GPU_UTIL"
"""NVIDIA's exporter (dcgm-exporter): percent of the time in which a kernel ran on a GPU. Only a Prometheus that scrapes
this exporter has it.
"""

METRICS = (
    names.REQUESTS,
    names.REFUSALS,
    names.NO_WORKER,
    names.TIER_REQUESTS,
    names.TIER_STREAMS,
    names.STAGE_SECONDS,
    names.REQUEST_SECONDS,
    names.TTFT_SECONDS,
    names.VISIBLE_TTFT_SECONDS,
    names.ITL_SECONDS,
    names.PROMPT_TOKENS,
    names.CACHED_TOKENS,
    names.OUTPUT_TOKENS,
    names.EJECTIONS,
    names.BREAKERS_OPEN,
    names.LOOP_LAG_SECONDS,
    names.LOOP_SECONDS,
    names.READER_PAUSED_SECONDS,
    names.TENANT_QUEUE_SECONDS,
    names.ZONE_TTFT_SECONDS,
    names.LIMITS_REACH,
    names.SPOOL_FULL,
    names.WORKER_INFO,
    names.WORKER_STATE,
    names.WORKERS,
    names.WORKERS_WANTED,
    names.WORKER_ENDS,
    names.WORKER_LOST,
    names.PHASE_SECONDS,
    names.ENGINE_RESTARTS,
    names.ENGINE_RUNNING,
    names.ENGINE_SLOTS,
    names.ENGINE_STEPS,
    names.ENGINE_STEP_TOKENS,
    names.KV_USED_RATIO,
    names.PREEMPTIONS,
    names.DOOR_WAITING,
    names.DOOR_SATURATION,
    names.GATE_SECONDS,
)
"""All platform metrics that a diagnosis reads."""


class Window(Protocol):
    seconds: float

    def increases(self, name: str) -> Sequence[Sample]: ...

    def levels(self, name: str) -> Sequence[Sample]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """Samples by their series' full name; a name without series is absent."""

    seconds: float
    increases: Mapping[str, tuple[Sample, ...]]
    levels: Mapping[str, tuple[Sample, ...]]
    says: str = ""
    """The source of the recording, for people."""

    def of(self, metric: Metric, suffix: str = "") -> tuple[Sample, ...]:
        """Return a gauge's mean, or the growth of a counter or of a histogram's part (``_sum``)."""
        if metric.kind is MetricKind.GAUGE:
            return self.levels.get(metric.name, ())
        return self.increases.get(f"{metric.name}{suffix or '_total'}", ())


def record(window: Window, says: str = "") -> Recording:
    increases = {name: tuple(window.increases(name)) for metric in METRICS for name in counters(metric)}
    gauges = [metric.name for metric in METRICS if metric.kind is MetricKind.GAUGE]
    levels = {name: tuple(window.levels(name)) for name in (*gauges, DEVICE_BUSY_PERCENT)}
    return Recording(seconds=window.seconds, increases=_seen(increases), levels=_seen(levels), says=says)


def counters(metric: Metric) -> tuple[str, ...]:
    if metric.kind is MetricKind.GAUGE:
        return ()
    if metric.kind is MetricKind.COUNTER:
        return (f"{metric.name}_total",)
    return tuple(f"{metric.name}{part}" for part in ("_bucket", "_sum", "_count"))


def _seen(samples: Mapping[str, tuple[Sample, ...]]) -> dict[str, tuple[Sample, ...]]:
    return {name: found for name, found in samples.items() if found}


def as_json(recording: Recording) -> str:
    parts = {"increases": recording.increases, "levels": recording.levels}
    told = {
        "says": recording.says,
        "seconds": round(recording.seconds, 3),
        **{part: {name: _plain(samples) for name, samples in found.items()} for part, found in parts.items()},
    }
    return json.dumps(told)


def of_json(text: str) -> Recording:
    """Raises ``ValueError`` if the JSON is none."""
    try:
        told = json.loads(text)
        return Recording(
            says=str(told["says"]),
            seconds=float(told["seconds"]),
            increases=_samples(told["increases"]),
            levels=_samples(told["levels"]),
        )
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError("no recording") from error


def _plain(samples: tuple[Sample, ...]) -> list[list[object]]:
    return [[dict(sample.labels), sample.value] for sample in samples]


def _samples(told: Mapping[str, Any]) -> dict[str, tuple[Sample, ...]]:
    return {
        name: tuple(Sample(labels=labels, value=None if value is None else float(value)) for labels, value in found)
        for name, found in told.items()
    }
