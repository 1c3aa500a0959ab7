"""Who is expected back: tenants between two requests whose pauses are usually short.

A prompt that has begun can't be taken back, and whoever comes meanwhile waits for its step. So where a neighbour that
would go first is about to come, a flood's next prompt waits for it a moment: anticipatory scheduling (Iyer and
Druschel, SOSP'01). How long tenants pause is measured.

Trade-off: while somebody is waited for, free seats stay empty. So it lasts a part of an answer's time at most, half of
the time in all, and nobody is waited for who usually stays away longer.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing

MOST_WAIT_S = 4.0
"""Nobody is waited for longer, and a longer pause counts as one of these: a lunch must not outweigh fifty questions."""

USUAL_PART = 0.5
"""Who usually pauses longer than this part of the wait that is allowed isn't waited for: it may not come in time."""

PAUSE_SHARE = 0.1
"""Weight of the newest pause among a tenant's."""

MOST_KNOWN = 1024
"""Of so many tenants the pauses are remembered."""

MOST_AWAY = 16
"""So many are expected at most, the latest to leave: with more, somebody nearly always would be."""


@dataclass(slots=True)
class _Habit:
    left_at: float | None = None
    pause_s: float | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """A tenant with nothing at the door: what it was served as, when it left, how long it usually pauses."""

    tenant: TenantId
    standing: Standing
    left_at: float
    pause_s: float


class Expected:
    """The tenants that have nothing here now and usually pause briefly. Every operation is O(1)."""

    def __init__(self) -> None:
        self._habits: OrderedDict[TenantId, _Habit] = OrderedDict()
        self._away: OrderedDict[TenantId, Absent] = OrderedDict()

    def left(self, tenant: TenantId, standing: Standing, now: float) -> None:
        """The last request that a tenant had here has ended."""
        habit = self._habits.setdefault(tenant, _Habit())
        self._habits.move_to_end(tenant)
        if len(self._habits) > MOST_KNOWN:
            self._habits.popitem(last=False)
        habit.left_at = now
        if habit.pause_s is not None and habit.pause_s <= USUAL_PART * MOST_WAIT_S:
            self._away[tenant] = Absent(tenant, standing, now, habit.pause_s)
            if len(self._away) > MOST_AWAY:
                self._away.popitem(last=False)

    def came(self, tenant: TenantId, now: float) -> None:
        """A request of the tenant is at the door; if it is the first one, its pause is known."""
        self._away.pop(tenant, None)
        habit = self._habits.get(tenant)
        if habit is None or habit.left_at is None:
            return
        pause_s, habit.left_at = min(MOST_WAIT_S, now - habit.left_at), None
        usual_s = pause_s if habit.pause_s is None else habit.pause_s
        habit.pause_s = usual_s + PAUSE_SHARE * (pause_s - usual_s)

    def soon(self, most_s: float, now: float) -> Iterator[Absent]:
        """Yield whom to wait for, where ``most_s`` after it left is the longest that anybody is waited for."""
        for one in self._away.values():
            if now < one.left_at + most_s and one.pause_s <= USUAL_PART * most_s:
                yield one


class Patience:
    """Bounds waiting: so long in one go, and half of the time in all, since what was spent comes back as slowly."""

    def __init__(self) -> None:
        self._spent_s, self._at, self._waits = 0.0, 0.0, False

    def lasts_until(self, most_s: float, now: float) -> float | None:
        """Go on waiting, and return until when at most; None where it is over."""
        self._pass(now)
        self._waits = self._spent_s < most_s
        return now + most_s - self._spent_s if self._waits else None

    def rest(self, now: float) -> None:
        """Nobody is waited for from now on."""
        self._pass(now)
        self._waits = False

    def _pass(self, now: float) -> None:
        spent_s = now - self._at if self._waits else self._at - now
        self._spent_s, self._at = max(0.0, self._spent_s + spent_s), now
