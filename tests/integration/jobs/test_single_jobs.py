"""Single jobs over HTTP on real Postgres and sealed files: submit, look, cancel, replay, delete, and bad input."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.retention import PostgresExpiringJobs
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import RequestId
from penstock.domain.jobs.ids import RunnerId
from penstock.domain.jobs.job import ClaimQuota, End, Job, JobState, PutBack, Reason
from penstock.domain.jobs.payload import Extent, object_id
from penstock.domain.tenancy.tenant import FETCHED_S, Plan
from tests.support.clock import ManualClock
from tests.support.gateways.deferred import ENDPOINT, LATER, PROMPT_TOKENS, DeferredGateway
from tests.support.samples.calls import VERSION

pytestmark = pytest.mark.integration

CLOSED = "00:00-00:01 UTC"
SECRET_WORDS = "the caller's own words"
CHAT = {"model": "toy", "messages": [{"role": "user", "content": SECRET_WORDS}], "max_tokens": 20}
WISH: dict[str, Any] = {"api": "/v1/chat/completions", "request": CHAT}
ANSWER = b'{"id":"chatcmpl-1","choices":[],"usage":{"prompt_tokens":17}}'


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that stands still until a test moves it."""
    return ManualClock()


@pytest.fixture
async def site(database: Database, tmp_path: Path, clock: ManualClock) -> AsyncIterator[DeferredGateway]:
    """Yield a gateway with its stores."""
    made = DeferredGateway(database=database, folder=tmp_path / "payloads", clock=clock)
    yield made
    await made.http.aclose()


async def submitted(site: DeferredGateway, **changes: object) -> dict[str, Any]:
    """Return the accepted job."""
    answer = await site.ask("POST", "/v1/jobs", {**WISH, **changes})
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def claimed(site: DeferredGateway) -> Job:
    """Return the next job as a runner gets it."""
    rows = await site.database.rows(
        "insert into runner (name, seen_at, started_at) values ('r', $1, $1) returning id", site.clock.now()
    )
    jobs = await site.store.claim(RunnerId(rows[0]["id"]), [ClaimQuota(version=VERSION.id, jobs=1)], site.clock.now())
    return jobs[0]


async def ended(site: DeferredGateway, state: JobState = JobState.SUCCEEDED, status: int = 200) -> None:
    """Let a runner take the next job and end it with an answer."""
    job = await claimed(site)
    place = object_id("job", job.name, f"answer-{job.epoch}")
    await site.payloads.put(job.tenant, place, ANSWER)
    end = End(
        id=job.id,
        epoch=job.epoch,
        state=state,
        at=site.clock.now(),
        reason=Reason.NONE if state is JobState.SUCCEEDED else Reason.REFUSED,
        status=status,
        request=RequestId(f"{job.name}-1"),
        output=Extent(object=place, size=len(ANSWER)),
        prompt_tokens=17,
        output_tokens=3,
    )
    assert await site.store.finish([end])


def objects(site: DeferredGateway) -> list[Path]:
    """Return the files of the payload store."""
    return [path for path in site.folder.rglob("*") if path.is_file()]


async def test_a_job_goes_from_its_submit_to_its_answer(site: DeferredGateway) -> None:
    """The answer is the API's own body with its status; state and times follow the job."""
    job = await submitted(site, metadata={"order": "17"}, webhook=ENDPOINT)
    assert (job["object"], job["state"], job["model"], job["version"]) == ("job", "queued", "toy", VERSION.id)
    assert (job["metadata"], job["webhook"], job["usage"]) == ({"order": "17"}, ENDPOINT, None)
    assert job["deadline_at"] - job["created_at"] == 86_400
    path = f"/v1/jobs/{job['id']}"
    assert (await site.ask("GET", path)).json()["response"] is None
    await ended(site)
    told = (await site.ask("GET", path)).json()
    assert (told["state"], told["reason"], told["error"]) == ("succeeded", None, None)
    assert told["response"] == {
        "status_code": 200,
        "request_id": f"{job['id']}-1",
        "body": {"id": "chatcmpl-1", "choices": [], "usage": {"prompt_tokens": 17}},
    }
    assert told["usage"] == {"prompt_tokens": 17, "completion_tokens": 3, "total_tokens": 20}
    assert told["ended_at"] is not None


