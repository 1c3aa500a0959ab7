"""A small site to be hurt while its history is recorded: gateways, a watched Redis, a real Postgres, stub engines."""

import asyncio
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.ledger import PostgresLedger
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, OrgId, TenantId, WorkerId
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.ledger import LedgerRow, Span
from penstock.domain.tenancy.tenant import Org, Plan, Scope, ScopeKind, Tenant, scope
from penstock.telemetry.names import IN_FLIGHT
from tests.support.gateways.process import PLATFORM_KEY, TEMPLATE, GatewayProcess, Home, started
from tests.support.gateways.shared_limits import PRICE, Stub, stub
from tests.support.histories.record import Fault, Hurt
from tests.support.models import tokenizers
from tests.support.patience import patient
from tests.support.platforms.readings import reading
from tests.support.samples.calls import VERSION
from tests.support.stores.watched_redis import WatchedRedis

ENGINES = 2
SPOOL_BYTES = "4m"
SEEDER = "platform"


@dataclass(frozen=True, kw_only=True)
class Customer:
    """A tenant with its plan, and the organisation it shares with others."""

    name: str
    plan: Plan
    org: str
    org_plan: Plan


@dataclass(kw_only=True)
class Site:
    """Everything that runs, and the ways to hurt it; each of these returns what was done and when."""

    home: Home
    redis: WatchedRedis
    postgres: EmbeddedPostgres
    engines: list[Stub]
    secrets: Mapping[str, str]
    scopes: Mapping[str, tuple[Scope, ...]]
    stack: ExitStack
    has_small_disk: bool
    gateways: dict[str, GatewayProcess] = field(default_factory=dict)

    def start(self, *, program: str = "penstock.cli", **settings: str) -> str:
        """Start one more gateway, by another program or with settings of its own, and return its name."""
        ours = {
            "PENSTOCK_LIMITS_URL": self.redis.url,
            "PENSTOCK_ANSWERS_URL": self.redis.answers_url,
            "PENSTOCK_DATABASE_URL": self.postgres.dsn,
        }
        running = started(self.home, None, program=program, **(ours | settings))
        gateway = self.stack.enter_context(running)
        name = f"g{gateway.process.pid}"
        self.gateways[name] = gateway
        return name

    def kill_gateway(self, name: str) -> Hurt:
        gateway = self.gateways.pop(name)
        gateway.process.kill()
        gateway.process.wait()
        return Hurt(fault=Fault.GATEWAY_KILLED, at=time.time(), until=time.time(), gateway=name)

    async def freeze_limits(self, seconds: float) -> Hurt:
        at = time.time()
        self.redis.freeze(frozen=True)
        await asyncio.sleep(seconds)
        self.redis.freeze(frozen=False)
        return Hurt(fault=Fault.LIMITS_FROZEN, at=at, until=time.time())

    async def lose_limits(self, seconds: float) -> Hurt:
        """Kill Redis; it comes back empty."""
        at = time.time()
        self.redis.kill()
        await asyncio.sleep(seconds)
        until = time.time()
        await asyncio.to_thread(self.redis.start)
        return Hurt(fault=Fault.LIMITS_LOST, at=at, until=until)

    async def lose_ledger(self, seconds: float) -> Hurt:
        """Kill Postgres; it recovers."""
        at = time.time()
        os.kill(self.postgres.pid(), signal.SIGKILL)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(self.postgres.start)
        return Hurt(fault=Fault.LEDGER_LOST, at=at, until=time.time())

    async def fill_disk(self, seconds: float) -> Hurt:
        """Leave no byte free on the gateways' small disk, if there is one."""
        at, ballast = time.time(), self.home.root / "spool" / "ballast"
        if self.has_small_disk:
            _fill(ballast)
        await asyncio.sleep(seconds)
        ballast.unlink(missing_ok=True)
        return Hurt(fault=Fault.DISK_FULL, at=at, until=time.time())

    # -- what it says -------------------------------------------------------------------------------

    def rows(self) -> list[LedgerRow]:
        async def read() -> list[LedgerRow]:
            async with Database(self.postgres.dsn, max_connections=1) as database:
                return list(await PostgresLedger(database).page(Span(begin=0, end=time.time() + 60), limit=100_000))

        return asyncio.run(read())

    def made(self) -> dict[str, int]:
        """Return the tokens that all engines made in all attempts, by request."""
        found: dict[str, int] = {}
        for engine in self.engines:
            for request, tokens in engine.made.items():
                found[request] = found.get(request, 0) + tokens
        return found

    def running(self) -> int:
        """Return how many requests the engines hold."""
        return sum(int(engine.stats["running"]) for engine in self.engines)

    def in_flight(self) -> int:
        """Return how many requests the gateways count as running."""
        return sum(int(reading(one.metrics_url, IN_FLIGHT.name, {})) for one in self.gateways.values())

    def troubles(self) -> list[str]:
        """Return what the gateways warned of, and what waits in their spools."""
        logs = [(path, line) for path in self.home.root.glob("gateway-*.log") for line in path.read_text().splitlines()]
        said = [
            f"{path.stem}: {line}" for path, line in logs if '"level":"warning"' in line or '"level":"error"' in line
        ]
        spool = [f"{path.name}: {path.stat().st_size} bytes" for path in (self.home.root / "spool").iterdir()]
        return [*said, *sorted(spool)]


