"""The jobs runner's process: the gateway's pipeline without its listeners, asked by jobs instead of callers."""

import asyncio
import os
import signal
from collections.abc import Sequence
from functools import partial

import uvloop

from penstock.apps import deferred, jobs, keys
from penstock.apps.gateway.parts import Parts, compose
from penstock.apps.gateway.process import running
from penstock.apps.stores import StoreKeys, database_dsn, open_keys, open_payloads
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.listening import Channel
from penstock.connectors.postgres.runners import PostgresRunnerLife
from penstock.connectors.postgres.tenant_keys import follow
from penstock.domain.clock import HeardClock
from penstock.domain.command_error import CommandError
from penstock.domain.jobs.payload import PayloadStore
from penstock.gateway.admission.reservations import Journal
from penstock.jobs import upkeep
from penstock.jobs.bills import Bills
from penstock.jobs.running import Runner
from penstock.jobs.upkeep import Upkeep
from penstock.settings.processes import RunnerSettings
from penstock.supervision import exposition
from penstock.supervision.files import write_private
from penstock.telemetry import logs
from penstock.tls.identity import Role

NEWS = "jobs"
"""The channel on which a submit wakes idle runners."""


def main(settings: RunnerSettings) -> None:
    logs.configure("runner", level=settings.log_level)
    if not settings.job_runners:
        raise CommandError("Jobs are turned off (PENSTOCK_JOB_RUNNERS=0).", do="Set it to the number of runners.")
    keys.check_files(settings, RunnerSettings)
    exposition.check_port(settings.metrics_address)
    uvloop.run(_main(settings))


async def _main(settings: RunnerSettings) -> None:
    found, bills = keys.read(settings), list[Bills]()

    def journal(spool: Journal) -> Bills:
        bills.append(Bills(spool))
        return bills[0]

    clock = HeardClock()
    parts = compose(settings, found, Role.RUNNER, journal, clock)
    ending, dsn = _asked_to_end(), database_dsn(settings)
    async with running(parts, found, ending.set) as ready:
        async with Database(dsn, max_connections=jobs.CONNECTIONS) as database:
            payloads, secrets = _sealed(settings, parts, database)
            life = PostgresRunnerLife(dsn, parts.shared.demand.gateway, clock)
            runner = jobs.compose(parts, database, payloads, life, bills[0])
            beside = deferred.upkeep(settings, parts, database, payloads, secrets, lambda: runner.me or None)
            _keep(parts, runner, beside, dsn, clock)
            write_private(ready, str(os.getpid()))
            logs.logger().info("runner_runs", number=parts.shared.table.number)
            await ending.wait()
            parts.probes.drain.is_on = True
            await asyncio.gather(runner.drain(settings.drain_grace_s), *map(upkeep.end, beside))
        logs.logger().info("runner_ended")


def _sealed(settings: RunnerSettings, parts: Parts, database: Database) -> tuple[PayloadStore, StoreKeys]:
    keys = open_keys(settings, database, lambda: parts.shared.ticket_keys.platform, parts.shared.clock)
    parts.shared.accounting.texts.open(keys.payloads)
    parts.background.keep("tenant_keys", partial(follow, database_dsn(settings), keys.tenants))
    return open_payloads(settings, keys.payloads), keys


def _asked_to_end() -> asyncio.Event:
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    return ending


def _keep(parts: Parts, runner: Runner, beside: Sequence[Upkeep], dsn: str, clock: HeardClock) -> None:
    keep = parts.background.keep
    for name, loop in runner.loops.items():
        keep(name, loop)
    keep("job_news", lambda: Channel(dsn, NEWS).follow(runner.look))
    keep("demand", parts.telling.run)
    for work in beside:
        keep(work.name, partial(upkeep.keep, work, clock))
