"""Bodies of the operators' API. Unknown fields of a body, or of an object inside it, are refused by name.

Bodies use the domain's dataclasses unchanged, since pydantic applies ``Strict``'s settings to them.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from penstock.domain.fleet.table import Override, Share
from penstock.domain.ids import Alias, OrgId, TenantId, VersionId
from penstock.domain.models.curves import Curve
from penstock.domain.models.model import Manifest
from penstock.domain.rollout.rollout import PATIENCE_S, STAGES, Blast, Kind, Stage
from penstock.domain.serving.auto import Rule
from penstock.domain.serving.shadow import ShadowCaps
from penstock.domain.tenancy.tenant import (
    DEFAULT_ORG,
    BatchYield,
    OverQuota,
    Plan,
    Priority,
    Role,
    ServiceTier,
    TierName,
)

MOST_REASON_CHARS = 500


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > MOST_REASON_CHARS or not line.isprintable():
        raise PydanticCustomError("reason", f"a reason is one line of {MOST_REASON_CHARS} characters at most")
    return line


Reason = Annotated[str, AfterValidator(_one_line)]
"""A person's reason for an act, in one line: histories show one act a line."""


class Strict(BaseModel):
    """A body with exactly these fields, each of its own JSON type."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class NewModel(Strict):
    """A version to register. ``signature`` names the signature in the artifact store, ``signatures/<digest>``."""

    manifest: Manifest
    signature: str
    tenants: tuple[TenantId, ...] | None = None
    """The only tenants that have the version; null is every tenant."""


class NewOwners(Strict):
    """The only tenants that have a version; null is every tenant."""

    tenants: tuple[TenantId, ...] | None


class NewCurve(Strict):
    """A curve of a version, as measured on its hardware."""

    curve: Curve


class NewShares(Strict):
    """An alias's versions and their weights. Without ``overrides`` the present ones stay."""

    shares: tuple[Share, ...]
    overrides: tuple[Override, ...] | None = None


class NewRules(Strict):
    """The rules of an auto alias: the first one that fits decides."""

    rules: tuple[Rule, ...]


class NewRollout(Strict):
    """A candidate that is to replace the version with all of an alias."""

    alias: Alias
    candidate: VersionId
    kind: Kind = Kind.EQUIVALENT
    stages: tuple[Stage, ...] = STAGES
    blast: Blast = Blast()
    shadow: ShadowCaps = ShadowCaps()
    patience_s: float = PATIENCE_S
    guard: bool = False
    reason: Reason = ""
    accept_dearer: bool = False
    override_budget: bool = False


class RolloutMove(Strict):
    """The reason for a person's move, and whether a spent error budget is overridden.

    ``stage`` is the index of the stage to promote; if the rollout is at another stage by now, nothing is done.
    """

    reason: Reason
    override_budget: bool = False
    stage: int | None = None


class NewReplicas(Strict):
    """The number of workers of a version."""

    replicas: int


class NewOverride(Strict):
    """A number of workers for ``for_s`` seconds; ``reason`` is for the audit log."""

    workers: int
    for_s: float
    reason: Reason


class NewTenant(Strict):
    """A tenant to create."""

    id: str
    name: str = ""
    plan: Plan = Plan()
    org: OrgId = DEFAULT_ORG


class Membership(Strict):
    """The organisation that a tenant moves to."""

    org: OrgId


class NewOrg(Strict):
    """An organisation to create; its plan's bounds hold for all of its tenants together."""

    id: str
    name: str = ""
    plan: Plan = Plan()


def _no_default(schema: dict[str, Any]) -> None:
    del schema["default"]


_UNCHANGED: Any = Field(default=None, json_schema_extra=_no_default)


class Changes(Strict):
    """Fields to change; fields left out stay."""

    @property
    def named(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}


class PlanChange(Changes):
    """Changes of a plan. A field left out stays; zero removes a bound."""

    priority: Priority = _UNCHANGED
    weight: int = _UNCHANGED
    max_context_tokens: int = _UNCHANGED
    max_output_tokens: int = _UNCHANGED
    max_concurrent: int = _UNCHANGED
    max_streams: int = _UNCHANGED
    requests_per_min: int = _UNCHANGED
    tokens_per_min: int = _UNCHANGED
    spend_per_day: int = _UNCHANGED
    spend_per_month: int = _UNCHANGED
    degrade_output_tokens: int = _UNCHANGED
    degrade_model: Alias = _UNCHANGED
    deadline_s: float = _UNCHANGED
    paid: bool = _UNCHANGED
    over_quota: OverQuota = _UNCHANGED
    copied: bool = _UNCHANGED
    reserved: float = _UNCHANGED
    kv_part: float = _UNCHANGED
    service_tiers: tuple[ServiceTier, ...] = _UNCHANGED
    auto_tier: TierName = _UNCHANGED
    batch_enqueued_tokens: int = _UNCHANGED
    batch_jobs: int = _UNCHANGED
    file_bytes: int = _UNCHANGED
    files: int = _UNCHANGED
    job_attempts: int = _UNCHANGED
    job_deadline_s: float = _UNCHANGED
    keep_s: float = _UNCHANGED
    keep_files_s: float = _UNCHANGED
    keep_answers_s: float = _UNCHANGED
    keep_matches_s: float = _UNCHANGED
    zero_retention: bool = _UNCHANGED
    training_use: bool = _UNCHANGED
    batch_windows: str = _UNCHANGED
    batch_hours: str = _UNCHANGED
    batch_pools: str = _UNCHANGED
    batch_yield: BatchYield = _UNCHANGED
    safety: str = _UNCHANGED


class Caps(Changes):
    """Spending caps in micro-dollars. A cap left out stays; zero removes it."""

    spend_per_day: int = _UNCHANGED
    spend_per_month: int = _UNCHANGED


class NewKey(Strict):
    """A key to create; ``expires_in_s`` 0 means never."""

    tenant: TenantId
    role: Role = Role.INFER
    models: tuple[Alias, ...] = ()
    expires_in_s: float = 0.0
    plan: Plan = Plan()


class Rotation(Strict):
    """The seconds for which the old key stays valid."""

    overlap_s: float = 3600.0


class NewDeletion(Strict):
    """What to delete: ``request`` is the id of a job, response, batch, file or request, ``user`` a caller's user,
    ``before`` a Unix second; or ``everything``. One of them must be given.
    """

    request: str | None = None
    user: str | None = None
    before: float | None = None
    everything: bool = False


class NewPack(Strict):
    """A safety pack as YAML, with rules, bounds of what is held back, and examples."""

    pack: str


class PackChoice(Strict):
    """The version of a pack to return to; null is the one below the present."""

    version: int | None = None


class NewFloor(Strict):
    """The ids of the packs that hold for every request of the platform; empty for none."""

    packs: tuple[str, ...]


class RollBack(Strict):
    """The number of the table to return to."""

    number: int


class MatchesAsked(Strict):
    """The kept texts to show: of a tenant, by default the caller's, since a Unix second; an empty name selects all."""

    tenant: str = ""
    request: str = ""
    pack: str = ""
    rule: str = ""
    since: float = 0.0
    limit: int = 100
