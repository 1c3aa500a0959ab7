"""Jobs of a running platform, straight at its stores: submitted as a gateway does, and read with all their attempts."""

import asyncio
import json
import secrets
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import asyncpg
import httpx
from prometheus_client.parser import text_string_to_metric_families

from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import dsn_of
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.tenant_keys import PostgresTenantKeys
from penstock.domain.errors import StoreUnavailable
from penstock.domain.ids import Alias, KeyId, TenantId, VersionId
from penstock.domain.jobs.ids import NO_BATCH, BatchId, JobName
from penstock.domain.jobs.job import EnqueueLimits, Job, JobKind, JobState, NewJob
from penstock.domain.jobs.payload import Extent, object_id
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.keys import Purpose, derive, key_id_of
from penstock.sealing.keys import KeyPurpose, PurposeKeys, TenantKeys
from penstock.sealing.local import LocalEncryption
from tests.support.patience import until
from tests.support.platforms.local import Platform

T = TypeVar("T")
DEMO = TenantId("demo")
MODEL = "smollm2"
DAY_S = 86_400.0
AWAY_S = 90.0


def chat(words: str = "Tell a story.", tokens: int = 16, **more: object) -> dict[str, object]:
    """Return a chat request that ends after exactly so many tokens."""
    asked = {"model": MODEL, "messages": [{"role": "user", "content": words}], "max_tokens": tokens, "temperature": 0}
    return {**asked, "ignore_eos": True, **more}


