"""The life of a request, in order. Stages don't know one another; they meet here, through the ports below.

edge → identify → resolve (name → version) → preprocess → admit (one lease) → hold → route → dispatch → relay → settle

A request whose version sleeps is held under its lease until a worker has woken.

A tenant that prefers it gets a lesser answer instead of a refusal: before admission where its version is known to be
under pressure, and once more where nobody took the request.

Everything before the first token may be undone or tried on another worker; after it there is no status code any more:
another worker goes on with the stream where that is exact, else errors become in-band events and an ``Outcome``.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import ClientGone, Evicted, OverBudget, PenstockError, Rejected, WorkerLost
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import NO_VERSION, TenantId, VersionId, WorkerId
from penstock.domain.outcome import Degradation, Outcome, Stage
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.serving.request_record import Choice
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.lease import Lease
from penstock.domain.tenancy.standing import Standing, standing_of
from penstock.domain.tenancy.tenant import SHADOWS, Principal
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.calls.call import Answer, Call, unnoted
from penstock.gateway.calls.relay import Relay, Reply, Rest


class Identity(Protocol):
    """Credential → principal."""

    def authenticate(self, credential: str) -> Principal:
        """Return who this is, or raise ``Unauthenticated``, or ``Forbidden`` where the key may not ask models."""
        ...

    def recognise(self, credential: str) -> Principal:
        """Return whose key this is, whatever it may do, or raise ``Unauthenticated``."""
        ...

    def asking(self, who: Principal) -> Principal:
        """Return who was recognised, or raise ``Forbidden`` where the key may not ask models."""
        ...


class Resolver(Protocol):
    """Alias or pinned ``name@digest`` → version, by the routing table."""

    def resolve(
        self, request: InferenceRequest, principal: Principal, note: Callable[[VersionId], None] = unnoted
    ) -> VersionEntry:
        """Return the version, or raise ``UnsupportedByModel`` or ``UnknownModel``, also where the key may not.

        Where it is one's fallback, note which one's. It is asked once: a request keeps its version to its end.
        """
        ...


class Preprocessor(Protocol):
    """Prompt → tokens and block hashes, off the event loop where it is long."""

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        """Count and hash, or raise ``InvalidField`` or ``ContextTooLong``."""
        ...


class Chooser(Protocol):
    """Resolve and preprocess, which an auto alias makes one question: its rules ask how long a prompt is."""

    async def choose(self, call: Call, first: Callable[[VersionEntry], Awaitable[None]] | None = None) -> Prepared:
        """Set the call's version and return the prompt as that has it, or raise a ``BadRequest``.

        ``first`` is awaited before anything is counted, with the first version that it is counted for.
        """
        ...


class Admission(Protocol):
    """Whether a request may run; everything it holds is one lease."""

    async def admit(self, call: Call) -> Lease:
        """Open a lease, or raise a ``Rejected``, or ``StoreUnavailable`` where a store that must be asked is away."""
        ...

    def move(self, call: Call) -> None:
        """Let the open lease be one for the call's present version: its price and its row. Nothing has run yet."""
        ...


class Degrader(Protocol):
    """What a tenant under pressure prefers to a refusal, by opting in (C6)."""

    def capped(self, call: Call) -> InferenceRequest | None:
        """Return the request with its output capped, None where that is not wanted or not allowed."""
        ...

    def smaller(self, call: Call, *, refused: bool) -> InferenceRequest | None:
        """Return the request for a smaller model; ``refused`` tells that the wished one has sent it away."""
        ...

    def fits(self, call: Call, smaller: VersionEntry) -> bool:
        """Tell whether this version may answer instead, and has room."""
        ...


class Held(Protocol):
    """The place of a request that waits for a worker to wake."""

    async def until_awake(self, relay: Relay) -> None:
        """Return when the request may go on, or raise why it is not held any longer."""
        ...

    def leave(self) -> None:
        """It is answered, or gone: whoever comes next may have its place."""
        ...


class Holding(Protocol):
    """Where requests wait whose version sleeps."""

    def place(self, call: Call, lease: Lease) -> Held | None:
        """Return its place, None where it need not wait; raises a ``Rejected`` where it would wait in vain."""
        ...

    async def again(self, call: Call, error: PenstockError) -> bool:
        """Tell whether a request that nobody took is to be held: its workers have fallen asleep meanwhile."""
        ...

    def passed_by(self, version: VersionEntry) -> None:
        """Another version answers in place of this one."""
        ...


