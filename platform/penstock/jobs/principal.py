"""The principal of a job: its key's tenant and rights as they are now, without the bounds of live traffic. Pure."""

from dataclasses import replace

from penstock.domain.errors import UnknownModel
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.tenancy.tenant import (
    NO_MODEL,
    PLAIN_TIER,
    OverQuota,
    Plan,
    Principal,
    Priority,
    ServiceTier,
)


def check_model(holder: Principal, model: Alias, version: VersionId) -> None:
    """Raise ``UnknownModel`` if the key may not use the model, as its own request would."""
    if not holder.may_use(model) and not holder.may_use(version):
        raise UnknownModel(f"the model {model!r} does not exist, or this key may not see it", param="model")


def of_job(holder: Principal, model: Alias, version: VersionId) -> Principal:
    """Return the principal for a job's pinned version; ``UnknownModel`` if its key may no longer use the model."""
    check_model(holder, model, version)
    return replace(as_batch(holder), models=(Alias(version),))


def as_batch(holder: Principal) -> Principal:
    """Return the principal in its tenant's batch class: at the price of the batch tier, within its budgets alone."""
    scopes = (replace(scope, plan=_without_rates(scope.plan)) for scope in holder.scopes)
    return replace(
        holder,
        plan=replace(_without_rates(holder.plan), priority=Priority.BATCH),
        scopes=tuple(scope for scope in scopes if scope.plan.draws),
        tier=tier_of(holder.plan),
        is_job=True,
        answers_only=True,
    )


def tier_of(plan: Plan) -> ServiceTier:
    """Return the plan's tier of class batch, or the version's price in that class."""
    own = next((tier for tier in plan.service_tiers if tier.priority is Priority.BATCH), PLAIN_TIER)
    return replace(own, priority=Priority.BATCH, slo=own.slo or Tier.BATCH)


def _without_rates(plan: Plan) -> Plan:
    """Return the plan without bounds of live traffic; a job waits, so it is neither shortened nor answered by less."""
    return replace(
        plan,
        max_concurrent=0,
        max_streams=0,
        requests_per_min=0,
        tokens_per_min=0,
        deadline_s=0.0,
        degrade_output_tokens=0,
        degrade_model=NO_MODEL,
        over_quota=OverQuota.REFUSE,
    )
