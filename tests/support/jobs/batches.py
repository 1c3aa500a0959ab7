"""A site of batches without processes: real Postgres, sealed files in a folder, a clock that tests move.

Lines are run by the test in place of a runner: claimed, answered, put back, lost.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.connectors.postgres.batches import PostgresBatches, PostgresBatchWork
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.domain.fleet.table import Route, RoutingTable, Share
from penstock.domain.ids import Alias, KeyId, RequestId, TenantId
from penstock.domain.jobs.batch import Batch, Counts
from penstock.domain.jobs.file import object_of
from penstock.domain.jobs.ids import BatchId, FileId, RunnerId
from penstock.domain.jobs.job import ClaimQuota, End, Job, JobState, PutBack, Reason
from penstock.domain.jobs.payload import Extent, object_id
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import Plan, Principal
from penstock.gateway.deferred.batches import NewBatch
from penstock.gateway.openai.bounds import BodyBounds
from penstock.gateway.openai.reading import BodyReader
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from penstock.jobs.batch_intake import BatchIntake
from penstock.jobs.batches import BatchClosing, BatchJudging, BatchParts
from penstock.jobs.validation import Validator
from tests.support.clock import ManualClock
from tests.support.samples.calls import VERSION, principal
from tests.support.sealing import FixedKeys

ACME = TenantId("acme")
ANSWER = b'{"object": "chat.completion"}'
ERROR = b'{"error": {"code": "invalid_field"}}'
ROUTE = Route(alias=Alias("toy"), shares=(Share(version=VERSION.id, weight=10_000),))


def line(custom_id: str, **changes: Any) -> bytes:  # noqa: ANN401  any JSON
    body = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
    asked = {"custom_id": custom_id, "method": "POST", "url": str(Api.CHAT), "body": body | changes}
    return json.dumps(asked).encode()


@dataclass
class BatchSite:
    database: Database
    folder: Path
    clock: ManualClock = field(default_factory=ManualClock)
    plan: Plan = field(default_factory=Plan)
    tenant: TenantId = ACME
    revoked: bool = False
    crashes: list[BaseException] = field(default_factory=list)
    closed: list[Counts] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = count(1)
        self.payloads = SealedPayloads(FolderObjects(self.folder), FixedKeys())
        self.jobs = PostgresJobs(self.database)
        self.batches, self.work = PostgresBatches(self.database), PostgresBatchWork(self.database)
        self.table = CurrentTable()
        self.intake = BatchIntake(store=self.batches, workers=self.table, clock=self.clock, ids=self.name)
        self.table.swap(RoutingTable(number=1, made_at=0.0, routes=(ROUTE,), versions=(VERSION,)), 0.0)

    def name(self) -> str:
        return f"{next(self._numbers):016x}{abs(hash(self.tenant)) % 2**32:08x}"

    def who(self, key: str = "k") -> Principal:
        return principal(tenant=self.tenant, key=KeyId(key), plan=self.plan)

    # -- what callers do -------------------------------------------------------------------

    async def upload(self, *lines: bytes) -> FileId:
        """Store a file as an upload leaves it."""
        file, data = FileId(f"file-{self.name()}"), b"\n".join(lines)
        await self.payloads.put(self.tenant, object_of(file), data)
        await self.database.rows(
            "insert into file (id, tenant, key, name, purpose, bytes, created_at, expires_at, object, state)"
            " values ($1, $2, 'k', 'in.jsonl', 'batch', $3, $4, $5, $6, 'ready')",
            *(file, self.tenant, len(data), self.clock.now(), self.clock.now() + 2_592_000, object_of(file)),
        )
        return file

    async def create(self, *lines: bytes, window: str = "24h", key: str = "") -> Batch:
        wish = NewBatch(input_file=await self.upload(*lines), endpoint=Api.CHAT, window=window, idempotency_key=key)
        return (await self.intake.create(self.who(), wish))[0]

    async def find(self, batch: BatchId) -> Batch:
        return await self.batches.find(self.tenant, batch)

    async def results(self, batch: Batch) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the lines of the output file and of the error file."""
        return await self._lines(batch.output_file), await self._lines(batch.error_file)

    async def _lines(self, file: FileId) -> list[dict[str, Any]]:
        if not file:
            return []
        data = await self.payloads.get(self.tenant, object_of(file))
        return [json.loads(one) for one in data.splitlines()]

    # -- what runners do -------------------------------------------------------------------

    async def runner(self) -> RunnerId:
        row = await self.database.row(
            "insert into runner (name, started_at, seen_at) values ('test', $1, $1) returning id", self.clock.now()
        )
        assert row is not None
        return RunnerId(row["id"])

    async def lose(self, runner: RunnerId) -> None:
        """End a runner as one whose lock is free: its jobs are queued again."""
        await self.database.rows("select job_take_over($1, $2)", runner, self.clock.now())

    def judging(self, runner: RunnerId) -> BatchJudging:
        validator = Validator(
            names=TableResolver(self.table),
            bodies=BodyReader(),
            bounds=lambda _: BodyBounds(context_tokens=2048),
            region="local",
            monotonic=self.clock.monotonic,
        )
        return BatchJudging(self.parts(runner), validator, lambda _tenant, key: None if self.revoked else self.who(key))

    def closing(self, runner: RunnerId) -> BatchClosing:
        return BatchClosing(self.parts(runner))

    def parts(self, runner: RunnerId) -> BatchParts:
        return BatchParts(
            store=self.work,
            me=lambda: runner,
            payloads=self.payloads,
            clock=self.clock,
            ids=self.name,
            crashed=self.crashes.append,
            closed=self.closed.append,
        )

    async def step(self, runner: RunnerId) -> None:
        """Do one round of a runner's upkeep."""
        now = self.clock.now()
        await self.jobs.tidy(now)
        await self.judging(runner).step(now)
        await self.closing(runner).step(now)
        assert self.crashes == []

    async def claim(self, runner: RunnerId, most: int = 100) -> tuple[Job, ...]:
        return await self.jobs.claim(runner, [ClaimQuota(version=VERSION.id, jobs=most)], self.clock.now())

    async def answer(self, jobs: Sequence[Job], status: int = 200) -> int:
        """End jobs with a stored answer; return how many were still held."""
        data, ends, at = b"", list[End](), self.clock.now()
        segment = object_id("batch", jobs[0].batch, self.name()) if jobs else None
        for job in jobs:
            body = ANSWER if status < 400 else ERROR
            assert segment is not None
            ends.append(
                End(
                    id=job.id,
                    epoch=job.epoch,
                    state=JobState.SUCCEEDED if status < 400 else JobState.FAILED,
                    at=at,
                    reason=Reason.NONE if status < 400 else Reason.REFUSED,
                    status=status,
                    error="" if status < 400 else "invalid_field",
                    request=RequestId(f"{job.name}-{job.epoch}"),
                    output=Extent(object=segment, at=len(data), size=len(body)),
                    prompt_tokens=3,
                    output_tokens=4,
                )
            )
            data += body
        if segment is not None:
            await self.payloads.put(self.tenant, segment, data)
        return len(await self.jobs.finish(ends))

    async def end(self, jobs: Sequence[Job], state: JobState, reason: Reason) -> int:
        """End jobs without an answer."""
        at = self.clock.now()
        ends = [End(id=job.id, epoch=job.epoch, state=state, at=at, reason=reason, error="worker_lost") for job in jobs]
        return len(await self.jobs.finish(ends))

    async def put_back(self, jobs: Sequence[Job], *, may_have_run: bool) -> None:
        at = self.clock.now()
        back = [
            PutBack(id=job.id, epoch=job.epoch, at=at, not_before=at, reason=Reason.BACKOFF, may_have_run=may_have_run)
            for job in jobs
        ]
        await self.jobs.put_back(back)

    async def until_over(self, runner: RunnerId, batch: BatchId, *, rounds: int = 5) -> Batch:
        for _ in range(rounds):
            await self.step(runner)
            found = await self.find(batch)
            if found.state.is_over:
                return found
        raise AssertionError("the batch does not end")

    async def reserved(self) -> int:
        rows = await self.database.rows("select tokens from job_enqueued where tenant = $1", self.tenant)
        return sum(row["tokens"] for row in rows)
