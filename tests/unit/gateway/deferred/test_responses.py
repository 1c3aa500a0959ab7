"""Stored responses over HTTP, at two gateways with one store."""

from dataclasses import replace
from pathlib import Path

import httpx
import msgspec
import pytest

from penstock.domain.ids import TenantId
from penstock.domain.jobs.job import JobState
from penstock.domain.tenancy.tenant import FETCHED_S, Plan
from penstock.gateway.deferred import response_bodies
from penstock.gateway.deferred.kept_responses import KeepOutcome
from penstock.gateway.openai.rules import LOGPROBS
from tests.support.gateways.stored import OTHER_SECRET, Item, Site, events

OK, BAD, GONE = 200, 400, 404
BODY: Item = {"model": "m", "input": "hi"}


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def ids(answer: httpx.Response) -> list[str]:
    return [item["id"] for item in answer.json()["data"]]


def read(answer: httpx.Response) -> list[Item]:
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [msgspec.json.decode(line) for line in lines]


async def create(http: httpx.AsyncClient, **fields: object) -> httpx.Response:
    return await http.post("/v1/responses", json={**BODY, **fields})


async def test_a_response_is_the_same_at_each_gateway(site: Site) -> None:
    """It is kept without being asked for, and its body is the one that went out."""
    async with site.gateway() as one, site.gateway() as other:
        made = await create(one, metadata={"a": "b"})
        found = await other.get(f"/v1/responses/{made.json()['id']}")
    assert site.counted == [KeepOutcome.KEPT]
    assert (found.status_code, found.content) == (OK, made.content)


@pytest.mark.parametrize("asked", [{}, {"metadata": {"a": "b"}, "max_output_tokens": 9, "user": "u"}])
async def test_a_response_has_the_same_fields_by_every_way(site: Site, asked: Item) -> None:
    """At once, streamed, stored or not, in the background as it waits, ended or cancelled."""
    async with site.gateway() as http:
        kept = (await create(http, **asked)).json()
        streamed = [
            event["response"] for event in read(await create(http, **asked, stream=True)) if "response" in event
        ]
        found = {"sync": kept, "unstored": (await create(http, **asked, store=False)).json()}
        found |= {f"streamed {number}": one for number, one in enumerate(streamed)}
        found["stored"] = (await http.get(f"/v1/responses/{kept['id']}")).json()
        found["waits"] = made = (await create(http, **asked, background=True)).json()
        job, reply = await site.begin(made["id"])
        reply.write(events(job.request, "Hello"))
        await site.end(job, await reply.close())
        found["ended"] = (await http.get(f"/v1/responses/{made['id']}")).json()
        left = (await create(http, **asked, background=True)).json()["id"]
        found["cancelled"] = (await http.post(f"/v1/responses/{left}/cancel")).json()
    alike = ("error", *response_bodies.ALIKE)
    for way, one in found.items():
        assert {name: one[name] for name in alike} == {name: kept[name] for name in alike}, way
        assert (one["store"], "completed_at" in one) == (way != "unstored", True), way
        assert (one["completed_at"] is None) == (one["status"] != "completed"), way
    assert {one["status"] for one in found.values()} == {"queued", "in_progress", "completed", "cancelled"}


@pytest.mark.parametrize("is_stream", [False, True])
async def test_a_conversation_goes_on_at_another_gateway(site: Site, is_stream: bool) -> None:
    """The stored turns are before the input, and the answer names the response before it."""
    async with site.gateway() as one, site.gateway() as other:
        first = (await create(one, store=True)).json()["id"]
        answer = await create(other, previous_response_id=first, input="and?", stream=is_stream)
        body = read(answer)[-1]["response"] if is_stream else answer.json()
        assert isinstance(body, dict)
        kept = (await one.get(f"/v1/responses/{body['id']}")).json()
        items = await one.get(f"/v1/responses/{body['id']}/input_items", params={"order": "asc"})
    assert body["previous_response_id"] == kept["previous_response_id"] == first
    assert body["output"][0]["content"][0]["text"] == "3"
    given = [(item["role"], item["content"][0]["text"]) for item in items.json()["data"]]
    assert given == [("user", "hi"), ("assistant", "1"), ("user", "and?")]
    assert int(answer.headers.get("content-length", len(answer.content))) == len(answer.content)
    assert not {"store", "background", "previous_response_id"} & site.toy.seen.calls[-1].request.body.keys()


