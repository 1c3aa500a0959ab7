"""Events of a background response, followed from any number at any gateway."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from openai.types.responses import ResponseStreamEvent

from penstock.domain.ids import TenantId
from penstock.domain.jobs.job import JobState
from penstock.domain.jobs.stored_response import ResponseId
from penstock.gateway.answers.sse import data_of, split
from penstock.gateway.calls.call import nothing
from penstock.gateway.deferred import response_stream
from penstock.gateway.deferred.response_stream import ResponseStream
from tests.support.gateways.stored import Item, Site, events

ENDS = {"response.completed", "response.incomplete", "response.failed"}
KNOWN = {
    kind
    for event in get_args(get_args(ResponseStreamEvent)[0])
    for kind in get_args(event.model_fields["type"].annotation)
}
"""The types of events that the SDK knows."""


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def read(data: bytes) -> list[Item]:
    found = [event for event in split(data) if not event.startswith(b":")]
    return [msgspec.json.decode(data_of(event)) for event in found]


async def made(site: Site) -> ResponseId:
    """Make a background response with events, as a gateway does."""
    async with site.gateway() as http:
        body = {"model": "m", "input": "hi", "background": True, "stream": True}
        following = asyncio.create_task(http.post("/v1/responses", json=body))
        await site.jobs.submitted.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return site.jobs.newest


async def followed(site: Site, response: ResponseId, after: int = response_stream.NOTHING_SEEN) -> list[Item]:
    """Follow the events to their end, over HTTP."""
    query = {"stream": "true"} | ({} if after < 0 else {"starting_after": str(after)})
    async with site.gateway() as http:
        answer = await http.get(f"/v1/responses/{response}", params=query)
    assert answer.headers["content-type"].startswith("text/event-stream")
    return read(answer.content)


async def begun(site: Site, response: ResponseId) -> AsyncIterator[bytes]:
    """Follow the events up to the first."""
    found = await site.stored.find(TenantId("acme"), response)
    assert found is not None
    following = ResponseStream(stored=site.stored).events(found, await site.stored.beginning(found))
    await anext(following)
    return following


def numbers(found: list[Item]) -> list[object]:
    return [event["sequence_number"] for event in found]


async def run(site: Site, response: ResponseId, *texts: str) -> None:
    job, reply = await site.begin(response)
    reply.write(events(job.request, *texts))
    await site.end(job, await reply.close())


async def test_all_gateways_send_the_same_events(site: Site) -> None:
    """From the queue to the one end, numbered without a gap, under the response's own id."""
    response = await made(site)
    await run(site, response, "Hello")
    one, other = [await followed(site, response) for _ in range(2)]
    assert one == other
    assert numbers(one) == list(range(len(one)))
    assert [event["type"] for event in one[:3]] == ["response.created", "response.queued", "response.in_progress"]
    assert [event["type"] for event in one if event["type"] in ENDS] == ["response.completed"]
    told = [event["response"] for event in one if "response" in event]
    assert {(one["id"], one["background"]) for one in told if isinstance(one, dict)} == {(response, True)}


@pytest.mark.parametrize("after", range(7))
async def test_a_client_comes_back_anywhere(site: Site, after: int) -> None:
    """What it has seen does not come again, and nothing is left out; after the end nothing comes."""
    response = await made(site)
    await run(site, response, "Hello")
    whole = await followed(site, response)
    assert await followed(site, response, after) == whole[after + 1 :]


async def test_events_come_while_the_answer_grows(site: Site) -> None:
    """A follower that came first gets each event once, and then the end."""
    response = await made(site)
    following = asyncio.create_task(followed(site, response))
    job, reply = await site.begin(response)
    for text in ("one", "two"):
        reply.write(events(job.request, text, ends=""))
        await asyncio.sleep(0.3)
    reply.write(events(job.request, "three"))
    await site.end(job, await reply.close())
    found = await following
    assert numbers(found) == list(range(len(found)))
    assert [event["delta"] for event in found if "delta" in event] == ["one", "two", "three"]


async def test_a_second_attempt_goes_on_for_those_who_saw_the_first(site: Site) -> None:
    """They see its item closed as incomplete, and the next one's index; a new client sees one attempt."""
    response = await made(site)
    job, lost = await site.begin(response)
    lost.write(events(job.request, "Hel", ends=""))
    await asyncio.sleep(0.3)
    await run(site, response, "Hello")
    whole = await followed(site, response, 2)
    assert numbers(whole) == list(range(3, 3 + len(whole)))
    items = [event for event in whole if str(event["type"]).startswith("response.output_item.")]
    told = [(str(event["type"]).rpartition(".")[2], event["output_index"]) for event in items]
    assert told == [("added", 0), ("done", 0), ("added", 1), ("done", 1)]
    assert isinstance(items[1]["item"], dict)
    assert items[1]["item"]["status"] == "incomplete"
    assert sum(event["type"] in ENDS for event in whole) == 1
    fresh = await followed(site, response)
    assert [event["delta"] for event in fresh if "delta" in event] == ["Hello"]
    assert whole[-1] == fresh[-1]