async def test_an_api_error_is_a_failed_job_with_its_body(site: DeferredGateway) -> None:
    """What the API answered with a 4xx stands in the job, as it would have been answered at once."""
    job = await submitted(site)
    await ended(site, JobState.FAILED, 400)
    told = (await site.ask("GET", f"/v1/jobs/{job['id']}")).json()
    assert (told["state"], told["response"]["status_code"], told["usage"]) == ("failed", 400, None)
    assert told["error"]["code"] == "refused"


async def test_the_row_has_no_prompt_and_the_file_is_sealed(site: DeferredGateway) -> None:
    """Neither Postgres nor the folder holds the caller's words in clear."""
    await submitted(site)
    rows = await site.database.rows("select job::text as text from job")
    assert len(rows) == 1
    assert SECRET_WORDS not in rows[0]["text"]
    assert [SECRET_WORDS.encode() in path.read_bytes() for path in objects(site)] == [False]


async def test_a_rollout_does_not_change_an_accepted_job(site: DeferredGateway) -> None:
    """The alias leads elsewhere afterwards: the job keeps the version that it was accepted for."""
    job = await submitted(site)
    site.lead("toy", LATER.id)
    assert (await submitted(site))["version"] == LATER.id
    assert (await site.ask("GET", f"/v1/jobs/{job['id']}")).json()["version"] == VERSION.id


async def test_what_waits_is_counted_as_an_upper_bound(site: DeferredGateway) -> None:
    """Prompt and longest answer, of every sequence; without a bound of its own, the rest of the context."""
    await submitted(site)
    await submitted(site, request={**CHAT, "n": 2})
    await submitted(site, request={"model": "toy", "messages": CHAT["messages"]})
    costs = [row["cost_tokens"] for row in await site.database.rows("select cost_tokens from job order by id")]
    assert costs == [PROMPT_TOKENS + 20, PROMPT_TOKENS + 40, VERSION.max_model_len]


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"api": "/v1/answers"}, "api"),
        ({"api": 7}, "api"),
        ({"request": {**CHAT, "stream": True}}, "request.stream"),
        ({"request": {**CHAT, "idempotency_key": "x"}}, "request.idempotency_key"),
        ({"request": {**CHAT, "messages": "x"}}, "request.messages"),
        ({"request": {**CHAT, "max_tokens": -1}}, "request.max_tokens"),
        ({"request": {**CHAT, "service_tier": "priority"}}, "request.service_tier"),
        ({"request": {**CHAT, "n": 129}}, "request.n"),
        ({"request": []}, "request"),
        ({"request": {"messages": CHAT["messages"]}}, "request.model"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": -90}, "deadline_s"),
        ({"deadline_s": 3e6}, "deadline_s"),
        ({"deadline_s": "1h"}, "deadline_s"),
        ({"deadline_s": 1e-9}, "deadline_s"),
        ({"not_before": -1e308}, "not_before"),
        ({"not_before": 1_800_000_061.0, "deadline_s": 60}, "not_before"),
        ({"not_before": 1_900_000_000.0}, "not_before"),
        ({"metadata": {f"k{number}": "v" for number in range(17)}}, "metadata"),
        ({"webhook": "we_ffffffffffff"}, "webhook"),
        ({"webhook": "https://127.0.0.1/"}, "webhook"),
        ({"priority": "high"}, "priority"),
        ({"idempotency_key": "x"}, "idempotency_key"),
        ({"api": "/v1/responses", "request": {"model": "toy", "input": "x", "background": True}}, "request.background"),
        ({"api": "/v1/responses", "request": {"model": "toy", "input": "x", "store": True}}, "request.store"),
        ({"api": "/v1/embeddings", "request": {"model": "toy", "input": "x"}}, "request.model"),
    ],
)
async def test_bad_input_is_refused_by_its_field_before_anything_is_stored(
    site: DeferredGateway, changes: dict[str, Any], param: str
) -> None:
    """With 400, the whole path of the field, and no row and no file."""
    answer = await site.ask("POST", "/v1/jobs", {**WISH, **changes})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param), error
    assert SECRET_WORDS not in answer.text
    assert (await site.ask("GET", "/v1/jobs")).json()["data"] == []
    assert objects(site) == []


