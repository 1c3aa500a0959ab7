"""The gateway's process, which at SIGUSR1 tells how long its event loop stood still at most since the signal before.

Run as ``python -m tests.support.gateways.watched gateway``; ``stalls.json`` in its home gets the figures: wall seconds,
and seconds of the loop's own CPU, which neither a busy machine nor another thread changes.
"""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

from penstock.intake.server import EdgeServer

TICK_S = 0.001

_most = {"wall_s": 0.0, "cpu_s": 0.0}


def _tell(_signal: int, _frame: object) -> None:
    home = Path(os.environ["PENSTOCK_HOME"])
    (home / "stalls.part").write_text(json.dumps(_most))
    (home / "stalls.part").rename(home / "stalls.json")
    _most.update(wall_s=0.0, cpu_s=0.0)


async def _watch() -> None:
    """Look how much time passes, and how much of it this thread computes, between two turns of the loop."""
    while True:
        wall, cpu = time.monotonic(), time.thread_time()
        await asyncio.sleep(TICK_S)
        _most["cpu_s"] = max(_most["cpu_s"], time.thread_time() - cpu)
        _most["wall_s"] = max(_most["wall_s"], time.monotonic() - wall - TICK_S)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, _tell)
    from penstock.apps.gateway import process
    from penstock.cli import application

    announce = process._announce

    async def watched(server: EdgeServer, ready: Path) -> None:
        """Announce the gateway, and watch its loop from then on."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_watch())
            await announce(server, ready)

    setattr(process, "_announce", watched)  # noqa: B010  mypy would have it stay as it is
    sys.exit(application()())
