"""Sends a request to a worker, and to another one if that is safe, allowed and still useful.

Safe: no token has reached the caller, or the relay can continue the stream. Allowed: the retry budget is not spent.
Useful: the deadline has not passed. Retries end if a second engine answers with the same error, or a second worker is
lost with the request in flight (``poison.py``, ADR 0043): both may be the request's fault.
"""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.domain.clock import Clock
from penstock.domain.errors import (
    DeadlineExceeded,
    DeadlineInQueue,
    EngineError,
    LosesWorkers,
    PenstockError,
    Rejected,
    WorkerLost,
)
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import NO_VERSION, WorkerId
from penstock.domain.outcome import TENANT_KV, Stage
from penstock.domain.serving.request_record import Tried
from penstock.domain.serving.ticket import Ticket, binding_of, seal
from penstock.domain.serving.transport import Workers
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.relay import Relay, Rest
from penstock.gateway.dispatch import verdict, wire
from penstock.gateway.dispatch.attempt import Attempt, Loads
from penstock.gateway.dispatch.breaker import Breakers
from penstock.gateway.dispatch.charges import Origin, shape_of
from penstock.gateway.dispatch.poison import MOST_EVER, Poison, is_enough
from penstock.gateway.dispatch.records import FailureEvidence
from penstock.gateway.dispatch.retries import SHORT_S, Doors, RetryBudget, backoff_s
from penstock.gateway.dispatch.verdict import FailedAttempt
from penstock.lateness.awake import awake_time
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics

SOON_S = 1.0
"""``Retry-After`` in seconds if another worker has become available meanwhile."""

HASHED_HERE_BYTES = 128 << 10
"""Bytes that are hashed in half a millisecond."""
MOST_ERRORS = 2
"""Engines that may answer a request with an error before the request is blamed."""

_BY_A_BODY = frozenset({FailureEvidence.ANSWERED, FailureEvidence.BROKEN})
"""Failures that one body can cause while its engine lives: the platform's probe tells the cause."""

