"""Prometheus and Alertmanager beside the platform (`penstock up --observe`): their configuration and commands.

A file lists the processes for them, updated as workers come and go. If they end, the platform continues.
"""

import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from penstock.apps import slos
from penstock.connectors.process import leftovers
from penstock.connectors.prometheus import configuration
from penstock.connectors.prometheus.configuration import ScrapeTarget, Scraping
from penstock.domain.command_error import CommandError
from penstock.settings import Settings
from penstock.settings.told import Home
from penstock.slo.alertmanager import Receivers, plain
from penstock.supervision import exposition, listening, tied
from penstock.supervision.child import Child, Command
from penstock.supervision.files import write_private
from penstock.telemetry.series import INSTANCE

HOST = "127.0.0.1"
PROMETHEUS, ALERTMANAGER = "prometheus", "prometheus-alertmanager"
PROMETHEUS_PORT, ALERTMANAGER_PORT = 9090, 9093
KEPT, KEPT_BYTES = "35d", "2GB"
"""Retention longer than the longest window of an objective, and small enough for a small disk."""
ROLES = ("supervisor", "gateway", "controller", "runner")
"""The home's processes with metrics, by the first word of their names."""
PROBE_TIMEOUT_S = 2.0
TARGETS = "targets.json"
ALERTS_PAGE = Path(__file__).parent / "alerts_page"
"""Alertmanager's web page: Debian's package has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    prometheus: str
    alertmanager: str


def check(settings: Settings) -> None:
    """Raise ``CommandError`` if a program for observing is missing."""
    if settings.observe:
        for program in (PROMETHEUS, ALERTMANAGER):
            find(program)


def find(program: str) -> str:
    found = shutil.which(program, path=Path(sys.executable).parent) or shutil.which(program)
    if found is None:
        raise CommandError(
            f"There is no {program} on this machine.",
            do="Fetch it with `make observability`, or install Debian's package of that name.",
        )
    return str(Path(found).absolute())


def choose(settings: Settings) -> Sites:
    return Sites(
        prometheus=_free(settings.prometheus_port, PROMETHEUS_PORT),
        alertmanager=_free(settings.alertmanager_port, ALERTMANAGER_PORT),
    )


def _free(asked: int, usual: int) -> str:
    """Return a loopback address: the asked port, the usual one if free, or any."""
    with listening.bind(HOST, asked) if asked else listening.bind_first_free(HOST, usual) as listener:
        return listening.url_of(HOST, listener.getsockname()[1])


def prepare(settings: Settings, sites: Sites) -> None:
    """Write the configurations of Prometheus and Alertmanager; Alertmanager notifies no receiver: alerts stay on its
    page.
    """
    folder = settings.paths.observe
    folder.mkdir(mode=0o700, exist_ok=True)
    scraping = Scraping(
        targets=folder / TARGETS,
        rules=slos.write_rules(folder / "rules"),
        alertmanager=urlsplit(sites.alertmanager).netloc,
        every_s=settings.scrape_s,
    )
    write_private(folder / "prometheus.yml", configuration.prometheus(scraping))
    write_private(folder / "alertmanager.yml", json.dumps(plain(Receivers()), indent=2))


def prometheus(settings: Settings, sites: Sites) -> Command:
    folder = settings.paths.observe
    return _command(
        settings,
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'prometheus'}",
        f"--storage.tsdb.retention.time={KEPT}",
        f"--storage.tsdb.retention.size={KEPT_BYTES}",
        f"--web.listen-address={urlsplit(sites.prometheus).netloc}",
        f"--web.external-url={sites.prometheus}",
        "--enable-feature=exemplar-storage",
    )


def alertmanager(settings: Settings, sites: Sites) -> Command:
    folder = settings.paths.observe
    return _command(
        settings,
        ALERTMANAGER,
        f"--config.file={folder / 'alertmanager.yml'}",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={urlsplit(sites.alertmanager).netloc}",
        f"--web.external-url={sites.alertmanager}",
        f"--web.ui-path={ALERTS_PAGE}",
        "--cluster.listen-address=",
    )


def _command(settings: Settings, program: str, *arguments: str) -> Command:
    name = program.removeprefix("prometheus-")
    return Command(
        name=name, argv=tied.argv(find(program), *arguments), log=settings.paths.logs / f"{name}.log", environment={}
    )


def announce(paths: Home, sites: Sites) -> None:
    write_private(paths.prometheus_address, sites.prometheus)
    write_private(paths.alertmanager_address, sites.alertmanager)


def forget(paths: Home) -> None:
    for file in (paths.prometheus_address, paths.alertmanager_address):
        file.unlink(missing_ok=True)


def addresses(paths: Home) -> dict[str, str]:
    shown = {"metrics": paths.prometheus_address, "alerts": paths.alertmanager_address}
    return {what: file.read_text().strip() for what, file in shown.items() if file.exists()}


def page_of_alerts(prometheus: str) -> str:
    with (
        suppress(httpx.HTTPError),
        httpx.Client(timeout=PROBE_TIMEOUT_S, trust_env=False, verify=prometheus.startswith("https:")) as http,
    ):
        for path in ("/alerts", "/classic/alerts"):
            if http.get(f"{prometheus}{path}").is_success:
                return f"{prometheus}{path}"
    return ""


async def is_ready(url: str, _: Child) -> bool:
    try:
        async with httpx.AsyncClient(timeout=PROBE_TIMEOUT_S, trust_env=False, verify=url.startswith("https:")) as http:
            return (await http.get(f"{url}/-/ready")).is_success
    except httpx.HTTPError:
        return False


def tell(settings: Settings, pids: Mapping[str, int]) -> None:
    text = configuration.discovered(sorted(_targets(settings, pids), key=lambda target: target.labels[INSTANCE]))
    file = settings.paths.observe / TARGETS
    if not file.exists() or file.read_text().strip() != text:
        write_private(file, text)


def _targets(settings: Settings, pids: Mapping[str, int]) -> Iterator[ScrapeTarget]:
    target = partial(_target, settings)
    for name, pid in pids.items():
        role = name.partition(" ")[0]
        if role in ROLES:
            yield from target(pid, role=role, instance=name.replace(" ", "-"))
    for record in leftovers.living(settings.paths.run):
        model = record.version.partition("@")[0]
        yield from target(
            record.pid, role="worker", instance=record.worker, worker=record.worker, version=record.version, model=model
        )


def _target(settings: Settings, pid: int, **labels: str) -> Iterator[ScrapeTarget]:
    if url := exposition.address(settings.paths.run, pid):
        yield ScrapeTarget(address=urlsplit(url).netloc, labels={"zone": settings.zone, **labels})