async def test_a_model_is_checked_against_the_key(site: DeferredGateway) -> None:
    """One that is not there, and one that this key may not use, get the same answer."""
    for key, model in (("acme", "nosuch"), ("scoped", "toy")):
        answer = await site.ask("POST", "/v1/jobs", {**WISH, "request": {**CHAT, "model": model}}, key=key)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
        assert answer.json()["error"]["param"] == "request.model"


async def test_a_start_in_the_past_is_now_and_one_before_the_deadline_waits(
    site: DeferredGateway, clock: ManualClock
) -> None:
    """A caller with a clock 90 s behind gets its job run at once; one with a clock ahead waits these 90 s."""
    await submitted(site, not_before=clock.now() - 90.0)
    assert (await claimed(site)).attempt == 1
    late = await submitted(site, not_before=clock.now() + 90.0)
    assert (late["reason"], late["not_before"]) == ("not_before", int(clock.now()) + 90)
    clock.advance(91.0)
    assert (await claimed(site)).name == late["id"]


KEY = {"idempotency-key": "order-17"}


async def test_an_idempotency_key_makes_one_job(site: DeferredGateway) -> None:
    """The same body gets the same job, another body a 422; another tenant's same key is another key."""
    first = await site.ask("POST", "/v1/jobs", WISH, headers=KEY)
    again = await site.ask("POST", "/v1/jobs", WISH, headers=KEY)
    assert (again.status_code, again.json()) == (202, first.json())
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (None, "true")
    for other in ({**WISH, "deadline_s": 60}, {**WISH, "request": {**CHAT, "max_tokens": 21}}):
        answer = await site.ask("POST", "/v1/jobs", other, headers=KEY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "idempotency_mismatch")
    others = await site.ask("POST", "/v1/jobs", WISH, headers=KEY, key="other")
    assert others.json()["id"] != first.json()["id"]
    assert len(objects(site)) == 2


