"""Reads what gateways tell, and hands it on: each second once, and nothing that can't be.

A controller that begins reads the last minutes, so that a new one need not begin from nothing. What can't be read or
can't be is left out and counted; a store that is away is no evidence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import floor
from typing import Protocol

from penstock.domain.rollout.arms import ArmSecond, Told, fault

KEPT_S = 120.0
LOOK_EVERY_S = 1.0
FORGET_EVERY_S = 30.0


class EvidenceStore(Protocol):
    """Where gateways tell their seconds; all may raise ``StoreUnavailable``."""

    async def since(self, after: int, within_s: float) -> Sequence[Told]:
        """Return what was told after this one, and not longer ago than so many seconds; oldest first."""
        ...

    async def forget(self, older_s: float) -> None:
        """Remove what was told longer ago."""
        ...


@dataclass(slots=True)
class Evidence:
    """The reader's place, and what it left out."""

    store: EvidenceStore
    take: Callable[[ArmSecond, float], bool]
    """Takes a second with the Unix second at which it was told; False where it did not count."""
    left_out: int = 0
    _after: int = 0
    _forgot_at: float = 0.0

    async def look(self, now: float) -> None:
        """Take all that is new (Unix seconds)."""
        while found := await self.store.since(self._after, KEPT_S):
            for told in found:
                self._take(told)
        if now - self._forgot_at >= FORGET_EVERY_S:
            self._forgot_at = now
            await self.store.forget(KEPT_S)

    def _take(self, told: Told) -> None:
        self._after = told.id
        if told.second is None or fault(told.second):
            self.left_out += 1
        else:
            # Gateways' clocks may differ by more than a second may be late: the store's is one for all.
            self.left_out += not self.take(replace(told.second, at=floor(told.at)), told.at)
