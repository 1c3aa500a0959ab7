"""Seconds of evidence in this process. Fits ``control.rollout.evidence.EvidenceStore``."""

from dataclasses import dataclass, field

from penstock.domain.arms import ArmSecond, Told
from penstock.domain.clock import Clock


@dataclass(slots=True)
class MemoryArms:
    """A list, oldest first."""

    clock: Clock
    _told: list[Told] = field(default_factory=list)
    _last: int = 0

    async def tell(self, second: ArmSecond) -> None:
        """Append a gateway's second."""
        self._last += 1
        self._told.append(Told(id=self._last, at=self.clock.now(), second=second))

    async def since(self, after: int, within_s: float) -> tuple[Told, ...]:
        """Return what was told after this one, and not longer ago than so many seconds; oldest first."""
        return tuple(one for one in self._told if one.id > after and one.at > self.clock.now() - within_s)

    async def forget(self, older_s: float) -> None:
        """Remove what was told longer ago."""
        self._told = [one for one in self._told if one.at >= self.clock.now() - older_s]
