"""One request in the gateway: its call, timings, attempts and answer."""

import dataclasses
from collections.abc import Callable
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.domain.errors import DeadlineUnreachable, PenstockError
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import NO_VERSION, VersionId, WorkerId
from penstock.domain.models.model import Tier
from penstock.domain.outcome import Degradation, FinishReason, Outcome, Stage, outcome_of
from penstock.domain.serving.report import NOTHING, SILENT, Report, Used
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.serving.request_record import Choice, Refusal, Ruled, Tried
from penstock.domain.serving.shadow import Copy, TokenIds
from penstock.domain.serving.slo import Pace
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.standing import Standing, standing_of
from penstock.domain.tenancy.tenant import Principal, Priority
from penstock.domain.tokens import Usage
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.calls.doubt import Doubt
from penstock.gateway.calls.lease import Lease

if TYPE_CHECKING:
    from dataclasses import dataclass
else:  # frozen for mypy alone: at runtime each frozen one costs 5 µs of every request, three times

    def dataclass(*, frozen: bool = False, **options: bool) -> Callable[[type], type]:
        del frozen
        return dataclasses.dataclass(**options)


class Timings:
    __slots__ = ("_clock", "_last", "paused_s", "seconds", "started_at", "visible_at")

    def __init__(self, clock: Callable[[], float], started_at: float) -> None:
        self._clock = clock
        self._last = self.started_at = started_at
        self.seconds: dict[Stage, float] = {}
        self.paused_s = 0.0
        """How long the answer waited for its reader."""
        self.visible_at: float | None = None
        """When the first held text left; None without a filter."""

    def seen(self) -> None:
        if self.visible_at is None:
            self.visible_at = self._clock()

    def mark(self, stage: Stage) -> None:
        now = self._clock()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._last
        self._last = now

    def spent(self, stage: Stage, seconds: float) -> None:
        """Add seconds to ``stage``; the next mark excludes them."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        self._last += seconds

    def put(self, stage: Stage, seconds: float) -> None:
        self.seconds[stage] = seconds


ENGINES_WORD = frozenset({Outcome.ENGINE_ERROR, Outcome.BROKEN_STREAM})
"""Outcomes that the request's body may have caused."""


def nothing() -> None: ...


def unnoted(_: VersionId) -> None: ...


@dataclass(slots=True, eq=False)
class Attempts:
    worker: WorkerEntry | None = None
    asks_again: bool = False
    """Workers that have just refused its tenant are asked, too."""
    is_over_kv: bool = False
    """A worker refused it beyond its tenant's part of the KV cache: it is degraded, or waits there from then on."""
    count: int = 0
    lost: frozenset[WorkerId] = frozenset()
    """Workers that were lost while they had this request."""
    losses: int = 0
    """Those of them that were not in doubt when they got it, and those that its very body had lost before."""
    binding: bytes = b""
    """The digest of the bytes sent to workers, known from dispatch on."""
    was_doubted: bool = False
    """The present worker was in doubt when it got this request: it may have been lost already."""
    errors: int = 0
    """Engines that answered it with an error of their own."""
    doubt: Doubt | None = None
    """Whether the engine's last error is the caller's own; None if its worker, or nothing, failed it."""
    continued_at: list[float] = field(default_factory=list)
    """Monotonic seconds at which another worker went on with a stream whose worker was lost."""
    kept_tokens: int = 0
    """Tokens of the answer that an earlier worker made: the present one has them in its prompt."""
    used: Used | None = NOTHING
    """Usage of the present attempt as its worker counted it; None if it has not told, or not yet."""
    choices: list[Choice] = field(default_factory=list)
    trail: list[Tried] = field(default_factory=list)
    """Workers that were chosen for it, and its attempts at them."""
    report: Report = SILENT

    def begin(self) -> None:
        self.used, self.report = None, SILENT


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call:
    """``Chosen`` and ``Admitted`` are later forms, with fewer unknowns."""

    request: InferenceRequest
    principal: Principal
    timings: Timings
    copy: Copy | None = None
    on_admitted: Callable[[], None] = nothing
    """Releases the memory reserved for the body once the request's limits cover it."""
    attempts: Attempts = field(default_factory=Attempts)
    version: VersionEntry | None = None
    fell_back_from: VersionId = NO_VERSION
    """The version that would have answered if it could take requests; empty if that is ``version``."""
    prepared: Prepared | None = None
    ruled: Ruled | None = None
    """The auto alias's rule that decided; the request then names the rule's target."""
    degraded: tuple[Degradation, ...] = ()
    own_deadline: bool = False
    """Whether the caller's deadline is shorter than its plan's and its tier's."""
    pace: Pace | None = None
    """The tier's promised pace of an answer; None before admission."""
    lease: Lease | None = None
    """The lease's draws, from the moment that meters are asked; None before."""
    _cost: Cost | None = field(default=None, init=False, repr=False)

    def chosen(
        self,
        version: VersionEntry,
        prepared: Prepared,
        *,
        request: InferenceRequest | None = None,
        fell_back_from: VersionId = NO_VERSION,
        ruled: Ruled | None = None,
    ) -> "Chosen":
        if key := self.request.cache_key:
            prepared = replace(prepared, affinity=hash((self.principal.cache_salt, key)))
        return Chosen(
            request=request or self.request,
            principal=self.principal,
            timings=self.timings,
            copy=self.copy,
            on_admitted=self.on_admitted,
            attempts=self.attempts,
            version=version,
            prepared=prepared,
            fell_back_from=fell_back_from,
            ruled=ruled,
        )

    @property
    def demand(self) -> Demand:
        """Return the demand that is compared with a full queue's refusal; a copy waits in no tenant's queue."""
        request, plan = self.request, self.principal.plan
        if self.copy is not None:
            return ANY
        pools = plan.pools if plan.priority is Priority.BATCH else ANY.pools
        return Demand(self.principal.tenant, request.cost.body_bytes, request.deadline_s, pools)

    @property
    def received_at(self) -> float:
        """The end of the upload: the platform's time begins here."""
        return self.request.arrived_at + self.timings.seconds.get(Stage.UPLOAD, 0.0)

    def is_own(self, answer: "Answer") -> bool | None:
        """Tell whether the caller caused this end; None while unknown."""
        outcome, refusal, doubt = answer.outcome, answer.refusal, self.attempts.doubt
        if outcome in ENGINES_WORD and doubt is not None:
            return doubt.is_own
        if outcome is Outcome.OWN_DEADLINE:
            return True
        return outcome is Outcome.DEADLINE and self._had_too_little_time(refusal)

    def named(self, answer: "Answer") -> "Answer":
        """Return the outcome; a missed deadline that the caller caused has its own."""
        if answer.outcome is not Outcome.DEADLINE:
            return answer
        return replace(answer, outcome=outcome_of(answer.outcome, is_own=bool(self.is_own(answer))))

    def _had_too_little_time(self, refusal: Refusal | None) -> bool:
        """Tell whether a deadline or a slow reader left less time than the promised pace takes.

        The pace is applied to the delivered tokens if a stream missed its deadline, else to the expected ones.
        """
        lease, paused_s = self.lease, self.timings.paused_s
        if self.pace is None or not (self.own_deadline or paused_s):
            return False
        ran = self.request.stream and (refusal is None or refusal.code != DeadlineUnreachable.code)
        tokens = 0 if lease is None else lease.delivered if ran else lease.expected_output
        until = lease.deadline_at if lease is not None else self.request.arrived_at + self.request.deadline_s
        return until - self.received_at - paused_s < self.pace.of(tokens / self.request.cost.sequences)

    def tell_outcome(self, answer: "Answer", tell: Callable[[Outcome], None]) -> None:
        outcome, doubt = answer.outcome, self.attempts.doubt
        if doubt is not None and outcome in ENGINES_WORD:
            doubt.then(lambda is_own: tell(outcome_of(outcome, is_own=is_own)))
        else:
            tell(outcome_of(outcome, is_own=bool(self.is_own(answer))))

    @property
    def cost(self) -> Cost:
        if self._cost is not None:
            return self._cost
        cost = self.request.cost
        if self.prepared is not None:
            cost = cost.with_prompt(self.prepared.prompt_tokens, is_counted=self.prepared.is_counted)
        if self.version is not None and not self.version.counts_by_item:
            cost = cost.within(self.principal.context(self.version.max_model_len))
        object.__setattr__(self, "_cost", cost)  # many ask: worked out once
        return cost


