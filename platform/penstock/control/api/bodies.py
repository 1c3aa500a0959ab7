"""What comes in and goes out, where it is not a noun of the domain itself. Unknown fields are refused."""

from typing import Any

import msgspec

from penstock.domain.fleet.table import Override, Route, Share
from penstock.domain.fleet.versions import Wanted
from penstock.domain.fleet.worker import PhaseTiming, WorkerState
from penstock.domain.ids import NO_VERSION, Alias, ModelName, OrgId, TenantId, VersionId, WorkerId
from penstock.domain.models.model import Manifest, Task, Tier
from penstock.domain.money import FREE, MicroUsd, Price
from penstock.domain.rollout.rollout import PATIENCE_S, STAGES, Blast, Kind, Stage
from penstock.domain.serving.auto import COMPARED_PER_S, Caller, Rule
from penstock.domain.serving.load import Load
from penstock.domain.serving.request import Api
from penstock.domain.serving.shadow import ShadowCaps
from penstock.domain.tenancy.ledger import LedgerRow, UsageLine
from penstock.domain.tenancy.tenant import DEFAULT_ORG, ApiKey, OverQuota, Plan, Priority, Role


class Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A body that has exactly these fields."""


class NewModel(Strict, frozen=True):
    """A version to register. ``signature`` names the signature in the artifact store, ``signatures/<digest>``."""

    manifest: Manifest
    signature: str
    tenants: tuple[TenantId, ...] | None = None
    """For whom alone it is; null is everybody."""


class NewOwners(Strict, frozen=True):
    """The tenants that a version is for; null is everybody."""

    tenants: tuple[TenantId, ...] | None


class NewShares(Strict, frozen=True):
    """Where an alias leads. Silence about overrides keeps those that are in force."""

    shares: tuple[Share, ...]
    overrides: tuple[Override, ...] | None = None


class NewRule(Strict, frozen=True):
    """A rule of an auto alias; a condition with a wrong name must not become none."""

    name: str
    to: Alias
    prompt_tokens: int = 0
    apis: tuple[Api, ...] = ()
    tools: bool | None = None
    json: bool | None = None
    images: bool = False
    callers: tuple[Caller, ...] = ()
    price: MicroUsd = FREE
    deadline_s: float = 0.0
    compare: str = ""
    compare_per_s: float = COMPARED_PER_S

    @property
    def rule(self) -> Rule:
        """The same as a noun."""
        return Rule(**msgspec.structs.asdict(self))


class NewRules(Strict, frozen=True):
    """What an auto alias stands for: the first rule that fits decides."""

    rules: tuple[NewRule, ...]


class NewRollout(Strict, frozen=True):
    """A candidate that is to take an alias over from the version that has all of it."""

    alias: Alias
    candidate: VersionId
    kind: Kind = Kind.EQUIVALENT
    stages: tuple[Stage, ...] = STAGES
    blast: Blast = Blast()
    shadow: ShadowCaps = ShadowCaps()
    patience_s: float = PATIENCE_S
    guard: bool = False
    reason: str = ""
    accept_dearer: bool = False
    override_budget: bool = False


class RolloutMove(Strict, frozen=True):
    """Why a person does this, and whether a spent error budget is overridden.

    ``stage`` is the index of the stage that is promoted; where it is at another one by now, nothing is done.
    """

    reason: str
    override_budget: bool = False
    stage: int | None = None


class NewReplicas(Strict, frozen=True):
    """How many workers of a version there should be."""

    replicas: int


class NewTenant(Strict, frozen=True):
    """A tenant to be."""

    id: str
    name: str = ""
    plan: Plan = Plan()
    org: OrgId = DEFAULT_ORG


class Membership(Strict, frozen=True):
    """Which organisation a tenant shall belong to."""

    org: OrgId


class NewOrg(Strict, frozen=True):
    """An organisation to be; its plan's bounds hold for all of its tenants together."""

    id: str
    name: str = ""
    plan: Plan = Plan()


class PlanChange(Strict, frozen=True, omit_defaults=True):
    """The fields of a plan that shall change; what is not named stays. Zero takes a bound away."""

    priority: Priority | msgspec.UnsetType = msgspec.UNSET
    weight: int | msgspec.UnsetType = msgspec.UNSET
    max_output_tokens: int | msgspec.UnsetType = msgspec.UNSET
    max_concurrent: int | msgspec.UnsetType = msgspec.UNSET
    max_streams: int | msgspec.UnsetType = msgspec.UNSET
    requests_per_min: int | msgspec.UnsetType = msgspec.UNSET
    tokens_per_min: int | msgspec.UnsetType = msgspec.UNSET
    spend_per_day: int | msgspec.UnsetType = msgspec.UNSET
    spend_per_month: int | msgspec.UnsetType = msgspec.UNSET
    degrade_output_tokens: int | msgspec.UnsetType = msgspec.UNSET
    degrade_model: Alias | msgspec.UnsetType = msgspec.UNSET
    deadline_s: float | msgspec.UnsetType = msgspec.UNSET
    paid: bool | msgspec.UnsetType = msgspec.UNSET
    over_quota: OverQuota | msgspec.UnsetType = msgspec.UNSET
    copied: bool | msgspec.UnsetType = msgspec.UNSET
    reserved: float | msgspec.UnsetType = msgspec.UNSET