class Router(Protocol):
    """Filter → score → pick among the ready workers of a version."""

    def pick(
        self, version: VersionEntry, prepared: Prepared, note: Callable[[Choice], None], tried: frozenset[WorkerId]
    ) -> WorkerEntry:
        """Return the worker and note why, or raise ``NoCapacity`` or ``Overloaded`` with the seconds to wait."""
        ...


class Dispatcher(Protocol):
    """Sends the request to a worker; tries another only while that is safe and the retry budget allows."""

    async def run(
        self, call: Call, ticket: Ticket, relay: Relay, pick: Callable[[frozenset[WorkerId]], WorkerEntry]
    ) -> None:
        """Return when the answer has begun to come (or is complete), or raise the reason why it can't."""
        ...

    async def carry_on(
        self, call: Call, ticket: Ticket, rest: Rest, relay: Relay, pick: Callable[[frozenset[WorkerId]], WorkerEntry]
    ) -> None:
        """Return when another worker goes on with a broken stream, or raise the reason why nobody does."""
        ...

    def failed(self, call: Call) -> None:
        """A stream ended with the engine's own error, and nobody can go on with it."""
        ...


class Relays(Protocol):
    """Makes the relay of a request: streams or unary."""

    def open(self, call: Call, lease: Lease, reply: Reply) -> Relay:
        """Return a relay that has begun to watch the client, the deadline and the heartbeat."""
        ...


class Billing(Protocol):
    """Closes the lease and the row of an admitted request, with what its worker counted."""

    def close(self, call: Call, lease: Lease, answer: Answer) -> None:
        """Bill it: now, or as soon as its worker has told what it took; what it occupied is free at once."""
        ...


class Ledger(Protocol):
    """Where finished requests are counted."""

    def record(self, call: Call, prepared: Prepared | None, answer: Answer) -> None:
        """Count the request once: outcome, tokens, stages."""
        ...


class Shadows(Protocol):
    """Copies of answered requests, for versions that are tried."""

    def ended(self, call: Call, answer: Answer) -> None:
        """Copy the request where its route says so and there is room; the copy comes through the corridor by itself."""
        ...


