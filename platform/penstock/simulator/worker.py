"""One worker in virtual time: arrivals meet an admission policy in front of an engine model.

The policy is the real ``Door``, or plain first come, first served for comparison.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.ids import RequestId, TenantId
from penstock.simulator.engine import EngineModel, Sequence
from penstock.worker.admission.cost import Work, cost
from penstock.worker.admission.door import Away


class Policy(Protocol):
    """What stands before the engine; ``Door`` has this shape."""

    def arrive(
        self, work: Work, now: float, let_in: Callable[[], None], send_away: Callable[[Away, float], None]
    ) -> None:
        """Take a request."""
        ...

    def progressed(self, request: RequestId, tokens: int, now: float) -> None:
        """Output came."""
        ...

    def leave(self, request: RequestId, now: float) -> None:
        """A request ended."""
        ...


@dataclass(slots=True)
class FirstComeFirstServed:
    """The comparison: one queue for all, ``seats`` places in the engine."""

    seats: int
    _inside: set[RequestId] = field(default_factory=set)
    _waiting: deque[tuple[RequestId, Callable[[], None]]] = field(default_factory=deque)

    def arrive(
        self, work: Work, now: float, let_in: Callable[[], None], send_away: Callable[[Away, float], None]
    ) -> None:
        """Queue it behind all others."""
        del now, send_away
        self._waiting.append((work.request, let_in))
        self._open()

    def progressed(self, request: RequestId, tokens: int, now: float) -> None:
        """Nothing is learned."""

    def leave(self, request: RequestId, now: float) -> None:
        """Let the next one in."""
        del now
        self._inside.discard(request)
        self._open()

    def _open(self) -> None:
        while self._waiting and len(self._inside) < self.seats:
            request, let_in = self._waiting.popleft()
            self._inside.add(request)
            let_in()


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


def run(arrivals: Iterable[Arrival], policy: Policy, engine: EngineModel, until: float) -> dict[TenantId, Record]:
    """Play the traffic until virtual second ``until``; return what each tenant experienced."""
    worker = _Worker(policy, engine)
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

    def __init__(self, policy: Policy, engine: EngineModel) -> None:
        self._policy = policy
        self._engine = engine
        self._arrived: dict[RequestId, float] = {}
        self.records: dict[TenantId, Record] = defaultdict(Record)

    def arrive(self, arrival: Arrival, now: float) -> None:
        work = arrival.work
        self._arrived[work.request] = arrival.at

        def away(_: Away, __: float) -> None:
            self.records[work.tenant].away += 1

        self._policy.arrive(work, now, lambda: self._engine.enter(work, arrival.output_tokens), away)

    def step(self, now: float) -> float:
        seconds, produced, done = self._engine.step()
        now += seconds
        for sequence in produced:
            self._token(sequence, now)
        for sequence in done:
            self._policy.leave(sequence.work.request, now)
        return now

    def _token(self, sequence: Sequence, now: float) -> None:
        work, record = sequence.work, self.records[sequence.work.tenant]
        record.service += cost(0, 1)
        if sequence.made == 1:
            record.ttft_s.append(now - self._arrived.pop(work.request))
            record.service += cost(work.prompt_tokens, 0)
        self._policy.progressed(work.request, 1, now)
