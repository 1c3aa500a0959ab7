"""Routes of webhooks over a real Postgres: made, changed, rotated, tested, replayed, and unseen by other tenants."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any

import httpx
import pytest
from openai import OpenAI

from penstock.connectors.postgres.database import Database
from penstock.connectors.postgres.webhooks import PostgresDeliveries, PostgresEndpoints
from penstock.domain.errors import InvalidField
from penstock.domain.fleet.table import EMPTY
from penstock.domain.ids import KeyId, TenantId
from penstock.domain.jobs.ids import EndpointId, RunnerId
from penstock.domain.jobs.webhook import (
    MOST_ENDPOINTS,
    MOST_TESTS,
    TESTS_S,
    Answer,
    ClaimedDelivery,
    EndedAttempt,
    Next,
    Verdict,
)
from penstock.domain.tenancy.tenant import Plan, Principal, Role
from penstock.gateway.app.routes import Refusals, application
from penstock.gateway.deferred.webhooks import Webhooks
from penstock.gateway.openai.services import Facts
from penstock.jobs.signing import body_of, headers_of
from tests.support.clock import ManualClock
from tests.support.gateways.deferred import DeferredGateway
from tests.support.gateways.toy import Toy, hello
from tests.support.sealing import FixedKeys
from tests.support.webhooks.deliverer import pass_time

pytestmark = pytest.mark.integration
KEY = b"k" * 32
URL = "https://example.com/hooks"
"""Never connected to: no runner runs here."""


@dataclass
class Gateway:
    """A gateway's webhook routes, asked with the keys of two tenants."""

    database: Database
    http: httpx.AsyncClient
    secrets: dict[str, str]
    service: Webhooks

    async def ask(self, method: str, path: str = "", body: object = None, key: str = "acme") -> httpx.Response:
        headers = {"authorization": f"Bearer {self.secrets[key]}"}
        return await self.http.request(method, f"/v1/webhooks{path}", json=body, headers=headers)

    async def made(self, url: str = URL, key: str = "acme", **more: object) -> dict[str, Any]:
        answer = await self.ask("POST", "", {"url": url, **more}, key)
        assert answer.status_code == 201, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def claimed(self) -> list[ClaimedDelivery]:
        store = PostgresDeliveries(self.database, FixedKeys(KEY))
        waiting = await store.waiting()
        return list(await store.claim(RunnerId(1), {one.endpoint: 99 for one in waiting}))

    async def end(self, one: ClaimedDelivery, verdict: Verdict, status: int) -> None:
        ended = EndedAttempt(id=one.id, epoch=one.epoch, answer=Answer(status=status), next=Next(verdict=verdict))
        await PostgresDeliveries(self.database, FixedKeys(KEY)).end([ended])


@pytest.fixture
async def gateway(database: Database, tmp_path: Path) -> AsyncIterator[Gateway]:
    """Return the routes alone, in front of a database in which runner 1 lives."""
    await database.rows("insert into runner (name, seen_at, started_at) values ('r', 0, 0)")
    whole = DeferredGateway(database, tmp_path, ManualClock())
    service = Webhooks(PostgresEndpoints(database, FixedKeys(KEY)))
    numbers = iter(range(10**6))
    app = application(
        Refusals(whole.keys, Toy(hello)),
        Facts(table=lambda: EMPTY, missing=str),
        ids=lambda: f"{next(numbers):010d}",
        deferred=(service.routes,),
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://g") as http:
        yield Gateway(database, http, whole.secrets, service)


async def test_a_secret_is_shown_once_and_verifies_what_is_sent(gateway: Gateway) -> None:
    """No later answer has it; the official SDK verifies a delivery by it, and after a rotation by either."""
    made = await gateway.made()
    assert made["secret"].startswith("whsec_")
    for answer in (await gateway.ask("GET"), await gateway.ask("GET", f"/{made['id']}")):
        assert "whsec_" not in answer.text
    rotated = (await gateway.ask("POST", f"/{made['id']}/rotate", {"overlap_s": 60})).json()
    assert rotated["former_secret_until"] > 0
    assert (await gateway.ask("POST", f"/{made['id']}/test")).status_code == 202
    (sent,) = await gateway.claimed()
    body = body_of(sent.event)
    headers = headers_of(sent.event.id, time(), body, sent.secrets)
    for secret in (made["secret"], rotated["secret"]):
        event = OpenAI(api_key="none", webhook_secret=secret).webhooks.unwrap(body.decode(), headers)
        assert (event.id, str(event.type)) == (sent.event.id, "webhook.test")


async def test_what_other_tenants_made_is_not_there(gateway: Gateway) -> None:
    """Isolation: every method on another tenant's endpoint and deliveries answers 404, and its list is empty."""
    one = (await gateway.made())["id"]
    await gateway.ask("POST", f"/{one}/test")
    (delivery,) = (await gateway.ask("GET", f"/{one}/deliveries")).json()["data"]
    tries = [
        ("GET", f"/{one}", None),
        ("POST", f"/{one}", {"enabled": False}),
        ("DELETE", f"/{one}", None),
        ("POST", f"/{one}/rotate", {}),
        ("POST", f"/{one}/test", None),
        ("POST", f"/{one}/replay", {}),
        ("GET", f"/{one}/deliveries", None),
        ("POST", f"/{one}/deliveries/{delivery['id']}/replay", None),
    ]
    for method, path, body in tries:
        answer = await gateway.ask(method, path, body, key="other")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "object_not_found"), path
    assert (await gateway.ask("GET", key="other")).json()["data"] == []
    own = (await gateway.made(key="other"))["id"]
    foreign = await gateway.ask("POST", f"/{own}/deliveries/{delivery['id']}/replay", key="other")
    assert foreign.status_code == 404
    assert (await gateway.ask("GET", f"/{one}")).json()["enabled"] is True


