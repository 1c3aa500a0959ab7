"""The jobs runner's process: the gateway's pipeline without its listeners, asked by jobs instead of callers."""

import asyncio
import os
import signal
from functools import partial

import uvloop

from penstock.apps import deferred, keys, ownership
from penstock.apps.gateway.parts import compose
from penstock.apps.gateway.process import known
from penstock.apps.settings.processes import RunnerSettings
from penstock.domain.command_error import CommandError
from penstock.jobs import upkeep
from penstock.supervision import exposition
from penstock.supervision.files import ready_file, write_private
from penstock.telemetry import logs
from penstock.tls.identity import Role


def main(settings: RunnerSettings) -> None:
    logs.configure("runner", level=settings.log_level)
    if not settings.job_runners:
        raise CommandError("Jobs are turned off (PENSTOCK_JOB_RUNNERS=0).", do="Set it to the number of runners.")
    keys.check_files(settings, RunnerSettings)
    exposition.check_port(settings.metrics_address)
    uvloop.run(_main(settings))


async def _main(settings: RunnerSettings) -> None:
    found = keys.read(settings)
    parts = compose(settings, found, Role.RUNNER)
    ready = ready_file(settings.paths.run, os.getpid())
    owner = asyncio.create_task(ownership.known(settings, found))
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    parts.keep()
    try:
        await known(parts, owner)
        owner.add_done_callback(partial(ownership.if_foreign, ending.set))
        for work in deferred.upkeep(settings, parts):
            parts.background.keep(work.name, partial(upkeep.keep, work, parts.shared.clock))
        parts.background.keep("demand", parts.telling.run)
        write_private(ready, str(os.getpid()))
        logs.logger().info("runner_runs", number=parts.shared.table.number)
        await ending.wait()
        logs.logger().info("runner_ended")
        ownership.refuse_foreign(owner)
    finally:
        ready.unlink(missing_ok=True)
        owner.cancel()
        await asyncio.gather(owner, return_exceptions=True)
        await parts.close()