class Due(NamedTuple):
    """Monotonic deadline, and the pace by which the end is judged."""

    at: float
    is_own: bool
    """Whether the caller's deadline is shorter than its plan's and its tier's."""
    pace: Pace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen(Call):
    version: VersionEntry
    prepared: Prepared

    @property
    def slo(self) -> Tier:
        return self.principal.tier.slo or self.version.tier

    def refused(self, due: Due) -> "Chosen":
        return replace(self, pace=due.pace, own_deadline=due.is_own)

    def admitted(self, request: InferenceRequest, due: Due, lease: Lease) -> "Admitted":
        return Admitted(
            request=request,
            principal=self.principal,
            timings=self.timings,
            copy=self.copy,
            on_admitted=self.on_admitted,
            attempts=self.attempts,
            version=self.version,
            prepared=self.prepared,
            fell_back_from=self.fell_back_from,
            ruled=self.ruled,
            degraded=self.degraded,
            own_deadline=due.is_own,
            pace=due.pace,
            lease=lease,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted(Chosen):
    lease: Lease

    @property
    def standing(self) -> Standing:
        if self.copy is not None:
            return Standing.SHADOW
        return standing_of(self.principal.plan, over_quota=self.lease.over_quota is not None)


@dataclass(slots=True)
class Progress:
    call: Call
    answer: "Answer | None" = None


def unknown() -> None: ...


def no_ids() -> TokenIds | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    outcome: Outcome
    usage: Usage
    refusal: Refusal | None = None
    """The error that ended the request, without parts that may not be stored."""
    said: Usage | None = None
    """The engine's own account of a complete answer."""
    finish: FinishReason | None = None
    ttft_s: float | None = None
    visible_s: float | None = None
    """``ttft_s`` and what a filter held back before the first token left."""
    itl_s: tuple[float, ...] = field(default=())
    ids: Callable[[], TokenIds | None] = no_ids
    """Returns the tokens of prompt and answer, if the engine was asked for them and sent them."""
    is_json: Callable[[], bool | None] = unknown
    """Tells whether the answer is the requested JSON; None if none was requested, or unknown."""
    form: Callable[[], bytes | None] = unknown
    """Returns the part of the answer that can be compared literally; None if it has no such part."""

    @classmethod
    def refused(cls, error: PenstockError, usage: Usage) -> "Answer":
        return cls(outcome=error.outcome, usage=usage, refusal=Refusal.of(error))
