"""Waits for the workers of a platform, by what its controller reports."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from penstock.clients.operator import Operator
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.worker import WorkerState

POLL_S = 0.25
PATIENCE_S = 240.0
MOST_FAILED = 3
"""So many failed workers are no accident: the controller has tried others in their place."""
Worker = dict[str, Any]


class FleetWatch:
    """Looks at the fleet until it serves."""

    def __init__(self, connect: Callable[[], Operator], clock: Clock, *, lease_s: float, logs: Path) -> None:
        """Take how to speak to the controller, how long a silent worker counts, and where the logs are."""
        self._connect = connect
        self._lease_s = lease_s
        self._logs = logs
        self._clock = clock
        self._began = clock.monotonic()
        self._failed: dict[str, Worker] = {}

    async def until_ready(self, note: Callable[[str], None]) -> str:
        """Wait until every deployment has its workers in the routing table; return what came of it in words."""
        operator = self._connect()
        while True:
            workers = self._of_this_run((await asyncio.to_thread(operator.get, "/workers"))["workers"])
            note("\n".join(line_of(worker) for worker in workers))
            if await self._all_serve(operator, workers):
                return ", ".join(summary_of(worker) for worker in workers if worker["state"] == WorkerState.READY)
            self._give_up(workers)
            await asyncio.sleep(POLL_S)

    async def renew(self) -> None:
        """Ask the controller to replace every worker that runs now, one at a time."""
        operator = self._connect()
        for deployment in (await asyncio.to_thread(operator.get, "/deployments"))["deployments"]:
            if deployment["replicas"]:
                await asyncio.to_thread(operator.post, f"/deployments/{deployment['version']}/restart")

    def _of_this_run(self, workers: Sequence[Worker]) -> list[Worker]:
        """Leave out what was last reported before this start: it says nothing about now."""
        elapsed = self._clock.monotonic() - self._began
        return [worker for worker in workers if worker["age_s"] <= min(elapsed, self._lease_s)]

    async def _all_serve(self, operator: Operator, workers: Sequence[Worker]) -> bool:
        """Tell whether each deployment has its workers: ready by their own word, and in the table that gateways get."""
        ready = {worker["id"] for worker in workers if worker["state"] == WorkerState.READY}
        table = await asyncio.to_thread(operator.get, "/table")
        serving = {
            version["id"]: sum(1 for worker in version["workers"] if worker["id"] in ready)
            for version in table["versions"]
        }
        deployments = (await asyncio.to_thread(operator.get, "/deployments"))["deployments"]
        return all(serving.get(one["version"], 0) >= one["replicas"] for one in deployments)

    def _give_up(self, workers: Sequence[Worker]) -> None:
        """Raise ``CommandError`` where worker after worker fails, or nothing comes of the waiting."""
        now = self._clock.monotonic()
        self._failed |= {worker["id"]: worker for worker in workers if worker["state"] == WorkerState.FAILED}
        if len(self._failed) >= MOST_FAILED:
            last = list(self._failed.values())[-1]
            raise CommandError(
                f"{len(self._failed)} workers failed one after another;"
                f" the last, {last['id']}, because: {last['detail']}.",
                do="Mend the cause and run `penstock up` again.",
                log=self._log_of(last),
            )
        if now - self._began > PATIENCE_S:
            waiting = next((worker for worker in workers if worker["state"] != WorkerState.READY), None)
            raise CommandError(
                f"The workers were not ready within {PATIENCE_S:.0f} s.",
                do="Look for the phase that takes so long; fewer or smaller models: PENSTOCK_MODELS=smollm2.",
                log=self._log_of(waiting),
            )

    def _log_of(self, worker: Worker | None) -> Path:
        return self._logs / (f"worker-{worker['id']}.log" if worker else "controller.log")


def line_of(worker: Worker) -> str:
    """Say where a worker is: its state, the seconds of its phases, why."""
    phases = " ".join(f"{timing['phase']} {timing['seconds']:.1f} s" for timing in worker["phases"])
    return "  ".join(part for part in (f"{worker['id']}  {worker['state']}", phases, worker["detail"]) if part)


def summary_of(worker: Worker) -> str:
    """Say in few words that a worker is ready and what its start took."""
    return f"{worker['id']} {sum(timing['seconds'] for timing in worker['phases']):.1f} s"
