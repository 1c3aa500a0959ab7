"""The commands of the supervisor's children, and the probes of their readiness."""

import asyncio
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

import httpx

from penstock.connectors.process import leftovers
from penstock.lateness.activity import is_stopped
from penstock.local import connections
from penstock.settings import Settings, environment, environment_of_workers
from penstock.supervision import exposition
from penstock.supervision.child import Child, Command
from penstock.supervision.files import read_if_there, ready_file
from penstock.telemetry import pages
from penstock.worker.engines import device
from penstock.worker.engines.process import zygote_argv
from penstock.worker.engines.vllm import at_exec

PROBE_TIMEOUT_S = 2.0
STOPPED_POLL_S = 0.2
ENGINES_SOCKET = "engines.sock"


def gateway(settings: Settings, number: int, fd: int, most: int) -> Command:
    """``most``: gateways that there may be, of which each gives its part of limits."""
    is_added = number > settings.gateways  # the controller's port is behind those of the first ones
    settings = _with_metrics_port(settings, number if is_added else number - 1)
    named = {"gateway_name": f"{socket.gethostname()}:{number}", "gateways": most}
    settings = settings.model_copy(update=named)
    return _command(settings, f"gateway {number}", f"gateway-{number}.log", ("gateway", "--fd", str(fd)), (fd,))


def controller(settings: Settings) -> Command:
    settings = _with_metrics_port(settings, settings.gateways)
    return _command(settings, "controller", "controller.log", ("controller",), ())


def runner(settings: Settings, number: int) -> Command:
    named = {"gateway_name": f"{socket.gethostname()}:runner-{number}", "metrics_port": 0}
    settings = settings.model_copy(update=named)
    return _command(settings, f"runner {number}", f"runner-{number}.log", ("jobs-runner",), ())


def _with_metrics_port(settings: Settings, offset: int) -> Settings:
    port = settings.metrics_port and settings.metrics_port + offset
    return settings.model_copy(update={"metrics_port": port})


def wants_engines_parent(settings: Settings) -> bool:
    has_gpu = settings.device is not device.Device.CPU and device.has_gpu(device.names())
    is_possible = settings.engine_zygote == "on" or (settings.engine_zygote == "auto" and not has_gpu)
    return is_possible and not settings.zygote_socket and settings.workers > 0 and bool(settings.demo_models)


def engines_parent(settings: Settings, end: int) -> Command:
    address = settings.paths.run / ENGINES_SOCKET
    return Command(
        name="engines' parent",
        argv=zygote_argv(address, end, str(settings.compiled)),
        log=settings.paths.logs / "engines-parent.log",
        environment=at_exec(environment_of_workers(settings)),
        fds=(end,),
        leads=False,
    )


def _command(settings: Settings, name: str, log: str, arguments: tuple[str, ...], fds: tuple[int, ...]) -> Command:
    return Command(
        name=name,
        argv=(sys.executable, "-m", "penstock.cli", *arguments, "--parent", str(os.getpid())),
        log=settings.paths.logs / log,
        environment=environment(settings),
        fds=fds,
    )


async def always_ready(_: Child) -> bool:
    return True


async def ask(run: Path, child: Child) -> None:
    """Ask its own listener; return at any answer, or if it does not listen yet."""
    url = exposition.address(run, child.pid)
    if url:
        await ask_at(f"{url.removesuffix(pages.METRICS)}{pages.LIVE}", child)


async def ask_at(url: str, _: Child) -> None:
    verify = url.startswith("https:")  # only then: reading the machine's authorities takes 20 ms of CPU
    with suppress(httpx.HTTPError):
        async with httpx.AsyncClient(timeout=None, trust_env=False, verify=verify) as http:  # noqa: S113  its caller's
            await http.get(url)


async def is_not_stopped(child: Child) -> None:
    while is_stopped(child.pid):  # noqa: ASYNC110  another process's state has no event
        await asyncio.sleep(STOPPED_POLL_S)


def forget_ended(run: Path) -> None:
    for file in (run / "gateway").glob("*.ready"):
        file.unlink(missing_ok=True)
    kept = {str(record.pid) for record in leftovers.living(run)}
    for file in (run / exposition.FOLDER).glob("*"):
        if file.name not in kept:
            file.unlink(missing_ok=True)


async def has_ready_file(run: Path, child: Child) -> bool:
    return ready_file(run, child.pid).exists()


async def controller_is_ready(settings: Settings, address_file: Path) -> bool:
    url = read_if_there(address_file)
    if not url:
        return False
    try:
        verify = connections.operator_tls(settings, url) or url.startswith("https:")
        async with httpx.AsyncClient(timeout=PROBE_TIMEOUT_S, trust_env=False, verify=verify) as http:
            answer = await http.get(f"{url}/readyz")
    except httpx.HTTPError:
        return False
    return answer.status_code == httpx.codes.OK
