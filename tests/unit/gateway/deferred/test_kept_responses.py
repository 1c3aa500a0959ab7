"""Answers that could not be stored: they went out all the same, and are counted."""

from pathlib import Path

import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import ObjectId
from penstock.gateway.deferred import kept_responses
from penstock.gateway.deferred.kept_responses import KeepOutcome
from tests.support.gateways.stored import Site


async def ask(site: Site) -> int:
    async with site.gateway() as http:
        made = await http.post("/v1/responses", json={"model": "m", "input": "hi"})
        await site.settled()
        assert made.is_success
        return (await http.get(f"/v1/responses/{made.json()['id']}")).status_code


async def test_a_store_that_is_away_costs_the_memory_and_not_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response is not found later, and the next answers say that they are not kept."""
    site = Site(tmp_path)

    async def away(_tenant: TenantId, _name: ObjectId, _data: bytes) -> None:
        raise StoreUnavailable

    monkeypatch.setattr(site.payloads, "put", away)
    async with site.gateway() as http:
        told = []
        for _ in range(2):
            told.append((await http.post("/v1/responses", json={"model": "m", "input": "hi"})).json())
            await site.settled()
        assert (await http.get(f"/v1/responses/{told[0]['id']}")).status_code == 404
    assert site.counted == [KeepOutcome.FAILED] * 2
    assert [one["store"] for one in told] == [True, False]


async def test_a_slow_store_takes_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound of what waits for it, answers are dropped."""
    monkeypatch.setattr(kept_responses, "MOST_PENDING_BYTES", 0)
    site = Site(tmp_path)
    assert await ask(site) == 404
    assert site.counted == [KeepOutcome.DROPPED]