Pick = Callable[[frozenset[WorkerId]], WorkerEntry]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The corridor; the composition root gives it its stages."""

    clock: Clock
    identity: Identity
    chooser: Chooser
    resolver: Resolver
    preprocessor: Preprocessor
    degrader: Degrader
    admission: Admission
    holding: Holding
    router: Router
    dispatcher: Dispatcher
    relays: Relays
    billing: Billing
    ledger: Ledger
    shadows: Shadows

    async def serve(self, call: Call, reply: Reply) -> None:
        """Answer one identified, parsed request; raise a ``PenstockError`` only before the reply has started."""
        prepared: Prepared | None = None
        try:
            call.prepared = prepared = await self.chooser.choose(call)
            prepared = call.prepared = await self._degraded(call) or prepared
            call.timings.mark(Stage.PREPROCESS)
            lease = await self._admitted(call)
            call.timings.mark(Stage.ADMISSION)
            call.on_admitted()
        except PenstockError as error:
            call.outcome = error.outcome
            call.failed(error)
            self.ledger.record(call, prepared, Answer(outcome=error.outcome, usage=Usage()))
            raise
        answer = Answer(outcome=Outcome.INTERNAL, usage=UNKNOWN)
        try:
            answer = await self._run_or_degrade(call, lease, reply)
        except PenstockError as error:
            call.failed(error)
            answer = Answer(outcome=error.outcome, usage=UNKNOWN)
            raise
        finally:
            call.outcome = answer.outcome
            self.billing.close(call, lease, answer)
            self.shadows.ended(call, answer)

    async def _admitted(self, call: Call) -> Lease:
        """Open the lease; where the budget does not reach, for the smaller model."""
        try:
            return await self.admission.admit(call)
        except OverBudget:
            degraded = await self._degraded(call, refused=True)
            if degraded is None:
                raise
        call.prepared = degraded
        return await self.admission.admit(call)

    async def _run_or_degrade(self, call: Call, lease: Lease, reply: Reply) -> Answer:
        """Run; where nobody would, degrade and run once more under the same lease."""
        prepared = call.prepared
        assert prepared is not None  # noqa: S101  set before admission; tells mypy
        try:
            return await self._run(call, prepared, lease, reply)
        except (Rejected, Evicted):
            degraded = None if reply.started else await self._degraded(call, refused=True)
            if degraded is None:
                raise
        call.prepared = degraded
        self.admission.move(call)
        return await self._run(call, degraded, lease, reply)

    async def _degraded(self, call: Call, *, refused: bool = False) -> Prepared | None:
        """Degrade the request where its tenant prefers that and it helps; None where nothing was changed."""
        if not refused and (capped := self.degrader.capped(call)) is not None:
            call.request, call.degraded = capped, (Degradation.OUTPUT_CAPPED,)
            return call.prepared
        asked = self.degrader.smaller(call, refused=refused)
        if asked is None:
            return None
        try:
            version = self.resolver.resolve(asked, call.principal)
            if not self.degrader.fits(call, version):
                return None
            prepared = await self.preprocessor.prepare(call.request, version, call.principal)
        except PenstockError:  # whatever hinders the smaller model: the wished one's refusal is the better answer
            return None
        if call.version is not None:
            self.holding.passed_by(call.version)
        call.version, call.degraded = version, (*call.degraded, Degradation.SMALLER_MODEL)
        return prepared

    async def _run(self, call: Call, prepared: Prepared, lease: Lease, reply: Reply) -> Answer:
        """Hold, dispatch and relay under the lease; the relay turns late errors into in-band events."""
        version = call.version
        assert version is not None  # noqa: S101  set by the caller; tells mypy
        relay, ticket = self.relays.open(call, lease, reply), None
        pick = partial(self.router.pick, version, prepared, call.choices.append)
        try:
            while ticket is None:
                ticket = await self._sent(call, lease, relay, pick)
            while (rest := await relay.rest()) is not None:
                await self.dispatcher.carry_on(call, _of_rest(ticket, rest), rest, relay, pick)
        except PenstockError as cause:
            error = cause if reply.started else _as_told(cause, lease)
            answer = relay.fail(error)
            if not reply.started and not isinstance(error, ClientGone):
                raise error from cause.__cause__
        else:
            answer = await relay.answer()
        if answer.outcome is Outcome.ENGINE_ERROR and call.doubt is None:
            self.dispatcher.failed(call)
        return answer

    async def _sent(self, call: Call, lease: Lease, relay: Relay, pick: Pick) -> Ticket | None:
        """Dispatch, after a wait where the version sleeps; None where its workers fell asleep again meanwhile."""
        held = self.holding.place(call, lease)
        try:
            if held is not None:
                await held.until_awake(relay)
            ticket = self._ticket(call, lease)
            try:
                await self.dispatcher.run(call, ticket, relay, pick)
            except (Rejected, WorkerLost) as error:
                if not await self.holding.again(call, error):
                    raise
                return None
            return ticket
        finally:
            if held is not None:
                held.leave()

    def _ticket(self, call: Call, lease: Lease) -> Ticket:
        cost, clocks_apart = call.cost, self.clock.now() - self.clock.monotonic()
        version = call.version
        standing = standing_of(call.principal.plan, over_quota=lease.over_quota is not None)
        return Ticket(
            request=call.request.id,
            tenant=_queues_as(call),
            standing=standing if call.copy is None else Standing.SHADOW,
            weight=call.principal.plan.weight,
            reserved=call.principal.plan.reserved,
            deadline_at=clocks_apart + lease.deadline_at,
            start_by=lease.start_by and clocks_apart + lease.start_by,
            prompt_tokens=cost.prompt_tokens,
            expected_output_tokens=lease.expected_output,
            prompts=cost.prompts,
            sequences=cost.sequences,
            work_tokens=cost.work_tokens,
            adapter=version.id if version is not None and version.base else NO_VERSION,
        )


def _as_told(error: PenstockError, lease: Lease) -> PenstockError:
    """Return what the caller is told: over its quota, where there was no spare capacity, that it is over its quota."""
    return lease.over_quota if lease.over_quota is not None and isinstance(error, Rejected | Evicted) else error


def _queues_as(call: Call) -> TenantId:
    """Return whose a request is in a worker's queue: copies are apart as their originals are, and pass for nobody's."""
    return call.principal.tenant if call.copy is None else TenantId(f"{SHADOWS}/{call.copy.tenant}")


def _of_rest(ticket: Ticket, rest: Rest) -> Ticket:
    """Return the ticket of a stream's rest: what was delivered counts as prompt, and it has started."""
    expected = min(rest.output_tokens, ticket.expected_output_tokens)
    return replace(ticket, prompt_tokens=rest.prompt_tokens, expected_output_tokens=expected, start_by=0.0)
