"""The rights, bounds and price under which a job runs."""

from dataclasses import replace

import pytest

from penstock.domain.errors import UnknownModel
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId
from penstock.domain.models.model import Tier
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.standing import Standing, standing_of
from penstock.domain.tenancy.tenant import (
    Plan,
    Principal,
    Priority,
    Role,
    Scope,
    ServiceTier,
    TierName,
)
from penstock.jobs.principal import as_batch, of_job

FLEX = ServiceTier(name=TierName.FLEX, priority=Priority.BATCH, price_factor=0.5)
LIVE = Plan(
    priority=Priority.INTERACTIVE,
    requests_per_min=5,
    tokens_per_min=100,
    max_concurrent=2,
    max_streams=1,
    deadline_s=10.0,
    degrade_output_tokens=8,
    max_output_tokens=64,
)
PAYING = replace(LIVE, spend_per_day=MicroUsd(1_000_000))
HOLDER = Principal(
    tenant=TenantId("acme"),
    key=KeyId("k"),
    role=Role.INFER,
    plan=LIVE,
    models=(Alias("chat"),),
    cache_salt="s",
    scopes=(Scope(name="key:k", plan=LIVE), Scope(name="tenant:acme", plan=PAYING)),
)
VERSION = VersionId("llama@0123456789ab")


def test_a_job_runs_in_the_lowest_class_whatever_its_plan_says() -> None:
    """An interactive tenant's job stands behind all of its live requests."""
    assert standing_of(as_batch(HOLDER).plan) is Standing.BATCH


def test_live_limits_do_not_bind_and_budgets_do() -> None:
    """Neither rates nor slots nor the live deadline count for a job; the tenant's spend and output bound do."""
    found = as_batch(HOLDER)
    plan = found.plan
    assert (plan.requests_per_min, plan.tokens_per_min, plan.max_concurrent, plan.max_streams) == (0, 0, 0, 0)
    assert (plan.deadline_s, plan.degrade_output_tokens, plan.max_output_tokens) == (0.0, 0, 64)
    assert [(one.name, one.plan.spend_per_day) for one in found.scopes] == [("tenant:acme", MicroUsd(1_000_000))]
    assert found.scopes[0].plan.tokens_per_min == 0


def test_a_job_has_the_batch_tiers_price_and_promise() -> None:
    """The plan's own tier of class batch decides its price; without one it is the version's."""
    flexible = replace(HOLDER, plan=replace(LIVE, service_tiers=(FLEX,)))
    assert [as_batch(one).tier.price_factor for one in (HOLDER, flexible)] == [1.0, 0.5]
    assert as_batch(HOLDER).tier.slo is Tier.BATCH


def test_a_pinned_version_is_let_through_for_a_key_of_its_alias() -> None:
    """A key that may use only the alias runs the version that the alias led to when the job was accepted."""
    found = of_job(HOLDER, Alias("chat"), VERSION)
    assert found.may_use(VERSION)
    assert not found.may_use("other")


def test_a_key_that_lost_a_model_runs_it_no_more() -> None:
    """Rights are looked at when a job runs, not only when it was accepted."""
    with pytest.raises(UnknownModel):
        of_job(HOLDER, Alias("other"), VERSION)


def test_only_an_answer_is_paid_for() -> None:
    """An attempt that delivers nothing costs its tenant nothing."""
    assert as_batch(HOLDER).answers_only
    assert as_batch(HOLDER).is_job
    assert not HOLDER.answers_only
    assert not HOLDER.is_job
