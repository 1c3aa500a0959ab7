"""Answers that could not be stored: they go out all the same, say so, and are counted."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import NoFileRoom
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.payload import ROW_BYTES
from penstock.domain.jobs.stored_response import StoredResponse
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.deferred import kept_responses
from penstock.gateway.deferred.kept_responses import KeepOutcome
from tests.support.gateways.stored import Site
from tests.support.gateways.toy import RING


async def ask(http: httpx.AsyncClient, *, is_stream: bool) -> tuple[str, bool]:
    """Return the id and ``store`` of an answer, which is complete."""
    answer = await http.post("/v1/responses", json={"model": "m", "input": "hi", "stream": is_stream})
    data = answer.text.rpartition("data: ")[2] if is_stream else answer.text
    told = msgspec.json.decode(data)
    body = told["response"] if is_stream else told
    assert body["status"] == "completed"
    return body["id"], body["store"]


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("way", ["away", "hangs", "full"])
async def test_an_answer_says_that_it_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, *, is_stream: bool
) -> None:
    """With the first one: its id is a 404, and nothing of it is stored; the next one is kept again."""
    site = Site(tmp_path)

    async def away(_tenant: TenantId, _name: ObjectId, _data: bytes) -> None:
        if way == "hangs":
            await asyncio.sleep(60)
        raise StoreUnavailable

    async def full(stored: StoredResponse, most_bytes: int = 0) -> None:
        raise NoFileRoom

    put, add = site.payloads.put, site.rows.add
    monkeypatch.setattr(kept_responses, "KEEP_S", 0.05 if way == "hangs" else 60.0)
    monkeypatch.setattr(site.rows, "add", full if way == "full" else add)
    monkeypatch.setattr(site.payloads, "put", put if way == "full" else away)
    async with site.gateway() as http:
        name, is_kept = await ask(http, is_stream=is_stream)
        assert (is_kept, (await http.get(f"/v1/responses/{name}")).status_code) == (False, 404)
        assert bytes_in(tmp_path) == 0
        monkeypatch.setattr(kept_responses, "KEEP_S", 60.0)
        monkeypatch.setattr(site.payloads, "put", put)
        monkeypatch.setattr(site.rows, "add", add)
        name, is_kept = await ask(http, is_stream=is_stream)
        assert (is_kept, (await http.get(f"/v1/responses/{name}")).status_code) == (True, 200)
    assert site.counted == [KeepOutcome.FULL if way == "full" else KeepOutcome.FAILED, KeepOutcome.KEPT]


async def test_a_plan_bounds_what_responses_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer above the bound goes out unstored; after a deletion the next one is kept."""
    tenants = [replace(one, plan=Plan(file_bytes=4 * ROW_BYTES)) for one in RING.tenants]
    site = Site(tmp_path, ring=replace(RING, tenants=tuple(tenants)))
    monkeypatch.setattr(kept_responses, "KEEP_S", 60.0)
    async with site.gateway() as http:
        told = [await ask(http, is_stream=False) for _ in range(4)]
        assert (told[0][1], told[-1][1]) == (True, False)
        await http.delete(f"/v1/responses/{told[0][0]}")
        assert (await ask(http, is_stream=False))[1] is True
