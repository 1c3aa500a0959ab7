"""Requests, principals and versions to feed the gateway's rooms with."""

from dataclasses import replace
from typing import Any

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.models.model import Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.request import Api, InferenceRequest, Prepared
from penstock.domain.serving.shadow import Copy
from penstock.domain.serving.slo import Pace
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Plan, Principal, Role, Scope
from penstock.gateway.calls.call import Admitted, Call, Due, Timings
from penstock.gateway.calls.lease import Lease

VERSION = VersionEntry(
    id=VersionId("toy@0123456789ab"),
    digest="0123456789ab" + "0" * 52,
    task=Task.GENERATE,
    tier=Tier.CHAT,
    price=Price(prompt_per_mtok=MicroUsd(1), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(1)),
    max_model_len=2048,
    block_size=16,
    tokenizer_sha256="0" * 64,
)

DUE = Due(at=60.0, is_own=False, pace=Pace(first_s=1.0))


def principal(**changes: Any) -> Principal:  # noqa: ANN401  any field
    """Return a tenant's caller; plan fields are told as ``plan=Plan(...)``."""
    plain = Principal(
        tenant=TenantId("acme"), key=KeyId("k"), role=Role.INFER, plan=Plan(), models=(), cache_salt="salt"
    )
    return replace(plain, **changes)


def request(**changes: Any) -> InferenceRequest:  # noqa: ANN401  any field
    """Return a short chat request that arrived at second 0."""
    plain = InferenceRequest(
        id=RequestId("req-1"),
        api=Api.CHAT,
        model="toy",
        body={"model": "toy", "messages": [{"role": "user", "content": "hi"}]},
        stream=False,
        include_usage=False,
        cost=Cost(),
        arrived_at=0.0,
    )
    return replace(plain, **changes)


def arrived(*, plan: Plan | None = None, **changes: Any) -> Call:  # noqa: ANN401  any field
    """Return a call of this request as it comes to the pipeline."""
    plan = plan or Plan()
    scopes = (Scope(name="tenant:acme", plan=plan),) if plan.draws else ()
    who = principal(plan=plan, scopes=scopes)
    return Call(request=request(**changes), principal=who, timings=Timings(lambda: 0.0, 0.0))


def inside(
    request: InferenceRequest, principal: Principal, copy: Copy | None, version: VersionEntry = VERSION
) -> Admitted:
    """Return the call of a request from inside the platform, as it runs."""
    came = Call(request=request, principal=principal, timings=Timings(lambda: 0.0, 0.0), copy=copy)
    return came.chosen(version, Prepared(prompt_tokens=5)).admitted(
        request, DUE, Lease(opened_at=0.0, deadline_at=DUE.at)
    )


def call(*, plan: Plan | None = None, version: VersionEntry = VERSION, **changes: Any) -> Admitted:  # noqa: ANN401  any field
    """Return a call of this request that may run, with a prompt of five tokens."""
    chosen = arrived(plan=plan, **changes).chosen(version, Prepared(prompt_tokens=5))
    return chosen.admitted(chosen.request, DUE, Lease(opened_at=0.0, deadline_at=DUE.at))
