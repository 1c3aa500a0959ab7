"""Applies a plan's steps in the background, so that the control loop never waits for a call.

A plan is applied only while it is fresh, so a controller that lost the lead soon stops writing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.admission import Admit
from penstock.connectors.kubernetes.answers import NO_ANSWER, ApiRefused
from penstock.connectors.kubernetes.backoff import Backoff
from penstock.connectors.kubernetes.client import CONFLICT, MANY, NamespaceApi
from penstock.connectors.kubernetes.kinds import DEPLOYMENT, POD, SCALER, ObjectKind
from penstock.connectors.kubernetes.manifests import Written
from penstock.connectors.kubernetes.steps import Apply, Delete, Drain, Step
from penstock.domain.clock import Clock
from penstock.telemetry.logs import logger

SERVER = "the API server"
_BROKEN = 500
_REMEDY = {
    CONFLICT: "somebody else set these fields: undo it, or delete the object, and it is written anew",
    403: "the controller's Role lacks a right: deploy the infrastructure anew",
    422: "the cluster takes no such object: its version, or the pools that the infrastructure ships, differ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIntervals:
    """Seconds: a plan's validity, until applied objects are written again, until refused ones are."""

    fresh_s: float = 3.0
    resync_s: float = 60.0
    held_s: float = 30.0


@dataclass(slots=True, kw_only=True)
class _Stand:
    text: bytes
    generation: int
    at: float


@dataclass(slots=True, kw_only=True)
class Writer:
    """``held`` describes the objects with a failed call."""

    api: NamespaceApi
    clock: Clock
    workloads: Mapping[str, Mapping[str, Any]]
    pace: WriteIntervals = field(default_factory=WriteIntervals)
    backoff: Backoff = field(default_factory=Backoff)
    held: dict[str, str] = field(default_factory=dict)
    _stands: dict[str, _Stand] = field(default_factory=dict)
    _held_until: dict[str, float] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _not_before: float = 0.0

    async def bring_about(self, steps: list[Step], is_fresh: Callable[[], bool]) -> None:
        """Stops early if the server fails as a whole, or if the plan is stale."""
        self._forget({_key(step) for step in steps})
        for step in steps:
            if not is_fresh() or self.clock.monotonic() < self._not_before:
                return
            if self._is_due(step):
                await self._do(step)

    def held_names(self, kind: ObjectKind) -> frozenset[str]:
        return frozenset(key.partition(" ")[2] for key in self.held if key.startswith(f"{kind.name} "))

    async def _do(self, step: Step) -> None:
        key = _key(step)
        try:
            await self._call(step)
        except ApiRefused as refusal:
            self._refused(key, refusal)
        else:
            self.backoff.worked()
            self.held.pop(SERVER, None)
            if self.held.pop(key, None):
                logger().info("cluster_object_no_longer_held", object=key)
            self._held_until.pop(key, None)

    async def _call(self, step: Step) -> None:
        match step:
            case Apply(written=written):
                await self._apply(written)
            case Admit(name=name, scaler=scaler, affinity=affinity):
                mark = {"annotations": {names.ADMITTED: f"{self.clock.now():.3f}"}, "labels": {names.SCALER: scaler}}
                opened = {"schedulingGates": [], "nodeSelector": {names.SCALER: scaler}}
                opened |= {"affinity": affinity} if affinity else {}
                await self.api.patch(POD, name, {"metadata": mark, "spec": opened})
                logger().info("worker_admitted", worker=name, object=scaler)
            case Drain(name=name):
                marks = {names.DRAINING: f"{self.clock.now():.3f}", names.DELETION_COST: "-1000"}
                await self.api.patch(POD, name, {"metadata": {"annotations": marks}})
                logger().info("worker_told_to_drain", worker=name)
            case Delete(kind=kind, name=name, uid=uid):
                await self.api.delete(kind, name, uid)
                self._stands.pop(_of(kind.name, name), None)
                self._gone.add(_of(kind.name, name))
                logger().info("cluster_object_deleted", object=_of(kind.name, name))

    async def _apply(self, written: Written) -> None:
        key, text = _of(written.kind.name, written.name), msgspec.json.encode(written.body)
        before = self._stands.get(key)
        found = await self.api.apply(written)
        generation = int(found["metadata"].get("generation", 0))
        self._stands[key] = _Stand(text=text, generation=generation, at=self.clock.monotonic())
        self._gone.discard(key)
        if before is None or before.text != text:
            logger().info("cluster_object_written", object=key)
        elif generation > self._generation(written, before):
            logger().warning("cluster_object_set_back", object=key, generation=generation)

    def _generation(self, written: Written, before: _Stand) -> int:
        seen = self.workloads.get(written.name, {}) if written.kind is DEPLOYMENT else {}
        return max(before.generation, int(seen.get("metadata", {}).get("generation", 0)))

    def _is_due(self, step: Step) -> bool:
        key, now = _key(step), self.clock.monotonic()
        if now < self._held_until.get(key, 0.0):
            return False
        if isinstance(step, Delete):
            return step.kind is not SCALER or key not in self._gone
        stand = self._stands.get(key)
        if isinstance(step, Drain | Admit) or stand is None or now - stand.at >= self.pace.resync_s:
            return True
        written = step.written
        changed = stand.generation != self._generation(written, stand)
        missing = written.kind is DEPLOYMENT and written.name not in self.workloads and now - stand.at >= 1.0
        return changed or missing or stand.text != msgspec.json.encode(written.body)

    def _refused(self, key: str, refusal: ApiRefused) -> None:
        now, status = self.clock.monotonic(), refusal.status
        if status in (NO_ANSWER, MANY) or status >= _BROKEN:
            key, wait_s = SERVER, self.backoff.failed(refusal.retry_after_s)
            self._not_before = now + wait_s
            said = f"{SERVER} answers {status or 'nothing'} ({refusal.message}); nothing is changed until it does"
        else:
            wait_s = max(self.pace.held_s, refusal.retry_after_s)
            self._held_until[key] = now + wait_s
            remedy = _REMEDY.get(status, f"status {status}")
            said = f"{key} is held: {refusal.message}; {remedy}"
        if self.held.get(key) != said:
            logger().warning("cluster_object_held", object=key, status=status, reason=said, retry_in_s=round(wait_s, 1))
        self.held[key] = said

    def _forget(self, asked: set[str]) -> None:
        for key in self.held.keys() - asked - {SERVER}:
            del self.held[key]
            self._held_until.pop(key, None)


def _key(step: Step) -> str:
    match step:
        case Apply(written=written):
            return _of(written.kind.name, written.name)
        case Drain(name=name) | Admit(name=name):
            return _of(POD.name, name)
        case Delete(kind=kind, name=name):
            return _of(kind.name, name)


def _of(kind: str, name: str) -> str:
    return f"{kind} {name}"