async def test_two_submits_at_once_under_one_key_make_one_job(site: DeferredGateway) -> None:
    """Each gets the one job, and the request is stored once."""
    answers = await asyncio.gather(*(site.ask("POST", "/v1/jobs", WISH, headers=KEY) for _ in range(4)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(objects(site)) == 1


async def test_a_repeated_submit_is_answered_when_its_model_has_gone(site: DeferredGateway) -> None:
    """The job was accepted: what the alias leads to now changes nothing of it."""
    first = await site.ask("POST", "/v1/jobs", WISH, headers=KEY)
    site.lead("elsewhere", VERSION.id)
    assert (await site.ask("POST", "/v1/jobs", WISH, headers=KEY)).json() == first.json()
    assert (await site.ask("POST", "/v1/jobs", WISH)).status_code == 404


@pytest.mark.parametrize("end", [JobState.SUCCEEDED, JobState.FAILED])
async def test_what_has_ended_is_not_cancelled(site: DeferredGateway, end: JobState) -> None:
    """It is a conflict that says how it ended; a job cancelled before may be cancelled again."""
    job = await submitted(site)
    await ended(site, end)
    answer = await site.ask("POST", f"/v1/jobs/{job['id']}/cancel")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    assert end in answer.json()["error"]["message"]
    other = await submitted(site)
    for _ in range(2):
        answer = await site.ask("POST", f"/v1/jobs/{other['id']}/cancel")
        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")


async def test_what_runs_is_asked_to_stop_and_neither_replayed_nor_deleted(site: DeferredGateway) -> None:
    """Replay and deletion are conflicts while the job is open; the cancel is noted with its time."""
    job = await submitted(site)
    await claimed(site)
    path = f"/v1/jobs/{job['id']}"
    for method, at in (("POST", f"{path}/replay"), ("DELETE", path)):
        assert (await site.ask(method, at)).status_code == 409
    told = (await site.ask("POST", f"{path}/cancel")).json()
    assert (told["state"], told["cancel_requested_at"] is not None) == ("running", True)


async def test_a_dead_letter_is_replayed_with_all_of_its_attempts(site: DeferredGateway, clock: ManualClock) -> None:
    """It fails after its last attempt and tells each; replay queues it again, alone or with all others."""
    job = await submitted(site)
    for number in range(3):
        running = await claimed(site)
        back = PutBack(
            id=running.id,
            epoch=running.epoch,
            at=clock.now(),
            not_before=clock.now(),
            reason=Reason.BACKOFF,
            may_have_run=True,
            error="engine_error",
            request=RequestId(f"r-{number}"),
        )
        await site.store.put_back([back])
        clock.advance(1.0)
    path = f"/v1/jobs/{job['id']}"
    told = (await site.ask("GET", path)).json()
    assert (told["state"], told["reason"], told["error"]["code"]) == ("failed", "dead_letter", "engine_error")
    assert [one["error"] for one in told["attempts"]] == ["engine_error"] * 3
    answer = await site.ask("POST", f"{path}/replay")
    assert (answer.status_code, answer.json()["state"], answer.json()["attempt"]) == (202, "queued", 0)
    await ended(site, JobState.FAILED, 500)
    assert (await site.ask("POST", "/v1/jobs/replay", {"model": "other"})).json()["jobs"] == 0
    assert (await site.ask("POST", "/v1/jobs/replay", {"error": "worker_lost"})).json()["jobs"] == 0
    assert (await site.ask("POST", "/v1/jobs/replay", {"model": "toy"})).json()["jobs"] == 1
    assert (await site.ask("GET", path)).json()["state"] == "queued"


async def test_a_deleted_job_is_gone_with_its_request_and_answer(site: DeferredGateway) -> None:
    """At once for the API; a second deletion finds nothing."""
    job = await submitted(site)
    await ended(site)
    path = f"/v1/jobs/{job['id']}"
    assert (await site.ask("DELETE", path)).json() == {"id": job["id"], "object": "job", "deleted": True}
    assert objects(site) == []
    for method, at in (("GET", path), ("DELETE", path), ("POST", f"{path}/cancel"), ("POST", f"{path}/replay")):
        assert (await site.ask(method, at)).status_code == 404


async def test_lists_have_pages_and_filters(site: DeferredGateway) -> None:
    """Newest first, or oldest first; every job on one page, by the ends that the page names."""
    names = [(await submitted(site))["id"] for _ in range(5)]
    await site.ask("POST", f"/v1/jobs/{names[2]}/cancel")
    for order, expected in (("desc", names[::-1]), ("asc", names)):
        seen: list[str] = []
        after = ""
        while True:
            page = (await site.ask("GET", f"/v1/jobs?limit=2&order={order}{after}")).json()
            seen += [one["id"] for one in page["data"]]
            if not page["has_more"]:
                break
            after = f"&after={page['last_id']}"
        assert seen == expected
    assert [one["id"] for one in (await site.ask("GET", "/v1/jobs?state=cancelled")).json()["data"]] == [names[2]]
    assert (await site.ask("GET", "/v1/jobs?model=nosuch")).json()["data"] == []
    for query, param in (("state=done", "state"), ("after=job_ffffffffffff", "after"), ("status=queued", "status")):
        answer = await site.ask("GET", f"/v1/jobs?{query}")
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_an_auditor_and_another_tenant_find_nothing(site: DeferredGateway) -> None:
    """An auditor's key may not use these routes; another tenant's hears what it hears of a job that never was."""
    job = await submitted(site)
    assert (await site.ask("GET", "/v1/jobs", key="auditor")).status_code == 403
    assert (await site.ask("GET", "/v1/jobs", key="other")).json()["data"] == []
    for path in (f"/v1/jobs/{job['id']}", "/v1/jobs/job_ffffffffffffffff"):
        told = await site.ask("GET", path, key="other")
        assert (told.status_code, told.json()["error"]["code"]) == (404, "object_not_found")
    listed = await site.ask("GET", f"/v1/jobs?after={job['id']}", key="other")
    assert listed.status_code == 400


async def test_plan_limits_hold_and_every_end_gives_back(database: Database, tmp_path: Path) -> None:
    """Enqueued tokens and jobs are refused with the measure; a cancelled job makes room, and no file stays."""
    plan = Plan(batch_enqueued_tokens=100, batch_jobs=3, job_deadline_s=600.0, batch_hours=CLOSED)
    site = DeferredGateway(database=database, folder=tmp_path / "payloads", clock=ManualClock(), plan=plan)
    first = await submitted(site, deadline_s=86_400)
    assert first["deadline_at"] - first["created_at"] == 600
    assert (await site.ask("GET", f"/v1/jobs/{first['id']}")).json()["reason"] == "hours"
    await submitted(site)
    answer = await site.ask("POST", "/v1/jobs", WISH)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "token_limit_exceeded")
    assert len(objects(site)) == 2
    await site.ask("POST", f"/v1/jobs/{first['id']}/cancel")
    await submitted(site)
    huge = await site.ask("POST", "/v1/jobs", {**WISH, "request": {**CHAT, "max_tokens": 500}})
    assert (huge.status_code, huge.json()["error"]["code"]) == (429, "request_exceeds_limit")
    for _ in range(3):
        await ended(site, JobState.FAILED, 500)
        await submitted(site)
    refused = await site.ask("POST", "/v1/jobs/replay")
    assert (refused.status_code, "each by its id" in refused.json()["error"]["message"]) == (429, True)
    await site.http.aclose()


async def test_a_store_that_is_away_is_a_503_with_the_time_to_wait(
    site: DeferredGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repeated submit under its key makes one job, whether or not the first one was stored."""

    async def away(*_: object) -> None:
        raise StoreUnavailable("the database can't be reached")

    with monkeypatch.context() as broken:
        broken.setattr(type(site.store), "submit", away)
        answer = await site.ask("POST", "/v1/jobs", WISH, headers=KEY)
        assert site.toy.seen.charged == [None], "no chat tier's error budget is spent by it"
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert answer.headers["x-should-retry"] == "true"
    assert (await site.ask("POST", "/v1/jobs", WISH, headers=KEY)).status_code == 202
    assert len((await site.ask("GET", "/v1/jobs")).json()["data"]) == 1


async def test_without_retention_an_answer_goes_a_minute_after_it_was_fetched(
    database: Database, tmp_path: Path, clock: ManualClock
) -> None:
    """Fetched again within it, it is not kept for longer; with retention it stays."""
    plan = Plan(zero_retention=True)
    site = DeferredGateway(database=database, folder=tmp_path / "payloads", clock=clock, plan=plan)
    path = f"/v1/jobs/{(await submitted(site))['id']}"
    await site.ask("GET", path)
    clock.advance(FETCHED_S)
    await ended(site)
    clock.advance(FETCHED_S)
    for _ in range(2):
        assert (await site.ask("GET", path)).json()["state"] == "succeeded"
        clock.advance(FETCHED_S / 2)
    assert (await site.ask("GET", path)).status_code == 404
    assert len(await PostgresExpiringJobs(database).expired(clock.now(), 9)) == 1
    await site.http.aclose()
