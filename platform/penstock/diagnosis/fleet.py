"""Figures of workers and engines, from a recording of their own metrics pages."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from penstock.diagnosis import distribution
from penstock.diagnosis.distribution import total
from penstock.diagnosis.recording import DEVICE_BUSY_PERCENT, Recording
from penstock.diagnosis.snapshot import EngineFigures, VersionFigures, WorkerFigures
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.outcome import Stage
from penstock.telemetry import names
from penstock.telemetry.definitions import Label, Metric
from penstock.telemetry.series import INSTANCE, Sample

PERCENT = 100.0


def engines(recording: Recording) -> tuple[EngineFigures, ...]:
    versions = sorted({one.labels.get(Label.VERSION, "") for one in recording.of(names.DOOR_WAITING)})
    return tuple(_engine(recording, version, alone=len(versions) == 1) for version in versions)


def workers(recording: Recording) -> tuple[WorkerFigures, ...]:
    return tuple(_worker(recording, info) for info in recording.of(names.WORKER_INFO))


def versions(recording: Recording) -> tuple[VersionFigures, ...]:
    """Return the controller's versions; without a controller, the ready ones by the workers' pages."""
    gauges = (*recording.of(names.WORKERS), *recording.of(names.WORKERS_WANTED), *recording.of(names.WORKER_INFO))
    return tuple(_version(recording, version) for version in sorted({one.labels[Label.VERSION] for one in gauges}))


def _version(recording: Recording, version: str) -> VersionFigures:
    def mine(metric: Metric) -> list[Sample]:
        return [one for one in recording.of(metric) if one.labels.get(Label.VERSION) == version]

    ready = _mean(filter(_is_ready, mine(names.WORKERS)))
    return VersionFigures(
        version=version,
        wanted=_mean(mine(names.WORKERS_WANTED)),
        ready=ready if ready is not None else total(filter(_is_ready, mine(names.WORKER_STATE))),
    )


def _engine(recording: Recording, version: str, *, alone: bool) -> EngineFigures:
    def mean(metric: Metric) -> float | None:
        return _mean(one for one in recording.of(metric) if one.labels.get(Label.VERSION) == version)

    def grown(metric: Metric) -> float | None:
        return total(one for one in recording.of(metric) if one.labels.get(Label.VERSION) == version)

    queue = distribution.of(recording, names.GATE_SECONDS, _at(version, Stage.QUEUE))
    steps, tokens = grown(names.ENGINE_STEPS), grown(names.ENGINE_STEP_TOKENS)
    return EngineFigures(
        version=version,
        running=mean(names.ENGINE_RUNNING),
        slots=mean(names.ENGINE_SLOTS),
        waiting=mean(names.DOOR_WAITING),
        saturation=mean(names.DOOR_SATURATION),
        kv_used_ratio=mean(names.KV_USED_RATIO),
        preemptions=grown(names.PREEMPTIONS),
        queue_mean_s=queue.mean if queue else None,
        calls=queue.count if queue else None,
        step_tokens=tokens / steps if tokens is not None and steps else None,
        device_busy_ratio=_device(recording) if alone else None,
    )


def _device(recording: Recording) -> float | None:
    """The metric names no version, so it is used only if there is a single one."""
    percent = _mean(recording.levels.get(DEVICE_BUSY_PERCENT, ()))
    return None if percent is None else percent / PERCENT


def _worker(recording: Recording, info: Sample) -> WorkerFigures:
    instance = info.labels.get(INSTANCE, "")

    def here(sample: Sample) -> bool:
        return sample.labels.get(INSTANCE) == instance

    prefill = distribution.of(
        recording, names.GATE_SECONDS, lambda one: here(one) and one.labels.get(Label.STAGE) == Stage.PREFILL.value
    )
    states = {one.labels.get(Label.STATE): one.value for one in recording.of(names.WORKER_STATE) if here(one)}
    starting = {state: states.get(state) for state in WorkerState if state.is_starting}
    known = {state: part for state, part in starting.items() if part is not None}
    return WorkerFigures(
        name=info.labels.get(Label.WORKER, ""),
        version=info.labels.get(Label.VERSION, ""),
        zone=info.labels.get(Label.ZONE, ""),
        prefill_mean_s=prefill.mean if prefill else None,
        restarts=_times(recording.of(names.ENGINE_RESTARTS), here),
        starts=_times(recording.of(names.PHASE_SECONDS, "_count"), lambda one: here(one) and _is_loading(one)),
        failed_ratio=states.get(WorkerState.FAILED),
        ready_ratio=states.get(WorkerState.READY),
        starting=max(known, key=lambda one: known[one]) if any(known.values()) else "",
        starting_s=sum(known.values()) * recording.seconds if len(known) == len(starting) else None,
    )


def _is_ready(sample: Sample) -> bool:
    return sample.labels.get(Label.STATE) == WorkerState.READY.value


def _is_loading(sample: Sample) -> bool:
    return sample.labels.get(Label.PHASE) == WorkerState.LOADING.value


def _times(samples: Sequence[Sample], where: distribution.Where) -> float | None:
    """0 if pages count only other events, None if none counts any."""
    taken = [one for one in samples if where(one)]
    return total(taken) if taken else 0.0 if samples else None


def _at(version: str, stage: Stage) -> distribution.Where:
    return lambda one: one.labels.get(Label.VERSION) == version and one.labels.get(Label.STAGE) == stage.value


def _mean(samples: Iterable[Sample]) -> float | None:
    values = [sample.value for sample in samples if sample.value is not None]
    return fmean(values) if values else None