Pick = Callable[[frozenset[WorkerId]], WorkerEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchSettings:
    """``ticket_key`` returns a worker's key for tickets."""

    ticket_key: Callable[[WorkerId], bytes]
    max_attempts: int = 4
    silence_s: float = 2.0
    """Awake seconds of silence before a deadline that the platform set is evidence on a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parcel:
    ticket: Ticket
    path: str
    binding: bytes
    body: bytes

    @property
    def tokens(self) -> int:
        return self.ticket.prompt_tokens + self.ticket.expected_output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDispatcher:
    workers: Workers
    loads: Loads
    breakers: Breakers
    budget: RetryBudget
    settings: DispatchSettings
    clock: Clock
    chance: random.Random
    metrics: Metrics
    poison: Poison = field(default_factory=Poison)

    async def run(self, call: Admitted, ticket: Ticket, relay: Relay, pick: Pick) -> None:
        self.budget.deposit()
        parcel = await self._parcel(call, ticket, relay)
        call.attempts.binding = parcel.binding
        if self.poison:
            self._refuse_known(call)
        try:
            await self._deliver(call, parcel, relay, pick, frozenset())
        except Rejected as error:
            if error.retry_after_s is None:
                error.retry_after_s = self._wait_s(pick, _members_of(call))
            raise
        except WorkerLost as error:
            self._losses(call)
            error.retry_after_s = self._wait_s(pick, call.attempts.lost)
            raise

    async def carry_on(self, call: Admitted, ticket: Ticket, rest: Rest, relay: Relay, pick: Pick) -> None:
        worker = call.attempts.worker
        if worker is None:  # nothing was sent
            raise rest.error
        failure = verdict.engine_error() if isinstance(rest.error, EngineError) else verdict.lost()
        self._note(call, worker.id, failure)
        who, now = call.principal.tenant, self.clock.monotonic()
        if self._is_enough(call) or not self.budget.withdraw(who, now):
            raise rest.error
        self.metrics.counter(names.RETRIES).labels(reason="continuation").inc()
        try:
            parcel = await self._rest_of(call, ticket, rest)
            await self._deliver(call, parcel, relay, pick, call.attempts.lost | {worker.id})
        except BaseException as error:  # the worker that broke it has made the answer, as far as it went
            call.attempts.worker, call.attempts.used = worker, None
            if isinstance(error, WorkerLost):  # some of the answer was delivered: it is not one to send again
                raise rest.error from None
            raise

    def failed(self, call: Admitted) -> None:
        if call.attempts.worker is not None:
            self._note(call, call.attempts.worker.id, verdict.engine_error())

    async def _deliver(
        self, call: Admitted, parcel: _Parcel, relay: Relay, pick: Pick, tried: frozenset[WorkerId]
    ) -> None:
        ticket, attempts = parcel.ticket, call.attempts
        self._in_time(ticket, None)
        failure: FailedAttempt | None = None
        doors = Doors()
        while True:
            if relay.stopped is not None:  # it would cost an engine as much as to take it, and to end it
                raise relay.stopped
            worker = self._pick(pick, tried, failure)
            if worker is None:
                tried = await self._opened(call, doors, tried, failure)
                self._in_time(ticket, failure)
                continue
            if failure is not None:
                self._withdraw(call, failure)
            attempts.worker, attempts.doubt = worker, None
            attempts.count += 1
            attempts.was_doubted = self.breakers.is_doubted(worker.id)
            failure = await self._try(call, relay, worker, parcel)
            attempts.trail[-1] = _ended(call, failure)
            if failure is None:
                self._answered(call, worker.id)
                return
            self._note(call, worker.id, failure)
            doors.refused(worker.id, failure.error, self.clock.monotonic())
            self._may_retry(call, ticket, failure)
            tried |= {worker.id}

    async def _opened(
        self, call: Admitted, doors: Doors, tried: frozenset[WorkerId], failure: FailedAttempt | None
    ) -> frozenset[WorkerId]:
        """After all workers were tried, wait briefly; return those to skip, or raise the last failure."""
        wait_s = doors.wait_s(tried, self.clock.monotonic())
        if failure is not None and (wait_s > SHORT_S or failure.is_own_queue):
            raise doors.soonest(tried) or failure.error
        await asyncio.sleep(max(wait_s, backoff_s(call.attempts.count, self.chance)))
        return doors.shut(tried, self.clock.monotonic())

    async def _parcel(self, call: Admitted, ticket: Ticket, relay: Relay) -> _Parcel:
        request, salt = call.request, call.principal.cache_salt
        body = wire.body_of(request, call.version, salt, token_ids=relay.wants_token_ids)
        return await _packed(ticket, request.api, body)

    async def _rest_of(self, call: Admitted, ticket: Ticket, rest: Rest) -> _Parcel:
        body = wire.body_of_rest(rest, call.version.id, call.principal.cache_salt)
        return await _packed(ticket, rest.api, body)

    def _pick(self, pick: Pick, tried: frozenset[WorkerId], failure: FailedAttempt | None) -> WorkerEntry | None:
        """Return None if all were tried and asking again may help."""
        try:
            return pick(tried)
        except Rejected:
            if failure is None:
                raise
            if not tried or failure.evidence is FailureEvidence.ANSWERED:
                raise failure.left_alone from None
            return None

    def _refuse_known(self, call: Admitted) -> None:
        """Record losses that the body caused; raise ``LosesWorkers`` if too many."""
        try:
            call.attempts.losses = self._losses(call)
        except LosesWorkers:
            call.attempts.doubt = self.breakers.refused(call.version.id, _origin_of(call), self.clock.monotonic())
            raise

    def _losses(self, call: Admitted) -> int:
        losses = self.poison.losses(call.principal.tenant, call.attempts.binding, self.clock.monotonic())
        if losses >= MOST_EVER:
            raise LosesWorkers
        return losses

    def _wait_s(self, pick: Pick, tried: frozenset[WorkerId]) -> float | None:
        try:
            pick(tried)
        except Rejected as refusal:
            return refusal.retry_after_s
        return SOON_S

    async def _try(self, call: Admitted, relay: Relay, worker: WorkerEntry, parcel: _Parcel) -> FailedAttempt | None:
        attempt = Attempt(relay, worker.id, self.loads, call)
        sent_at, awake = self.clock.monotonic(), awake_time()
        sent_awake_s = awake.seconds()
        call.attempts.trail.append(Tried(worker.id, sent_at - call.request.arrived_at))
        self.loads.dispatched(worker.id, parcel.tokens)
        call.timings.mark(Stage.ROUTE)
        try:
            headers = wire.headers_of(call.request, self._sealed(parcel, worker.id))
            sending = self.workers.send(
                worker.url, parcel.path, headers, parcel.body, attempt, is_wanted=lambda: relay.stopped is None
            )
            attempt.started(await sending)
        except OSError as error:
            attempt.not_connected(error)
        try:
            return await attempt.begun()
        except DeadlineExceeded:
            # Nothing came until the deadline: a frozen worker looks like this, and so does a caller in a hurry.
            waited_s = awake.seconds() - sent_awake_s
            if waited_s >= self.settings.silence_s and not _ended_by_caller(call, self.clock.monotonic()):
                self._note(call, worker.id, verdict.silent())
            raise

    def _sealed(self, parcel: _Parcel, worker: WorkerId) -> str:
        return seal(parcel.ticket, self.settings.ticket_key(worker), parcel.binding, self.clock.now())

    def _answered(self, call: Admitted, worker: WorkerId) -> None:
        self.breakers.succeeded(worker, self.clock.monotonic())
        call.attempts.was_doubted = False
        if self.poison:
            self.poison.answered(call.principal.tenant, call.attempts.binding)
        if self.breakers.charges:
            self.breakers.charges.clear(_origin_of(call))

    def _note(self, call: Admitted, worker: WorkerId, failure: FailedAttempt) -> None:
        if failure.reason == verdict.NO_ADAPTER:
            self.loads.turned_away(worker, call.version.id, failure.error.retry_after_s or verdict.WITHOUT_S)
        elif failure.is_own_queue and call.demand.tenant and call.lease.over_quota is None:
            self.loads.turned_away(worker, call.version.id, failure.error.retry_after_s or 0.0, call.demand)
        elif failure.error.reason == TENANT_KV:
            call.attempts.is_over_kv = True
        if failure.evidence is FailureEvidence.NONE:
            return
        if failure.evidence is FailureEvidence.ANSWERED:
            call.attempts.errors += 1
        elif failure.evidence is FailureEvidence.BROKEN:
            self._lost(call, worker)
        origin, now = _origin_of(call), self.clock.monotonic()
        held = self.breakers.failed(worker, failure.evidence, origin, now)
        is_proof = failure.evidence not in _BY_A_BODY
        call.attempts.doubt = None if is_proof else self.breakers.doubt(worker, origin, now, is_charged=not held)
        state = "held" if held else "charged"
        self.metrics.counter(names.SUSPICIONS).labels(reason=failure.evidence, state=state).inc()

    def _lost(self, call: Admitted, worker: WorkerId) -> None:
        attempts = call.attempts
        attempts.lost |= {worker}
        if not attempts.was_doubted:
            attempts.losses += 1
            self.poison.lost(call.principal.tenant, attempts.binding, attempts.losses, self.clock.monotonic())

    def _is_enough(self, call: Admitted) -> bool:
        attempts = call.attempts
        is_last = attempts.count >= self.settings.max_attempts
        return is_last or attempts.errors >= MOST_ERRORS or is_enough(attempts.losses, len(attempts.lost))

    def _may_retry(self, call: Admitted, ticket: Ticket, failure: FailedAttempt) -> None:
        if not failure.retry or self._is_enough(call):
            raise failure.error
        self._in_time(ticket, failure)
        if not self.budget.allows(call.principal.tenant, self.clock.monotonic()):
            raise failure.error

    def _withdraw(self, call: Admitted, failure: FailedAttempt) -> None:
        """Raises the last failure if the retry budget is spent."""
        if not self.budget.withdraw(call.principal.tenant, self.clock.monotonic()):
            raise failure.error
        self.metrics.counter(names.RETRIES).labels(reason=failure.reason).inc()

    def _in_time(self, ticket: Ticket, failure: FailedAttempt | None) -> None:
        if self.clock.now() >= ticket.deadline_at:
            error: PenstockError = DeadlineInQueue() if failure is None else failure.error
            raise error


async def _packed(ticket: Ticket, path: str, body: bytes) -> _Parcel:
    """A large body is hashed in a thread, which frees the event loop."""
    if len(body) <= HASHED_HERE_BYTES:
        binding = binding_of(path, body)
    else:
        binding = await asyncio.to_thread(binding_of, path, body)
    return _Parcel(ticket=ticket, path=path, binding=binding, body=body)


def _ended(call: Admitted, failure: FailedAttempt | None) -> Tried:
    tried, report = call.attempts.trail[-1], call.attempts.report
    why = failure.reason if failure is not None else ""
    return Tried(tried.worker, tried.sent_s, why, report.waited, report.batched, report.adapted)


def _members_of(call: Admitted) -> frozenset[WorkerId]:
    return frozenset(worker.id for worker in call.version.workers)


def _ended_by_caller(call: Admitted, now: float) -> bool:
    request = call.request
    return 0.0 < request.deadline_s <= now - request.arrived_at


def _origin_of(call: Admitted) -> Origin:
    adapter = call.version.id if call.version.base else NO_VERSION
    shape = shape_of(call.request, call.prepared.prompt_tokens, adapter)
    return Origin(call.principal.tenant, shape, adapter)
