"""Callers: organisations, tenants, plans, keys, and the principal of a valid key."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock.domain.ids import Alias, KeyId, OrgId, TenantId
from penstock.domain.models.model import Tier
from penstock.domain.money import FREE, MicroUsd
from penstock.domain.tenancy.owners import Owners

PLATFORM = TenantId("_platform")
"""The platform itself: probes, warm-up and orders to a gate travel under this tenant, uncounted. No caller is this
tenant.
"""

SHADOWS = TenantId("_shadow")
"""The tenant of shadow copies: the platform pays for them. No caller is this tenant."""

JUDGES = TenantId("_judge")
"""The tenant of what safety rules ask the platform's own models: the platform pays. No caller is this tenant."""

_OF_THE_PLATFORM = frozenset({PLATFORM, SHADOWS, JUDGES})

OPERATORS = TenantId("operators")
"""The tenant whose admin and auditor keys reach the platform and all tenants; any other's reach their own."""


class Priority(StrEnum):
    """Service classes, best first (B7)."""

    INTERACTIVE = "interactive"
    STANDARD = "standard"
    BATCH = "batch"


class TierName(StrEnum):
    """Names of OpenAI's APIs; those of Anthropic's follow from them."""

    DEFAULT = "default"
    FLEX = "flex"
    PRIORITY = "priority"
    SCALE = "scale"
    ULTRAFAST = "ultrafast"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceTier:
    """``price_factor`` multiplies the version's price, to a thousandth. ``slo`` is the promise, None for the
    version's.
    """

    name: TierName
    priority: Priority
    price_factor: float = 1.0
    slo: Tier | None = None

    def __str__(self) -> str:
        """Return the command line's form: ``flex:batch:0.5``, or ``flex:batch:0.5:batch`` with a promise."""
        return ":".join((self.name, self.priority, f"{self.price_factor:g}", *([self.slo] if self.slo else [])))


PLAIN_TIER = ServiceTier(name=TierName.DEFAULT, priority=Priority.STANDARD)
"""The tier of requests that ask for none: the plan's own priority class applies."""


class OverQuota(StrEnum):
    """Beyond a tenant's requests or tokens a minute."""

    REFUSE = "refuse"
    YIELD = "yield"
    """The request runs on otherwise unused capacity, or is refused without a charge to its limits."""


class BatchYield(StrEnum):
    """What running batch work does while requests of higher classes are about."""

    SHARE = "share"
    """It keeps the seats that objectives of the classes above leave."""
    STRICT = "strict"
    """It stands still."""


NO_MODEL = Alias("")


class Role(StrEnum):
    INFER = "infer"
    ADMIN = "admin"
    """Of the operators: everything. Of another tenant: reads like an auditor, and makes and ends keys of its own."""
    AUDITOR = "auditor"
    """Reads usage, ledger, keys, budgets and audit log; changes nothing and asks no model."""


FETCHED_S = 60.0
"""Seconds for which a tenant without retention may fetch an answer again: its connection may have broken off."""
MOST_RESERVED = 0.5
"""The largest part of an engine that one tenant may reserve."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A tenant's promises and bounds. A bound of zero means no bound.

    Keys and organisations have bounds only: priority, weight and the like are the tenant's.
    """

    priority: Priority = Priority.STANDARD
    weight: int = 1
    max_context_tokens: int = 0
    """Tokens of a prompt and its answer together."""
    max_output_tokens: int = 0
    max_concurrent: int = 0
    """Concurrent requests; one with several sequences (choices, beams, prompts) counts once per sequence."""
    max_streams: int = 0
    requests_per_min: int = 0
    tokens_per_min: int = 0
    degrade_output_tokens: int = 0
    """Under pressure, the bound on each answer's tokens, instead of a refusal."""
    spend_per_day: MicroUsd = FREE
    spend_per_month: MicroUsd = FREE
    degrade_model: Alias = NO_MODEL
    """Under pressure this model answers, instead of a refusal; empty for none."""
    deadline_s: float = 0.0
    paid: bool = True
    """False is the free tier: shed before all paying tenants."""
    over_quota: OverQuota = OverQuota.REFUSE
    copied: bool = True
    """Whether its requests may be copied to a version under test; the platform pays for the copies."""
    reserved: float = 0.0
    """The part of each engine, slots and KV cache, reserved for a paying tenant: 0 to ``MOST_RESERVED``."""
    kv_part: float = 0.0
    """The largest part of each engine's KV cache that the tenant's requests hold: beyond it the next one waits."""
    service_tiers: tuple[ServiceTier, ...] = ()
    """Tiers that a request may ask for beside ``default``, which is the plan's own class at the version's price."""
    auto_tier: TierName = TierName.DEFAULT
    """The service tier of requests that ask for ``auto`` or for none."""
    batch_enqueued_tokens: int = 0
    """Tokens, prompt and longest answer, of the jobs and batch lines of one model that have not ended."""
    batch_jobs: int = 0
    """Jobs and batch lines that have not ended."""
    file_bytes: int = 0
    """Bytes of all that the tenant keeps: files, jobs with their answers, stored responses, and ``ROW_BYTES`` a row."""
    files: int = 0
    job_attempts: int = 3
    """Attempts of a job that may have run; after the last it is a dead letter."""
    job_deadline_s: float = 86_400.0
    """Seconds from a job's submission to its deadline, at most."""
    keep_s: float = 2_592_000.0
    """Seconds for which inputs, results, responses and files are kept, at most."""
    keep_files_s: float = 0.0
    """The same for files alone; 0: as ``keep_s``."""
    keep_answers_s: float = 86_400.0
    """The same for answers under idempotency keys."""
    keep_matches_s: float = 0.0
    """The same for the text of what filters matched; 0: none is kept."""
    zero_retention: bool = False
    """Whether answers are deleted once they were fetched, and responses not stored; see ``FETCHED_S``."""
    training_use: bool = False
    """Whether what is stored may be used for training. Nothing here does; it is told in lists of models."""
    batch_windows: str = ""
    """Completion windows that a batch may name beside ``24h``, with commas, as ``30m,2h``."""
    batch_hours: str = ""
    """Hours in which batch work runs, in the form of ``batch_hours.parsed``; empty for all."""
    batch_pools: str = ""
    """Pools of machines in which its work of class batch runs, with commas; empty for all."""
    batch_yield: BatchYield = BatchYield.SHARE
    safety: str = ""
    """Safety packs for its requests, with commas, beside the platform's floor and the model's own."""

    @property
    def pools(self) -> frozenset[str]:
        return frozenset(self.batch_pools.split(",")) if self.batch_pools else frozenset()

    @property
    def files_kept_s(self) -> float:
        """An input of a tenant without retention stays until its batch has ended, or might have."""
        return self.job_deadline_s if self.zero_retention else self.keep_files_s or self.keep_s

    @property
    def answers_kept_s(self) -> float:
        return FETCHED_S if self.zero_retention else self.keep_answers_s

    @property
    def matches_kept_s(self) -> float:
        return 0.0 if self.zero_retention else self.keep_matches_s

    @property
    def draws(self) -> bool:
        counted = self.max_concurrent or self.max_streams or self.requests_per_min or self.tokens_per_min
        return bool(counted or self.spend_per_day or self.spend_per_month)


