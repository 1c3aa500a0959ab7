"""Procrastinate's queue on the same Postgres, in its own environment: ``jobs_peer.py DSN JOBS CONCURRENCY``.

Prints the jobs per second of one worker, of jobs that do nothing.
"""

import asyncio
import sys
import time
from importlib import import_module
from typing import Any


async def main(dsn: str, jobs: int, concurrency: int) -> None:
    procrastinate: Any = import_module("procrastinate")  # of this peer's environment alone
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=dsn))

    async def does_nothing(text: str) -> None:
        del text

    nothing = app.task(name="nothing")(does_nothing)
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await nothing.batch_defer_async(*({"text": "x" * 1024} for _ in range(jobs)))
        begin = time.perf_counter()
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
        print(jobs / (time.perf_counter() - begin))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
