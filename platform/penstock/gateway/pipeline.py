"""The life of a request, in order. Stages don't know one another; they meet here, through the ports below.

edge → identify → resolve (alias → version) → preprocess → admit (one lease) → route → dispatch → relay → settle

Everything before the first token may be undone or tried on another worker; after it there is no status code
any more: errors become in-band events and an ``Outcome``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import ClientGone, PenstockError
from penstock.domain.ids import WorkerId
from penstock.domain.lease import Lease
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.request import InferenceRequest, Prepared
from penstock.domain.table import VersionEntry, WorkerEntry
from penstock.domain.tenant import Principal
from penstock.domain.ticket import Ticket
from penstock.domain.tokens import Usage


class Timings:
    """Where the time of one request went: ``mark(stage)`` closes the stage that ran since the last mark."""

    __slots__ = ("_clock", "_last", "seconds", "started_at")

    def __init__(self, clock: Callable[[], float], started_at: float) -> None:
        """Begin at monotonic second ``started_at``."""
        self._clock = clock
        self._last = self.started_at = started_at
        self.seconds: dict[Stage, float] = {}

    def mark(self, stage: Stage) -> None:
        """Add the time since the last mark to ``stage``."""
        now = self._clock()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    def put(self, stage: Stage, seconds: float) -> None:
        """Set a stage that somebody else measured (queue, prefill, decode)."""
        self.seconds[stage] = seconds


@dataclass(slots=True, kw_only=True)
class Call:
    """One request on its way: what each stage has learned so far."""

    request: InferenceRequest
    principal: Principal
    timings: Timings
    version: VersionEntry | None = None
    prepared: Prepared | None = None
    worker: WorkerEntry | None = None
    attempts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How an answer ended, as the relay saw it."""

    outcome: Outcome
    usage: Usage
    finish: FinishReason | None = None
    ttft_s: float | None = None
    itl_s: tuple[float, ...] = field(default=())


class Reply(Protocol):
    """The way back to the client; the edge implements it. ``write`` never blocks: watch ``on_pause``."""

    @property
    def started(self) -> bool:
        """True once a status line has been sent."""
        ...

    @property
    def gone(self) -> bool:
        """True once the client has left."""
        ...

    def start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send status and headers (with the first write)."""
        ...

    def write(self, data: bytes) -> None:
        """Send body bytes at once; a no-op when the client is gone."""
        ...

    def finish(self) -> None:
        """End the body."""
        ...

    def abort(self) -> None:
        """Drop the connection: the reader takes nothing, so nothing can be said to it."""
        ...

    def watch(
        self, *, on_gone: Callable[[], None], on_pause: Callable[[], None], on_resume: Callable[[], None]
    ) -> None:
        """Be told when the client leaves, when its buffer is full (bounded), and when it has room again."""
        ...


class Source(Protocol):
    """Where an answer comes from, as the relay holds it: the dispatcher's present attempt."""

    def pause(self) -> None:
        """Stop reading: TCP carries the client's slowness to the engine."""
        ...

    def resume(self) -> None:
        """Read again."""
        ...

    def abort(self, error: PenstockError) -> None:
        """Close the worker's connection; a dispatcher still waiting for the answer raises ``error``."""
        ...


class Relay(Protocol):
    """Takes the worker's answer as it comes (the dispatcher's receiver) and passes it to the reply.

    The three callbacks run in the event loop without a task switch: that is what a streamed token costs.
    """

    def attach(self, source: Source) -> None:
        """An attempt begins: the answer will come from ``source``, from its head on."""
        ...

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """The worker's status line and headers came."""
        ...

    def on_body(self, data: bytes) -> None:
        """A piece of the worker's body came."""
        ...

    def on_end(self, error: BaseException | None) -> None:
        """The worker's answer is complete (None) or broke off."""
        ...

    @property
    def has_delivered(self) -> bool:
        """True once a token has been passed on: from here on no other worker may be tried."""
        ...

    def fail(self, error: PenstockError) -> Answer:
        """End the reply with this error: in band if it has started; otherwise leave the status to the edge."""
        ...

    async def answer(self) -> Answer:
        """Wait for the end of the answer."""
        ...


class Identity(Protocol):
    """Credential → principal."""

    def authenticate(self, credential: str) -> Principal:
        """Return who this is, or raise ``Unauthenticated``."""
        ...