async def test_a_tools_result_answers_a_stored_call(site: Site) -> None:
    """A result without a call in the whole conversation is refused at the caller's own place."""
    async with site.gateway() as http:
        first = (await create(http)).json()["id"]
        wrong = [{"type": "function_call_output", "call_id": "none", "output": "4"}]
        refused = await create(http, previous_response_id=first, input=wrong)
    assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, "input[0].call_id")


async def test_what_shall_not_be_stored_is_not(site: Site) -> None:
    """Neither the answer nor its input is written anywhere."""
    async with site.gateway() as http:
        made = await create(http, store=False)
        assert (await http.get(f"/v1/responses/{made.json()['id']}")).status_code == GONE
    assert (site.counted, [*site.folder.rglob("*")]) == ([], [])


async def test_deletion_takes_the_bytes(site: Site) -> None:
    """After it there is no object left, and a second deletion finds nothing."""
    async with site.gateway() as http:
        name = f"/v1/responses/{(await create(http)).json()['id']}"
        deleted = await http.delete(name)
        again = await http.delete(name)
        refused = await create(http, previous_response_id=name.rpartition("/")[2])
    assert deleted.json() == {"id": name.rpartition("/")[2], "object": "response", "deleted": True}
    assert again.status_code == GONE
    assert [path for path in site.folder.rglob("*") if path.is_file()] == []
    told = refused.json()["error"]
    assert (refused.status_code, told["param"], told["code"]) == (
        BAD,
        "previous_response_id",
        "previous_response_not_found",
    )


async def test_what_was_shredded_is_gone_before_it_is_swept(site: Site) -> None:
    """A 404 that says so; no other turn continues from it, and it can be deleted."""
    async with site.gateway() as http:
        name = (await create(http)).json()["id"]
        site.keys.is_shredded = True
        told = [await http.get(f"/v1/responses/{name}{path}") for path in ("", "/input_items")]
        refused = await create(http, previous_response_id=name)
        deleted = await http.delete(f"/v1/responses/{name}")
    assert [(one.status_code, one.json()["error"]["code"]) for one in told] == [(GONE, "payload_gone")] * 2
    assert (refused.status_code, refused.json()["error"]["code"]) == (BAD, "previous_response_not_found")
    assert deleted.status_code == OK


@pytest.mark.parametrize(
    ("method", "path"), [("GET", ""), ("GET", "/input_items"), ("POST", "/cancel"), ("DELETE", "")]
)
async def test_another_tenants_response_is_not_there(site: Site, method: str, path: str) -> None:
    """Nor can it be continued."""
    async with site.gateway() as http, site.gateway(OTHER_SECRET) as other:
        name = (await create(http, background=True, stream=False)).json()["id"]
        assert (await other.request(method, f"/v1/responses/{name}{path}")).status_code == GONE
        assert (await create(other, previous_response_id=name)).status_code == BAD
        assert (await http.get(f"/v1/responses/{name}")).json()["status"] == "queued"


async def test_a_background_response_has_each_state(site: Site) -> None:
    """Whoever asks, at any gateway, sees it queued, running, and with its answer."""
    async with site.gateway() as one, site.gateway() as other:
        made = (await create(one, background=True, instructions="Be brief")).json()
        name = made["id"]
        seen = [(await other.get(f"/v1/responses/{name}")).json()["status"]]
        job, reply = await site.begin(name)
        seen.append((await other.get(f"/v1/responses/{name}")).json()["status"])
        reply.write(events(job.request, "Hello"))
        await site.end(job, await reply.close())
        answer = (await other.get(f"/v1/responses/{name}")).json()
    assert (made["status"], made["background"], made["instructions"], seen) == (
        "queued",
        True,
        "Be brief",
        ["queued", "in_progress"],
    )
    assert (answer["status"], answer["id"], answer["created_at"]) == ("completed", name, made["created_at"])
    assert answer["output"][0]["content"][0]["text"] == "Hello"


