"""The audit chain: acts a second written and chained, the lag of the chain, and links a second that are verified.

Run: ``make bench-audit``, or ``python -m loadtests.bench_audit --acts 2000 --seconds 20``. Sixteen connections insert
acts at the asked pace, each act in a transaction of its own, while a sequencer chains, signs and ships them into a
folder. The same inserts without a sequencer stand beside, since a busy machine reaches the pace in neither, and those
of one connection, which waits for the disk at each act: commits beside one another share a flush. Then the whole log is
verified, in the database and from its segments: by the clock, and by this process's own CPU time, which others on the
machine do not change. Ends with 1 if a bound is broken.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.connectors.postgres.audit_chain import PostgresAuditChain
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.spool.spool import BATCH_ROWS
from penstock.domain.clock import SystemClock
from tests.support.audit_chains import Chained
from tests.support.samples.interventions import intervention

MOST_LAG_S, LEAST_VERIFIED_PER_CPU_S, LEAST_RATIO = 1.0, 50_000.0, 0.9
WRITERS, ROUNDS = 16, 10
_INSERT = "insert into audit_event (at, who, what, target, detail) values ($1, 'key-1234', 'key.plan', $2, 'weight 3')"
_MANY = """insert into audit_event (at, who, what, target, detail)
select 1.0, 'key-1234', 'key.plan', 'key-' || n, 'weight 3' from generate_series(1, $1) as n"""


@dataclass
class Pace:
    written: int = 0
    seconds: float = 0.0
    lags_s: list[float] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        return self.written / self.seconds


@contextmanager
def server() -> Iterator[EmbeddedPostgres]:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-", ignore_cleanup_errors=True) as folder:
        own = EmbeddedPostgres(Path(folder) / "postgres", Path(folder) / "postgres.log")
        own.start()
        try:
            yield own
        finally:
            own.stop()


async def written(database: Database, per_s: float, seconds: float, writers: int = WRITERS) -> Pace:
    """Write acts at this pace, each in a transaction of its own, over as many connections as there are writers."""
    pace, began = Pace(), time.monotonic()

    async def writer() -> None:
        while (elapsed := time.monotonic() - began) < seconds:
            if pace.written >= per_s * elapsed:
                await asyncio.sleep(0.001)
                continue
            pace.written += 1
            await database.rows(_INSERT, time.time(), f"key-{pace.written}")

    await asyncio.gather(*(writer() for _ in range(writers)))
    pace.seconds = time.monotonic() - began
    return pace


async def recorded(database: Database) -> dict[str, float]:
    """Return interventions stored a second, without the act that covers them and with it, in turns."""
    seconds = dict.fromkeys(("disable", "enable"), 0.0)
    for number, mode in enumerate((*seconds, *seconds) * ROUNDS):
        await database.rows(f"alter table intervention {mode} trigger intervention_covered")
        rows = [intervention(f"{number}", each, at=time.time()) for each in range(BATCH_ROWS)]
        began = time.monotonic()
        await PostgresLedger(database).record(rows)
        seconds[mode] += time.monotonic() - began
    await database.rows("delete from intervention where not exists (select from audit_event where id = act)")
    return {mode: 2 * ROUNDS * BATCH_ROWS / found for mode, found in seconds.items()}


async def watched(database: Database, pace: Pace) -> None:
    chain = PostgresAuditChain(database)
    while True:
        pace.lags_s.append(await chain.lag_s())
        await asyncio.sleep(0.1)


async def measured(dsn: str, acts: float, seconds: float, rows: int) -> bool:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        async with Database(dsn, max_connections=WRITERS) as writers, Database(dsn, slower=60) as own:
            await migrate(own, is_noted=False)
            stored = await recorded(own)
            durable = {name: (await own.rows(f"show {name}"))[0][0] for name in ("fsync", "synchronous_commit")}
            alone = await written(writers, acts, seconds / 4, writers=1)
            bare = await written(writers, acts, seconds)
            chained = Chained(own, Path(folder), clock=SystemClock())
            await chained.settle()
            lags = Pace()
            beside = [asyncio.create_task(run) for run in (chained.sequencer().run(), watched(own, lags))]
            beside_chain = await written(writers, acts, seconds)
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await own.rows(_MANY, max(0, rows - alone.written - bare.written - beside_chain.written))
            began = time.monotonic()
            linked = await chained.sequencer().link()
            link_s = time.monotonic() - began
            await chained.settle()
            verified = {name: await speed(chained, from_bucket=name == "segments") for name in ("database", "segments")}
    worst = max(lags.lags_s)
    sys.stdout.write(
        f"durability    {', '.join(f'{name} {value}' for name, value in durable.items())}\n"
        f"acts/s        one connection {alone.per_s:,.0f}, {WRITERS} {bare.per_s:,.0f};"
        f" with a sequencer {beside_chain.per_s:,.0f}; asked {acts:,.0f}\n"
        f"lag           median {statistics.median(lags.lags_s):.2f} s, most {worst:.2f} s\n"
        f"filtered/s    interventions without an act {stored['disable']:,.0f}, with one {stored['enable']:,.0f}\n"
        f"linked/s      {linked / link_s:,.0f} ({linked:,} that waited)\n"
        + "".join(
            f"verified/s    {name} {wall:,.0f}, per second of CPU {cpu:,.0f}\n"
            for name, (wall, cpu) in verified.items()
        )
    )
    return (
        worst <= MOST_LAG_S
        and beside_chain.per_s >= LEAST_RATIO * bare.per_s
        and min(cpu for _, cpu in verified.values()) >= LEAST_VERIFIED_PER_CPU_S
    )


async def speed(chained: Chained, *, from_bucket: bool) -> tuple[float, float]:
    """Return links verified a second, by the clock and by this process's CPU time."""
    began, cpu = time.monotonic(), time.process_time()
    done = await chained.verified(from_bucket=from_bucket)
    if not done.report.is_whole:
        raise SystemExit(f"bench: {done.report.findings[:3]}")
    return done.report.rows / (time.monotonic() - began), done.report.rows / (time.process_time() - cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=float, default=2000.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rows", type=int, default=300_000)
    asked = parser.parse_args()
    with server() as own:
        is_good = asyncio.run(measured(own.dsn, asked.acts, asked.seconds, asked.rows))
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
