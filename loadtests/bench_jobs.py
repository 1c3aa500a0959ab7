"""What the job store does: claims and ends beside procrastinate's, fairness, a deep queue, an idle one, what rows take.

Run: ``make bench-jobs``. One embedded Postgres as ``penstock up`` has it, both engines in this run: trust the ratios.
Ends with 1 if a bound is broken.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import uvloop

from loadtests.environments import environment
from penstock.apps.runner import NEWS
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.jobs import PostgresJobs
from penstock.connectors.postgres.listening import Channel
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.postgres.runners import PostgresRunnerLife
from penstock.domain.clock import HeardClock
from penstock.domain.ids import TenantId
from penstock.domain.jobs.ids import BatchId, RunnerId
from penstock.domain.jobs.job import End, EnqueueLimits, Job, JobState, NewJob
from penstock.jobs.ending import MOST
from tests.support.jobs.stores import PostgresWorld, new, quota

RUNNERS, WINDOW = 4, 16
FREE = EnqueueLimits()
LEAST_RATIO, MOST_CLAIM_S, MOST_START_S, MOST_SHARE_OFF, MOST_GROWTH = 30.0, 0.015, 0.05, 0.02, 1.5
STARTS = 500
LASTS_S = 1e9


def jobs_of(number: int, tenants: int, batch: str, half: bool = False) -> list[NewJob]:  # noqa: FBT001, FBT002  a plain switch
    """Return jobs of many tenants in turn; ``half``: the first tenant's after each of them."""
    return [
        new(
            f"{batch}_{n}",
            tenant=TenantId(f"t{0 if half and n % 2 else n // (1 + half) % tenants}"),
            batch=BatchId(batch),
            line=n,
            deadline_at=LASTS_S,
        )
        for n in range(number)
    ]


def ends(jobs: Sequence[Job]) -> list[End]:
    done = JobState.SUCCEEDED
    return [
        End(id=job.id, epoch=job.epoch, state=done, at=2.0, status=200, prompt_tokens=40, output_tokens=60)
        for job in jobs
    ]


class Bench:
    def __init__(self, database: Database) -> None:
        self.database, self.store = database, PostgresJobs(database)
        self.world = PostgresWorld(database)
        self.claim_s: list[float] = []
        self.tenants: Counter[TenantId] = Counter()

    async def submit(self, jobs: Sequence[NewJob]) -> float:
        begin = time.perf_counter()
        for at in range(0, len(jobs), 10_000):
            await self.world.queue(jobs[at : at + 10_000], FREE)
        return len(jobs) / (time.perf_counter() - begin)

    async def drain(self, most: int, group: int = MOST) -> float:
        """Let runners claim and end jobs until there is none or enough; return jobs per second. Ends are stored in
        groups, as runners do: those of a second's lines, ``MOST`` at once.
        """
        self.claim_s.clear()
        self.tenants.clear()
        runners = [await self.world.runner() for _ in range(RUNNERS)]
        begin = time.perf_counter()
        await asyncio.gather(*(self._run(me, most, group) for me in runners))
        return self.tenants.total() / (time.perf_counter() - begin)

    async def _run(self, me: RunnerId, most: int, group: int) -> None:
        held: list[Job] = []
        while self.tenants.total() < most:
            begin = time.perf_counter()
            jobs = await self.store.claim(me, quota(WINDOW), 1.0)
            self.claim_s.append(time.perf_counter() - begin)
            self.tenants.update(job.tenant for job in jobs)
            held += jobs
            if not jobs:
                break
            if len(held) >= group:
                await self.store.finish(ends(held))
                held.clear()
        await self.store.finish(ends(held))

    async def sizes(self) -> dict[str, int]:
        rows = await self.database.rows(
            "select relname, pg_relation_size(oid) as heap, pg_indexes_size(oid) as indexes from pg_class "
            "where relname in ('job', 'job_flow', 'job_lane', 'job_enqueued')"
        )
        return {f"{row['relname']} {kind}": row[kind] for row in rows for kind in ("heap", "indexes")}

    async def row_bytes(self) -> float:
        (row,) = await self.database.rows("select avg(pg_column_size(job.*))::double precision as bytes from job")
        return float(row["bytes"])

    async def forget(self, batch: str) -> None:
        await self.database.rows("delete from job where batch = $1", batch)


