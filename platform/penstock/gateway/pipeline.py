"""The pipeline of a request, stage by stage. Stages depend only on the ports below.

listener → identify → resolve (name → version) → preprocess → admit (one lease) → hold → route → dispatch → relay →
settle

Each stage returns the call with its own data: ``Call`` → ``Chosen`` → ``Admitted`` (``calls/call.py``). A request
without a serving worker is held under its lease. A degraded request (C6) is made before admission under pressure, and
once more if no worker accepted it.

Before the first token everything may be retried. After it, another worker continues the stream if the result is exact;
otherwise errors become in-band events and an ``Outcome``.
"""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from penstock.domain.clock import Clock
from penstock.domain.errors import ClientGone, Evicted, OverBudget, Overloaded, PenstockError, Rejected, WorkerLost
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import TenantId, VersionId, WorkerId
from penstock.domain.outcome import Degradation, Outcome, Stage
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.serving.request_record import Choice
from penstock.domain.serving.shadow import Copy
from penstock.domain.serving.ticket import Ticket
from penstock.domain.tenancy.tenant import Principal
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.calls.call import Admitted, Answer, Call, Chosen, Due, Progress, Timings, unnoted
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.calls.inside import Ask, Asked, BodyReply
from penstock.gateway.calls.lease import Lease
from penstock.gateway.calls.relay import Relay, Reply, Rest
from penstock.gateway.calls.ticketing import of_rest, ticket_of


class Resolver(Protocol):
    def resolve(
        self, request: InferenceRequest, principal: Principal, note: Callable[[VersionId], None] = unnoted
    ) -> VersionEntry:
        """Return the version, or raise ``UnsupportedByModel``, or ``UnknownModel``, also for a key without access.

        If a fallback is returned, ``note`` gets the replaced version. It is called once: a request keeps its version.
        """
        ...


class Preprocessor(Protocol):
    """Tokens and block hashes of a prompt, off the event loop if it is long."""

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared: ...


class Chooser(Protocol):
    """Resolves and preprocesses in one step: an auto alias's rules test the prompt's length."""

    async def choose(
        self, progress: Progress, first: Callable[[VersionEntry], Awaitable[None]] | None = None
    ) -> Chosen:
        """The passed rules are added to ``progress`` in any case; ``first`` is awaited before any counting."""
        ...


class Admission(Protocol):
    def due(self, call: Chosen) -> Due: ...

    def lease(self, call: Chosen, due: Due) -> Admitted: ...

    async def reserve(self, call: Admitted) -> None:
        """Draw on the limits; ``StoreUnavailable`` only of a required store."""
        ...

    def move(self, call: Admitted) -> None:
        """Move the open lease to the call's present version: price and ledger row."""
        ...


class Degrader(Protocol):
    def capped(self, call: Chosen) -> InferenceRequest | None: ...

    def smaller(self, call: Chosen, *, refused: bool) -> InferenceRequest | None: ...

    def fits(self, call: Chosen, smaller: VersionEntry) -> bool: ...


class AskedCounts(Protocol):
    def came(self, call: Admitted) -> None: ...


class Held(Protocol):
    async def until_awake(self, relay: Relay) -> None: ...

    def leave(self) -> None: ...


class Holding(Protocol):
    def place(self, call: Admitted) -> Held | None: ...

    async def again(self, call: Admitted, error: PenstockError) -> bool:
        """Tell whether a refused request's workers have fallen asleep meanwhile."""
        ...

    def passed_by(self, version: VersionEntry) -> None: ...


class Safety(Protocol):
    async def screen(self, call: Admitted, reply: Reply) -> Reply:
        """Judge the prompt and return the reply that judges the answer; ``reply`` itself if no policy holds.

        Raises ``PromptFiltered``, or ``StoreUnavailable`` if the policy is not known.
        """
        ...

    async def ended(self, reply: Reply, answer: Answer) -> Answer:
        """Return the answer once nothing of it is held any more."""
        ...


