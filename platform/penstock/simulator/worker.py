"""One worker in virtual time: arrivals meet the real door, in whichever order, in front of an engine model."""

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from penstock.domain.ids import RequestId, TenantId
from penstock.simulator.engine import EngineModel, Sequence
from penstock.worker.admission.cost import Work, cost
from penstock.worker.admission.door import Away, Door


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A request of the traffic: when, what, and how long its answer really is."""

    at: float
    work: Work
    output_tokens: int


@dataclass(slots=True)
class Record:
    """What one tenant experienced."""

    ttft_s: list[float] = field(default_factory=list)
    service: float = 0.0
    away: int = 0

    def ttft_quantile(self, q: float) -> float:
        """Return a quantile of the time to first token; infinite where nothing was served."""
        ordered = sorted(self.ttft_s)
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] if ordered else float("inf")


def run(arrivals: Iterable[Arrival], door: Door, engine: EngineModel, until: float) -> dict[TenantId, Record]:
    """Play the traffic until virtual second ``until``; return what each tenant experienced."""
    worker = _Worker(door, engine)
    pending = [(a.at, i, a) for i, a in enumerate(arrivals)]
    heapq.heapify(pending)
    now = 0.0
    while now < until and (pending or engine.busy):
        while pending and pending[0][0] <= now:
            worker.arrive(heapq.heappop(pending)[2], now)
        if not engine.busy:
            if not pending:
                break
            now = pending[0][0]
            continue
        now = worker.step(now)
    return worker.records


class _Worker:
    """The state of one run."""

    def __init__(self, door: Door, engine: EngineModel) -> None:
        self._door = door
        self._engine = engine
        self._arrived: dict[RequestId, float] = {}
        self.records: dict[TenantId, Record] = defaultdict(Record)

    def arrive(self, arrival: Arrival, now: float) -> None:
        work = arrival.work
        self._arrived[work.request] = arrival.at

        def away(_: Away, __: float) -> None:
            self.records[work.tenant].away += 1

        self._door.arrive(work, now, lambda: self._engine.enter(work, arrival.output_tokens), away)

    def step(self, now: float) -> float:
        seconds, produced, done = self._engine.step()
        now += seconds
        for sequence in produced:
            self._token(sequence, now)
        for sequence in done:
            self._door.leave(sequence.work.request, now)
        return now

    def _token(self, sequence: Sequence, now: float) -> None:
        work, record = sequence.work, self.records[sequence.work.tenant]
        record.service += cost(0, 1)
        if sequence.made == 1:
            record.ttft_s.append(now - self._arrived.pop(work.request))
            record.service += cost(work.prompt_tokens, 0)
        self._door.progressed(work.request, 1, now)