async def test_without_a_key_and_with_an_auditors(gateway: Gateway) -> None:
    """Only keys that may ask models manage webhooks."""
    assert (await gateway.http.get("/v1/webhooks")).status_code == 401
    assert (await gateway.ask("GET", key="auditor")).status_code == 403


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"url": "https://127.0.0.1/"}, "url"),
        ({"url": "https://0x7f000001/"}, "url"),
        ({"url": "https://[64:ff9b::7f00:1]/"}, "url"),
        ({"url": "http://127.0.0.1\\@example.com/"}, "url"),
        ({"url": "https://user:pass@example.com/"}, "url"),
        ({"url": "https://bücher.example/"}, "url"),
        ({"url": 7}, "url"),
        ({}, "url"),
        ({"url": URL, "events": ["batch.done"]}, "events"),
        ({"url": URL, "events": ["webhook.test"]}, "events"),
        ({"url": URL, "events": "*"}, "events"),
        ({"url": URL, "secret": "mine"}, "secret"),
    ],
)
async def test_a_bad_endpoint_is_refused_by_its_field(gateway: Gateway, body: object, param: str) -> None:
    """With what to write instead."""
    answer = await gateway.ask("POST", "", body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


async def test_bounds_and_repeats(gateway: Gateway) -> None:
    """The same receiver twice, and one beyond the bound, conflict; another tenant has bounds of its own."""
    for number in range(MOST_ENDPOINTS):
        await gateway.made(f"{URL}/{number}")
    for url in (f"{URL}/0", f"{URL}/more"):
        answer = await gateway.ask("POST", "", {"url": url})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "conflict")
    await gateway.made(key="other")


async def test_deliveries_are_listed_and_replayed(gateway: Gateway) -> None:
    """By page and state; a failed one is due again with all attempts before it, and one that waits is not replayed."""
    one = (await gateway.made())["id"]
    for _ in range(3):
        await gateway.ask("POST", f"/{one}/test")
    first, second, third = await gateway.claimed()
    await gateway.end(first, Verdict.DELIVERED, 204)
    await gateway.end(second, Verdict.FAILED, 500)
    page = (await gateway.ask("GET", f"/{one}/deliveries?limit=2")).json()
    assert (len(page["data"]), page["has_more"]) == (2, True)
    rest = (await gateway.ask("GET", f"/{one}/deliveries?limit=2&after={page['last_id']}")).json()
    assert (len(rest["data"]), rest["has_more"]) == (1, False)
    (failed,) = (await gateway.ask("GET", f"/{one}/deliveries?state=failed")).json()["data"]
    assert (failed["attempts"], failed["last_status"], failed["event"]["id"]) == (1, 500, second.event.id)
    assert (await gateway.ask("GET", f"/{one}/deliveries?state=lost")).status_code == 400
    waiting = f"/{one}/deliveries/whd_{third.event.id[4:]}/replay"
    assert (await gateway.ask("POST", waiting)).status_code == 404
    assert (await gateway.ask("POST", f"/{one}/replay", {})).json()["deliveries"] == 1
    assert [again.event.id for again in await gateway.claimed()] == [second.event.id]
    assert (await gateway.ask("POST", f"/{one}/deliveries/{failed['id']}x/replay")).status_code == 404


async def test_off_and_on(gateway: Gateway) -> None:
    """An endpoint that its owner turned off can't be tested, replayed or named by a job; its reason is told."""
    one = (await gateway.made(events=[]))["id"]
    who = Principal(tenant=TenantId("acme"), key=KeyId("k"), role=Role.INFER, plan=Plan(), models=(), cache_salt="")
    await gateway.service.check(who, EndpointId(one))
    off = (await gateway.ask("POST", f"/{one}", {"enabled": False})).json()
    assert (off["enabled"], off["disabled_reason"]) == (False, "owner")
    for path in ("test", "replay"):
        assert (await gateway.ask("POST", f"/{one}/{path}")).status_code == 409
    for name in (one, "we_0123456789abcdef", URL):
        with pytest.raises(InvalidField) as refused:
            await gateway.service.check(who, EndpointId(name))
        assert refused.value.param == "webhook"
    on = (await gateway.ask("POST", f"/{one}", {"enabled": True, "url": f"{URL}/b", "events": ["*"]})).json()
    assert (on["enabled"], on["url"], on["events"]) == (True, f"{URL}/b", ["*"])
    await pass_time(gateway.database, 1.0)
    assert (await gateway.ask("DELETE", f"/{one}")).json() == {"id": one, "object": "webhook", "deleted": True}
    assert (await gateway.ask("GET", f"/{one}")).status_code == 404


async def test_a_flood_of_tests_is_refused_with_its_wait(gateway: Gateway) -> None:
    """Twenty a minute of a tenant, whatever its endpoints and deletions; another tenant has its own."""
    one, two = (await gateway.made())["id"], (await gateway.made(f"{URL}/2"))["id"]
    for _ in range(MOST_TESTS // 2):
        for endpoint in (one, two):
            assert (await gateway.ask("POST", f"/{endpoint}/test")).status_code == 202
    await gateway.ask("DELETE", f"/{one}")
    refused = await gateway.ask("POST", f"/{two}/test")
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= TESTS_S
    other = (await gateway.made(key="other"))["id"]
    assert (await gateway.ask("POST", f"/{other}/test", key="other")).status_code == 202
