"""Rows that lead retention to objects: single jobs whose time is over, and batches that still have theirs."""

import pytest

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.retention import PostgresExpiringJobs, PostgresOpenBatches
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId
from penstock.domain.jobs.ids import JobName
from penstock.domain.jobs.job import EnqueueLimits, JobKind, NewJob
from penstock.domain.jobs.payload import Expired, Extent, object_id
from penstock.domain.serving.request import Api

pytestmark = pytest.mark.integration
NOW, KEEP_S = 1000.0, 60.0
ACME = TenantId("acme")


async def cancelled(database: Database, name: str, kind: JobKind = JobKind.JOB) -> None:
    """Store a job that ended at once."""
    store = PostgresJobs(database)
    job = NewJob(
        name=JobName(name),
        tenant=ACME,
        key=KeyId("k"),
        kind=kind,
        api=Api.CHAT,
        model=Alias("m"),
        version=VersionId("m@1"),
        cost_tokens=1,
        created_at=NOW,
        deadline_at=NOW + 1000,
        keep_s=KEEP_S,
        input=Extent(object=object_id("job", name, "input"), size=3),
    )
    await store.submit(job, EnqueueLimits())
    await store.cancel(ACME, JobName(name), NOW)


async def test_jobs_are_told_once_their_time_is_over(database: Database) -> None:
    """A job names its objects from the end of its time until it is forgotten; stored responses have another owner."""
    jobs = PostgresExpiringJobs(database)
    await cancelled(database, "job_1")
    await cancelled(database, "resp_1", JobKind.RESPONSE)
    assert await jobs.expired(NOW + KEEP_S - 1, 9) == ()
    over = NOW + KEEP_S
    assert await jobs.expired(over, 9) == (Expired("job_1", (object_id("job", "job_1", "input"),)),)
    await jobs.forget(["job_1"], over - 1)
    assert await jobs.known(["job_1", "job_2"]) == {"job_1"}
    await jobs.forget(["job_1"], over)
    assert (await jobs.expired(over, 9), await jobs.known(["job_1"])) == ((), frozenset())


async def test_a_cleared_batch_owns_nothing(database: Database) -> None:
    """What a late runner writes for a batch that has cleared its objects is an orphan."""
    batches = PostgresOpenBatches(database)
    insert = (
        "insert into batch (id, tenant, key, endpoint, input_file, input_object, completion_window, state, created_at, "
        "deadline_at, is_cleared) values ($1, 'acme', 'k', 'e', 'f', 'o', '24h', 'completed', 0, 0, $2)"
    )
    await database.rows(insert, "batch_1", False)
    await database.rows(insert, "batch_2", True)
    assert await batches.known(["batch_1", "batch_2", "batch_3"]) == {"batch_1"}
    assert await batches.expired(NOW, 9) == ()
