"""Waits for the workers of a platform, by its controller's reports, for as long as they make progress.

An agent judges its own starting engine: while it reports such a state, the start goes on.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.clients.operator import Operator
from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.worker import WorkerState

POLL_S = 0.25
PATIENCE_S = 240.0
"""Seconds without any progress after which a start is abandoned."""
MOST_FAILED = 3
"""Failed workers after which a start is abandoned: the controller has already replaced each."""
_JUDGED = frozenset({WorkerState.LOADING, WorkerState.COMPILING, WorkerState.WARMING})
"""States that the agent ends itself: each of its steps has a limit."""
_PROVEN = frozenset({WorkerState.READY, WorkerState.SLEEPING})
"""States of workers that answer, or will after waking."""
NOBODY = "no worker has reported yet"
Worker = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartPatience:
    """The lease of a worker's reports, the longest start, and the folder of logs."""

    lease_s: float
    most_s: float
    logs: Path


class FleetWatch:
    def __init__(self, connect: Callable[[], Operator], clock: Clock, waiting: StartPatience) -> None:
        self._connect = connect
        self._waiting = waiting
        self._clock = clock
        self._began = self._moved = clock.monotonic()
        self._seen: frozenset[object] = frozenset()
        self._failed: dict[str, Worker] = {}

    async def until_ready(self, note: Callable[[str], None]) -> str:
        """Wait until every deployment has its workers in the routing table; return a summary."""
        operator = self._connect()
        while True:
            workers = self._of_this_run((await asyncio.to_thread(operator.get, "/workers"))["workers"])
            note("\n".join(line_of(worker) for worker in workers) or NOBODY)
            if await self._all_serve(operator, workers):
                return ", ".join(summary_of(worker) for worker in workers if worker["state"] in _PROVEN)
            self._give_up(workers)
            _refuse_unfit(await asyncio.to_thread(operator.get, "/status"))
            await asyncio.sleep(POLL_S)

    async def renew(self) -> None:
        operator = self._connect()
        adapters = _adapters(await asyncio.to_thread(operator.get, "/table"))
        for deployment in (await asyncio.to_thread(operator.get, "/deployments"))["deployments"]:
            if deployment["replicas"] and deployment["version"] not in adapters:
                await asyncio.to_thread(operator.post, f"/deployments/{deployment['version']}/restart")

    def _of_this_run(self, workers: Sequence[Worker]) -> list[Worker]:
        elapsed = self._clock.monotonic() - self._began
        return [worker for worker in workers if worker["age_s"] <= min(elapsed, self._waiting.lease_s)]

    async def _all_serve(self, operator: Operator, workers: Sequence[Worker]) -> bool:
        ready = {worker["id"] for worker in workers if worker["state"] in _PROVEN}
        table = await asyncio.to_thread(operator.get, "/table")
        serving = {
            version["id"]: sum(1 for worker in version["workers"] if worker["id"] in ready)
            for version in table["versions"]
        }
        deployments = (await asyncio.to_thread(operator.get, "/deployments"))["deployments"]
        staffed = [one for one in deployments if one["version"] not in _adapters(table)]
        return all(serving.get(one["version"], 0) >= one["replicas"] for one in staffed)

    def _give_up(self, workers: Sequence[Worker]) -> None:
        """Raise ``CommandError`` if workers fail repeatedly, or without progress."""
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
        seen = frozenset((one["id"], one["state"], len(one["phases"]), one["detail"]) for one in workers)
        if seen != self._seen or any(one["state"] in _JUDGED for one in workers):
            self._seen, self._moved = seen, now
        if now - self._moved > PATIENCE_S:
            raise self._error(f"No progress for {PATIENCE_S:.0f} s", workers)
        if now - self._began > self._waiting.most_s:
            raise self._error(f"Not ready within {self._waiting.most_s:.0f} s (PENSTOCK_START_WITHIN_S)", workers)

    def _error(self, what: str, workers: Sequence[Worker]) -> CommandError:
        missing = [worker for worker in workers if worker["state"] not in _PROVEN]
        whom = "; ".join(line_of(worker) for worker in missing) or ("the routing table" if workers else NOBODY)
        return CommandError(
            f"{what}; waited for: {whom}.",
            do="Look for the phase that takes so long; fewer or smaller models: PENSTOCK_MODELS=smollm2.",
            log=self._log_of(missing[0] if missing else None),
        )

    def _log_of(self, worker: Worker | None) -> Path:
        return self._waiting.logs / (f"worker-{worker['id']}.log" if worker else "controller.log")


def _refuse_unfit(status: dict[str, Any]) -> None:
    """Raise ``CommandError`` if a deployed version is larger than the machine's pool: waiting does not help."""
    if unfit := (status.get("pool") or {}).get("unfit"):
        raise CommandError(
            f"{'; '.join(unfit)}.", do="Enlarge PENSTOCK_POOL_BYTES, or name smaller models: PENSTOCK_MODELS=smollm2."
        )


def line_of(worker: Worker) -> str:
    phases = " ".join(f"{timing['phase']} {timing['seconds']:.1f} s" for timing in worker["phases"])
    return "  ".join(part for part in (f"{worker['id']}  {worker['state']}", phases, worker["detail"]) if part)


def summary_of(worker: Worker) -> str:
    if worker["state"] == WorkerState.SLEEPING:
        return f"{worker['id']} sleeps"
    return f"{worker['id']} {sum(timing['seconds'] for timing in worker['phases']):.1f} s"


def _adapters(table: dict[str, Any]) -> set[str]:
    return {version["id"] for version in table["versions"] if version["base"]}
