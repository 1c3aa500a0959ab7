"""Scaling as data: the number of workers of a version, and the record of the decision behind it."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.ids import VersionId, WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One input of a decision; ``age_s`` is the time since it was measured."""

    name: str
    value: float
    unit: str = ""
    age_s: float = 0.0


class Act(StrEnum):
    """The change that a decision makes to a version's number of workers."""

    OUT = "scale_out"
    IN = "scale_in"
    TAKE_BACK = "take_back"
    """A cordoned worker serves again, before any other is started."""
    HOLD = "hold"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleRecord:
    """A decision about one version: its inputs, the wanted number, the bounds that cut it, and its price."""

    version: VersionId
    at: float
    """Unix seconds."""
    act: Act
    before: int
    after: int
    wish: float
    """Workers, before bounds and rounding."""
    reason: str
    """The signal that decided, or why nothing changes."""
    cut: str = ""
    """The bound that keeps the number from the wish; empty if none does."""
    signals: tuple[Signal, ...] = ()
    per_hour_before: float = 0.0
    per_hour_after: float = 0.0
    """Dollars; 0 if no price is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The workers that the fleet is to bring about for a version.

    ``workers`` is their number, with cordoned and sleeping ones. ``cordoned`` workers get no new requests; of them
    ``ended`` are idle and leave, and ``slept`` are idle and stay asleep. ``woken`` ones are asleep and are to serve
    again.
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
