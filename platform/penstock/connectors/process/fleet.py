"""The local fleet: worker processes of this machine; fits `control.fleet.orders.Host`.

A worker leads a session of its own and outlives the controller; the next controller adopts it by its record.
"""

import secrets
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, cast

from penstock.connectors.process import identity
from penstock.connectors.process.records import ProcessRecord, Records
from penstock.domain.clock import Clock
from penstock.domain.fleet.versions import Death, FleetPlan, FleetView, Running
from penstock.domain.ids import VersionId, WorkerId
from penstock.telemetry.logs import logger

_HELD = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "worker")
"""Becomes the worker once a line comes: a controller that is killed before it has recorded the process leaves none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """With ``environment`` None workers inherit the controller's; ``grace_s``: from a drain order until the process
    group is killed.
    """

    run: Path
    logs: Path
    command: Callable[[WorkerId, VersionId], Sequence[str]]
    environment: Mapping[str, str] | None = None
    grace_s: float = 40.0
    deaths_kept_s: float = 600.0


class LocalFleet:
    """Workers of an earlier controller are found by their records."""

    def __init__(self, config: HostConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._records = Records(config.run / "workers")
        self._children: dict[WorkerId, subprocess.Popen[bytes]] = {}
        self._deaths: list[Death] = []
        self._has_looked = False

    async def view(self) -> FleetView:
        now = self._clock.now()
        self._reap()
        running = [record for record in self._records.all() if self._is_alive(record, now)]
        self._has_looked = True
        self._deaths = [death for death in self._deaths if now - death.at < self._config.deaths_kept_s]
        for record in running:
            self._kill_overdue(record, now)
        return FleetView(
            running=tuple(
                Running(
                    worker=record.worker,
                    version=record.version,
                    started_at=record.started_at,
                    draining=record.draining_at > 0,
                )
                for record in running
            ),
            deaths=tuple(self._deaths),
        )

    async def apply(self, plan: FleetPlan) -> None:
        records = {record.worker: record for record in self._records.all()}
        for worker in plan.drain:
            if worker in records:
                self._drain(records[worker])
        for version in plan.start:
            self._start(version)

    def _start(self, version: VersionId) -> None:
        worker = WorkerId(f"{version.partition('@')[0]}-{secrets.token_hex(4)}")
        self._config.logs.mkdir(parents=True, exist_ok=True)
        with (self._config.logs / f"worker-{worker}.log").open("ab") as log:
            child = subprocess.Popen(
                (*_HELD, *self._config.command(worker, version)),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=None if self._config.environment is None else dict(self._config.environment),
                start_new_session=True,
            )
        self._children[worker] = child
        record = ProcessRecord(
            worker=worker,
            version=version,
            pid=child.pid,
            start=identity.started(child.pid),
            started_at=self._clock.now(),
        )
        with suppress(BrokenPipeError), cast("IO[bytes]", child.stdin) as go:
            self._records.write(record)
            go.write(b"\n")
        logger().info("worker_started", worker=worker, version=version, pid=child.pid)

    def _drain(self, record: ProcessRecord) -> None:
        if record.draining_at:
            return
        self._records.write(replace(record, draining_at=self._clock.now()))
        identity.send(record.pid, record.start, signal.SIGTERM)
        identity.send(record.pid, record.start, signal.SIGCONT)  # who is stopped hears nothing until it goes on
        logger().info("worker_told_to_drain", worker=record.worker, version=record.version, pid=record.pid)

    def _kill_overdue(self, record: ProcessRecord, now: float) -> None:
        if record.draining_at and now - record.draining_at > self._config.grace_s:
            logger().warning("worker_killed", worker=record.worker, version=record.version, pid=record.pid)
            identity.kill_group(record.pid, record.start)

    def _reap(self) -> None:
        """Init collects exit codes of adopted workers."""
        for worker, child in list(self._children.items()):
            if child.poll() is not None:
                logger().info("worker_ended", worker=worker, pid=child.pid, exit_code=child.returncode)
                del self._children[worker]

    def _is_alive(self, record: ProcessRecord, now: float) -> bool:
        if record.start and identity.started(record.pid) == record.start:
            return True
        if not record.draining_at and self._has_looked:  # who died before we came tells nothing about the version
            self._deaths.append(Death(worker=record.worker, version=record.version, at=now))
            logger().warning("worker_died", worker=record.worker, version=record.version, pid=record.pid)
        self._records.remove(record.worker)
        return False
