"""Requests, principals and versions to feed the gateway's rooms with."""

from dataclasses import replace
from typing import Any

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.models.model import Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.request import Api, InferenceRequest, Prepared
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Plan, Principal, Role, Scope
from penstock.gateway.calls.call import Call, Timings

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


def call(*, plan: Plan | None = None, version: VersionEntry | None = VERSION, **changes: Any) -> Call:  # noqa: ANN401  any field
    """Return a resolved call of this request, with a prompt of five tokens."""
    plan = plan or Plan()
    scopes = (Scope(name="tenant:acme", plan=plan),) if plan.draws else ()
    who = principal(plan=plan, scopes=scopes)
    return Call(
        request=request(**changes),
        principal=who,
        timings=Timings(lambda: 0.0, 0.0),
        version=version,
        prepared=Prepared(prompt_tokens=5),
    )