def quantile(values: Sequence[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


def peer(dsn: str, jobs: int) -> dict[str, float]:
    """Return the peer's jobs per second, also in the ways to more that it documents: concurrency, then processes."""
    python = environment("peers", "procrastinate") / "bin/python"
    program = Path(__file__).parent / "jobs_peer.py"
    found = {}
    for workers, concurrency in ((1, 1), (1, 16), (RUNNERS, 16)):
        command: list[str | Path] = [python, program, dsn, str(jobs), str(concurrency), str(workers)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found[f"{workers} x {concurrency}"] = float(said.split()[-1])
    return found


async def speed(bench: Bench, group: int) -> tuple[float, float]:
    """Return jobs per second over 100 tenants, and the distance of the largest tenant's share from a fair one."""
    per_s = await bench.submit(jobs_of(20_000, 100, "fair", half=True))
    done = await bench.drain(8_000, group)
    share = bench.tenants[TenantId("t0")] / bench.tenants.total()
    print(
        f"queued {per_s:,.0f} jobs/s; {done:,.0f} jobs/s of 100 tenants by {RUNNERS} runners, {WINDOW} claimed and "
        f"{group} ended at a time"
    )
    print(f"a tenant with half of all jobs had {share:.2%} of the service, 1 % is fair")
    await bench.drain(1 << 30)
    await bench.forget("fair")
    return done, abs(share - 0.01)


async def deep(bench: Bench) -> float:
    await bench.submit(jobs_of(50_000, 1000, "deep"))
    await bench.drain(4_000, WINDOW)
    p50, p99 = statistics.median(bench.claim_s), quantile(bench.claim_s, 0.99)
    print(f"claim of {WINDOW} among 50,000 jobs of 1,000 tenants: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
    await bench.drain(1 << 30)
    await bench.forget("deep")
    return p99


async def idle(bench: Bench, dsn: str) -> float:
    """Return the p99 of seconds from a submit's begin to the job in the hands of a runner that waits for news."""
    life, news, claimed = PostgresRunnerLife(dsn, "idle", HeardClock()), asyncio.Event(), asyncio.Queue[float]()

    async def heard(_: object) -> None:
        news.set()

    async def run() -> None:
        while True:
            news.clear()
            jobs = await bench.store.claim(await life.confirm(), quota(WINDOW), time.perf_counter())
            if jobs:
                claimed.put_nowait(time.perf_counter())
                await bench.store.finish(ends(jobs))
            else:
                await news.wait()

    tasks = [asyncio.create_task(Channel(dsn, NEWS).follow(heard)), asyncio.create_task(run())]
    seconds = []
    for number in range(STARTS):
        begin = time.perf_counter()
        await bench.store.submit(new(f"idle_{number}", deadline_at=LASTS_S), FREE)
        seconds.append(await claimed.get() - begin)
    for task in tasks:
        task.cancel()
    await life.resign()
    p50, p99 = statistics.median(seconds), quantile(seconds, 0.99)
    print(f"submitted and claimed by an idle runner: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms")
    return p99


async def flat(bench: Bench, lines: int, batches: int) -> float:
    """Return the growth of the largest size of tables and indexes from the earlier half of batches to the later."""
    totals = []
    for number in range(batches):
        name = f"batch{number}"
        await bench.submit(jobs_of(lines, 10, name))
        if number == 1:
            indexes = (await bench.sizes())["job indexes"] / lines
            print(f"a queued line takes {await bench.row_bytes():,.0f} bytes, and {indexes:,.0f} of indexes")
        await bench.drain(1 << 30)
        await bench.forget(name)
        sizes = await bench.sizes()
        totals.append(sum(sizes.values()))
        print(f"after batch {number + 1}: " + ", ".join(f"{one} {size / 1e6:.1f} MB" for one, size in sizes.items()))
    return max(totals[batches // 2 :]) / max(totals[: max(1, batches // 2)])


async def ours(dsn: str, lines: int, batches: int) -> tuple[float, float, float, float, float]:
    async with Database(dsn, max_connections=2 * RUNNERS, slower=20.0) as database:
        await migrate(database)
        bench = Bench(database)
        await speed(bench, WINDOW)
        done, off = await speed(bench, MOST)
        return done, off, await deep(bench), await idle(bench, dsn), await flat(bench, lines, batches)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--peer-jobs", type=int, default=2_000)
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    server = EmbeddedPostgres(home / "postgres", home / "logs" / "postgres.log")
    server.start()
    try:
        theirs = peer(server.dsn, asked.peer_jobs)
        ways = ", ".join(f"{per_s:,.0f} jobs/s with {way} at a time" for way, per_s in theirs.items())
        print(f"procrastinate: {ways}", flush=True)
        done, off, p99, start, growth = uvloop.run(ours(server.dsn, asked.lines, asked.batches))
    finally:
        server.stop()
    ratio = done / max(theirs.values())
    print(f"{ratio:.0f} times procrastinate's; sizes of later batches {growth:.2f} times those of earlier ones")
    broken = [
        name
        for name, is_broken in {
            "speed": ratio < LEAST_RATIO,
            "claim": p99 > MOST_CLAIM_S,
            "start": start > MOST_START_S,
            "fairness": off > MOST_SHARE_OFF,
            "sizes": growth > MOST_GROWTH,
        }.items()
        if is_broken
    ]
    print(f"broken: {', '.join(broken)}" if broken else "all bounds hold")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