async def test_a_frozen_runner_keeps_no_event(site: Site) -> None:
    """When it goes on, its job has another attempt: it is told, and what it made is dropped."""
    response = await made(site)
    job, frozen = await site.begin(response)
    frozen.write(events(job.request, "Hel", ends=""))
    await asyncio.sleep(0.3)
    site.jobs.claimed(response)
    gone: list[bool] = []
    frozen.watch(on_gone=lambda: gone.append(True), on_pause=nothing, on_resume=nothing)
    before = await site.rows.begun(response)
    frozen.write(events(job.request, "Hello"))
    assert await frozen.close() == b""
    assert (frozen.is_fenced, gone) == (True, [True])
    assert await site.rows.begun(response) == before


@pytest.mark.parametrize("state", [JobState.CANCELLED, JobState.FAILED])
async def test_an_end_without_an_answer_is_an_event(site: Site, state: JobState) -> None:
    """The last event has the state, under a type that SDKs know, whatever was kept before."""
    response = await made(site)
    job, reply = await site.begin(response)
    reply.write(events(job.request, "Hel", ends=""))
    await reply.close()
    await site.end(job, b"", state, status=0)
    found = await followed(site, response)
    assert found[-1]["type"] == f"response.{state.replace('cancelled', 'incomplete')}"
    assert found[-1]["response"]["status"] == state  # type: ignore[index]
    assert {event["type"] for event in found} <= KNOWN
    assert numbers(found) == list(range(len(found)))


async def test_a_number_beyond_the_newest_event_is_refused(site: Site) -> None:
    """Before and after the end; behind the last one nothing comes."""
    response = await made(site)
    for newest in (2, 6):
        async with site.gateway() as http:
            query = {"stream": "true", "starting_after": str(newest + 1)}
            refused = await http.get(f"/v1/responses/{response}", params=query)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "starting_after")
        assert f"event, {newest}" in refused.json()["error"]["message"]
        await run(site, response, "Hello") if newest == 2 else None
    assert await followed(site, response, 6) == []


async def test_a_deleted_response_ends_its_followers(site: Site) -> None:
    """Their stream ends without a last event: there is nothing left to tell."""
    response = await made(site)
    following = await begun(site, response)
    async with site.gateway() as http:
        await http.delete(f"/v1/responses/{response}")
    found = read(b"".join([event async for event in following]))
    assert {event["type"] for event in found} & ENDS <= {"response.incomplete"}


async def test_a_shredded_response_has_no_stream(site: Site) -> None:
    """A 404 ahead of the first event; whoever follows already sees the stream end."""
    response = await made(site)
    following = await begun(site, response)
    await run(site, response, "Hello")
    site.keys.is_shredded = True
    assert {event["type"] for event in read(b"".join([event async for event in following]))} == {"response.queued"}
    async with site.gateway() as http:
        for query in ("", "&starting_after=1"):
            gone = await http.get(f"/v1/responses/{response}?stream=true{query}")
            assert (gone.status_code, gone.json()["error"]["code"]) == (404, "payload_gone")


async def test_a_silent_stream_says_that_it_lives(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment comes while the response waits; proxies end connections that say nothing."""
    monkeypatch.setattr(response_stream, "BEAT_S", 0.1)
    response = await made(site)
    found = await site.stored.find(TenantId("acme"), response)
    assert found is not None
    async for event in ResponseStream(stored=site.stored).events(found, {}, 1):
        assert event == response_stream.BEAT
        break


async def test_followers_are_streams_of_their_tenant(site: Site) -> None:
    """Over ``max_streams`` a 429 says when to come again; an end makes room."""
    response = await made(site)
    one, *others = site.ring.tenants
    site.ring = replace(site.ring, tenants=(replace(one, plan=replace(one.plan, max_streams=1)), *others))
    async with site.gateway() as http:
        path, query = f"/v1/responses/{response}", {"stream": "true"}
        following = asyncio.create_task(http.get(path, params=query))
        await asyncio.sleep(0.2)
        refused = await http.get(path, params=query)
        await run(site, response, "a")
        await following
        again = await http.get(path, params=query)
    assert (refused.status_code, again.status_code) == (429, 200)
    assert int(refused.headers["retry-after"]) >= 1