class Resolver(Protocol):
    """Alias or pinned ``name@digest`` → version, by the routing table."""

    def resolve(self, request: InferenceRequest, principal: Principal) -> VersionEntry:
        """Return the version, or raise ``UnknownModel``, ``Forbidden`` or ``UnsupportedByModel``."""
        ...


class Preprocessor(Protocol):
    """Prompt → exact tokens and block hashes, off the event loop where it is long."""

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        """Count and hash, or raise ``InvalidField`` or ``ContextTooLong``."""
        ...


class Admission(Protocol):
    """Whether a request may run; everything it holds is one lease."""

    def admit(self, call: Call, prepared: Prepared) -> Lease:
        """Open a lease, or raise a ``Rejected``."""
        ...


class Router(Protocol):
    """Filter → score → pick among the ready workers of a version."""

    def pick(self, version: VersionEntry, prepared: Prepared, tried: frozenset[WorkerId]) -> WorkerEntry:
        """Return the worker, or raise ``NoCapacity`` or ``Overloaded`` with the seconds to wait."""
        ...


class Dispatcher(Protocol):
    """Sends the request to a worker; tries another only while that is safe and the retry budget allows."""

    async def run(
        self, call: Call, ticket: Ticket, relay: Relay, pick: Callable[[frozenset[WorkerId]], WorkerEntry]
    ) -> None:
        """Return when the answer has begun to come (or is complete), or raise the reason why it can't."""
        ...


class Relays(Protocol):
    """Makes the relay of a request: streams or unary."""

    def open(self, call: Call, lease: Lease, reply: Reply) -> Relay:
        """Return a relay that has begun to watch the client, the deadline and the heartbeat."""
        ...


class Ledger(Protocol):
    """Where finished requests are counted."""

    def record(self, call: Call, prepared: Prepared | None, answer: Answer) -> None:
        """Count the request once: outcome, tokens, stages."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The corridor; the composition root gives it its stages."""

    clock: Clock
    identity: Identity
    resolver: Resolver
    preprocessor: Preprocessor
    admission: Admission
    router: Router
    dispatcher: Dispatcher
    relays: Relays
    ledger: Ledger

    async def serve(self, call: Call, reply: Reply) -> None:
        """Answer one identified, parsed request; raise a ``PenstockError`` only before the reply has started."""
        prepared: Prepared | None = None
        try:
            call.version = self.resolver.resolve(call.request, call.principal)
            prepared = await self.preprocessor.prepare(call.request, call.version, call.principal)
            call.prepared = prepared
            call.timings.mark(Stage.PREPROCESS)
            lease = self.admission.admit(call, prepared)
            call.timings.mark(Stage.ADMISSION)
        except PenstockError as error:
            self.ledger.record(call, prepared, Answer(outcome=error.outcome, usage=Usage()))
            raise
        answer = Answer(outcome=Outcome.INTERNAL, usage=Usage())
        try:
            answer = await self._run(call, prepared, lease, reply)
        except PenstockError as error:
            answer = Answer(outcome=error.outcome, usage=Usage())
            raise
        finally:
            lease.settle(answer.outcome, answer.usage, self.clock.monotonic())
            self.ledger.record(call, prepared, answer)

    async def _run(self, call: Call, prepared: Prepared, lease: Lease, reply: Reply) -> Answer:
        """Dispatch and relay under the lease; the relay turns late errors into in-band events."""
        version = call.version
        assert version is not None  # noqa: S101  set by the caller; tells mypy
        relay = self.relays.open(call, lease, reply)
        try:
            await self.dispatcher.run(
                call,
                self._ticket(call, prepared, lease),
                relay,
                lambda tried: self.router.pick(version, prepared, tried),
            )
        except PenstockError as error:
            answer = relay.fail(error)
            if reply.started or isinstance(error, ClientGone):
                return answer
            raise
        return await relay.answer()

    def _ticket(self, call: Call, prepared: Prepared, lease: Lease) -> Ticket:
        return Ticket(
            request=call.request.id,
            tenant=call.principal.tenant,
            priority=call.principal.plan.priority,
            weight=call.principal.plan.weight,
            deadline_at=self.clock.now() + lease.deadline_at - self.clock.monotonic(),
            prompt_tokens=max(0, prepared.prompt_tokens),
            expected_output_tokens=call.request.max_output_tokens,
        )
