"""One tenant in two regions, each a whole gateway over a database and payloads of its own: ids of the one are unknown
at the other, on every route of the document that takes one.
"""

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import pytest

from penstock.apps.gateway.front import front
from penstock.apps.gateway.parts import compose
from penstock.apps.keys import Keys
from penstock.connectors.postgres.embedded import EmbeddedPostgres
from penstock.domain.fleet.table import RoutingTable
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.tenant import KeyRing, Tenant
from penstock.settings.processes import GatewaySettings
from tests.support.gateways.deferred import ACME, Counted, route
from tests.support.gateways.toy import PEPPER
from tests.support.samples.calls import VERSION
from tests.support.samples.deferred_routes import IN_BODIES, LISTED, LISTS, NAMED, NEVER, OF_OBJECTS, PAGES, at, own_of
from tests.support.stores.postgres import migrated, postgres_dsn, postgres_server

__all__ = ["postgres_dsn", "postgres_server"]
ID = re.compile(r"\b[a-z]+[_-][0-9a-f]{8,64}\b")
TABLE = RoutingTable(number=1, made_at=0.0, versions=(VERSION,), routes=(route("toy", VERSION.id),))
LINE = b'{"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {"model": "toy"}}\n'
CHAT = "/v1/chat/completions"
REQUEST = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
RESPONSE = {"model": "toy", "input": "hi", "max_output_tokens": 1}
BODIES: Mapping[str, dict[str, object]] = {
    "/v1/jobs": {"api": CHAT, "request": REQUEST, "not_before": time.time() + 3600.0},
    "/v1/batches": {"endpoint": CHAT, "completion_window": "24h"},
    "/v1/responses": RESPONSE,
    "/v1/responses/input_tokens": RESPONSE,
}
"""A body for each address that takes an id in it."""
Refusal = tuple[int, str, str]


@dataclass(kw_only=True)
class Region:
    """A client with the tenant's key there, and one object of each kind by the name of its parameter in addresses."""

    http: httpx.AsyncClient
    objects: dict[str, str] = field(default_factory=dict)

    async def fill(self) -> None:
        upload = await self.http.post("/v1/files", data={"purpose": "batch"}, files={"file": ("in.jsonl", LINE)})
        self.objects["file"] = upload.raise_for_status().json()["id"]
        of_file = {"input_file_id": self.objects["file"]}
        self.objects["job"] = await self.make("/v1/jobs", BODIES["/v1/jobs"])
        self.objects["batch"] = await self.make("/v1/batches", BODIES["/v1/batches"] | of_file)
        self.objects["response"] = await self.make("/v1/responses", RESPONSE | {"background": True})
        endpoint = await self.make("/v1/webhooks", {"url": "https://hook.invalid/", "events": ["*"]})
        self.objects["webhook"] = await self.make(f"/v1/webhooks/{endpoint}/test", None)
        (self.objects["delivery"],) = await self.ids(f"/v1/webhooks/{endpoint}/deliveries")

    async def make(self, path: str, body: object) -> str:
        answer = await self.http.post(path, json=body)
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    async def ids(self, path: str) -> list[str]:
        return [one["id"] for one in (await self.http.get(path)).raise_for_status().json()["data"]]

    async def ask(self, method: str, path: str, body: object = None) -> Refusal:
        """Return status, message without ids, and field."""
        answer = await self.http.request(method, path, json=body)
        error = answer.json().get("error") or {}
        return answer.status_code, ID.sub("ID", error.get("message") or ""), error.get("param") or ""


@asynccontextmanager
async def region(name: str, dsn: str, home: Path) -> AsyncIterator[Region]:
    """Run a gateway with the platform's keys, which are those of all regions; it has no worker and no runner."""
    settings = GatewaySettings(home=home, database_url=dsn, job_runners=1, region=name)
    parts = compose(settings, Keys(platform=(b"k" * 32,), peppers=(PEPPER,)))
    pipeline = replace(parts.pipeline, chooser=replace(parts.pipeline.chooser, preprocessor=Counted()))  # type: ignore[type-var]
    secret, key = mint(ACME, pepper=PEPPER, now=0.0)
    parts.shared.table.swap(TABLE, 0.0)
    parts.probes.keys.replace(KeyRing(tenants=(Tenant(id=ACME, name=ACME),), keys=(key,)))
    served = front(settings, replace(parts, pipeline=pipeline))
    transport = httpx.ASGITransport(app=served.server.config.app)  # type: ignore[arg-type]
    headers = {"authorization": f"Bearer {secret}"}
    async with served.database, httpx.AsyncClient(transport=transport, base_url="http://g", headers=headers) as http:
        made = Region(http=http)
        await made.fill()
        yield made
    await parts.close()


@pytest.fixture
async def regions(
    postgres_server: EmbeddedPostgres, postgres_dsn: str, tmp_path: Path
) -> AsyncIterator[tuple[tuple[Region, Region], ...]]:
    """Yield here and there, and there and here."""
    async with AsyncExitStack() as open_ones:
        made = []
        for name in ("here", "there"):
            dsn = await open_ones.enter_async_context(migrated(postgres_server, postgres_dsn))
            made.append(await open_ones.enter_async_context(region(name, dsn, tmp_path / name)))
        yield (made[0], made[1]), (made[1], made[0])


async def test_an_address_with_another_regions_id_is_not_there(regions: tuple[tuple[Region, Region], ...]) -> None:
    """Each id of an address by itself: 404, in the words for an object that never was; the key is unknown, too."""
    for here, there in regions:
        for method, path in OF_OBJECTS:
            body: object = None if method == "GET" else {}
            for name in NAMED.findall(path):
                asked = [at(path, there.objects | {name: ids[name]}) for ids in (here.objects, NEVER)]
                told = [await there.ask(method, one, body) for one in asked]
                assert (told[0], told[0][0]) == (told[1], 404), (method, path, name)
            assert (await there.ask("GET", at(own_of(path), there.objects)))[0] == 200
        answer = await there.http.get("/v1/models", headers=here.http.headers)
        assert answer.status_code == 401


async def test_no_list_has_another_regions_objects(regions: tuple[tuple[Region, Region], ...]) -> None:
    """A list has the region's own, and a page after another's is refused as one after an object that never was."""
    assert {path for _, path in OF_OBJECTS} & set(PAGES)
    for here, there in regions:
        for path in {*LISTS, *PAGES}:
            kind, own = LISTED[path.rpartition("/")[2]], at(path, there.objects)
            assert await there.ids(own) == ([there.objects[kind]]), path
            if path in PAGES:
                told = [await there.ask("GET", f"{own}?after={ids[kind]}") for ids in (here.objects, NEVER)]
                assert (told[0], told[0][0], told[0][2]) == (told[1], 400, "after"), path


async def test_no_body_takes_another_regions_id(regions: tuple[tuple[Region, Region], ...]) -> None:
    """A batch of its file, a turn after its response, a job for its endpoint: refused as for one that never was."""
    assert {path for path, _, _ in IN_BODIES} == BODIES.keys()
    for here, there in regions:
        for path, name, kind in IN_BODIES:
            asked = [BODIES[path] | {name: ids[kind]} for ids in (here.objects, NEVER)]
            told = [await there.ask("POST", path, one) for one in asked]
            assert (told[0], told[0][2]) == (told[1], name), path
            assert told[0][0] in {400, 404}
