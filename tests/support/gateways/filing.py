"""A gateway with files on a socket, over a real Postgres and sealed files: the first tenant is unbounded."""

import asyncio
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest
from openai import AsyncOpenAI

from penstock.connectors.payloads.folder import FolderObjects
from penstock.connectors.payloads.store import SealedPayloads
from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.files import PostgresFiles
from penstock.domain.clock import SystemClock
from penstock.domain.ids import TenantId
from penstock.domain.jobs.payload import ROW_BYTES
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import KeyRing, Plan, Tenant
from penstock.gateway.deferred.files import add_files
from penstock.gateway.identity.keyring import Keyring
from penstock.intake.limits import Limits
from penstock.jobs.files import TenantFiles
from penstock.jobs.retention import Retention
from tests.support.gateways.dispatch import until
from tests.support.gateways.toy import PEPPER, Running, Seen, Toy, edge, hello, running
from tests.support.patience import patient
from tests.support.sealing import FixedKeys
from tests.support.stores.postgres import database, database_dsn, postgres_dsn, postgres_server

__all__ = ["database", "database_dsn", "postgres_dsn", "postgres_server"]
ACME, SHOP = TenantId("acme"), TenantId("shop")
ACME_KEY, ACME_ROW = mint(ACME, pepper=PEPPER, now=0.0)
SHOP_KEY, SHOP_ROW = mint(SHOP, pepper=PEPPER, now=0.0)
SMALL = Plan(files=2, file_bytes=2 * ROW_BYTES + 1_000)
SECRET = b'{"custom_id": "1", "body": {"messages": "the patient\'s diagnosis"}}'
LINES = b"".join(b'{"custom_id": "%d"}\n' % number for number in range(40_000))
LIMITS = Limits(body_timeout_s=1.0)
HEAD = b"\r\n".join(
    (
        b"POST /v1/files HTTP/1.1",
        b"host: x",
        b"authorization: Bearer " + ACME_KEY.encode(),
        b"content-type: multipart/form-data; boundary=x",
        b"content-length: %d",
        b"",
        b"",
    )
)


@dataclass
class Home:
    """A gateway with files, its store and its clients."""

    gateway: Running
    home: Path
    database: Database
    payloads: SealedPayloads
    seen: Seen

    def sdk(self, key: str = ACME_KEY) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.gateway.url}/v1", api_key=key, max_retries=0)

    def http(self, key: str = ACME_KEY) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.gateway.url, headers={"authorization": f"Bearer {key}"}, timeout=60)

    def stored(self) -> list[Path]:
        return [path for path in self.home.rglob("*") if path.is_file()]

    def retention(self) -> Retention:
        return Retention(self.payloads, [PostgresFiles(self.database)])

    async def rows(self) -> int:
        return len(await self.database.rows("select id from file where deleted_at = 0"))


@pytest.fixture
async def home(database: Database, tmp_path: Path) -> AsyncIterator[Home]:
    """Run a gateway of two tenants, the second with small bounds."""
    payloads = SealedPayloads(FolderObjects(tmp_path / "payloads"), FixedKeys())
    files = TenantFiles(PostgresFiles(database), payloads, SystemClock())
    toy = Toy(hello)
    made = edge(toy, LIMITS, deferred=[partial(add_files, files=files)])
    assert isinstance(made.identity, Keyring)
    tenants = (Tenant(id=ACME, name="Acme"), Tenant(id=SHOP, name="Shop", plan=SMALL))
    made.identity.replace(KeyRing(tenants=tenants, keys=(ACME_ROW, SHOP_ROW)))
    async with running(limits=LIMITS, change=lambda _: made) as gateway:
        yield Home(gateway, tmp_path / "payloads", database, payloads, toy.seen)
    payloads.close()


async def begin(home: Home, size: int = 10_000_000) -> socket.socket:
    """Return a connection that has sent the beginning of an upload."""
    client = socket.create_connection(("127.0.0.1", home.gateway.port))
    part = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    await asyncio.to_thread(client.sendall, HEAD % size + part + b"x" * 3_000_000)
    return client


async def gone(home: Home) -> None:
    await until(lambda: home.stored() == [], within_s=10.0)
    for _ in range(int(patient(100))):
        if not await home.rows():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the upload still holds its room")
