"""Answers to operators. A noun of the domain is answered as it is; here are lists of them, and views of several."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.domain.fleet.decision import Decided
from penstock.domain.fleet.table import Route
from penstock.domain.fleet.versions import Deployment, PastRoute, Wanted
from penstock.domain.fleet.worker import Load, PhaseTiming, WorkerOrder, WorkerState
from penstock.domain.ids import NO_VERSION, Alias, KeyId, ModelName, TenantId, VersionId, WorkerId
from penstock.domain.models.model import Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.rollout.judgement import Judgement
from penstock.domain.rollout.rollout import Change, Rollout
from penstock.domain.serving.auto import Auto, PastAuto
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.ledger import LedgerRow, UsageLine
from penstock.domain.tenancy.owners import Owners
from penstock.domain.tenancy.tenant import Org, Plan, Role, Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """This process lives."""

    status: str = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether this controller leads and its ticks succeed, or stands by."""

    ready: bool
    leader: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShown:
    """A version in a list."""

    id: VersionId
    name: ModelName
    task: Task
    tier: Tier
    price: Price
    licence: str
    size_bytes: int
    created_at: float
    replicas: int
    pinned: bool
    states: Mapping[str, int]
    """Its workers by state, in the table in force."""
    aliases: tuple[Alias, ...]
    base: VersionId = NO_VERSION
    """Of an adapter: the version whose workers serve it."""
    resident: tuple[WorkerId, ...] = ()
    """Of an adapter: the workers whose engines hold it now."""
    refused: tuple[str, ...] = ()
    """Of an adapter: the workers that refused it when it was last asked for, and why."""
    tenants: Owners = None
    """The only tenants that have it, an adapter's also its base's; null is every tenant."""
    engine: Mapping[str, str] = field(default_factory=dict)
    """Engine settings that are not the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelList:
    """Versions, and how they are used."""

    models: tuple[ModelShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersShown:
    """The only tenants of a version, and the aliases that lead to it."""

    version: VersionId
    tenants: Owners
    aliases: tuple[Alias, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasList:
    """The aliases in force."""

    aliases: tuple[Route, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasHistory:
    """What an alias was set to, newest first."""

    alias: Alias
    history: tuple[PastRoute, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasRemoved:
    """An alias that leads nowhere any more."""

    alias: Alias
    removed: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentList:
    """What should run."""

    deployments: tuple[Deployment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoList:
    """The auto aliases in force."""

    autos: tuple[Auto, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoHistory:
    """What an auto alias was set to, newest first."""

    alias: Alias
    history: tuple[PastAuto, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReported:
    """How often the model of one rule would have answered as another rule's does.

    A ratio is null if nothing was counted for it; ``_between`` is its 95 % interval.
    """

    alias: Alias
    rule: str
    version: VersionId
    other: str
    other_version: VersionId
    answered: int
    """Requests that the rule answered."""
    pairs: int
    """Requests that both models were asked."""
    failed: int
    """Pairs that the other model refused or failed at."""
    untold: int
    """Pairs that can't be compared."""
    forms: int
    """Pairs whose answers are JSON that was asked for, or labels."""
    forms_agreed: int
    texts: int
    """Pairs whose answers both models scored token by token."""
    texts_agreed: int
    alike: int
    """Sum over these of the percent of tokens that are the likeliest for both models."""
    paid: int
    other_paid: int
    tenants: int
    """Tenants with a pair."""
    most: float | None
    """The largest tenant's part of the pairs."""
    forms_ratio: float | None
    forms_between: tuple[float, float] | None
    texts_ratio: float | None
    texts_between: tuple[float, float] | None
    alike_ratio: float | None
    price_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoReport:
    """The comparisons of an auto alias's rules in the last ``hours``."""

    auto: Auto
    hours: float
    pairs: tuple[PairReported, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairJudged:
    """The judgement on a version beside the incumbent that has most of the alias."""

    incumbent: VersionId
    judgement: Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasCompared:
    """The judgements on the versions that share an alias."""

    alias: Alias
    pairs: tuple[PairJudged, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutShown(Rollout):
    """A rollout, the candidate's weight now, and the number of its last change."""

    weight: int = field()
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutStarted(RolloutShown):
    """A rollout that began, with its first change."""

    history: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutWhole(RolloutStarted):
    """A rollout with every change, and the judgement on its candidate now; null if it is over or not yet judged."""

    judgement: Judgement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutList:
    """Rollouts, newest first."""

    rollouts: tuple[RolloutShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgList:
    """Organisations."""

    orgs: tuple[Org, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantList:
    """The tenants that the key may see."""

    tenants: tuple[Tenant, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyShown:
    """A key without its hash."""

    id: KeyId
    tenant: TenantId
    role: Role
    models: tuple[Alias, ...]
    created_at: float
    expires_at: float
    revoked_at: float
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyMade(KeyShown):
    """A new key with its secret, which is shown this one time."""

    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """The keys that the caller's key may see."""

    keys: tuple[KeyShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRevoked:
    """A key that no longer works, and since when (Unix seconds)."""

    id: KeyId
    revoked_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetShown:
    """A budget: money in micro-dollars, ``used_ratio`` 1.0 and more means used up; ``ends_at`` is Unix seconds."""

    scope: str
    period: str
    window: str
    cap: MicroUsd
    spent: MicroUsd
    used_ratio: float
    ends_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetList:
    """Budgets in force, the fullest first."""

    budgets: tuple[BudgetShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedShown:
    """A budget's meter beside the ledger, in micro-dollars."""

    scope: str
    window: str
    ledger: MicroUsd
    counted: MicroUsd
    difference: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """Meters beside the ledger; ``shared`` is false if each gateway has meters of its own, which can't be read here."""

    shared: bool
    budgets: tuple[ComparedShown, ...]
    corrected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageShown:
    """A tenant's sums from ``begin`` to ``end`` (Unix seconds, the end left out), by version and outcome."""

    tenant: TenantId
    begin: float
    end: float
    lines: tuple[UsageLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPage:
    """A page of the ledger; ``next`` goes into ``after`` of the next page and is empty after the last one."""

    rows: tuple[LedgerRow, ...]
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShown:
    """A worker as its last heartbeat reported; ``age_s`` is how long ago that was."""

    id: WorkerId
    version: VersionId
    state: WorkerState
    url: str
    zone: str
    pid: int
    load: Load
    phases: tuple[PhaseTiming, ...]
    detail: str
    ready_in_s: float
    restarts: int
    age_s: float
    draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerList:
    """Workers, silent and failed ones too."""

    workers: tuple[WorkerShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRenewed:
    """A worker that will be replaced."""

    worker: WorkerId
    version: VersionId


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShown:
    """A table in the history."""

    number: int
    made_at: float
    routes: tuple[Route, ...]
    workers: int
    ready: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableList:
    """Published tables, newest first."""

    tables: tuple[TableShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActList:
    """Administrative acts, newest first."""

    acts: tuple[Act, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionList:
    """The controller's own decisions, newest first."""

    decisions: tuple[Decided, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolShown:
    """Memory for engines on the workers' machine: its limit, what awake workers hold, the versions waited for."""

    limit_bytes: int
    held_bytes: int
    waited_for: tuple[Wanted, ...]
    unfit: tuple[str, ...] = ()
    """Deployed versions that are larger than the limit, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """This controller at a glance."""

    leader: bool
    ready: bool
    table: int
    table_made_at: float
    failed_ticks: int
    workers: Mapping[str, int]
    """Workers by state."""
    held: tuple[str, ...] = ()
    """What the host of the workers could not do, and the remedy."""
    certificate_ends_at: float | None = None
    """The end of its certificate's validity in Unix seconds; null without a certificate."""
    limits_shared: bool = False
    """Whether all gateways share one store of limits and budgets."""
    pool: PoolShown | None = None
    """Null if the pool has no limit, so that every deployed version is awake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Desired:
    """The order to a worker, and the adapters it loads first and holds; null if they are not known, as on standby."""

    desired: WorkerOrder
    pinned: tuple[VersionId, ...] | None = None