async def test_a_background_response_is_continued_when_it_has_ended(site: Site) -> None:
    """Before, the refusal says what to wait for; a cancelled one has nothing to continue."""
    async with site.gateway() as http:
        name = (await create(http, background=True)).json()["id"]
        early = await create(http, previous_response_id=name)
        job, reply = await site.begin(name)
        reply.write(events(job.request, "Hello"))
        await site.end(job, await reply.close())
        assert (await create(http, previous_response_id=name)).json()["output"][0]["content"][0]["text"] == "3"
        cancelled = (await create(http, background=True)).json()["id"]
        await http.post(f"/v1/responses/{cancelled}/cancel")
        late = await create(http, previous_response_id=cancelled)
    for refused in (early, late):
        assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, "previous_response_id")


async def test_cancel_is_idempotent(site: Site) -> None:
    """What has ended stays as it ended, and what ran with a caller can't be cancelled."""
    async with site.gateway() as http:
        queued, done = [(await create(http, background=True)).json()["id"] for _ in range(2)]
        first, second = [await http.post(f"/v1/responses/{queued}/cancel") for _ in range(2)]
        job, reply = await site.begin(done)
        reply.write(events(job.request, "Hello", ends="incomplete"))
        await site.end(job, await reply.close())
        late = await http.post(f"/v1/responses/{done}/cancel")
        kept = (await create(http)).json()["id"]
        refused = await http.post(f"/v1/responses/{kept}/cancel")
    assert first.json()["status"] == "cancelled"
    assert second.content == first.content
    assert late.json()["status"] == "incomplete"
    assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, "response_id")


async def test_a_cancel_waits_for_the_runner(site: Site) -> None:
    """It answers with the state as it then is: no answer comes after a state that says there is none."""
    site.jobs.stops_at_once = False
    async with site.gateway() as http:
        name = (await create(http, background=True)).json()["id"]
        await site.begin(name)
        asked = await http.post(f"/v1/responses/{name}/cancel")
    assert asked.json()["status"] == "in_progress"


async def test_a_failed_response_tells_its_error(site: Site) -> None:
    """The message is that of the error's own answer, its code one of OpenAI's."""
    async with site.gateway() as http:
        name = (await create(http, background=True)).json()["id"]
        job = site.jobs.claimed(name)
        await site.end(job, b'{"error":{"message":"the engine failed"}}', JobState.FAILED, 502)
        answer = (await http.get(f"/v1/responses/{name}")).json()
    assert (answer["status"], answer["error"]) == (
        "failed",
        {"code": "server_error", "message": "the engine failed"},
    )


async def test_a_deleted_answer_is_gone_under_its_key(site: Site) -> None:
    """A repeat is the same response until its deletion, and then a new one."""
    headers = {"idempotency-key": "k"}
    async with site.gateway() as http:
        names = []
        for _ in range(2):
            names += [(await http.post("/v1/responses", json=BODY, headers=headers)).json()["id"] for _ in range(2)]
            await http.delete(f"/v1/responses/{names[-1]}")
    assert (names[0] == names[1], names[2] == names[3], names[1] == names[2]) == (True, True, False)


async def test_a_repeated_submit_makes_one_response(site: Site) -> None:
    """The key is the caller's; another body under it is refused."""
    async with site.gateway() as one, site.gateway() as other:
        body = {"model": "m", "input": "hi", "background": True}
        headers = {"idempotency-key": "k"}
        first = await one.post("/v1/responses", json=body, headers=headers)
        again = await other.post("/v1/responses", json=body, headers=headers)
        conflict = await other.post("/v1/responses", json={**body, "input": "ho"}, headers=headers)
    assert first.json()["id"] == again.json()["id"]
    assert conflict.status_code == httpx.codes.UNPROCESSABLE_ENTITY
    assert len([path for path in site.folder.rglob("*") if path.is_file()]) == 1


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"stream": "yes"}, "stream"),
        ({"stream": "true"}, "stream"),
        ({"starting_after": "1"}, "starting_after"),
        ({"stream": "true", "starting_after": "-1"}, "stream"),
        ({"what": "1"}, "what"),
    ],
)
async def test_wrong_questions_are_refused(site: Site, query: dict[str, str], param: str) -> None:
    """Each refusal names the parameter; events are kept only of background streams."""
    async with site.gateway() as http:
        name = (await create(http)).json()["id"]
        refused = await http.get(f"/v1/responses/{name}", params=query)
    assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, param)


