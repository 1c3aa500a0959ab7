"""Gateways that share one Redis, tenants with a plan each, and a stub engine: limits across processes."""

import asyncio
import hashlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import msgspec

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.connectors.postgres.migrations import migrate
from penstock.connectors.postgres.tables import PostgresTables
from penstock.connectors.postgres.tenancy import PostgresTenancy
from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, TenantId, WorkerId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.tenancy.audit import Act
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import KeyRing, Plan, Tenant
from tests.support.gateways.process import NO_PACKS, PLATFORM_KEY, TEMPLATE, GatewayProcess, Home, started
from tests.support.models import tokenizers
from tests.support.patience import patient
from tests.support.samples.calls import VERSION
from tests.support.stores.redis_server import RedisServer

GATEWAYS = 4
OUTPUT_TOKENS = 20
MICRO_USD_PER_TOKEN = 1
PRICE = Price(
    prompt_per_mtok=MicroUsd(0),
    cached_per_mtok=MicroUsd(0),
    output_per_mtok=MicroUsd(MICRO_USD_PER_TOKEN * 1_000_000),
)
"""Prompts are free, so that a request costs exactly what its output bound reserves."""


@dataclass(frozen=True)
class Answer:
    status: int
    headers: httpx.Headers
    text: str
    gateway: int


