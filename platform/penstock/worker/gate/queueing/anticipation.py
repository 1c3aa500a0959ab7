"""Anticipatory scheduling (Iyer and Druschel, SOSP'01): a flooding tenant's prompt is delayed for a tenant about to
return. A prompt in prefill can't be withdrawn, so it waits briefly for a tenant that would go first and usually returns
soon. Trade-off: slots stay empty during the delay, so it lasts for part of an answer's time, in total at most half of
all time.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import (
    ANTICIPATION_PART,
    LEARNING,
    LOOK_AHEAD,
    MOST_ANTICIPATION_S,
    MOST_KNOWN,
)
from penstock.worker.gate.queueing.fair_queue import FairQueue
from penstock.worker.gate.queueing.work import Work


@dataclass(slots=True)
class _Habit:
    left_at: float | None = None
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """An absent tenant: its last standing, when its last request ended, and its usual pause."""

    tenant: TenantId
    standing: Standing
    left_at: float
    pause_s: float


class Expected:
    def __init__(self) -> None:
        self._habits: OrderedDict[TenantId, _Habit] = OrderedDict()
        self._away: OrderedDict[TenantId, Absent] = OrderedDict()

    def left(self, tenant: TenantId, standing: Standing, now: float) -> None:
        habit = self._habits.setdefault(tenant, _Habit())
        self._habits.move_to_end(tenant)
        if len(self._habits) > MOST_KNOWN:
            self._habits.popitem(last=False)
        habit.left_at = now
        if habit.pause_s is not None and habit.pause_s <= ANTICIPATION_PART * MOST_ANTICIPATION_S:
            self._away[tenant] = Absent(tenant, standing, now, habit.pause_s)
            if len(self._away) > LOOK_AHEAD:
                self._away.popitem(last=False)

    def came(self, tenant: TenantId, now: float) -> None:
        self._away.pop(tenant, None)
        habit = self._habits.get(tenant)
        if habit is None or habit.left_at is None:
            return
        pause_s, habit.left_at = min(MOST_ANTICIPATION_S, now - habit.left_at), None
        usual_s = pause_s if habit.pause_s is None else habit.pause_s
        habit.pause_s = usual_s + LEARNING * (pause_s - usual_s)

    def soon(self, most_s: float, now: float) -> Iterator[Absent]:
        """Absent tenants with a short usual pause, until ``most_s`` after their last request."""
        for one in self._away.values():
            if now < one.left_at + most_s and one.pause_s <= ANTICIPATION_PART * most_s:
                yield one


class Patience:
    """Shrinks during a delay and grows otherwise, so half of all time is the most."""

    def __init__(self) -> None:
        self._spent_s, self._at, self._waits = 0.0, 0.0, False

    def lasts_until(self, most_s: float, now: float) -> float | None:
        """The delay's end; None if the time for delays is used up."""
        self._pass(now)
        self._waits = self._spent_s < most_s
        return now + most_s - self._spent_s if self._waits else None

    def rest(self, now: float) -> None:
        self._pass(now)
        self._waits = False

    def _pass(self, now: float) -> None:
        spent_s = now - self._at if self._waits else self._at - now
        self._spent_s, self._at = max(0.0, self._spent_s + spent_s), now


class Anticipation:
    def __init__(self) -> None:
        self._expected, self._patience = Expected(), Patience()

    def came(self, tenant: TenantId, now: float) -> None:
        self._expected.came(tenant, now)

    def left(self, tenant: TenantId, standing: Standing, now: float) -> None:
        self._expected.left(tenant, standing, now)

    def rest(self, now: float) -> None:
        self._patience.rest(now)

    def until(self, head: Work, fair: FairQueue, stay_s: float, now: float) -> float | None:
        """Return when a delayed prompt is considered again; None if it may go now."""
        if not fair.is_flood(head):
            return None
        most_s = min(MOST_ANTICIPATION_S, ANTICIPATION_PART * stay_s)
        soon = self._expected.soon(most_s, now)
        first = next((one for one in soon if fair.would_go_first(one.tenant, one.standing, head)), None)
        lasts_until = self._patience.lasts_until(most_s, now) if first is not None else None
        if first is None or lasts_until is None:
            return None
        return min(first.left_at + most_s, lasts_until)