@contextmanager
def site(root: Path, customers: tuple[Customer, ...]) -> Iterator[Site]:
    """Run everything but gateways; every tenant has one key."""
    with ExitStack() as stack:
        has_small_disk = _mount(root / "spool", stack)
        redis = stack.enter_context(WatchedRedis(root))
        postgres = EmbeddedPostgres(root / "postgres", root / "logs" / "postgres.log")
        postgres.start()
        stack.callback(postgres.stop)
        engines = [stack.enter_context(stub()) for _ in range(ENGINES)]
        secrets, scopes = asyncio.run(_seed(postgres.dsn, root, engines, customers))
        home = Home(root=root, key=next(iter(secrets.values())))
        running = Site(
            home=home,
            redis=redis,
            postgres=postgres,
            engines=engines,
            secrets=secrets,
            scopes=scopes,
            stack=stack,
            has_small_disk=has_small_disk,
        )
        yield running


def _mount(folder: Path, stack: ExitStack) -> bool:
    """Give the spools a small disk of their own, if mounting is allowed."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={SPOOL_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return False
    stack.callback(lambda: subprocess.run(["umount", "-l", str(folder)], check=True))
    return True


async def _seed(
    dsn: str, root: Path, engines: list[Stub], customers: tuple[Customer, ...]
) -> tuple[dict[str, str], dict[str, tuple[Scope, ...]]]:
    """Write keys, tenants, organisations and the routing table for the gateways; return secrets and scopes."""
    blob = tokenizers.small()
    sha256 = hashlib.sha256(blob).hexdigest()
    for name, data in {"platform.key": PLATFORM_KEY.hex().encode(), f"artifacts/blobs/{sha256}": blob}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o600)
    secrets: dict[str, str] = {}
    scopes: dict[str, tuple[Scope, ...]] = {}
    async with Database(dsn, max_connections=1) as database:
        await migrate(database)
        tenancy, orgs = PostgresTenancy(database), set[str]()
        for one in customers:
            if one.org not in orgs:
                await tenancy.add_org(Org(id=OrgId(one.org), name=one.org, plan=one.org_plan), _act(one.org))
                orgs.add(one.org)
            tenant = Tenant(id=TenantId(one.name), name=one.name, plan=one.plan, org=OrgId(one.org))
            await tenancy.add_tenant(tenant, _act(one.name))
            secret, key = mint(tenant.id, pepper=derive(PLATFORM_KEY, Purpose.PEPPER), now=0.0)
            await tenancy.add_key(key, _act(one.name))
            secrets[one.name] = secret
            both = (scope(ScopeKind.TENANT, one.name, one.plan), scope(ScopeKind.ORG, one.org, one.org_plan))
            scopes[one.name] = tuple(bounded for bounded in both if bounded.plan.draws)
        await PostgresTables(database).publish(_table(sha256, engines))
    return secrets, scopes


def _table(sha256: str, engines: list[Stub]) -> RoutingTable:
    workers = tuple(
        WorkerEntry(id=WorkerId(f"w-{i}"), url=engine.url, state=WorkerState.READY) for i, engine in enumerate(engines)
    )
    version = replace(VERSION, tokenizer_sha256=sha256, chat_template=TEMPLATE, workers=workers, price=PRICE)
    route = Route(alias=Alias("toy"), shares=(Share(version=version.id, weight=10_000),))
    return RoutingTable(number=1, made_at=0.0, routes=(route,), versions=(version,))


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"\0" * 4096):
            pass


def _act(target: str) -> Act:
    return Act(who=SEEDER, what="test.seed", target=target, at=0.0)


def comes_true(check: Callable[[], bool], within_s: float) -> bool:
    """Wait until the check holds; False if it does not in time. A process that does not answer yet is asked again."""
    end = time.monotonic() + patient(within_s)
    while time.monotonic() < end:
        with suppress(httpx.HTTPError):
            if check():
                return True
        time.sleep(0.1)
    return False
