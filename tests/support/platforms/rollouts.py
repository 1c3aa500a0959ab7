"""A site with rollouts: real controllers, gateways and Postgres, and stub engines that stand for the workers."""

import asyncio
import contextlib
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.fleet.table import WEIGHT_TOTAL
from penstock.domain.ids import ModelName, TenantId
from penstock.domain.models.model import Artifact, EngineSettings, Manifest, Provenance, Task, Tier, digest_of
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import OPERATORS, SHADOWS, Plan, Role, Tenant
from tests.support.controllers.process import ControlledHome
from tests.support.failures.wrong_clock import wrong_by
from tests.support.gateways.process import PLATFORM_KEY, TEMPLATE
from tests.support.gateways.shared_limits import PRICE, Stub
from tests.support.histories.site import Customer, Site, site
from tests.support.models import tokenizers
from tests.support.patience import patient, until
from tests.support.samples import control_plane as things

TENANTS = tuple(f"t{number}" for number in range(8))
ALIAS = "toy"
USERS = 150
KEPT_ALIVE_S = 60.0
"""Shorter than a gateway keeps connections, and longer than users pause: httpx closes those that expire together one
after the other, and one of them may carry a request by then.
"""
STAGES: list[dict[str, object]] = [
    {"name": "half", "weight": WEIGHT_TOTAL // 2, "min_s": 1.0},
    {"name": "all", "weight": WEIGHT_TOTAL, "min_s": 1.0},
    {"name": "watched", "weight": WEIGHT_TOTAL, "min_s": 1.0, "watched": True},
]


@dataclass(kw_only=True)
class Town:
    site: Site
    home: ControlledHome
    secret: str
    seeds: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    at: dict[str, Stub] = field(default_factory=dict)

    def call(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  JSON
        """Call the operators' API of the leading controller."""
        answer = self.ask(method, path, body)
        assert answer.status_code < httpx.codes.BAD_REQUEST, answer.text
        return answer.json()

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        """Call the operators' API and return what it says, refusals too."""
        headers = {"authorization": f"Bearer {self.secret}"}
        url = f"{self.home.address()}/admin/v1{path}"
        return httpx.request(method, url, json=body, headers=headers, timeout=30, trust_env=False)

    def lead(self, ahead_s: float = 0.0) -> None:
        """Start one more controller, with its clock ``ahead_s`` ahead, and wait until one leads."""
        self.home.controller(**wrong_by(ahead_s))
        until("a controller leads", self._is_led, within_s=60)

    @property
    def metrics_url(self) -> str:
        """Where the last controller shows its metrics."""
        return (self.home.root / f"run/metrics/{self.home.controllers[-1].pid}").read_text().strip()

    def _is_led(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return bool(httpx.get(f"{self.home.address()}/readyz", timeout=5, trust_env=False).json()["leader"])
        return False

    def register(self, manifest: Manifest) -> str:
        body = {"manifest": asdict(manifest), "signature": f"signatures/{digest_of(manifest)}"}
        return str(self.call("POST", "/models", body)["id"])

    def version(self, engine: Stub, manifest: Manifest | None = None) -> str:
        """Register and deploy a version that this engine stands for, and wait until it serves."""
        version = self.register(manifest or manifest_of(next(self.seeds)))
        self.at[version] = engine
        self.name_engines()
        self.call("PUT", f"/deployments/{version}", {"replicas": 1})
        until(f"{version} serves", lambda: self._serves(version), within_s=60)
        return version

    def name_engines(self) -> None:
        """Tell workers that start which engine stands for which version."""
        (self.home.root / "engines.json").write_text(json.dumps({one: stub.url for one, stub in self.at.items()}))

    def signal_agents(self, version: str, number: signal.Signals) -> None:
        """Send a signal to the agents of a version, one at least."""
        records = [json.loads(path.read_text()) for path in (self.home.root / "run/workers").glob("*.json")]
        agents = [int(one["pid"]) for one in records if one["version"] == version]
        assert agents
        for agent in agents:
            os.kill(agent, number)

    def lead_to(self, version: str) -> None:
        """Give a version all of the alias, and wait until the gateways know."""
        self.call("PUT", f"/aliases/{ALIAS}", {"shares": [{"version": version, "weight": WEIGHT_TOTAL}]})
        until("the gateways know", lambda: self.asked_once() == version, within_s=60)

    def asked_once(self) -> str:
        """Return the version that answers at each gateway, if it is the same one."""
        versions = set[str]()
        for gateway in self.site.gateways.values():
            body = {"model": ALIAS, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 1}
            headers = {"authorization": f"Bearer {self.site.secrets[TENANTS[0]]}"}
            answer = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers, trust_env=False)
            versions.add(answer.headers.get("x-penstock-version", ""))
        return versions.pop() if len(versions) == 1 else ""

    def start(self, candidate: str, **more: object) -> str:
        """Begin a rollout and return its id."""
        body = {"alias": ALIAS, "candidate": candidate, "stages": STAGES, **more}
        return str(self.call("POST", "/rollouts", body)["id"])

    def look(self, rollout: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/rollouts/{rollout}")
        return found

    def acts(self, rollout: str) -> list[str]:
        """Return what the audit log has of it, oldest first."""
        acts = self.call("GET", "/audit?limit=200&what=rollout")["acts"]
        return [one["what"] for one in reversed(acts) if one["target"] == rollout]

    def bill(self, version: str) -> dict[str, int]:
        """Return how many requests of each tenant this version has answered, by the ledger."""
        lines = {who: self.call("GET", f"/usage/{who}")["lines"] for who in (*TENANTS, SHADOWS)}
        return {who: sum(one["requests"] for one in of if one["version"] == version) for who, of in lines.items()}

    def _serves(self, version: str) -> bool:
        workers = self.call("GET", "/workers")["workers"]
        return any(one["version"] == version and one["state"] == "ready" for one in workers)


class Asked(NamedTuple):
    """One request's course: the times of its start and end (Unix seconds), its gateway, its version, its status."""

    at: float
    version: str
    status: int
    gateway: str
    ended: float


@dataclass
class Traffic:
    """Users of all tenants, asking again and again."""

    town: Town
    pause_s: float = 5.0
    """Whoever asks more often is counted no more often: ends count once per user in ten seconds."""
    gateways: tuple[str, ...] = ()
    """Those that are asked; empty for all."""
    first: int = 0
    """The first one's number: others are led elsewhere."""
    seen: list[Asked] = field(default_factory=list)
    said: list[tuple[float, str]] = field(default_factory=list)
    """What those heard who got no answer, and when they had asked."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def after(self, at: float, gateway: str = "") -> Counter[str]:
        """Return the versions that answered requests sent after a moment, at one gateway or at all; empty for a
        failure.
        """
        return Counter(one.version for one in self.seen if one.at > at and gateway in ("", one.gateway))

    def heard(self, after: float = 0.0) -> list[str]:
        """Return the failures of requests sent after a moment."""
        return [said for at, said in self.said if at > after]

    def statuses(self, after: float = 0.0) -> Counter[int]:
        """Return their statuses; 0 for a request without an answer."""
        return Counter(one.status for one in self.seen if one.at > after)

    async def user(self, http: httpx.AsyncClient, number: int) -> None:
        """Ask until it is over; gateways in turn."""
        await self._rest(self.pause_s * number / USERS)
        for turn in itertools.count(number):
            if self.over.is_set():
                return
            gateway = self._gateway(turn)
            body = {
                "model": ALIAS,
                "user": f"u{self.first + number}",
                "messages": [{"role": "user", "content": "hello"}],
                "max_tokens": 4,
                "stream": bool(turn % 3),
            }
            headers = {"authorization": f"Bearer {self.town.site.secrets[TENANTS[number % len(TENANTS)]]}"}
            at, version, status = time.time(), "", 0
            try:
                url = f"{self.town.site.gateways[gateway].url}/v1/chat/completions"
                answer = await http.post(url, json=body, headers=headers)
                version, status = answer.headers.get("x-penstock-version", ""), answer.status_code
                self.said += [(at, f"{status} {gateway} {answer.text}")] * answer.is_error
            except httpx.HTTPError as error:
                self.said.append((at, f"{gateway} {error!r} after {time.time() - at:.2f} s"))
            self.seen.append(Asked(at, version, status, gateway, time.time()))
            await self._rest(self.pause_s)

    def _gateway(self, turn: int) -> str:
        names = self.gateways or tuple(self.town.site.gateways)
        return names[turn % len(names)]

    async def _rest(self, pause_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), pause_s)


@asynccontextmanager
async def traffic(
    town: Town, *, pause_s: float = 5.0, gateways: tuple[str, ...] = (), first: int = 0
) -> AsyncIterator[Traffic]:
    """Let users come while the block runs."""
    running = Traffic(town, pause_s=pause_s, gateways=gateways, first=first)
    # Whoever hangs keeps nobody else waiting.
    limits = httpx.Limits(max_connections=None, keepalive_expiry=KEPT_ALIVE_S)
    async with httpx.AsyncClient(timeout=60, limits=limits, trust_env=False) as http:
        tasks = [asyncio.create_task(running.user(http, number)) for number in range(USERS)]
        try:
            yield running
        finally:
            # Users end what they asked: who is cancelled while it connects leaves its socket to the collector.
            running.over.set()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """A site with users who go on asking through every fault, and its operator's command line."""

    place: Town

    @property
    def environment(self) -> dict[str, str]:
        root = self.place.home.root
        (root / "admin.key").write_text(self.place.secret)
        return {**os.environ, "PENSTOCK_HOME": str(root), "PENSTOCK_DATABASE_URL": self.place.home.database_url}

    def command(self, *arguments: str) -> str:
        """Run ``penstock`` and return what it prints."""
        command = [sys.executable, "-m", "penstock.cli", *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=100, check=False)
        return done.stdout + done.stderr


@contextmanager
def crowded(place: Town) -> Iterator[Crowd]:
    """Let users come, on a thread of their own, while the block runs."""
    over = threading.Event()

    async def come() -> None:
        async with traffic(place):
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(come()), daemon=True)
    thread.start()
    try:
        yield Crowd(place=place)
    finally:
        over.set()
        thread.join(60.0)


async def comes_to(town: Town, rollout: str, *states: str, within_s: float = 120.0) -> dict[str, Any]:
    """Wait until a rollout is in one of these states, and return it."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patient(within_s)
    while (found := await asyncio.to_thread(town.look, rollout))["state"] not in states:
        assert loop.time() < end, found
        await asyncio.sleep(0.2)
    return found


@contextmanager
def town(*, gateways: int = 2, **settings: str) -> Iterator[Town]:
    """Run a controller with these settings, gateways, Postgres and two engines."""
    # Not pytest's own folder: that is closed to the account of a Postgres that root starts.
    with tempfile.TemporaryDirectory(prefix="penstock-rollout-", ignore_cleanup_errors=True) as folder:
        customers = tuple(Customer(name=name, plan=Plan(), org="group", org_plan=Plan()) for name in TENANTS)
        with site(Path(folder), customers) as running, contextlib.ExitStack() as stack:
            home = ControlledHome(root=Path(folder), database_url=running.postgres.dsn, settings=settings)
            stack.callback(home.end)
            secret = asyncio.run(_operator(running))
            found = Town(site=running, home=home, secret=secret)
            found.lead()
            for _ in range(gateways):
                running.start()
            yield found


async def _operator(running: Site) -> str:
    secret, key = mint(TenantId(OPERATORS), pepper=derive(PLATFORM_KEY, Purpose.PEPPER), now=0.0, role=Role.ADMIN)
    async with Database(running.postgres.dsn, max_connections=1) as database:
        tenancy = PostgresTenancy(database)
        if OPERATORS not in {one.id for one in await tenancy.tenants()}:
            await tenancy.add_tenant(Tenant(id=TenantId(OPERATORS), name="Operators"), things.act())
        await tenancy.add_key(key, things.act())
    return secret


def manifest_of(seed: int) -> Manifest:
    """Return a version that a stub stands for."""
    blob = tokenizers.small()
    return Manifest(
        name=ModelName("toy"),
        task=Task.GENERATE,
        tier=Tier.CHAT,
        files=(
            Artifact(path="tokenizer.json", sha256=hashlib.sha256(blob).hexdigest(), size_bytes=len(blob)),
            Artifact(path="model.safetensors", sha256=f"{seed:064x}", size_bytes=1),
        ),
        price=PRICE,
        provenance=Provenance(origin="made for a test", licence="Apache-2.0"),
        engine=EngineSettings(),
        chat_template=TEMPLATE,
    )