class Router(Protocol):
    def pick(
        self,
        version: VersionEntry,
        prepared: Prepared,
        note: Callable[[Choice], None],
        tried: frozenset[WorkerId],
        demand: Demand,
    ) -> WorkerEntry:
        """Record the reason, too; raises ``NoCapacity`` or ``Overloaded`` with the seconds to wait."""
        ...

    def refusal(self, versions: Iterable[VersionId], demand: Demand) -> Overloaded | None:
        """Return the refusal if every worker of these versions reported this tenant's own queue as full."""
        ...

    def asks_again(self, version: VersionId, tenant: TenantId) -> bool:
        """Tell whether a worker that refused this tenant has ended one of its requests since."""
        ...

    def ended(self, version: VersionId, tenant: TenantId) -> None: ...


class Dispatcher(Protocol):
    """Retries only while that is safe and within the retry budget."""

    async def run(self, call: Admitted, ticket: Ticket, relay: Relay, pick: "Pick") -> None: ...

    async def carry_on(self, call: Admitted, ticket: Ticket, rest: Rest, relay: Relay, pick: "Pick") -> None:
        """Return when another worker continues a broken stream."""
        ...

    def failed(self, call: Admitted) -> None: ...


class Relays(Protocol):
    def open(self, call: Admitted, reply: Reply) -> Relay: ...


class Billing(Protocol):
    def close(self, call: Admitted, answer: Answer) -> None:
        """Bill now or when the worker reports the usage; slots are freed at once."""
        ...


class Ledger(Protocol):
    def record(self, call: Call, answer: Answer) -> None: ...


class Shadows(Protocol):
    def ended(self, call: Admitted, answer: Answer, ask: Ask) -> None:
        """Copy the request in the background if there is room."""
        ...


