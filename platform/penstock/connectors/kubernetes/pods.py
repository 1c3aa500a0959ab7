"""Pods as workers: running, draining, dead. Pure, apart from remembered deaths."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock.connectors.kubernetes import names
from penstock.domain.clock import Clock
from penstock.domain.fleet.versions import Death, Running
from penstock.domain.ids import VersionId, WorkerId
from penstock.telemetry.logs import logger

Json = Mapping[str, Any]
KEPT_S = 600.0
_OVER = frozenset({"Succeeded", "Failed"})


def version_of(one: Json) -> VersionId:
    return VersionId(one["metadata"].get("annotations", {}).get(names.VERSION, ""))


def is_told_to_go(pod: Json) -> bool:
    meta = pod["metadata"]
    return bool(meta.get("deletionTimestamp") or names.DRAINING in meta.get("annotations", {}))


def is_ready(pod: Json) -> bool:
    return bool(_conditions(pod, "Ready"))


def counts(pod: Json) -> bool:
    """True for a replica that has not ended and is not being deleted."""
    return not pod["metadata"].get("deletionTimestamp") and pod.get("status", {}).get("phase") not in _OVER


def workload_of(pod: Json) -> str:
    return str(pod["metadata"].get("labels", {}).get(names.WORKLOAD, ""))


def running(pod: Json) -> Running | None:
    """Return None if the pod has ended. One on an unreachable node may still run."""
    meta, status = pod["metadata"], pod.get("status", {})
    if not version_of(pod) or status.get("phase") in _OVER:
        return None
    began = status.get("startTime") or meta["creationTimestamp"]
    machine_s, image_s = _brought_s(pod)
    return Running(
        worker=WorkerId(meta["name"]),
        version=version_of(pod),
        started_at=_at(began),
        draining=is_told_to_go(pod),
        machine_s=machine_s,
        image_s=image_s,
    )


def _brought_s(pod: Json) -> tuple[float, float]:
    """Seconds from the open gate to a node, and from there to the worker's first process; 0 if not known. The scheduler
    takes a node once its device is allocatable: launch, boot and device plugin lie before.
    """
    admitted = float(pod["metadata"].get("annotations", {}).get(names.ADMITTED, 0.0))
    scheduled = next(
        (_at(one["lastTransitionTime"]) for one in _conditions(pod, "PodScheduled") if "lastTransitionTime" in one), 0.0
    )
    process = next(
        (
            _at(one["state"]["running"]["startedAt"])
            for one in pod.get("status", {}).get("containerStatuses", [])
            if one.get("name") == names.MAIN and not one.get("restartCount") and "running" in one.get("state", {})
        ),
        0.0,
    )
    machine_s = max(0.0, scheduled - admitted) if scheduled and admitted else 0.0
    return machine_s, max(0.0, process - scheduled) if scheduled and process else 0.0


def _conditions(pod: Json, kind: str) -> list[Json]:
    found = pod.get("status", {}).get("conditions", [])
    return [one for one in found if (one.get("type"), one.get("status")) == (kind, "True")]


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


class Deaths:
    """Failed pods and restarted containers that no order ended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: list[Death] = []

    def note(self, before: Json | None, after: Json | None) -> None:
        """The first state of a pod records nothing."""
        if before is None or is_told_to_go(before) or not version_of(before):
            return
        if after is None or is_told_to_go(after):
            return
        if _restarts(after) > _restarts(before) or (running(before) and not running(after)):
            worker, version = WorkerId(before["metadata"]["name"]), version_of(before)
            logger().warning("worker_died", worker=worker, version=version)
            self._kept.append(Death(worker=worker, version=version, at=self._clock.now()))

    def recent(self) -> tuple[Death, ...]:
        now = self._clock.now()
        self._kept = [one for one in self._kept if now - one.at < KEPT_S]
        return tuple(self._kept)


def _restarts(pod: Json) -> int:
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return sum(int(one.get("restartCount", 0)) for one in statuses)