CAPS = (
    "max_context_tokens",
    "max_output_tokens",
    "max_concurrent",
    "max_streams",
    "requests_per_min",
    "tokens_per_min",
    "spend_per_day",
    "spend_per_month",
    "deadline_s",
)
"""The bounds that a key or an organisation may have: all other fields are its tenant's."""


class ScopeKind(StrEnum):
    KEY = "key"
    TENANT = "tenant"
    ORG = "org"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeId:
    """A scope with bounds; as text ``key:<id>``, ``tenant:<id>`` or ``org:<id>``."""

    kind: ScopeKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    name: str
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Org:
    """Its bounds hold for all of its tenants together."""

    id: OrgId
    name: str
    plan: Plan = field(default_factory=Plan)


DEFAULT_ORG = OrgId("default")
"""The organisation of tenants that were put in no other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: TenantId
    name: str
    plan: Plan = field(default_factory=Plan)
    org: OrgId = DEFAULT_ORG


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """Times are Unix seconds; zero means never. ``models`` empty means every model; ``secret_hash`` is hex HMAC-SHA-256
    under the platform's pepper.
    """

    id: KeyId
    tenant: TenantId
    secret_hash: str
    role: Role = Role.INFER
    models: tuple[Alias, ...] = ()
    created_at: float = 0.0
    expires_at: float = 0.0
    revoked_at: float = 0.0
    plan: Plan = field(default_factory=Plan)

    def valid_at(self, now: float) -> bool:
        return not (self.revoked_at and now >= self.revoked_at) and not (self.expires_at and now >= self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRing:
    keys: tuple[ApiKey, ...] = ()
    tenants: tuple[Tenant, ...] = ()
    orgs: tuple[Org, ...] = ()

    def scopes(self) -> tuple[Scope, ...]:
        """Return the scopes that have a bound with a meter."""
        keys = (scope(ScopeKind.KEY, key.id, key.plan) for key in self.keys)
        tenants = (scope(ScopeKind.TENANT, one.id, one.plan) for one in self.tenants)
        orgs = (scope(ScopeKind.ORG, org.id, org.plan) for org in self.orgs)
        return tuple(one for one in (*keys, *tenants, *orgs) if one.plan.draws)

    def tenant_of(self, scope: str) -> TenantId:
        kind, _, name = scope.partition(":")
        owners = {str(key.id): key.tenant for key in self.keys} if kind == ScopeKind.KEY else {}
        return TenantId(name) if kind == ScopeKind.TENANT else owners.get(name, TenantId(""))


def scope(kind: ScopeKind, name: str, plan: Plan) -> Scope:
    return Scope(name=str(ScopeId(kind=kind, id=name)), plan=plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The caller by its credential alone (A4).

    ``plan`` is the tenant's, with the tightest deadline, context and output bound of key, tenant and organisation.
    """

    tenant: TenantId
    key: KeyId
    role: Role
    plan: Plan
    models: tuple[Alias, ...]
    cache_salt: str
    """HMAC of the tenant id: keeps prefix caches of tenants apart (E5)."""
    scopes: tuple[Scope, ...] = ()
    """The scopes on whose meters a request draws: key, tenant, organisation, if they have metered bounds."""
    tier: ServiceTier = PLAIN_TIER
    """The service tier of this request; ``plan`` has its priority class."""
    is_job: bool = False
    """Whether a refused request comes again by itself."""
    answers_only: bool = False
    """Whether the tenant pays for complete answers only: nobody reads such an answer before its end."""
    context_of: ScopeKind = ScopeKind.TENANT
    """The scope whose ``max_context_tokens`` is the tightest."""

    def context(self, of_model: int) -> int:
        return min(of_model, self.plan.max_context_tokens or of_model)

    def may_use(self, model: str) -> bool:
        return not self.models or model in self.models

    @property
    def is_inside(self) -> bool:
        return self.tenant in _OF_THE_PLATFORM

    def sees(self, owners: Owners) -> bool:
        """Operators and the platform's own requests may use all."""
        return owners is None or self.tenant in owners or self._sees_all

    @property
    def _sees_all(self) -> bool:
        return self.is_inside or (self.tenant == OPERATORS and self.role is Role.ADMIN)