class Stub:
    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self._process = process
        self.url = url
        self._http = httpx.Client(base_url=url, trust_env=False)

    def behave(self, **behaviour: object) -> None:
        self._http.post("/stub/behave", json=behaviour)

    def freeze(self, *, frozen: bool) -> None:
        """Stop its process, or let it go on."""
        self._process.send_signal(signal.SIGSTOP if frozen else signal.SIGCONT)

    def forget(self) -> None:
        self._http.post("/stub/forget")

    @property
    def stats(self) -> dict[str, Any]:
        return dict(self._http.get("/stub/stats").json())

    @property
    def made(self) -> dict[str, int]:
        """The tokens it made, in all attempts together, by request."""
        return dict(self._http.get("/stub/made").json())

    def close(self) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def stub() -> Iterator[Stub]:
    """Run a stub engine as a process."""
    process = subprocess.Popen([sys.executable, "-m", "tests.support.engines.stub"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    running = Stub(process, json.loads(process.stdout.readline())["url"])
    try:
        yield running
    finally:
        running.close()


@dataclass
class Fleet:
    """Running gateways, and a client of each tenant."""

    home: Home
    secrets: Mapping[str, str]
    engine: Stub
    redis: RedisServer
    gateways: list[GatewayProcess]
    stack: ExitStack
    stores: Mapping[str, str]

    def start(self) -> GatewayProcess:
        return self.stack.enter_context(started(self.home, None, **self.stores))

    async def ask(
        self,
        tenant: str,
        gateway: int = 0,
        *,
        http: httpx.AsyncClient | None = None,
        **fields: Any,  # noqa: ANN401  any field of a body
    ) -> Answer:
        """Ask one gateway; ``headers`` go into the head, all other fields into the body."""
        if http is None:
            async with self.client() as own:
                return await self.ask(tenant, gateway, http=own, **fields)
        headers = {"authorization": f"Bearer {self.secrets[tenant]}", **fields.pop("headers", {})}
        body = {
            "model": "toy",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": OUTPUT_TOKENS,
            **fields,
        }
        got = await http.post(f"{self.gateways[gateway].url}/v1/chat/completions", json=body, headers=headers)
        return Answer(status=got.status_code, headers=got.headers, text=got.text, gateway=gateway)

    async def burst(self, tenant: str, count: int, **fields: Any) -> list[Answer]:  # noqa: ANN401  any field of a body
        """Ask so often at once, all gateways in turn."""
        async with self.client() as http:
            asking = (self.ask(tenant, i % GATEWAYS, http=http, **fields) for i in range(count))
            return list(await asyncio.gather(*asking))

    @staticmethod
    def client() -> httpx.AsyncClient:
        """Return a client without a bound of its own on connections."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        return httpx.AsyncClient(limits=limits, timeout=30, trust_env=False)


@contextmanager
def fleet(root: Path, plans: Mapping[str, Plan], *, has_database: bool = False) -> Iterator[Fleet]:
    """Run Redis, a stub engine and the gateways; every tenant has one key. Without a database, the gateways serve from
    the copies on disk, and nothing can be sealed under a tenant's key.
    """
    with ExitStack() as stack:
        redis, engine = stack.enter_context(RedisServer(root)), stack.enter_context(stub())
        secrets, table, ring = _write(root, engine.url, plans)
        stores = {"PENSTOCK_LIMITS_URL": redis.url, "PENSTOCK_ANSWERS_URL": redis.answers_url}
        if has_database:
            stores["PENSTOCK_DATABASE_URL"] = stack.enter_context(_database(table, ring))
        running = Fleet(
            home=Home(root=root, key=next(iter(secrets.values()))),
            secrets=secrets,
            engine=engine,
            redis=redis,
            gateways=[],
            stack=stack,
            stores=stores,
        )
        running.gateways.extend(running.start() for _ in range(GATEWAYS))
        yield running


def statuses(answers: list[Answer]) -> Counter[int]:
    return Counter(answer.status for answer in answers)


async def until(condition: Any, within_s: float) -> float:  # noqa: ANN401  an async predicate
    """Wait until it holds and return the seconds it took, or fail."""
    began = time.monotonic()
    while not await condition():
        assert time.monotonic() - began < patient(within_s), f"not within {within_s} s"
        await asyncio.sleep(0.1)
    return time.monotonic() - began


@contextmanager
def _database(table: RoutingTable, ring: KeyRing) -> Iterator[str]:
    # Not pytest's own folder: that is closed to the account of a Postgres that root starts.
    with tempfile.TemporaryDirectory(prefix="penstock-limits-", ignore_cleanup_errors=True) as folder:
        server = EmbeddedPostgres(Path(folder) / "postgres", Path(folder) / "logs" / "postgres.log")
        server.start()
        try:
            asyncio.run(_publish(server.dsn, table, ring))
            yield server.dsn
        finally:
            server.stop()


async def _publish(dsn: str, table: RoutingTable, ring: KeyRing) -> None:
    async with Database(dsn, max_connections=1, slower=patient(3.0)) as database:
        await migrate(database)
        tenancy = PostgresTenancy(database)
        for tenant in ring.tenants:
            await tenancy.add_tenant(tenant, _act(tenant.id))
        for key in ring.keys:
            await tenancy.add_key(key, _act(key.id))
        await PostgresTables(database).publish(table)


def _act(target: str) -> Act:
    return Act(who="platform", what="test.seed", target=target, at=0.0)


def _write(root: Path, engine_url: str, plans: Mapping[str, Plan]) -> tuple[dict[str, str], RoutingTable, KeyRing]:
    blob = tokenizers.small()
    sha256 = hashlib.sha256(blob).hexdigest()
    pepper = derive(PLATFORM_KEY, Purpose.PEPPER)
    minted = {name: mint(TenantId(name), pepper=pepper, now=0.0) for name in plans}
    worker = WorkerEntry(id=WorkerId("w-stub"), url=engine_url, state=WorkerState.READY)
    version = replace(VERSION, tokenizer_sha256=sha256, chat_template=TEMPLATE, workers=(worker,), price=PRICE)
    route = Route(alias=Alias("toy"), shares=(Share(version=version.id, weight=10_000),))
    tenants = tuple(Tenant(id=TenantId(name), name=name, plan=plan) for name, plan in plans.items())
    table = RoutingTable(number=3, made_at=0.0, routes=(route,), versions=(version,))
    ring = KeyRing(keys=tuple(key for _, key in minted.values()), tenants=tenants)
    files = {
        "platform.key": PLATFORM_KEY.hex().encode(),
        f"artifacts/blobs/{sha256}": blob,
        "run/gateway/table.json": msgspec.json.encode(table),
        "run/gateway/keys.json": msgspec.json.encode(ring),
        "run/gateway/packs.json": NO_PACKS,
    }
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o600)
    return {name: secret for name, (secret, _) in minted.items()}, table, ring
