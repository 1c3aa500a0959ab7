"""Procrastinate's queue on the same Postgres, in its own environment: ``jobs_peer.py DSN JOBS CONCURRENCY WORKERS``.

Prints the jobs per second of that many worker processes, of jobs that do nothing, from its first start to its last end.
"""

import asyncio
import sys
from importlib import import_module
from multiprocessing import Process
from typing import Any

_RATE = """
select count(*) / 2 / extract(epoch from max(at) - min(at)) as rate from procrastinate_events
where type in ('started', 'succeeded') and job_id > %(after)s
"""
_LAST = "select coalesce(max(id), 0) as id from procrastinate_jobs"


def app_of(dsn: str) -> tuple[Any, Any]:
    procrastinate: Any = import_module("procrastinate")  # of this peer's environment alone
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))

    async def does_nothing(text: str) -> None:
        del text

    return app, app.task(name="nothing")(does_nothing)


async def queue(dsn: str, jobs: int) -> int:
    """Return the id after which the new jobs' ids are."""
    app, nothing = app_of(dsn)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        last = await app.connector.execute_query_one_async(_LAST)
        await nothing.batch_defer_async(*({"text": "x" * 1024} for _ in range(jobs)))
    return int(last["id"])


async def work(dsn: str, concurrency: int) -> None:
    app, _ = app_of(dsn)
    async with app.open_async():
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)


async def rate(dsn: str, after: int) -> float:
    app, _ = app_of(dsn)
    async with app.open_async():
        return float((await app.connector.execute_query_one_async(_RATE, after=after))["rate"])


def run(dsn: str, concurrency: int) -> None:
    asyncio.run(work(dsn, concurrency))


if __name__ == "__main__":
    dsn, jobs, concurrency, workers = sys.argv[1], *map(int, sys.argv[2:])
    last = asyncio.run(queue(dsn, jobs))
    processes = [Process(target=run, args=(dsn, concurrency)) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print(asyncio.run(rate(dsn, last)))
