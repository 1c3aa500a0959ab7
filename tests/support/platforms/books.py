"""The books of a running platform: its gateways' logs, its ledger and its engines' counts must agree at rest.

Every admitted request has one row with the logged outcome and tokens; a row without a log line comes from a killed
gateway. At rest no gateway counts a request in flight, no engine runs or queues one (by vLLM's own account), and shared
limits hold nothing and have counted the cost of the rows.
"""

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx

from penstock.connectors.postgres.embedded import dsn_of
from penstock.domain.outcome import Outcome, Stage
from penstock.domain.tenancy import budget
from penstock.telemetry.names import IN_FLIGHT
from tests.support.patience import patient
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.stores.watched_redis import WatchedRedis

LEFT_BEHIND = {Outcome.INTERNAL}
ENGINE_GAUGES = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_ROWS = "select request, tenant, outcome, output_tokens, cost from ledger where opened_at >= $1"

Row = dict[str, Any]


@dataclass
class Books:
    """One platform's books, opened at some moment; ``redis`` holds its limits, if they are shared."""

    platform: Platform
    redis: WatchedRedis | None = None
    since: float = field(default_factory=time.time)
    logged: dict[str, Row] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    _read: dict[Path, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._read = {path: path.stat().st_size for path in self._logs()}

    @property
    def left_behind(self) -> list[Row]:
        """Rows without a log line: of requests that ran when their gateway was killed."""
        return [row for name, row in self.rows.items() if name not in self.logged]

    def balance(self, *, within_s: float = 20.0, log_is_whole: bool = True) -> None:
        """Wait until everything is at rest and agrees, or fail saying what does not."""
        wrong: list[str] = ["nothing was looked at"]
        end = time.monotonic() + patient(within_s)
        while wrong and time.monotonic() < end:
            wrong = self.findings(log_is_whole=log_is_whole)
            if wrong:
                time.sleep(0.1)
        if wrong:
            raise AssertionError("\n".join(["the books do not agree:", *wrong]))

    def findings(self, *, log_is_whole: bool = True) -> list[str]:
        """Look once and return what does not agree, or not yet."""
        try:
            self._read_logs()
            busy = self._busy()
            self.rows = {row["request"]: row for row in asyncio.run(self._ledger())}
        except (httpx.HTTPError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            return [f"{type(error).__name__}: {error}"]
        unlogged = [row for row in self.left_behind if row["outcome"] not in LEFT_BEHIND]
        return [
            *busy,
            *(f"{name} is logged as {line['outcome']}, {self.rows.get(name)}" for name, line in self._differing()),
            *(f"{row['request']} has a row ({row['outcome']}) and no line" for row in unlogged if log_is_whole),
            *(self._meters() if self.redis is not None else ()),
        ]

    def _differing(self) -> list[tuple[str, Row]]:
        """Return the lines without a row, or with a different one."""
        return [(name, line) for name, line in self.logged.items() if not _agree(line, self.rows.get(name))]

    # -- at rest ------------------------------------------------------------------------------------

    def _busy(self) -> list[str]:
        fleet = Fleet(platform=self.platform)
        in_flight = fleet.counted(IN_FLIGHT)
        engines = {(gate.worker, name): gate.engine(name) for gate in fleet.gates() for name in ENGINE_GAUGES}
        found = [f"{name} of {worker} is {value:g}" for (worker, name), value in engines.items() if value]
        return [*found, *([f"{in_flight:g} requests in flight"] if in_flight else ())]

    def _meters(self) -> list[str]:
        """Compare the shared meters with the rows; holds of a killed gateway end by themselves."""
        assert self.redis is not None
        rest = self.redis.rest()
        found = [f"{meter} still holds {amount}" for meter, amount in rest.held.items() if amount]
        for tenant, cost in asyncio.run(self._costs()).items():
            meter = f"tenant:{tenant}:spend:{budget.month(time.time()).name}"
            if meter in rest.spent and rest.spent[meter] != cost:
                found.append(f"{meter} counts {rest.spent[meter]}, the rows of this month cost {cost}")
        return found

    # -- what it says -------------------------------------------------------------------------------

    def _logs(self) -> list[Path]:
        return sorted((self.platform.home / "logs").glob("gateway*.log"))

    def _read_logs(self) -> None:
        """Take in what was logged since the last look: requests that were admitted, however they ended."""
        for path in self._logs():
            data = path.read_bytes()
            begin = self._read.get(path, 0) if self._read.get(path, 0) <= len(data) else 0
            whole = data.rfind(b"\n") + 1
            self._read[path] = whole
            for raw in data[begin:whole].splitlines():
                with suppress(ValueError):
                    line = json.loads(raw)
                    if line.get("event") == "request" and Stage.ADMISSION in line["stages_ms"]:
                        self.logged[line["request_id"]] = line

    async def _ledger(self) -> list[Row]:
        return await self._ask(_ROWS, self.since)

    async def _costs(self) -> dict[str, int]:
        begin = budget.month(time.time()).span.begin
        asked = "select tenant, sum(cost)::bigint as cost from ledger where opened_at >= $1 group by tenant"
        return {row["tenant"]: row["cost"] for row in await self._ask(asked, begin)}

    async def _ask(self, sql: str, *arguments: object) -> list[Row]:
        connection = await asyncpg.connect(dsn_of(self.platform.home / "postgres"), timeout=5)
        try:
            return [dict(row) for row in await connection.fetch(sql, *arguments)]
        finally:
            await connection.close()


def _agree(line: Row, row: Row | None) -> bool:
    said = ("tenant", "outcome", "output_tokens")
    return row is not None and all(line[name] == row[name] for name in said)
