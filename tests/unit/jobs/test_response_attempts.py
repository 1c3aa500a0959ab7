"""Attempts at background responses, over sealed files and rows in memory."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import TenantId
from penstock.domain.jobs.errors import PayloadGone
from penstock.domain.jobs.ids import ObjectId
from penstock.domain.jobs.stored_response import ResponseId
from penstock.gateway.calls.call import nothing
from penstock.jobs import response_attempts
from tests.support.gateways.stored import Site, events

ACME = TenantId("acme")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def submitted(site: Site, *, is_stream: bool = True) -> ResponseId:
    """Submit a background response."""
    async with site.gateway() as http:
        body = {"model": "m", "input": "hi", "background": True, "stream": is_stream}
        asked = asyncio.create_task(http.post("/v1/responses", json=body))
        await site.jobs.submitted.wait()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
    return site.jobs.newest


async def test_the_answer_is_the_engines_under_the_responses_name(site: Site) -> None:
    """Its id and time are the response's; the platform's own field is that of the stream's comment."""
    response = await submitted(site)
    job, reply = await site.begin(response)
    reply.write(b': penstock {"version":"m@1"}\n\n' + events(job.request, "Hello", ends="incomplete"))
    body = msgspec.json.decode(await reply.close())
    assert (body["id"], body["background"], body["status"]) == (response, True, "incomplete")
    assert body["penstock"] == {"version": "m@1"}


@pytest.mark.parametrize("data", [b"", b"event: x\ndata: {\n\n"])
async def test_an_attempt_without_an_end_has_no_answer(site: Site, data: bytes) -> None:
    """An engine that broke off, or wrote something else, delivers nothing."""
    response = await submitted(site)
    job, reply = await site.begin(response)
    reply.write(events(job.request, "Hel", ends=""))
    reply.write(data)
    assert await reply.close() == b""


async def test_events_are_kept_only_if_they_were_asked_for(site: Site) -> None:
    """Without a stream an attempt writes its answer alone."""
    response = await submitted(site, is_stream=False)
    job, reply = await site.begin(response)
    reply.write(events(job.request, "Hello"))
    assert await reply.close()
    assert await site.rows.events(response, 0, newest_only=False) == []


async def test_an_attempt_that_lost_its_job_keeps_no_event(site: Site) -> None:
    """Its request ends as soon as a piece is refused, and what it made is no answer."""
    response = await submitted(site)
    job, reply = await site.begin(response)
    gone: list[bool] = []
    reply.watch(on_gone=lambda: gone.append(True), on_pause=nothing, on_resume=nothing)
    site.jobs.claimed(response)
    reply.write(events(job.request, "Hello"))
    assert await reply.close() == b""
    assert (gone, reply.is_fenced) == ([True], True)
    assert await site.rows.events(response, 0, newest_only=False) == []


async def test_a_deleted_response_is_not_begun(site: Site) -> None:
    """Its job has nothing to answer."""
    response = await submitted(site)
    await site.rows.delete(ACME, response)
    with pytest.raises(PayloadGone):
        await site.begin(response)


@pytest.mark.parametrize("away", [1, response_attempts.TRIES])
async def test_a_store_that_is_away_gets_a_piece_again(site: Site, monkeypatch: pytest.MonkeyPatch, away: int) -> None:
    """A restart loses no event; a store that stays away ends the attempt."""
    monkeypatch.setattr(response_attempts, "AGAIN_S", 0.01)
    response = await submitted(site)
    job, reply = await site.begin(response)
    put, left = site.payloads.put, [away]

    async def failing(tenant: TenantId, name: ObjectId, data: bytes) -> None:
        await put(tenant, name, data)  # the object may be there although its writer saw an error
        left[0] -= 1
        if left[0] >= 0:
            raise StoreUnavailable

    monkeypatch.setattr(site.payloads, "put", failing)
    reply.write(events(job.request, "Hello"))
    if away < response_attempts.TRIES:
        assert await reply.close()
        assert (await site.rows.begun(response)).number > 2
        return
    monkeypatch.setattr(site.payloads, "put", _away)
    with pytest.raises(StoreUnavailable):
        await reply.close()


async def _away(_tenant: TenantId, _name: ObjectId, _data: bytes) -> None:
    raise StoreUnavailable
