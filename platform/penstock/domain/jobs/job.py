"""A job, its states and the transitions between them; pure.

A claim counts as an attempt at once, since a lost runner can't tell whether it ran; what certainly never ran is taken
back when it is put back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import Alias, KeyId, RequestId, TenantId, VersionId
from penstock.domain.jobs.ids import NO_BATCH, NO_ENDPOINT, BatchId, EndpointId, JobId, JobName, RunnerId
from penstock.domain.jobs.payload import NO_EXTENT, Extent
from penstock.domain.money import FREE, MicroUsd
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.tenant import NO_MODEL

NO_REQUEST = RequestId("")
NO_KEY = KeyId("")


class JobKind(StrEnum):
    JOB = "job"
    LINE = "line"
    """A request of a batch."""
    RESPONSE = "response"
    """A background response of the Responses API."""


class JobState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        return self in (JobState.QUEUED, JobState.RUNNING)


class Reason(StrEnum):
    """Why a job waits, or why it ended."""

    NONE = ""
    NOT_BEFORE = "not_before"
    BACKOFF = "backoff"
    """An attempt failed; the next comes later."""
    RUNNER_LOST = "runner_lost"
    CAPACITY = "no_capacity"
    """It was refused before it started."""
    BUDGET = "budget"
    PAUSED = "paused"
    HOURS = "hours"
    POOL = "pool"
    """No worker of its version is in its plan's pools."""
    REFUSED = "refused"
    """The request itself is at fault (a 4xx): no further attempt."""
    DEADLINE = "deadline"
    DEAD_LETTER = "dead_letter"
    """The last attempt failed."""
    CALLER = "cancelled"
    KEY_REVOKED = "key_revoked"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to submit. Times are Unix seconds."""

    name: JobName
    tenant: TenantId
    key: KeyId
    kind: JobKind
    api: Api
    model: Alias
    """As asked; ``version`` is what it leads to, pinned for all attempts."""
    version: VersionId
    cost_tokens: int
    """Prompt and longest answer: what fairness and the enqueued-token limit count until it ends."""
    cost_micro_usd: MicroUsd = FREE
    """The most that an attempt costs: held against budgets while it runs."""
    created_at: float
    deadline_at: float
    not_before: float = 0.0
    max_attempts: int = 3
    keep_s: float
    """Seconds that a single job is kept after its end."""
    input: Extent
    batch: BatchId = NO_BATCH
    line: int = 0
    webhook: EndpointId = NO_ENDPOINT
    metadata: Mapping[str, str] = field(default_factory=dict)
    idempotency: str = ""
    """Route and hash of the caller's key; empty for none."""
    fingerprint: str = ""
    """Hash of the body: another one under the same key is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job. Times are Unix seconds, 0 for not yet."""

    id: JobId
    name: JobName
    tenant: TenantId
    key: KeyId
    kind: JobKind
    api: Api
    model: Alias
    version: VersionId
    cost_tokens: int
    cost_micro_usd: MicroUsd
    state: JobState
    reason: Reason
    attempt: int
    """Attempts that may have run, the present one included."""
    max_attempts: int
    epoch: int
    """Counts claims: an end counts only with the epoch of its claim."""
    runner: RunnerId | None
    not_before: float
    deadline_at: float
    created_at: float
    started_at: float
    ended_at: float
    cancel_asked_at: float
    expires_at: float
    keep_s: float
    batch: BatchId
    line: int
    input: Extent
    output: Extent
    status: int
    """HTTP status of the stored answer."""
    error: str
    """Code of the last error."""
    request: RequestId
    """The request id of the last attempt, as the ledger has it."""
    prompt_tokens: int
    output_tokens: int
    webhook: EndpointId
    metadata: Mapping[str, str]
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    job: Job
    is_new: bool
    """False if the idempotency key already had this job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueLimits:
    """Bounds on a tenant's jobs; 0 for none."""

    tokens: int = 0
    """Of each model."""
    jobs: int = 0
    kept_bytes: int = 0
    """Of all that the tenant keeps, ended jobs, files and responses too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimQuota:
    """How much a runner can take of one version; ``closed`` tenants may not run there now (hours, pools)."""

    version: VersionId
    jobs: int
    closed: frozenset[TenantId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """An attempt's end that is the job's: ``state`` is not open."""

    id: JobId
    epoch: int
    state: JobState
    at: float
    reason: Reason = Reason.NONE
    status: int = 0
    error: str = ""
    request: RequestId = NO_REQUEST
    output: Extent = NO_EXTENT
    prompt_tokens: int = 0
    output_tokens: int = 0
    row: LedgerRow | None = None
    """Stored with the end; free if somebody else holds the job by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """An attempt's end that is not the job's: it is queued again, or a dead letter after its last attempt."""

    id: JobId
    epoch: int
    at: float
    not_before: float
    reason: Reason
    may_have_run: bool
    """False gives the attempt back."""
    error: str = ""
    request: RequestId = NO_REQUEST
    row: LedgerRow | None = None
    """Stored with it, if it reached an engine."""


class StopReason(StrEnum):
    CANCELLED = "cancelled"
    DEADLINE = "deadline"
    PAUSED = "paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A running job that its runner is to stop."""

    id: JobId
    epoch: int
    why: StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt that may have run and did not deliver."""

    attempt: int
    runner: RunnerId
    request: RequestId
    began_at: float
    ended_at: float
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which single jobs a page or a replay is about; empty fields match all."""

    kind: JobKind = JobKind.JOB
    state: JobState | None = None
    reason: Reason | None = None
    model: Alias = NO_MODEL
    error: str = ""
    usable: tuple[Alias, ...] = ()
    """Names or versions that the caller may use; empty for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOver:
    """Jobs that dead runners left behind, by what became of them."""

    runners: tuple[RunnerId, ...] = ()
    requeued: int = 0
    dead_letters: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueShape:
    """The jobs that have not ended; of those that may run, the oldest one's begin and the nearest deadline, or 0."""

    jobs: int = 0
    oldest_at: float = 0.0
    due_at: float = 0.0
    oldest_transaction_s: float = 0.0
    """Of the database, whoever has it open: claims slow down with its age."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unended:
    """Requests that have not ended, lines of batches among them, and batches."""

    requests: int = 0
    batches: int = 0


PAUSE_ALL = "all"
"""The scope of an operator's pause of all jobs."""
MOST_REPLAYED = 1000
"""Jobs of one replay by filter: one transaction."""
MOST_ACTS, ACTS_S = 20, 60.0
"""Pauses, resumes and replays of a tenant in that many seconds: each stops or repeats work that nobody pays."""
TOO_MANY_ACTS = "tenant_acts"
MOST_ATTEMPTS_KEPT = 100
"""Newest attempts that a replayed job keeps: some ten kilobytes of rows, as much as explains it."""


def pause_of(batch: BatchId) -> str:
    return f"batch:{batch}"
