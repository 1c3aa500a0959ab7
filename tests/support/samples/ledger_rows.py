"""Ledger rows for tests of what is counted and sold: one plain row, with the test's changes."""

from dataclasses import replace
from typing import Any

from penstock.domain.ids import KeyId, RequestId, TenantId, VersionId
from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy.ledger import LedgerRow
from penstock.domain.tenancy.tenant import Priority


def row(request: str, *, at: float, cost: int, tenant: str = "acme", key: str = "k", **changes: Any) -> LedgerRow:  # noqa: ANN401  any field
    """Return a request that was opened at Unix second ``at`` and ended half a second later."""
    plain = LedgerRow(
        request=RequestId(request),
        tenant=TenantId(tenant),
        key=KeyId(key),
        version=VersionId("tiny@000000000000"),
        digest="d",
        api="/v1/chat/completions",
        priority=Priority.STANDARD,
        outcome=Outcome.OK,
        prompt_tokens=10,
        cached_tokens=4,
        output_tokens=5,
        exact=True,
        gpu_s=0.25,
        cost=MicroUsd(cost),
        opened_at=at,
        closed_at=at + 0.5,
    )
    return replace(plain, **changes)
