"""One request on its way through the gateway: what each stage has learned, where the time went, how it ended."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.domain.errors import DeadlineUnreachable, PenstockError
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import NO_VERSION, VersionId, WorkerId
from penstock.domain.outcome import Degradation, FinishReason, Outcome, Stage, promised
from penstock.domain.serving.report import SILENT, Report
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.serving.request_record import Choice, Refusal, Ruled, Tried
from penstock.domain.serving.shadow import Copy, TokenIds
from penstock.domain.serving.slo import Pace
from penstock.domain.serving.used import NOTHING, Used
from penstock.domain.serving.waited import TENANT_QUEUE
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.lease import Lease
from penstock.domain.tenancy.tenant import Principal
from penstock.domain.tokens import Usage
from penstock.gateway.calls.doubt import Doubt


class Timings:
    """Where the time of one request went: ``mark(stage)`` closes the stage that ran since the last mark."""

    __slots__ = ("_clock", "_last", "seconds", "started_at")

    def __init__(self, clock: Callable[[], float], started_at: float) -> None:
        self._clock = clock
        self._last = self.started_at = started_at
        self.seconds: dict[Stage, float] = {}

    def mark(self, stage: Stage) -> None:
        """Add the time since the last mark to ``stage``."""
        now = self._clock()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    def spent(self, stage: Stage, seconds: float) -> None:
        """Count so much of the time since the last mark to ``stage``: the next mark leaves it out."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self._last += seconds

    def put(self, stage: Stage, seconds: float) -> None:
        """Set a stage that somebody else measured (queue, prefill, decode)."""
        self.seconds[stage] = seconds


ENGINES_WORD = frozenset({Outcome.ENGINE_ERROR, Outcome.BROKEN_STREAM})
"""Ends that the body may be at fault for."""


def nothing() -> None:
    """Nobody waits for it."""


def unnoted(_: VersionId) -> None:
    """Nobody asks which version a request fell back from."""


def unknown() -> None:
    """Nobody knows."""


def no_ids() -> TokenIds | None:
    """Nobody has told the tokens of its prompt and answer."""
    return None


