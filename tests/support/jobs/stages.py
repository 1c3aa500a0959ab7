"""Batches that stand at a stage of their life, found and held there by rows and table locks."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import asyncpg
import httpx

from penstock.domain.jobs.job import PAUSE_ALL
from tests.support.jobs.history import BatchHistory, Bill, Line
from tests.support.patience import patient, until
from tests.support.platforms.jobs import Jobs, chat
from tests.support.webhooks.held_receiver import HeldReceiver

REACHED_S, OVER_S = 60.0, 240.0


class Stage(StrEnum):
    VALIDATING = "validating"
    QUEUED = "queued"
    RUNNING = "running"
    FINALIZING = "finalizing"
    CANCELLING = "cancelling"
    DELIVERING = "delivering"


_SHAPES = {Stage.RUNNING: (6, 40), Stage.CANCELLING: (12, 80)}
"""Lines of a stage's batch, and the tokens of each answer: as long as its lines must run."""
_SHAPE = (6, 4)
_REACHED = {
    Stage.VALIDATING: "select runner from batch where id = $1 and state = 'validating' and runner is not null",
    Stage.QUEUED: "select max(runner) as runner from job where batch = $1 having bool_and(state = 'queued')",
    Stage.RUNNING: "select min(runner) as runner from job where batch = $1 and state = 'running' having count(*) > 1",
    Stage.FINALIZING: "select runner from batch where id = $1 and state = 'finalizing' and runner is not null"
    " and exists (select from pg_locks where relation = 'file'::regclass and not granted)",
    Stage.CANCELLING: "select min(job.runner) as runner from job join batch on batch.id = job.batch"
    " where batch.id = $1 and batch.state = 'cancelling' and job.state = 'running' having count(*) > 0",
    Stage.DELIVERING: "select runner from webhook_delivery join webhook_event on webhook_event.id = event"
    " where object = $1 and state = 'sending'",
}
"""Each has a row once a batch stands there: with the runner that works on it, if any."""
_HELD = """
    select from job where batch = $1 and state = 'running' and runner = $2
    union all select from batch where id = $1 and ended_at = 0 and runner = $2
    union all select from webhook_delivery join webhook_event on webhook_event.id = event
    where object = $1 and state = 'sending' and webhook_delivery.runner = $2
"""
_LOCKED = {Stage.VALIDATING: "job", Stage.FINALIZING: "file", Stage.CANCELLING: "file"}
"""The table whose lock keeps a batch at a stage: the next statement that would end it waits."""


