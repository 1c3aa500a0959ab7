"""Places for refused requests that retry on time. Pure.

Each tenant has a line of expected retries apart from its queue. A retry on time may wait like any request; a new
request counts the whole line as before it.

Trade-off: a retry is recognised by tenant and prompt length alone.
"""

from bisect import insort
from collections import OrderedDict
from typing import NamedTuple

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.worker.gate.queueing.constants import LAPSE_S, LEARNING, LOOK_AHEAD, MOST_KNOWN, REMEMBERED
from penstock.worker.gate.queueing.work import Work, cost


class _Place(NamedTuple):
    due_at: float
    prompt_tokens: int
    cost: float


class _Line:
    __slots__ = ("cost", "places")

    def __init__(self) -> None:
        self.places: list[_Place] = []
        self.cost = 0.0


class Retries:
    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[Standing, TenantId], _Line] = OrderedDict()
        self._cost = 0.0
        self._kept_ratio = 1.0
        self._expected = self._real = 0.0

    def __len__(self) -> int:
        return len(self._lines)

    def takes(self, work: Work, now: float) -> bool:
        line = self._living(work, now)
        for at, place in enumerate(line.places if line is not None else ()):
            if place.due_at > now:
                break
            if place.prompt_tokens == work.prompt_tokens:
                self._remove(work, at, came=True)
                return True
        return False

    def before(self, work: Work, share: float, now: float) -> float:
        line = self._living(work, now)
        if line is None:
            return 0.0
        really = self._real / self._expected if self._expected else 1.0
        return self._kept_ratio * really * min(line.cost / share, self._cost)

    def expect(self, work: Work, due_at: float, now: float) -> None:
        """Reserve a place for a retry, if its tenant's line has room."""
        self._forget(now)
        line = self._lines.setdefault((work.standing, work.tenant), _Line())
        self._lines.move_to_end((work.standing, work.tenant))
        if len(line.places) < LOOK_AHEAD:
            insort(line.places, _Place(due_at, work.prompt_tokens, work.cost))
            line.cost += work.cost
            self._cost += work.cost

    def learn(self, work: Work, output_tokens: int) -> None:
        """Record an ended request's real cost; one without output is ignored."""
        if output_tokens:
            self._expected = REMEMBERED * self._expected + work.cost
            self._real = REMEMBERED * self._real + cost(work.prompt_tokens + work.work_tokens, output_tokens)

    def _living(self, work: Work, now: float) -> _Line | None:
        while (line := self._lines.get((work.standing, work.tenant))) and line.places[0].due_at + LAPSE_S < now:
            self._remove(work, 0, came=False)
        return line

    def _remove(self, work: Work, at: int, *, came: bool) -> None:
        self._kept_ratio += LEARNING * (came - self._kept_ratio)
        line = self._lines[work.standing, work.tenant]
        place = line.places.pop(at)
        line.cost -= place.cost
        self._cost -= place.cost
        if not line.places:
            del self._lines[work.standing, work.tenant]
        if not self._lines:
            self._cost = 0.0

    def _forget(self, now: float) -> None:
        while self._lines:
            key, line = next(iter(self._lines.items()))
            if line.places[-1].due_at + LAPSE_S >= now and len(self._lines) < MOST_KNOWN:
                return
            self._cost -= line.cost
            del self._lines[key]
