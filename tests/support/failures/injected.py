"""Ways to hurt a platform so that one alert fires, and the ways back that its runbook names."""

import shutil
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import psutil

from penstock.apps import stores
from penstock.apps.peers import of_home
from penstock.domain.models.model import GoldenPrompt
from penstock.local import connections
from penstock.packaging import demo_models
from penstock.packaging.demo import measured
from penstock.packaging.packing import Publishing, describe, publish
from penstock.packaging.push import register
from penstock.settings import Settings
from penstock.settings.told import Tls
from penstock.tls import authority
from penstock.tls.authority import KeyPair
from penstock.tls.identity import Identity, Role
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.stores.redis_server import RedisServer

DAY_S = 86_400.0
EMBED = "/v1/embeddings"
QUESTION = {"model": "minilm", "input": "Hi"}


@dataclass(kw_only=True)
class Stage:
    """A platform, the store of its limits, and what was done to both."""

    platform: Platform
    redis: RedisServer
    frozen: list[psutil.Process] = field(default_factory=list)
    broken: str = ""

    @property
    def fleet(self) -> Fleet:
        return Fleet(platform=self.platform)

    @property
    def settings(self) -> Settings:
        """What its operator's own commands work with."""
        known = {"home": self.platform.home, "tls": Tls.ON, "demo_cache": self.platform.settings["demo_cache"]}
        return Settings().model_copy(update=known)

    @property
    def supervisor(self) -> psutil.Process:
        assert self.platform.process is not None
        return psutil.Process(self.platform.process.pid)

    def ask(self, *, timeout_s: float = 10.0) -> int:
        """Ask once; return the status, 0 without an answer in time."""
        try:
            with self.platform.http(timeout_s=timeout_s) as http:
                return http.post(EMBED, json=QUESTION).status_code
        except httpx.HTTPError:
            return 0

    def freeze(self, processes: Iterable[psutil.Process]) -> None:
        self.frozen += processes
        for process in self.frozen:
            process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        for process in self.frozen:
            if process.is_running():
                process.send_signal(signal.SIGCONT)
        self.frozen.clear()


def disk_full(stage: Stage) -> None:
    """Let no file of the gateway grow, as on a full disk: writing one is refused by the kernel."""
    _may_write(stage, 0)
    until("requests are refused", lambda: stage.ask() == httpx.codes.SERVICE_UNAVAILABLE)


def disk_with_room(stage: Stage) -> None:
    _may_write(stage, psutil.RLIM_INFINITY)
    until("requests are served", lambda: stage.ask() == httpx.codes.OK)


def _may_write(stage: Stage, size: int) -> None:
    for pid in stage.platform.pids("gateway"):
        psutil.Process(pid).rlimit(psutil.RLIMIT_FSIZE, (size, psutil.RLIM_INFINITY))


def database_away(stage: Stage) -> None:
    """Freeze the database, and its supervisor that would start it again: connections stay, nothing answers."""
    (server,) = map(psutil.Process, stage.platform.pids("postgres"))
    stage.freeze([stage.supervisor, server, *server.children()])


def database_dies(stage: Stage) -> None:
    """Kill the database three times; its supervisor revives it each time."""
    for _ in range(3):
        (before,) = stage.platform.pids("postgres")
        stage.platform.kill("postgres")
        until("it is revived", lambda before=before: stage.platform.pids("postgres") not in ([0], [before]))  # type: ignore[misc]


def database_stays(stage: Stage) -> None:
    """Kill it no more."""
    until("somebody is served", lambda: stage.ask() == httpx.codes.OK)


def rows_waiting(stage: Stage) -> None:
    """Freeze the database, and serve a caller whose row has to wait."""
    database_away(stage)
    until("somebody is served", lambda: stage.ask() == httpx.codes.OK)


def database_back(stage: Stage) -> None:
    stage.thaw()


def store_away(stage: Stage) -> None:
    stage.redis.kill()


def store_back(stage: Stage) -> None:
    stage.redis.start()


def uncounted(stage: Stage) -> None:
    """Kill the limits store, and ask for what its operator left open."""
    stage.redis.kill()
    until("requests are served uncounted", lambda: stage.ask() == httpx.codes.OK)
    end = time.monotonic() + 4
    while time.monotonic() < end:
        stage.ask()


def controller_stuck(stage: Stage) -> None:
    """Freeze the controller, and its supervisor that would start it again; its workers go on."""
    stage.freeze([stage.supervisor, *map(psutil.Process, stage.platform.pids("controller"))])


def controller_replaced(stage: Stage) -> None:
    """Kill it: its supervisor starts another."""
    stage.platform.kill("controller")
    stage.thaw()


def workers_lost(stage: Stage) -> None:
    """Kill all workers of a version while no controller can say so, and ask for it."""
    controller_stuck(stage)
    stage.platform.kill("worker")
    for _ in range(3):
        stage.ask()


def workers_replaced(stage: Stage) -> None:
    """Let the controller see it: it replaces them by itself."""
    stage.thaw()
    served_again(stage)


def served_again(stage: Stage) -> None:
    until("it is served again", lambda: stage.ask() == httpx.codes.OK, within_s=120, every_s=0.5)


def files_gone(stage: Stage) -> None:
    """Take the artifact store's and the node's copy of a version away, and kill its worker."""
    home = stage.platform.home
    (home / "artifacts").rename(home / "artifacts.away")
    for copy in home.glob("cache/*/model.safetensors"):
        shutil.rmtree(copy.parent)
    stage.platform.kill("worker")


def files_back(stage: Stage) -> None:
    home = stage.platform.home
    (home / "artifacts.away").rename(home / "artifacts")
    served_again(stage)


def wrong_version(stage: Stage) -> None:
    """Deploy a version that answers its golden prompt wrong."""
    wrong = GoldenPrompt(prompt="A kitten sleeps.", near="Interest rates rose.", far="A young cat is napping.")
    settings = stage.settings
    folder = next(Path(settings.demo_cache).glob("minilm-*"))
    publishing = Publishing(
        store=stores.open_store(settings),
        signer=stores.open_signer(settings),
        work=settings.paths.cache,
        report=lambda _: None,
    )
    choices = replace(demo_models.MINILM.choices, golden=(wrong,))
    packed = publish(folder, describe(folder, measured(folder), choices), publishing)
    register(packed, connections.operator(settings).post)
    stage.broken = str(packed.id)
    stage.platform.run("models", "scale", stage.broken, "1")


def wrong_version_withdrawn(stage: Stage) -> None:
    stage.platform.run("models", "scale", stage.broken, "0")


def certificate_forgotten(stage: Stage) -> None:
    """Give the gateway a certificate of a day that has an hour to go."""
    files = of_home(stage.settings.paths, Role.GATEWAY)
    pair = KeyPair(
        certificate=files.authorities.read_text(), key=(stage.platform.home / "tls/authority.key").read_text()
    )
    who = Identity(trust_domain="penstock", role=Role.GATEWAY)
    issued = authority.issue(pair, who, now=time.time() - DAY_S + 3600, days=1)
    for file, text in ((files.key, issued.key), (files.certificate, issued.certificate)):
        draft = file.with_suffix(".draft")
        draft.write_text(text)
        draft.chmod(file.stat().st_mode)
        draft.replace(file)


def certificate_renewed(stage: Stage) -> None:
    """Start the platform anew, which renews what ends soon."""
    stage.platform.stop()
    stage.platform.start()