@dataclass(frozen=True, slots=True)
class Jobs:
    platform: Platform

    def submit(
        self, *bodies: dict[str, object], api: Api = Api.CHAT, batch: BatchId = NO_BATCH, **over: object
    ) -> list[JobName]:
        """Submit requests; return the names of their jobs."""
        return self._run(lambda jobs, kept: self._submit(jobs, kept, bodies, api, batch, over))

    def job(self, name: JobName, tenant: TenantId = DEMO) -> Job:
        found = self._run(lambda jobs, _: jobs.find(tenant, name, time.time()))
        assert found is not None
        return found

    def wait(self, names: Sequence[JobName], *, within_s: float = 120.0) -> list[Job]:
        """Wait until all jobs have ended; return them."""
        self.until(lambda: all(not self.job(name).state.is_open for name in names), within_s=within_s)
        return [self.job(name) for name in names]

    def until(self, condition: Callable[[], bool], *, within_s: float = 60.0) -> None:
        until("the jobs came so far", condition, within_s=within_s, every_s=0.1)

    def running(self, names: Sequence[JobName]) -> bool:
        return all(self.job(name).state is JobState.RUNNING for name in names)

    def answer(self, job: Job) -> dict[str, object]:
        """Return the stored body of a job."""
        raw = self._run(lambda _, kept: kept.get(job.tenant, job.output.object, job.output.at, job.output.size))
        found: dict[str, object] = json.loads(raw)
        return found

    def ask(self, api: Api, body: dict[str, object]) -> dict[str, object]:
        """Return what the gateway answers to the same request of a caller."""
        key = self.platform.demo_key
        headers = {"authorization": f"Bearer {key}"}
        answer = httpx.post(f"{self.platform.url}{api.value}", json=body, headers=headers, timeout=120)
        found: dict[str, object] = answer.raise_for_status().json()
        return found

    def holder(self, name: JobName) -> int:
        """Return the process id of the runner that holds a job."""
        (row,) = self.rows("select runner from job where name = $1", name)
        return self.pid_of(row["runner"])

    def pid_of(self, runner: int) -> int:
        (row,) = self.rows("select name from runner where id = $1", runner)
        processes = self.platform.state["processes"]
        assert isinstance(processes, dict)
        return int(processes[f"runner {row['name'].rpartition('-')[2]}"])

    def lost(self, name: JobName) -> int:
        """Return the number of a job's attempts that did not deliver."""
        return len(self.rows("select from job_attempt join job on job.id = job_attempt.job where name = $1", name))

    def cancel(self, name: JobName, tenant: TenantId = DEMO) -> None:
        self._run(lambda jobs, _: jobs.cancel(tenant, name, time.time()))

    def pause(self, scope: str) -> None:
        self._run(lambda jobs, _: jobs.pause(scope, time.time()))

    def resume(self, scope: str) -> None:
        self._run(lambda jobs, _: jobs.resume(scope))

    def rows(self, sql: str, *arguments: object) -> list[asyncpg.Record]:
        async def ask() -> list[asyncpg.Record]:
            connection = await asyncpg.connect(self.dsn)
            try:
                return await connection.fetch(sql, *arguments)
            finally:
                await connection.close()

        return _patiently(ask)

    def billed(self, name: JobName) -> list[asyncpg.Record]:
        """Return the ledger's rows of a job's attempts, in their order."""
        return self.rows("select * from ledger where request like $1 order by opened_at", f"{name}-%")

    def counted(self, metric: str) -> Counter[str]:
        """Return a counter of all runners by its label ``outcome``."""
        found = Counter[str]()
        for pid in self.platform.pids("runner"):
            page = httpx.get((self.platform.home / f"run/metrics/{pid}").read_text().strip()).text
            for family in text_string_to_metric_families(page):
                for one in family.samples:
                    if one.name == f"{metric}_total":
                        found[one.labels.get("outcome", "")] += int(one.value)
        return found

    @property
    def version(self) -> VersionId:
        rows = self.rows("select id from model_version where id like 'smollm2-135m%' order by created_at desc limit 1")
        return VersionId(rows[0]["id"])

    @property
    def dsn(self) -> str:
        return dsn_of(self.platform.home / "postgres")

    async def _submit(
        self,
        jobs: PostgresJobs,
        kept: SealedPayloads,
        bodies: Sequence[dict[str, object]],
        api: Api,
        batch: BatchId,
        over: dict[str, object],
    ) -> list[JobName]:
        key, version, now, made = self._key, await asyncio.to_thread(lambda: self.version), time.time(), list[NewJob]()
        for line, body in enumerate(bodies):
            kind, raw = JobKind.LINE if batch else JobKind.JOB, json.dumps(body).encode()
            name = JobName(f"{'batch_req' if batch else 'job'}_{secrets.token_hex(8)}")
            place = object_id("batch" if batch else "job", batch or name, f"input-{secrets.token_hex(4)}")
            await kept.put(DEMO, place, raw)
            job = NewJob(
                name=name,
                tenant=DEMO,
                key=key,
                kind=kind,
                api=api,
                model=Alias(MODEL),
                version=version,
                cost_tokens=100,
                created_at=now,
                deadline_at=now + DAY_S,
                keep_s=DAY_S,
                input=Extent(object=place, size=len(raw)),
                batch=batch,
                line=line,
            )
            made.append(_replaced(job, over))
        for job in made:
            await jobs.submit(job, EnqueueLimits())
        return [job.name for job in made]

    @property
    def _key(self) -> KeyId:
        found = key_id_of((self.platform.home / "demo.key").read_text().strip())
        assert found is not None
        return found

    def _run(self, work: Callable[[PostgresJobs, SealedPayloads], Awaitable[T]]) -> T:
        platform_key = bytes.fromhex((self.platform.home / "platform.key").read_text().strip())
        encryption = LocalEncryption(lambda: [derive(platform_key, Purpose.TENANT_KEYS)])

        async def run() -> T:
            async with Database(self.dsn, max_connections=1) as database:
                tenants = TenantKeys(PostgresTenantKeys(database), encryption, time.monotonic, "local")
                keys = PurposeKeys(tenants, KeyPurpose.CONTENT, list)
                return await work(
                    PostgresJobs(database), SealedPayloads(FolderObjects(self.platform.home / "payloads"), keys)
                )

        return _patiently(run)


def _patiently(ask: Callable[[], Coroutine[None, None, T]]) -> T:
    """Ask again while the database is away: a test may just have killed it."""
    ends_at = time.monotonic() + AWAY_S
    while True:
        try:
            return asyncio.run(ask())
        except (StoreUnavailable, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.2)


def _replaced(job: NewJob, over: dict[str, object]) -> NewJob:
    return replace(job, **over)  # type: ignore[arg-type]  # the tests' own names of fields