@pytest.mark.parametrize(
    ("query", "param"), [({"limit": "0"}, "limit"), ({"order": "up"}, "order"), ({"after": "x"}, "after")]
)
async def test_wrong_pages_are_refused(site: Site, query: dict[str, str], param: str) -> None:
    """Each refusal names the parameter."""
    async with site.gateway() as http:
        name = (await create(http)).json()["id"]
        refused = await http.get(f"/v1/responses/{name}/input_items", params=query)
        includes = {"include[]": [LOGPROBS, "reasoning.encrypted_content"]}
        items = await http.get(f"/v1/responses/{name}/input_items", params=includes)
    assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, param)
    assert (items.status_code, ids(items)) == (OK, ["msg_000000"])


@pytest.mark.parametrize("field", ["include", "include[]"])
@pytest.mark.parametrize("path", ["", "/input_items"])
async def test_an_unknown_include_is_refused(site: Site, path: str, field: str) -> None:
    """As in a create: its client would look for what never comes."""
    async with site.gateway() as http:
        name = (await create(http)).json()["id"]
        refused = await http.get(f"/v1/responses/{name}{path}", params={field: "x"})
    assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, "include[0]")


async def test_a_background_response_must_be_stored(site: Site) -> None:
    """The refusal names the field that forbids it."""
    async with site.gateway() as http:
        refused = await create(http, background=True, store=False)
    assert (refused.status_code, refused.json()["error"]["param"]) == (BAD, "store")


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_counts_are_only_asked_by_post(site: Site, method: str) -> None:
    """The path of the token count is no response's."""
    async with site.gateway() as http:
        answer = await http.request(method, "/v1/responses/input_tokens")
    assert answer.status_code == httpx.codes.METHOD_NOT_ALLOWED


async def test_a_count_has_the_stored_turns(site: Site) -> None:
    """A count of a next turn counts the whole conversation."""
    async with site.gateway() as http:
        first = (await create(http)).json()["id"]
        await http.post("/v1/responses/input_tokens", json={"model": "m", "input": "x", "previous_response_id": first})
    given = site.toy.seen.calls[-1].request.body["input"]
    assert isinstance(given, list)
    assert len(given) == 3


@pytest.fixture
def forgetful(site: Site) -> Site:
    """Return a site of which the tenant has no retention."""
    tenants = tuple(replace(one, plan=Plan(zero_retention=True)) for one in site.ring.tenants)
    site.ring = replace(site.ring, tenants=tenants)
    return site


async def test_without_retention_no_answer_is_stored(forgetful: Site) -> None:
    """As if each request had said so."""
    async with forgetful.gateway() as http:
        made = await create(http, store=True)
        assert (made.status_code, (await http.get(f"/v1/responses/{made.json()['id']}")).status_code) == (OK, GONE)


async def test_without_retention_a_background_response_goes_after_its_fetch(forgetful: Site) -> None:
    """A look while it waits changes nothing; the look at its end gives it another minute."""
    async with forgetful.gateway() as http:
        response = (await create(http, background=True)).json()["id"]
        await http.get(f"/v1/responses/{response}")
        kept = await forgetful.rows.find(TenantId("acme"), response)
        assert kept is not None
        assert kept.expires_at > forgetful.clock.now() + 3600
        job, reply = await forgetful.begin(response)
        reply.write(events(job.request, "Hello"))
        await forgetful.end(job, await reply.close())
        assert (await http.get(f"/v1/responses/{response}")).json()["status"] == "completed"
        kept = await forgetful.rows.find(TenantId("acme"), response)
    assert kept is not None
    assert kept.expires_at <= forgetful.clock.now() + FETCHED_S
