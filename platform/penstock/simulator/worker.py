"""One worker in virtual time: arrivals meet the real door, in whichever order, in front of an engine model.

A caller whose deadline passes leaves, wherever its request is: what was done for it until then was done in vain.
"""

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from penstock.domain.ids import RequestId, TenantId
from penstock.simulator.engine import EngineModel, Sequence
from penstock.worker.gate.admission.cost import Work, cost
from penstock.worker.gate.admission.door import Away, Door


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request of the traffic: when, what, and how long its answer really is."""

    at: float
    work: Work
    output_tokens: int

    @property
    def cost(self) -> float:
        """What it really costs, in tokens of service."""
        return cost(self.work.prompt_tokens, self.output_tokens)


@dataclass(slots=True)
class Record:
    """What one tenant experienced: ``service`` is all that was done for it, ``good`` what was complete in time."""

    ttft_s: list[float] = field(default_factory=list)
    service: float = 0.0
    good: float = 0.0
    asked: int = 0
    in_time: int = 0
    too_late: int = 0
    away: Counter[Away] = field(default_factory=Counter)

    def ttft_quantile(self, q: float) -> float:
        """Return a quantile of the time to first token; infinite where nothing was served."""
        ordered = sorted(self.ttft_s)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A request that was sent away, and how long its caller was told to wait."""

    at: float
    work: Work
    why: Away
    told_s: float


def run(arrivals: Iterable[Arrival], door: Door, engine: EngineModel, until: float) -> dict[TenantId, Record]:
    """Play the traffic until virtual second ``until``; return what each tenant experienced."""
    worker = Worker(door, engine)
    pending = [(a.at, i, a) for i, a in enumerate(arrivals)]
    heapq.heapify(pending)
    while worker.now < until and (pending or engine.busy):
        while pending and pending[0][0] <= worker.now:
            worker.arrive(heapq.heappop(pending)[2])
        if engine.busy:
            worker.step()
        elif pending:
            worker.now = pending[0][0]
    return worker.records


class Worker:
    """The state of one run; ``now`` is its virtual second."""

    def __init__(self, door: Door, engine: EngineModel) -> None:
        """Begin at zero."""
        self.now = 0.0
        self.records: dict[TenantId, Record] = defaultdict(Record)
        self.refused: list[Refused] = []
        self._door, self._engine = door, engine
        self._look_at = math.inf
        door.look_later = self._look_later
        self._here: dict[RequestId, Arrival] = {}
        self._deadlines: list[tuple[float, RequestId]] = []

    def arrive(self, arrival: Arrival) -> None:
        """Bring a request to the door."""
        work = arrival.work
        self.records[work.tenant].asked += 1
        self._here[work.request] = arrival
        if work.deadline_at:
            heapq.heappush(self._deadlines, (work.deadline_at, work.request))
        let_in = partial(self._engine.enter, work, arrival.output_tokens)
        self._door.arrive(work, self.now, let_in, partial(self._sent_away, work))

    def step(self) -> None:
        """Let the engine do one step, then those leave whose deadline has passed."""
        seconds, produced, done = self._engine.step()
        self.now += seconds
        for sequence in produced:
            self._token(sequence)
        for sequence in done:
            self._complete(self._here.pop(sequence.work.request))
        if self._look_at <= self.now:
            self._look_at = math.inf
            self._door.look(self.now)
        while self._deadlines and self._deadlines[0][0] <= self.now:
            self._give_up(heapq.heappop(self._deadlines)[1])

    def _look_later(self, seconds: float) -> None:
        self._look_at = self.now + seconds

    def _sent_away(self, work: Work, why: Away, wait_s: float) -> None:
        self.records[work.tenant].away[why] += 1
        self.refused.append(Refused(at=self.now, work=work, why=why, told_s=wait_s))
        del self._here[work.request]

    def _complete(self, arrival: Arrival) -> None:
        record = self.records[arrival.work.tenant]
        record.in_time += 1
        record.good += arrival.cost
        self._door.leave(arrival.work.request, self.now)

    def _give_up(self, request: RequestId) -> None:
        arrival = self._here.pop(request, None)
        if arrival is not None:
            self.records[arrival.work.tenant].too_late += 1
            self._engine.abort(request)
            self._door.leave(request, self.now)

    def _token(self, sequence: Sequence) -> None:
        work, record = sequence.work, self.records[sequence.work.tenant]
        record.service += cost(0, 1)
        if sequence.made == 1:
            record.ttft_s.append(self.now - self._here[work.request].at)
            record.service += cost(work.prompt_tokens, 0)
        self._door.progressed(work.request, 1, self.now)
