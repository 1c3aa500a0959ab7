"""Seconds of evidence in this process. Fits ``control.rollout.evidence.EvidenceStore``."""

from dataclasses import dataclass, field, replace

from penstock.domain.clock import Clock
from penstock.domain.ids import Alias
from penstock.domain.rollout.arms import ASKED_KEPT_S, MINUTE_S, ArmSecond, RecentRequests, Told, asked_since
from penstock.domain.serving.agreement import Agreement, Reported, reported


@dataclass(slots=True)
class MemoryArms:
    """A list, oldest first."""

    clock: Clock
    _told: list[Told] = field(default_factory=list)
    _last: int = 0
    _asked: dict[tuple[int, Alias], int] = field(default_factory=dict)
    _agreements: list[tuple[int, Agreement]] = field(default_factory=list)

    async def tell(self, second: ArmSecond) -> None:
        """Append a gateway's second."""
        self._last += 1
        minute = int(self.clock.now() // MINUTE_S)
        if second.is_evidence:
            bare = replace(second, asked=(), agreements=())
            self._told.append(Told(id=self._last, at=self.clock.now(), second=bare))
        self._agreements.extend((minute, one) for one in second.agreements)
        for alias, many in second.asked:
            key = (minute, alias)
            self._asked[key] = self._asked.get(key, 0) + many

    async def since(self, after: int, within_s: float) -> tuple[Told, ...]:
        return tuple(one for one in self._told if one.id > after and one.at > self.clock.now() - within_s)

    async def forget(self, older_s: float) -> None:
        self._told = [one for one in self._told if one.at >= self.clock.now() - older_s]
        first = (self.clock.now() - ASKED_KEPT_S) / MINUTE_S
        self._asked = {key: many for key, many in self._asked.items() if key[0] >= first}
        self._agreements = [one for one in self._agreements if one[0] >= first]

    async def asked(self, alias: Alias, now: float, over_s: float) -> RecentRequests:
        """Return how many requests an alias had in so many seconds before now, whole minutes."""
        since = int((now - over_s) // MINUTE_S)
        many = sum(many for (minute, whose), many in self._asked.items() if whose == alias and minute >= since)
        return asked_since(many, min((minute for minute, _ in self._asked), default=None), since, now)

    async def agreements(self, alias: Alias, now: float, over_s: float) -> tuple[Reported, ...]:
        """Return what came of an auto alias's comparisons in so many seconds before now, whole minutes."""
        since = int((now - over_s) // MINUTE_S)
        return reported(one for minute, one in self._agreements if minute >= since and one.pair.alias == alias)
