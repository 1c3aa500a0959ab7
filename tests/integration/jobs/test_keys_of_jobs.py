"""What another key, a repeated submit and a deletion can and can't reach of a job: routes over a real Postgres."""

import pytest

from penstock.connectors.postgres import jobs as stored_jobs
from penstock.connectors.postgres.files import PostgresFiles
from penstock.domain.errors import InvalidField
from penstock.domain.jobs.file import FilePage, file_id
from penstock.domain.jobs.job import MOST_ACTS, JobState
from penstock.jobs.files import TenantFiles
from tests.integration.jobs.test_single_jobs import KEY, WISH, clock, ended, site
from tests.support.gateways.deferred import DeferredGateway

__all__ = ["clock", "site"]
pytestmark = pytest.mark.integration


async def test_another_keys_job_is_no_way_to_its_model(site: DeferredGateway) -> None:
    """Neither a replay nor a repeated submit gives a key what its own submit would be refused."""
    job = (await site.ask("POST", "/v1/jobs", WISH, headers=KEY)).json()["id"]
    await ended(site, JobState.FAILED, 400)
    replay, every = f"/v1/jobs/{job}/replay", "/v1/jobs/replay"
    asked: tuple[tuple[str, object, dict[str, str]], ...] = (
        ("/v1/jobs", WISH, KEY),
        (replay, None, {}),
        (every, {"model": "toy"}, {}),
    )
    for path, body, headers in asked:
        answer = await site.ask("POST", path, body, headers=headers, key="scoped")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found"), path
    assert (await site.ask("POST", every, {}, key="scoped")).json()["jobs"] == 0
    assert (await site.ask("POST", every, {})).json()["jobs"] == 1


async def test_a_deleted_job_is_gone_under_its_idempotency_key(site: DeferredGateway) -> None:
    """A repeated submit makes a new job, which is found."""
    first = (await site.ask("POST", "/v1/jobs", WISH, headers=KEY)).json()["id"]
    await ended(site)
    assert (await site.ask("DELETE", f"/v1/jobs/{first}")).status_code == 200
    again = await site.ask("POST", "/v1/jobs", WISH, headers=KEY)
    assert ("idempotency-replayed" in again.headers, again.json()["state"]) == (False, "queued")
    assert (await site.ask("GET", f"/v1/jobs/{again.json()['id']}")).status_code == 200


async def test_a_compressed_body_is_refused(site: DeferredGateway) -> None:
    """With 415, before anything reads it, at every route of jobs that has a body."""
    for path in ("/v1/jobs", "/v1/jobs/replay"):
        answer = await site.ask("POST", path, WISH, headers={"content-encoding": "gzip"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "compressed_body"), path


async def test_a_page_of_files_follows_a_file_that_is_there(site: DeferredGateway) -> None:
    """As with jobs and batches, an unknown id is a 400 that names the parameter."""
    who = site.keys.authenticate(site.secrets["acme"])
    files = TenantFiles(PostgresFiles(site.database), site.payloads, site.clock)
    assert await files.page(who, FilePage(limit=2)) == ((), False)
    with pytest.raises(InvalidField) as refused:
        await files.page(who, FilePage(limit=2, after=file_id(1.0, b"0123456789")))
    assert refused.value.param == "after"


async def test_replays_have_a_bound_a_minute_and_attempts_one_of_rows(
    site: DeferredGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One above is a 429 with its wait, also by filter; no other tenant's count, and the oldest attempts go."""
    monkeypatch.setattr(stored_jobs, "MOST_ATTEMPTS_KEPT", 2)
    job = (await site.ask("POST", "/v1/jobs", WISH)).json()
    path = f"/v1/jobs/{job['id']}"
    for _ in range(MOST_ACTS):
        await ended(site, JobState.FAILED, 500)
        assert (await site.ask("POST", f"{path}/replay")).status_code == 202
    assert len((await site.ask("GET", path)).json()["attempts"]) <= 2
    await ended(site, JobState.FAILED, 500)
    for at in (f"{path}/replay", "/v1/jobs/replay"):
        refused = await site.ask("POST", at)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert (await site.ask("POST", "/v1/jobs/replay", key="other")).json()["jobs"] == 0
    assert await site.store.paused() == frozenset()
    await site.database.rows("update job_act set at = at - 60")
    assert (await site.ask("POST", f"{path}/replay")).status_code == 202
