"""Ends a request: bills its gate's count, received with the answer or queried, and closes its lease (B3, B6).

If the count is not known yet, the slots are freed at once and the ledger row is written within seconds.
"""

from collections import Counter
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from functools import partial
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import VersionId
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.serving.report import NOTHING, Used
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.ledger import Forgiven, hour_of
from penstock.domain.tokens import Usage
from penstock.gateway.billing import bill
from penstock.gateway.billing.asking import Asks
from penstock.gateway.billing.together import Together
from penstock.gateway.calls.call import Admitted, Answer, Call
from penstock.telemetry import names
from penstock.telemetry.logs import logger
from penstock.telemetry.metrics import Metrics, begin_at_zero


class ForgivenEnds:
    """Counts of failures that callers caused, until the ledger stores them: error budgets exclude them.

    Trade-off: a dead gateway's unreported counts are charged to the platform; a count stored twice excludes no more
    than that hour's rows.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts: Counter[tuple[int, VersionId, Outcome]] = Counter()

    def closed(self, call: Admitted, answer: Answer) -> None:
        outcome = answer.outcome
        if call.copy is not None or not outcome.spends_error_budget:
            return
        call.tell_outcome(answer, partial(self._told, (hour_of(self._clock.now()), call.version.id, outcome)))

    def take(self) -> tuple[Forgiven, ...]:
        counts, self._counts = self._counts, Counter()
        return tuple(Forgiven(hour=h, version=v, outcome=o, requests=n) for (h, v, o), n in counts.items())

    def put_back(self, ends: Iterable[Forgiven]) -> None:
        for one in ends:
            self._counts[one.hour, one.version, one.outcome] += one.requests

    def _told(self, end: tuple[int, VersionId, Outcome], found: Outcome) -> None:
        if not found.spends_error_budget:
            self._counts[end] += 1


WAIT_S = 1.0
"""Seconds that a gate waits for a request's end: an engine notices a disconnect between two steps."""
WITHIN_S = 2.0
TRIES = 3
"""Queries to a worker that does not answer."""

Spawn = Callable[[Coroutine[None, None, None]], object]


class LedgerWriter(Protocol):
    def record(self, call: Call, answer: Answer) -> None: ...


class Closing:
    def __init__(
        self, *, asks: Asks, ledger: LedgerWriter, forgiven: ForgivenEnds, clock: Clock, spawn: Spawn, metrics: Metrics
    ) -> None:
        self._asks = Together(asks, spawn, within_s=WITHIN_S, wait_s=WAIT_S)
        self._ledger, self._clock, self._spawn = ledger, clock, spawn
        self._forgiven = forgiven
        self._differs = metrics.counter(names.USAGE_DIFFERS)
        self._empty = metrics.counter(names.EMPTY_BILLS)
        self._guessed = metrics.counter(names.GUESSED_BILLS)
        self._capped = metrics.counter(names.CAPPED_BILLS)
        for counter in (self._differs, self._empty, self._capped):
            begin_at_zero(counter, Api)
        begin_at_zero(self._guessed, Outcome)

    def close(self, call: Admitted, answer: Answer) -> None:
        if call.attempts.used is not None:
            self._bill(call, answer, self._of_gate(call, answer, call.attempts.used))
        elif answer.usage.exact or call.attempts.worker is None:
            self._bill(call, answer, answer.usage)
        else:
            call.lease.release(self._clock.monotonic())
            self._spawn(self._ask(call, call.attempts.worker, answer))

    async def _ask(self, call: Admitted, worker: WorkerEntry, answer: Answer) -> None:
        usage = None
        try:
            usage = await self._told(call, worker)
        finally:  # also where the process is going: a row with a guess is better than none
            if usage is None:
                usage = bill.guessed(call, answer)
                self._guessed.labels(outcome=answer.outcome).inc()
            self._bill(call, answer, usage)

    async def _told(self, call: Admitted, worker: WorkerEntry) -> Usage | None:
        """Return the worker's usage of the request; None if it reports none.

        Only the first answer proves that an undelivered request never arrived: a later one may be a restarted engine's.
        """
        for attempt in range(TRIES):
            told = await self._asks.ask(worker, call.request.id)
            if told is not None:
                never_came = NOTHING if not attempt and not call.lease.delivered else None
                call.attempts.used = told.get(call.request.id, never_came)
                if call.attempts.used is None:
                    return None
                _learn_wait(call, call.attempts.used)
                return bill.counted(call, call.attempts.used)
        return None

    def _of_gate(self, call: Admitted, answer: Answer, used: Used) -> Usage:
        if answer.said is not None and bill.differs(call, answer.said, used):
            self._differs.labels(api=call.request.api).inc()
            logger().error(
                "usage_differs",
                request_id=call.request.id,
                api=call.request.api,
                prompt_tokens=answer.said.prompt_tokens - used.prompt_tokens,
                output_tokens=answer.said.output_tokens - used.output_tokens,
            )
        return bill.counted(call, used)

    def _bill(self, call: Admitted, answer: Answer, usage: Usage) -> None:
        if answer.outcome is Outcome.OK and not usage.total_tokens:
            self._empty.labels(api=call.request.api).inc()
            logger().error("bill_empty", request_id=call.request.id, api=call.request.api)
        answer = replace(answer, usage=self._capped_to_cost(call, bill.due(answer, usage)))
        call.lease.settle(answer.outcome, answer.usage, self._clock.monotonic())
        self._forgiven.closed(call, answer)
        self._ledger.record(call, answer)

    def _capped_to_cost(self, call: Admitted, told: Usage) -> Usage:
        usage = bill.capped(told, prompt=call.cost.prompt_tokens, output=call.cost.output_tokens)
        if usage is not told:
            self._capped.labels(api=call.request.api).inc()
            logger().error(
                "bill_capped",
                request_id=call.request.id,
                api=call.request.api,
                worker=call.attempts.worker.id if call.attempts.worker is not None else "",
                prompt_tokens=told.prompt_tokens - usage.prompt_tokens,
                output_tokens=told.output_tokens - usage.output_tokens,
            )
        return usage


def _learn_wait(call: Admitted, used: Used) -> None:
    seconds = call.timings.seconds
    if used.waited_s and call.attempts.report.waited is None and Stage.DECODE not in seconds:
        call.timings.put(Stage.QUEUE, seconds.get(Stage.QUEUE, 0.0) + used.waited_s)