Pick = Callable[[frozenset[WorkerId]], WorkerEntry]
C = TypeVar("C", bound=Chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    clock: Clock
    chooser: Chooser
    resolver: Resolver
    preprocessor: Preprocessor
    degrader: Degrader
    admission: Admission
    safety: Safety
    asked: AskedCounts
    holding: Holding
    router: Router
    dispatcher: Dispatcher
    relays: Relays
    billing: Billing
    ledger: Ledger
    shadows: Shadows

    async def ask(
        self, request: InferenceRequest, principal: Principal, *, copy: Copy | None = None, reply: Reply | None = None
    ) -> Asked:
        """Answer a request from inside the platform; it passes every stage.

        The body is kept and returned, a stream's as its events; with a ``reply`` it is sent there instead. A refusal is
        returned, not raised; ``copy`` marks a shadow copy.

        A runner of jobs calls it for each line of a batch::

            asked = await pipeline.ask(request_of(line), job.principal)
            if asked.error is None:
                await results.put(line.id, asked.body)
            elif isinstance(asked.error, Rejected | Evicted):  # never started
                await jobs.again(line.id, in_s=asked.error.retry_after_s)
        """
        kept = BodyReply()
        progress = Progress(
            Call(
                request=request,
                principal=principal,
                timings=Timings(self.clock.monotonic, request.arrived_at),
                copy=copy,
            )
        )
        error: PenstockError | None = None
        try:
            await self.serve(progress, reply or kept)
        except PenstockError as raised:
            error = raised
        answer = progress.answer or Answer(outcome=Outcome.INTERNAL, usage=UNKNOWN)
        return Asked(call=progress.call, answer=answer, body=kept.body, error=error)

    async def serve(self, progress: Progress, reply: Reply) -> None:
        try:
            call = await self._admitted(progress)
        except PenstockError as error:
            progress.answer = progress.call.named(Answer.refused(error, Usage()))
            self.ledger.record(progress.call, progress.answer)
            raise
        call.on_admitted()
        answer = Answer(outcome=Outcome.INTERNAL, usage=UNKNOWN)
        try:
            reply = await self.safety.screen(call, reply)
            try:
                answer = await self._run(call, reply)
            except (Rejected, Evicted):
                again = None if reply.started else await self._again(call)
                if again is None:
                    raise
                progress.call = call = again  # under the same lease
                self.admission.move(call)
                answer = await self._run(call, reply)
        except PenstockError as error:
            answer = Answer.refused(error, UNKNOWN)
            raise
        finally:
            progress.answer = answer = call.named(answer)
            self.billing.close(call, answer)
            if answer.usage.total_tokens:
                self.router.ended(call.version.id, call.demand.tenant)
            self.shadows.ended(call, answer, self.ask)

    async def _again(self, call: Admitted) -> Admitted | None:
        """Return the refused request as it is sent once more: degraded, or to wait for its tenant's part of the KV
        cache; None if neither helps.
        """
        lesser = await self._degraded(call, refused=True)
        return lesser or (call if call.attempts.is_over_kv else None)

    async def _admitted(self, progress: Progress) -> Admitted:
        progress.call = call = await self.chooser.choose(progress)
        progress.call = call = await self._degraded(call) or call
        call.timings.mark(Stage.PREPROCESS)
        version, demand = call.version.id, call.demand
        try:
            if (refusal := self.router.refusal((version,), demand)) is not None:
                raise refusal
            call.attempts.asks_again = self.router.asks_again(version, demand.tenant)
            admitted = self._leased(progress, call)
            await self.admission.reserve(admitted)
        except (OverBudget, Overloaded):
            smaller = await self._degraded(call, refused=True)
            if smaller is None:
                raise
            admitted = self._leased(progress, smaller)
            await self.admission.reserve(admitted)
        call.timings.mark(Stage.ADMISSION)
        return admitted

    def _leased(self, progress: Progress, call: Chosen) -> Admitted:
        due = self.admission.due(call)
        try:
            progress.call = admitted = self.admission.lease(call, due)
        except PenstockError:
            progress.call = call.refused(due)
            raise
        return admitted

    async def _degraded(self, call: C, *, refused: bool = False) -> C | None:
        tries_cap = not refused or call.attempts.is_over_kv
        if tries_cap and (capped := self.degrader.capped(call)) is not None:
            return replace(call, request=capped, degraded=(Degradation.OUTPUT_CAPPED,))
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
        self.holding.passed_by(call.version)
        degraded = (*call.degraded, Degradation.SMALLER_MODEL)
        return replace(call, version=version, prepared=prepared, degraded=degraded)

    async def _run(self, call: Admitted, reply: Reply) -> Answer:
        self.asked.came(call)
        relay, ticket = self.relays.open(call, reply), None
        demand = ANY._replace(pools=call.demand.pools) if call.attempts.asks_again else call.demand
        pick = partial(self.router.pick, call.version, call.prepared, call.attempts.choices.append, demand=demand)
        try:
            while ticket is None:
                ticket = await self._sent(call, relay, pick)
            while (rest := await relay.rest()) is not None:
                await self.dispatcher.carry_on(call, of_rest(ticket, rest), rest, relay, pick)
        except PenstockError as cause:
            error = cause if reply.started else _as_told(cause, call.lease)
            answer = relay.fail(error)
            if not reply.started and not isinstance(error, ClientGone):
                raise error from cause.__cause__
        else:
            answer = await relay.answer()
        if answer.outcome is Outcome.ENGINE_ERROR and call.attempts.doubt is None:
            self.dispatcher.failed(call)
        return await self.safety.ended(reply, answer)

    async def _sent(self, call: Admitted, relay: Relay, pick: Pick) -> Ticket | None:
        held = self.holding.place(call)
        try:
            if held is not None:
                await held.until_awake(relay)
            ticket = ticket_of(call, self.clock.now() - self.clock.monotonic())
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


def _as_told(error: PenstockError, lease: Lease) -> PenstockError:
    """Return the error for the caller: the quota's, if the request ran over quota and there was no spare capacity."""
    return lease.over_quota if lease.over_quota is not None and isinstance(error, Rejected | Evicted) else error