@dataclass(slots=True, kw_only=True)
class Call:
    """One request on its way: what each stage has learned so far."""

    request: InferenceRequest
    principal: Principal
    timings: Timings
    version: VersionEntry | None = None
    fell_back_from: VersionId = NO_VERSION
    """The version that would have answered, could it take requests; empty where that is ``version``."""
    prepared: Prepared | None = None
    worker: WorkerEntry | None = None
    attempts: int = 0
    lost: frozenset[WorkerId] = frozenset()
    """Workers that were lost while they had this request."""
    losses: int = 0
    """Those of them that nobody doubted when they got it, and those that its very body had lost before."""
    binding: bytes = b""
    """The digest of what is sent to workers, known from dispatch on."""
    was_doubted: bool = False
    """The present worker was in doubt when it got this request: it may have been lost already."""
    errors: int = 0
    """Engines that answered it with an error of their own."""
    continued_at: list[float] = field(default_factory=list)
    """Monotonic seconds at which another worker went on with a stream whose worker was lost."""
    used: Used | None = NOTHING
    """What the present attempt took of its worker, as that counted it; None where it has not told, or not yet."""
    kept_tokens: int = 0
    """Tokens of the answer that an earlier worker made: the present one has them in its prompt."""
    degraded: tuple[Degradation, ...] = ()
    on_admitted: Callable[[], None] = nothing
    """Gives back what the request's body held until its limits hold it."""
    outcome: Outcome | None = None
    """How it ended; None while it runs."""
    own_deadline: bool = False
    """The caller gives less time than its plan and its tier do."""
    pace: Pace | None = None
    """How soon its tier promises an answer; None where nobody has asked."""
    paused_s: float = 0.0
    """For how long its answer has waited for its reader."""
    doubt: Doubt | None = None
    """Whether the engine's last error is the caller's own; None where its worker, or nothing, failed it."""
    lease: Lease | None = None
    """What it draws, from the moment it asks; None where it never got so far."""
    refusal: Refusal | None = None
    """The error that ended it, as far as it may be kept."""
    choices: list[Choice] = field(default_factory=list)
    trail: list[Tried] = field(default_factory=list)
    """Workers that were chosen for it, and its attempts at them."""
    report: Report = SILENT
    """What the present attempt's gate reported."""
    ruled: Ruled | None = None
    """Which rule decided, where it was for an auto alias; its request is for what that leads to by then."""
    copy: Copy | None = None
    """What it is a shadow copy of; None for a caller's own."""
    ids: Callable[[], TokenIds | None] = no_ids
    """Returns the tokens of prompt and answer, where the engine was asked for them and told."""

    is_json: Callable[[], bool | None] = unknown
    """Tells whether the answer is the JSON that was asked for; None where it was not asked for, or nobody knows."""
    form: Callable[[], bytes | None] = unknown
    """Returns what of the answer can be held against another one as it stands; None where it has no such form."""

    _last_cost: tuple[InferenceRequest, VersionEntry | None, Prepared | None, Cost] | None = field(
        default=None, repr=False, compare=False
    )
    """What ``cost`` was last, and what was known then: many ask."""

    def fell_back(self, version: VersionId) -> None:
        """Note that this version was to answer and can't."""
        self.fell_back_from = version

    def failed(self, error: PenstockError) -> None:
        """Note the error that ended it, as far as it may be kept."""
        self.refusal = Refusal.of(error)

    @property
    def received_at(self) -> float:
        """The monotonic second from which on the request's time is the platform's: its body had its own."""
        return self.request.arrived_at + self.timings.seconds.get(Stage.UPLOAD, 0.0)

    def is_own(self, outcome: Outcome) -> bool | None:
        """Tell whether this end is the caller's own doing; None while nobody knows."""
        if outcome in ENGINES_WORD and self.doubt is not None:
            return self.doubt.is_own
        if outcome is not Outcome.OK and self.refusal is not None and self.refusal.reason == TENANT_QUEUE:
            return True
        return outcome is Outcome.DEADLINE and self._had_too_little_time()

    def _had_too_little_time(self) -> bool:
        """Tell whether its caller left the platform less than its promises take: by its deadline, or by reading slowly.

        Promised by then is as much as came, where a stream ran into its deadline; else the answer, as long as expected.
        """
        lease = self.lease
        if self.pace is None or not (self.own_deadline or self.paused_s):
            return False
        ran = self.request.stream and (self.refusal is None or self.refusal.code != DeadlineUnreachable.code)
        tokens = 0 if lease is None else lease.delivered if ran else lease.expected_output
        until = lease.deadline_at if lease is not None else self.request.arrived_at + self.request.deadline_s
        return until - self.received_at - self.paused_s < self.pace.of(tokens / self.request.cost.sequences)

    def tell_promised(self, outcome: Outcome, tell: Callable[[Outcome], None]) -> None:
        """Tell how promises count this end, at once or as soon as it is known."""
        if self.doubt is not None and outcome in ENGINES_WORD:
            self.doubt.then(lambda is_own: tell(promised(outcome, is_own=is_own)))
        else:
            tell(promised(outcome, is_own=bool(self.is_own(outcome))))

    @property
    def cost(self) -> Cost:
        """The most that the request may cost, by all that is known so far."""
        request, version, prepared = self.request, self.version, self.prepared
        last = self._last_cost
        if last is not None and last[0] is request and last[1] is version and last[2] is prepared:
            return last[3]
        cost = request.cost
        if prepared is not None:
            cost = cost.with_prompt(prepared.prompt_tokens, is_counted=prepared.is_counted)
        if version is not None:
            cost = cost.within(version.max_model_len)
        self._last_cost = (request, version, prepared, cost)
        return cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How an answer ended, as the relay saw it."""

    outcome: Outcome
    usage: Usage
    said: Usage | None = None
    """What the engine itself says of an answer that came to its end."""
    finish: FinishReason | None = None
    ttft_s: float | None = None
    itl_s: tuple[float, ...] = field(default=())
