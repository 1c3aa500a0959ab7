"""How the workers come up, as their heartbeats tell it through the controller."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from penstock.adapters.postgres.database import Database
from penstock.adapters.postgres.leases import PostgresLeases
from penstock.adapters.postgres.registry import PostgresRegistry
from penstock.adapters.postgres.tables import PostgresTables
from penstock.apps.settings import Settings
from penstock.apps.trouble import Trouble
from penstock.apps.up.seed import WHO, opened
from penstock.domain.audit import Act
from penstock.domain.clock import Clock
from penstock.domain.fleet import Seen
from penstock.domain.worker import WorkerReport, WorkerState

POLL_S = 0.25
PATIENCE_S = 240.0
FAILED_FOR_S = 20.0


class FleetWatch:
    """Looks at the fleet until it serves."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Take the settings of a platform whose controller runs."""
        self._settings = settings
        self._clock = clock

    async def until_ready(self, note: Callable[[str], None]) -> str:
        """Wait until every deployment has its workers in the routing table; return what came of it in words."""
        began = self._clock.now()
        failed_since: float | None = None
        async with opened(self._settings.database_url) as database:
            while True:
                reports = await self._reports(database, began)
                note("\n".join(line_of(report) for report in reports))
                if await self._all_serve(database, reports):
                    return ", ".join(summary_of(report) for report in reports if report.state.serves)
                has_failed = any(report.state is WorkerState.FAILED for report in reports)
                failed_since = (failed_since or self._clock.now()) if has_failed else None
                self._give_up(reports, began, failed_since)
                await asyncio.sleep(POLL_S)

    async def renew(self) -> None:
        """Ask the controller to replace every worker that runs now, one at a time."""
        now = self._clock.now()
        async with opened(self._settings.database_url) as database:
            registry = PostgresRegistry(database)
            for deployment in await registry.deployments():
                act = Act(who=WHO, what="deployment.renew", target=deployment.version, at=now)
                await registry.put_deployment(replace(deployment, renew_before=now), act)

    async def _reports(self, database: Database, began: float) -> list[WorkerReport]:
        """Return the reports of this run; those of a former one say nothing about now."""
        seen: Sequence[Seen] = await PostgresLeases(database).load(began)
        return [one.report for one in seen]

    async def _all_serve(self, database: Database, reports: Sequence[WorkerReport]) -> bool:
        """Tell whether every deployment has its workers, ready by their own word and in the table that gateways get."""
        alive = {report.worker for report in reports if report.state.serves}
        table = await PostgresTables(database).latest()
        serving = {
            version.id: sum(1 for worker in version.workers if worker.state.serves and worker.id in alive)
            for version in table.versions
        }
        deployments = await PostgresRegistry(database).deployments()
        return all(serving.get(deployment.version, 0) >= deployment.replicas for deployment in deployments)

    def _give_up(self, reports: Sequence[WorkerReport], began: float, failed_since: float | None) -> None:
        now = self._clock.now()
        failed = [report for report in reports if report.state is WorkerState.FAILED]
        if failed and failed_since is not None and now - failed_since > FAILED_FOR_S:
            raise Trouble(
                f"Worker {failed[0].worker} failed: {failed[0].detail or 'it did not say why'}.",
                do="Mend the cause and run `penstock up` again.",
                log=self._log_of(failed[0].worker),
            )
        if now - began > PATIENCE_S:
            missing = next((report for report in reports if not report.state.serves), None)
            raise Trouble(
                f"The workers were not ready within {PATIENCE_S:.0f} s.",
                do="Look for the phase that took so long; fewer or smaller models: PENSTOCK_MODELS=smollm2.",
                log=self._log_of(missing.worker) if missing else self._settings.paths.logs / "controller.log",
            )

    def _log_of(self, worker: str) -> Path:
        found = sorted(self._settings.paths.logs.glob(f"*{worker}*.log"))
        return found[0] if found else self._settings.paths.logs / "controller.log"


def line_of(report: WorkerReport) -> str:
    """Say where a worker is: its state, the seconds of its phases, why."""
    phases = " ".join(f"{timing.phase} {timing.seconds:.1f} s" for timing in report.phases)
    return "  ".join(part for part in (f"{report.worker}  {report.state}", phases, report.detail) if part)


def summary_of(report: WorkerReport) -> str:
    """Say in few words that a worker is ready and what its start took."""
    seconds = sum(timing.seconds for timing in report.phases)
    return f"{report.worker} {seconds:.1f} s"
