"""Finds the version with the longest queue, on which engine cases are judged; checks that several cases share."""

from collections.abc import Collection

from penstock.diagnosis.evidence import Check, Sense, Unit, at_least
from penstock.diagnosis.recording import DEVICE_BUSY_PERCENT
from penstock.diagnosis.snapshot import EngineFigures, Snapshot
from penstock.telemetry import names

SOME_WAIT = 1.0
"""Mean waiting requests at each gate: batching alone causes less."""


def engine_of(snapshot: Snapshot, versions: Collection[str] = ()) -> EngineFigures:
    engines = [one for one in snapshot.engines if not versions or one.version in versions]
    return max(engines, key=lambda one: (one.waiting or 0.0, one.saturation or 0.0), default=EngineFigures(version=""))


def queueing(engine: EngineFigures) -> Check:
    return at_least("requests wait in the workers' queues", names.DOOR_WAITING.name, engine.waiting, SOME_WAIT)


def slots_used(engine: EngineFigures, says: str, limit: float, sense: Sense = Sense.AT_LEAST) -> Check:
    return Check(
        says=says,
        metric=f"{names.ENGINE_RUNNING.name} / {names.ENGINE_SLOTS.name}",
        value=engine.slots_used_ratio,
        limit=limit,
        sense=sense,
        unit=Unit.RATIO,
    )


def kv_used(engine: EngineFigures, says: str, limit: float, sense: Sense = Sense.AT_LEAST) -> Check:
    return Check(
        says=says,
        metric=names.KV_USED_RATIO.name,
        value=engine.kv_used_ratio,
        limit=limit,
        sense=sense,
        unit=Unit.RATIO,
    )


def device_busy(
    engine: EngineFigures, says: str, limit: float, sense: Sense = Sense.AT_LEAST, *, needed: bool = True
) -> Check:
    return Check(
        says=says,
        metric=DEVICE_BUSY_PERCENT,
        value=engine.device_busy_ratio,
        limit=limit,
        sense=sense,
        unit=Unit.RATIO,
        needed=needed,
    )
