"""The parts of a judgement: checks of a value against a threshold (true, false, unknown), and remedies with their cost.

A check of an unknown value neither passes nor fails, so unknown values rule nothing out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.serving.slo import Indicator

MOST_STRENGTH = 10.0


class Case(StrEnum):
    LIMITS_AWAY = "limits-store-away"
    DISK_FULL = "disk-full"
    CPU_TAKEN = "cpu-taken"
    UNHEALTHY_VERSION = "unhealthy-version"
    SLOW_ZONE = "slow-zone"
    LOST_WORKER = "lost-worker"
    NO_WORKER = "no-worker"
    COLD_START = "cold-start"
    GATEWAY_BOUND = "gateway-bound"
    LIMITS_SLOW = "limits-store-slow"
    SLOW_CLIENTS = "slow-clients"
    STARVED_TENANTS = "noisy-neighbour"
    KV_BOUND = "kv-bound"
    BATCH_TOO_SMALL = "batch-too-small"
    PREFILL_INTERFERENCE = "prefill-interference"
    ENGINE_SATURATED = "engine-saturated"


class Sense(StrEnum):
    AT_LEAST = "≥"
    BELOW = "<"


class Unit(StrEnum):
    NUMBER = ""
    SECONDS = "s"
    RATIO = "%"


class State(StrEnum):
    FOUND = "found"
    RULED_OUT = "ruled out"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A metric's value and its limit. A case is ruled out if any check fails.

    A case is not found while a ``needed`` check has no value; another check may have none.
    """

    says: str
    metric: str
    value: float | None
    limit: float
    sense: Sense = Sense.AT_LEAST
    unit: Unit = Unit.NUMBER
    needed: bool = True

    @property
    def holds(self) -> bool | None:
        if self.value is None:
            return None
        return self.value >= self.limit if self.sense is Sense.AT_LEAST else self.value < self.limit

    @property
    def strength(self) -> float:
        """Return the value relative to its limit; 1 if the limit is an upper one."""
        if self.value is None or self.sense is Sense.BELOW or not self.limit:
            return 1.0
        return min(MOST_STRENGTH, self.value / self.limit)


def at_least(
    says: str, metric: str, value: float | None, limit: float, unit: Unit = Unit.NUMBER, *, needed: bool = True
) -> Check:
    return Check(says=says, metric=metric, value=value, limit=limit, unit=unit, needed=needed)


def below(
    says: str, metric: str, value: float | None, limit: float, unit: Unit = Unit.NUMBER, *, needed: bool = True
) -> Check:
    return Check(says=says, metric=metric, value=value, limit=limit, sense=Sense.BELOW, unit=unit, needed=needed)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnyOf:
    """Checks that hold together if any one of them holds."""

    checks: tuple[Check, ...]
    needed: bool = True

    @property
    def holds(self) -> bool | None:
        found = [check.holds for check in self.checks]
        return True if True in found else None if None in found else False

    @property
    def strength(self) -> float:
        return max((check.strength for check in self.checks if check.holds), default=1.0)


def any_of(*checks: Check) -> AnyOf:
    return AnyOf(checks=checks)


Evidence = Check | AnyOf


class Cost(StrEnum):
    NOTHING = "nothing: takes effect at once"
    ROLLING = "a rolling restart, which breaks no stream"
    RESTART = "a restart with the new setting"
    NEW_VERSION = "a new version, loaded beside the old one"
    CAPACITY = "more machines"
    WORK = "work on the machines or the callers' code"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    says: str
    cost: Cost
    command: str = ""
    setting: str = ""


def remedy(says: str, cost: Cost, command: str = "", *, setting: str = "") -> Remedy:
    return Remedy(says=says, cost=cost, command=command, setting=setting)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    case: Case
    says: str
    evidence: tuple[Evidence, ...]
    harms: tuple[Indicator, ...]
    remedies: tuple[Remedy, ...]
    subject: str = ""
    brings: frozenset[Case] = frozenset()
    """Cases that this case causes, although they look found too."""

    @property
    def state(self) -> State:
        """Found if all needed evidence holds and none fails; ruled out if some fails."""
        found = [(one.holds, one.needed) for one in self.evidence]
        if any(holds is False for holds, _ in found):
            return State.RULED_OUT
        return State.UNDECIDED if any(holds is None and needed for holds, needed in found) else State.FOUND

    @property
    def strength(self) -> float:
        return min((one.strength for one in self.evidence if one.holds), default=0.0)

    @property
    def failing(self) -> tuple[Check, ...]:
        return tuple(check for one in self.evidence if one.holds is False for check in checks_of(one))

    @property
    def unknown(self) -> tuple[Check, ...]:
        return tuple(
            check for one in self.evidence if one.holds is None for check in checks_of(one) if check.value is None
        )


def checks_of(evidence: Evidence) -> Sequence[Check]:
    return evidence.checks if isinstance(evidence, AnyOf) else (evidence,)