@dataclass
class Staged:
    """One batch, made for a stage."""

    jobs: Jobs
    stage: Stage
    receiver: HeldReceiver
    name: str
    batch: str = ""
    runner: int | None = None
    began_at: float = field(default_factory=time.time)

    @property
    def custom_ids(self) -> list[str]:
        return [f"{self.name}-{number}" for number in range(_SHAPES.get(self.stage, _SHAPE)[0])]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Bring the batch to its stage, and keep it there meanwhile."""
        file = self._upload()
        with self._pinned():
            self.batch = self._create(file)
            if self.stage is Stage.CANCELLING:
                self._until(_REACHED[Stage.RUNNING])
                self._asked("POST", f"/v1/batches/{self.batch}/cancel")
            self.runner = self._until(_REACHED[self.stage])
            yield

    def _pinned(self) -> AbstractContextManager[None]:
        if self.stage is Stage.QUEUED:
            return self._paused()
        if self.stage is Stage.DELIVERING:
            return self._unanswered()
        table = _LOCKED.get(self.stage)
        return locked(self.jobs.dsn, table) if table else nullcontext()

    @contextmanager
    def _paused(self) -> Iterator[None]:
        self.jobs.pause(PAUSE_ALL)
        try:
            yield
        finally:
            self.jobs.resume(PAUSE_ALL)

    @contextmanager
    def _unanswered(self) -> Iterator[None]:
        self.receiver.opened.clear()
        try:
            yield
        finally:
            self.receiver.opened.set()

    def _until(self, sql: str) -> int | None:
        found: list[asyncpg.Record] = []

        def is_there() -> bool:
            found[:] = self.jobs.rows(sql, self.batch)
            return bool(found)

        until(f"{self.batch} is {self.stage}", is_there, within_s=REACHED_S, every_s=0.02)
        runner: int | None = found[0]["runner"]
        return runner

    def _upload(self) -> str:
        tokens = _SHAPES.get(self.stage, _SHAPE)[1]
        url = "/v1/chat/completions"
        lines = [
            {"custom_id": one, "method": "POST", "url": url, "body": chat("Tell a story.", tokens)}
            for one in self.custom_ids
        ]
        data = "\n".join(map(json.dumps, lines)).encode()
        made = self._asked("POST", "/v1/files", files={"file": ("in.jsonl", data)}, data={"purpose": "batch"})
        return str(made.json()["id"])

    def _create(self, file: str) -> str:
        asked = {"input_file_id": file, "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        made = self._asked("POST", "/v1/batches", json=asked, headers={"idempotency-key": self.name})
        return str(made.json()["id"])

    def _asked(self, method: str, path: str, **more: Any) -> httpx.Response:  # noqa: ANN401  httpx's own arguments
        """Ask until it is answered: the gateway may have been killed a moment ago."""
        return patiently(lambda: self._once(method, path, more))

    def _once(self, method: str, path: str, more: dict[str, Any]) -> httpx.Response:
        with self.jobs.platform.http() as http:
            return http.request(method, path, **more).raise_for_status()

    # -- afterwards ----------------------------------------------------------------------------

    def is_taken_over(self) -> bool:
        """Tell whether nothing of the batch is in the hands of the runner that had it."""
        return not self.jobs.rows(_HELD, self.batch, self.runner)

    def is_over(self) -> bool:
        return bool(self.jobs.rows("select from batch where id = $1 and ended_at > 0", self.batch))

    def is_told(self) -> bool:
        return self._deliveries() == ["delivered"]

    def history(self) -> BatchHistory:
        """Collect all accounts of the batch."""
        rows, batch = self.jobs.rows, self.jobs.rows("select * from batch where id = $1", self.batch)[0]
        held = rows(
            "select coalesce(sum(tokens), 0) as tokens, coalesce(sum(jobs), 0) as jobs from job_enqueued"
            " where tenant = $1",
            batch["tenant"],
        )[0]
        return BatchHistory(
            custom_ids=self.custom_ids,
            state=batch["state"],
            total=batch["total"],
            completed=batch["completed"],
            tokens=batch["prompt_tokens"] + batch["output_tokens"],
            output=self._file(batch["output_file"]),
            errors=self._file(batch["error_file"]),
            lines=[self._line(row) for row in rows("select * from job where batch = $1 order by line", self.batch)],
            bills=self._bills(),
            result_files=len(rows("select from file where deleted_at = 0 and name like $1", f"{self.batch}%")),
            reserved={"tokens": int(held["tokens"]), "jobs": int(held["jobs"])},
            lanes=len(rows("select from job_lane where batch = $1", self.batch)),
            deliveries=self._deliveries(),
            messages=self.receiver.ids(self.batch),
        )

    def _line(self, row: asyncpg.Record) -> Line:
        lost = self.jobs.rows("select request from job_attempt where job = $1 order by attempt", row["id"])
        return Line(
            name=row["name"],
            state=row["state"],
            attempt=row["attempt"],
            request=row["request"],
            lost=[one["request"] for one in lost if one["request"] != row["request"]],
        )

    def _bills(self) -> list[Bill]:
        found = self.jobs.rows(
            "select ledger.request, cost, ledger.prompt_tokens + ledger.output_tokens as tokens from ledger join job"
            " on ledger.request like job.name || '-%' where batch = $1",
            self.batch,
        )
        return [Bill(request=row["request"], cost=row["cost"], tokens=row["tokens"]) for row in found]

    def _deliveries(self) -> list[str]:
        found = self.jobs.rows(
            "select state from webhook_delivery join webhook_event on webhook_event.id = event where object = $1",
            self.batch,
        )
        return [row["state"] for row in found]

    def _file(self, file: str) -> list[str]:
        if not file:
            return []
        content = self._asked("GET", f"/v1/files/{file}/content").text
        return [json.loads(one)["custom_id"] for one in content.splitlines()]


def patiently(ask: Callable[[], httpx.Response]) -> httpx.Response:
    """Ask again while a process that was killed is not back."""
    ends_at = time.monotonic() + patient(REACHED_S)
    while True:
        try:
            return ask()
        except (httpx.TransportError, httpx.HTTPStatusError, OSError) as error:
            is_final = isinstance(error, httpx.HTTPStatusError) and error.response.status_code < 429
            if is_final or time.monotonic() > ends_at:
                raise
            time.sleep(0.2)


@contextmanager
def locked(dsn: str, table: str) -> Iterator[None]:
    """Let nobody write to a table meanwhile; a killed database lets go, too."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(dsn))
    try:
        loop.run_until_complete(connection.execute(f"begin; lock table {table} in share mode"))
        yield
    finally:
        with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError, TimeoutError):
            loop.run_until_complete(connection.close(timeout=5))
        loop.close()
