"""Scaling as data: the number of workers of a version, and the record of the decision behind it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from penstock.domain.ids import VersionId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    name: str
    value: float
    unit: str = ""
    age_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """An operator's number, which demand does not change until ``until`` (Unix seconds)."""

    workers: int
    until: float
    who: str
    reason: str

    def has_ended(self, now: float) -> bool:
        return now >= self.until

    def __str__(self) -> str:
        until = datetime.fromtimestamp(self.until, UTC).isoformat(" ", "seconds")
        return f"override of {self.workers} until {until} by {self.who}"


class Act(StrEnum):
    OUT = "scale_out"
    IN = "scale_in"
    TAKE_BACK = "take_back"
    """A cordoned worker serves again, before any other is started."""
    HOLD = "hold"


class Idle(StrEnum):
    FLOOR = "floor"
    """The scale file's least, or a clock's, exceeds the need."""
    OVERRIDE = "override"
    HEADROOM = "headroom"
    """Within the need: the target load leaves a fifth for peaks and for a lost worker."""
    SLOW_IN = "slow_in"
    """Beyond the need: kept for a window, or cordoned."""
    UNMEASURED = "unmeasured"
    """Beyond the floor; the need is unknown, since there is no curve, or demand is missing."""
    WARM_POOL = "warm_pool"
    """Asleep, to be awake within seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRecord:
    version: VersionId
    at: float
    """Unix seconds."""
    act: Act
    before: int
    after: int
    wish: float | None
    """Workers, before bounds and rounding; None if no signal gives a number."""
    reason: str
    """The signal that decided, or why nothing changes."""
    cut: str = ""
    """The bound or override that keeps the number from the wish; empty if none does."""
    override: Override | None = None
    signals: tuple[Signal, ...] = ()
    per_hour_before: float | None = None
    per_hour_after: float | None = None
    """Dollars; None if no price is known."""
    idle_gpus: Mapping[Idle, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """``workers`` is their number, with cordoned and sleeping ones. ``cordoned`` workers get no new requests; of them
    ``ended`` are idle and leave, and ``slept`` are idle and stay asleep. ``woken`` ones are to serve again.
    """

    version: VersionId
    workers: int
    least: int = 0
    """The floor of the scale file, whatever the clock says."""
    cordoned: frozenset[WorkerId] = frozenset()
    ended: tuple[WorkerId, ...] = ()
    slept: tuple[WorkerId, ...] = ()
    woken: tuple[WorkerId, ...] = ()
    batch_slots: int | None = None
    """Slots of each engine that batch work may hold beside interactive work; None: no bound."""
