"""How many tokens a conversation has, without an engine: through the real edge, with real limits."""

import asyncio
from dataclasses import replace
from typing import Any

import httpx
import pytest

from penstock.connectors.memory.limits import MemoryLimits
from penstock.domain.clock import SystemClock
from penstock.domain.errors import StoreUnavailable
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, RoutingTable, Share, VersionEntry
from penstock.domain.ids import Alias, RequestId, TenantId
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.tenancy.keys import mint
from penstock.domain.tenancy.ledger import LedgerRow, Opening
from penstock.domain.tenancy.tenant import KeyRing, Plan, Principal, Tenant
from penstock.gateway.admission.expectation import OutputExpectation
from penstock.gateway.admission.reservations import Reservations
from penstock.gateway.app.asgi import Edge
from penstock.gateway.choosing import Choosing
from penstock.gateway.counting import Counting
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver
from penstock.intake.limits import Limits
from tests.support.gateways.toy import PEPPER, Toy, edge, hello
from tests.support.samples.calls import VERSION

PATH = "/v1/messages/count_tokens"
BODY = {"model": "toy", "messages": [{"role": "user", "content": "hi"}]}
PER_MINUTE = 3
ROUTE = Route(alias=Alias("toy"), shares=(Share(version=VERSION.id, weight=WEIGHT_TOTAL),))
AUTO = Auto(
    alias=Alias("auto"),
    rules=(Rule(name="small", to=Alias("toy"), prompt_tokens=16), Rule(name="rest", to=Alias("toy"))),
)
TABLE = RoutingTable(number=1, made_at=0.0, routes=(ROUTE,), versions=(VERSION,), autos=(AUTO,))


class Counted:
    """The preprocessor's place: every conversation has seventeen tokens."""

    def __init__(self) -> None:
        self.prepared = Prepared(prompt_tokens=17)
        self.asked: list[dict[str, object]] = []

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        del version, principal
        self.asked.append(request.body)
        return self.prepared


class Shut:
    """The journal's place: whoever opens a row is refused."""

    def opened(self, opening: Opening) -> None:
        raise StoreUnavailable(opening.request)

    def delivered(self, request: RequestId, tokens: int) -> None:
        """Nothing runs."""

    def closed(self, row: LedgerRow) -> None:
        """Nothing was opened."""


class Site:
    """A gateway with one tenant that may ask so often a minute, and what it did."""

    def __init__(self) -> None:
        clock, current = SystemClock(), CurrentTable()
        current.swap(TABLE, 0.0)
        self.counted, self.toy = Counted(), Toy(hello)
        self.chosen: list[tuple[str, str]] = []
        secret, key = mint(TenantId("acme"), pepper=PEPPER, now=0.0)
        keys = Keyring(peppers=(PEPPER,), salt_key=b"s" * 32, now=clock.now)
        plan = Plan(requests_per_min=PER_MINUTE, tokens_per_min=1000)
        keys.replace(KeyRing(tenants=(Tenant(id=TenantId("acme"), name="Acme", plan=plan),), keys=(key,)))
        rates = Reservations(
            store=MemoryLimits(clock),
            journal=Shut(),
            expectation=OutputExpectation(),
            clock=clock,
            spawn=asyncio.ensure_future,
        )
        chooser = Choosing(
            autos=TableResolver(current).auto,
            resolver=TableResolver(current),
            preprocessor=self.counted,
            count=lambda *choice: self.chosen.append(choice),
        )
        counting = Counting(chooser=chooser, rates=rates)
        plain = edge(self.toy, Limits())
        fields = {name: getattr(plain, name) for name in Edge.__dataclass_fields__}
        transport = httpx.ASGITransport(app=Edge(**{**fields, "identity": keys, "counting": counting}))
        headers = {"x-api-key": secret, "anthropic-version": "2023-06-01"}
        self.http = httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers)

    async def ask(self, **changes: object) -> httpx.Response:
        return await self.http.post(PATH, json={**BODY, **changes})


def is_anthropics(answer: httpx.Response) -> bool:
    """Tell whether this is an error as Anthropic's SDKs read it."""
    told: dict[str, Any] = answer.json()
    return bool(told["type"] == "error" and {"type", "message"} <= told["error"].keys())


async def test_a_conversation_is_counted_without_an_engine() -> None:
    """It was a 404: what Anthropic's SDK asks by count_tokens is answered, reaches no engine and opens no row."""
    site = Site()
    answer = await site.ask()
    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 17})
    assert answer.headers["x-penstock-version"] == VERSION.id
    assert site.counted.asked == [BODY]
    assert site.toy.seen.calls == []


async def test_an_auto_alias_is_counted_by_the_model_that_would_answer() -> None:
    """The rule that its length leads to is told, as in an answer."""
    site = Site()
    answer = await site.ask(model="auto")
    assert (answer.json(), answer.headers["x-penstock-auto"]) == ({"input_tokens": 17}, "rest")
    assert site.chosen == [("auto", "rest")]


async def test_counting_draws_on_the_rate_of_requests_alone() -> None:
    """Each count is one request of the rate; tokens a minute stay whole, and who has none left hears when to come."""
    site = Site()
    answers = [await site.ask() for _ in range(PER_MINUTE + 1)]
    assert [answer.status_code for answer in answers] == [200] * PER_MINUTE + [429]
    left = [answer.headers["x-ratelimit-remaining-requests"] for answer in answers]
    assert left == ["2", "1", "0", "0"]
    assert "x-ratelimit-remaining-tokens" not in answers[0].headers
    assert len(site.counted.asked) == PER_MINUTE
    assert is_anthropics(answers[-1])


@pytest.mark.parametrize(
    ("changes", "status"), [({"model": "nobody"}, 404), ({"messages": []}, 400), ({"model": 3}, 400)]
)
async def test_its_errors_have_anthropics_shape(changes: dict[str, object], status: int) -> None:
    """Whatever is wrong with it is told as Anthropic's SDK reads it."""
    answer = await Site().ask(**changes)
    assert answer.status_code == status
    assert is_anthropics(answer)


async def test_what_only_the_engine_can_render_is_no_number() -> None:
    """A bound is no count: it is refused, and never told as one."""
    site = Site()
    site.counted.prepared = replace(site.counted.prepared, is_counted=False)
    answer = await site.ask()
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "unsupported_by_model")


async def test_an_answer_still_needs_its_bound() -> None:
    """What may be left out where only a count is wanted is required where an answer is."""
    site = Site()
    answer = await site.http.post("/v1/messages", json=BODY)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "max_tokens")
    assert is_anthropics(answer)
    assert site.toy.seen.calls == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/messages", 405), ("GET", PATH, 405), ("POST", "/v1/messages/batches", 404)],
)
async def test_what_is_not_there_beside_messages_has_anthropics_shape(method: str, path: str, status: int) -> None:
    """Every address below /v1/messages speaks to Anthropic's SDK, and others to OpenAI's."""
    site = Site()
    answer = await site.http.request(method, path)
    assert answer.status_code == status
    assert is_anthropics(answer)
    request = site.http.build_request("GET", "/v1/message")
    del request.headers["anthropic-version"]
    assert "type" not in (await site.http.send(request)).json()


async def test_a_count_tells_the_fields_that_it_does_not_document() -> None:
    """What bounds or samples an answer changes no count."""
    site = Site()
    answer = await site.ask(max_tokens=9, temperature=0.5, system="Be brief.")
    assert (answer.status_code, answer.headers.get("x-penstock-ignored")) == (200, "max_tokens, temperature")
    assert (await site.ask(system="Be brief.")).headers.get("x-penstock-ignored") is None