class Caps(Strict, frozen=True, omit_defaults=True):
    """What may be spent, in micro-dollars; what is not named stays, zero takes the cap away."""

    spend_per_day: int | msgspec.UnsetType = msgspec.UNSET
    spend_per_month: int | msgspec.UnsetType = msgspec.UNSET


class NewKey(Strict, frozen=True):
    """A key to be; ``expires_in_s`` 0 means never."""

    tenant: TenantId
    role: Role = Role.INFER
    models: tuple[Alias, ...] = ()
    expires_in_s: float = 0.0
    plan: Plan = Plan()


class Rotation(Strict, frozen=True):
    """For how long the old key works on."""

    overlap_s: float = 3600.0


class RollBack(Strict, frozen=True):
    """Which table to go back to."""

    number: int


class KeyShown(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its hash."""

    id: str
    tenant: str
    role: Role
    models: tuple[Alias, ...]
    created_at: float
    expires_at: float
    revoked_at: float
    plan: Plan


class KeyMade(KeyShown, frozen=True, kw_only=True):
    """A new key with its secret, this one time."""

    secret: str


class ModelShown(msgspec.Struct, frozen=True, kw_only=True):
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
    states: dict[str, int]
    """How many of its workers are in which state, by the table in force."""
    aliases: tuple[Alias, ...]
    base: VersionId = NO_VERSION
    """Of an adapter: the version whose workers serve it."""
    resident: tuple[WorkerId, ...] = ()
    """Of an adapter: the workers whose engines hold it now."""
    refused: tuple[str, ...] = ()
    """Of an adapter: who refused it when it was last asked for, and why."""
    tenants: tuple[TenantId, ...] | None = None
    """For whom alone it is, an adapter for the tenants of its base as well; null is everybody."""
    engine: dict[str, str] = {}
    """Its engine's settings that are not the usual ones."""


class WorkerShown(msgspec.Struct, frozen=True, kw_only=True):
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


class TableShown(msgspec.Struct, frozen=True, kw_only=True):
    """A table in the history."""

    number: int
    made_at: float
    routes: tuple[Route, ...]
    workers: int
    ready: int


class PoolShown(msgspec.Struct, frozen=True, kw_only=True):
    """What the workers' machine has for engines, what those hold that are awake, and which versions are waited for."""

    limit_bytes: int
    held_bytes: int
    waited_for: tuple[Wanted, ...]
    unfit: tuple[str, ...] = ()
    """Deployed versions that are larger than all of it, in words."""


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """This controller at a glance."""

    leader: bool
    ready: bool
    table: int
    table_made_at: float
    failed_ticks: int
    workers: dict[str, int]
    held: tuple[str, ...] = ()
    """What the host of the workers could not bring about, and the remedy."""
    certificate_ends_at: float | None = None
    """Until when its certificate is valid, in Unix seconds; None where it has none."""
    limits_shared: bool = False
    """Whether limits and budgets are counted in a store that all gateways share."""
    pool: PoolShown | None = None
    """None where everything that is deployed is awake."""


class BudgetShown(msgspec.Struct, frozen=True, kw_only=True):
    """A budget: money in micro-dollars, ``used_ratio`` 1.0 and more means used up; ``ends_at`` is Unix seconds."""

    scope: str
    period: str
    window: str
    cap: MicroUsd
    spent: MicroUsd
    used_ratio: float
    ends_at: float


class ComparedShown(msgspec.Struct, frozen=True, kw_only=True):
    """A budget's meter beside the ledger, in micro-dollars."""

    scope: str
    window: str
    ledger: MicroUsd
    counted: MicroUsd
    difference: int


class Reconciled(msgspec.Struct, frozen=True, kw_only=True):
    """The comparison; ``shared`` is false where the meters are inside the gateways and can't be seen from here."""

    shared: bool
    budgets: tuple[ComparedShown, ...]
    corrected: int


class UsageShown(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant's sums from ``begin`` to ``end`` (Unix seconds, the end left out), by version and outcome."""

    tenant: TenantId
    begin: float
    end: float
    lines: tuple[UsageLine, ...]


class RowsShown(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the ledger; ``next`` goes into ``after`` of the next page and is empty after the last one."""

    rows: tuple[LedgerRow, ...]
    next: str


def key_fields(key: ApiKey) -> dict[str, Any]:
    """Return what may be shown of a key."""
    return {
        "id": key.id,
        "tenant": key.tenant,
        "role": key.role,
        "models": key.models,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
        "revoked_at": key.revoked_at,
        "plan": key.plan,
    }
