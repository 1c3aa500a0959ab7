"""The log of the controller's decisions: a decision that each tick repeats is recorded once."""

from collections.abc import Sequence
from typing import Protocol

from penstock.domain.fleet.decision import Decided, Decision


class DecisionStore(Protocol):
    def note(self, decided: Sequence[Decided]) -> None: ...

    def newest(self, limit: int) -> tuple[Decided, ...]: ...


class Decisions:
    """Implements the loop's ``DecisionLog``. A repeated start is a different worker, so it is recorded again."""

    def __init__(self, kept: DecisionStore) -> None:
        self._kept = kept
        self._last: frozenset[Decision] = frozenset()

    def take(self, decisions: Sequence[Decision], now: float) -> None:
        new = [Decided(at=now, decision=one) for one in decisions if one not in self._last or one.what == "start"]
        if new:
            self._kept.note(new)
        self._last = frozenset(decisions)

    def newest(self, limit: int) -> tuple[Decided, ...]:
        return self._kept.newest(limit)
