"""Lists of models and request ids as Anthropic's own client reads them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anthropic
import httpx2
import pytest

from penstock.domain.fleet.table import RoutingTable
from penstock.domain.ids import VersionId
from penstock.gateway.openai.services import Facts
from penstock.intake.limits import Limits
from tests.support.gateways.toy import SECRET, Toy, edge, hello
from tests.support.samples.calls import VERSION

NAMES = [f"toy@{i:02}" for i in range(45)]
TABLE = RoutingTable(
    number=7, made_at=1e9, versions=tuple(replace(VERSION, id=VersionId(name), workers=()) for name in NAMES), routes=()
)


@asynccontextmanager
async def client() -> AsyncIterator[anthropic.AsyncAnthropic]:
    told: Any = {"table": lambda: TABLE, "missing": lambda: ""}
    app = edge(Toy(hello), Limits(), Facts(**told))
    http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app))
    async with anthropic.AsyncAnthropic(api_key=SECRET, base_url="http://g", http_client=http, max_retries=0) as made:
        yield made


@pytest.mark.parametrize("limit", [1, 7, 20, 45, 1000])
async def test_the_client_pages_through_all_models(limit: int) -> None:
    """Each once, in order, whatever a page holds."""
    async with client() as claude:
        found = [one async for one in claude.models.list(limit=limit)]
    assert [one.id for one in found] == NAMES
    assert {(one.type, one.lifecycle, one.created_at.year) for one in found} == {("model", "active", 2001)}
    assert all(one.display_name == one.id and one.max_input_tokens for one in found)


async def test_pages_go_back_and_filter() -> None:
    """``before_id`` gives the models right before one; none is retired."""
    async with client() as claude:
        back = await claude.models.list(before_id=NAMES[10], limit=4)
        none = await claude.models.list(lifecycle=["retired"])
        whole = await claude.models.list()
    assert ([one.id for one in back.data], back.has_more) == (NAMES[6:10], True)
    assert (none.data, none.first_id, none.has_more) == ([], None, False)
    assert (len(whole.data), whole.first_id, whole.last_id, whole.has_more) == (20, NAMES[0], NAMES[19], True)


@pytest.mark.parametrize(
    ("query", "param"),
    [({"limit": 0}, "limit"), ({"limit": 1001}, "limit"), ({"limit": "x"}, "limit"), ({"after_id": "no"}, "after_id")],
)
async def test_bad_pages_are_refused_by_name(query: dict[str, Any], param: str) -> None:
    """In Anthropic's form, with the id in the header that its client reads."""
    async with client() as claude:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await claude.models.list(extra_query=query)
    assert param in str(caught.value.body)
    assert caught.value.request_id


async def test_a_model_and_its_absence() -> None:
    """One model is in the same form, an unknown one is the client's NotFoundError."""
    async with client() as claude:
        found = await claude.models.retrieve(NAMES[3])
        with pytest.raises(anthropic.NotFoundError) as caught:
            await claude.models.retrieve("none")
    assert (found.id, found.type) == (NAMES[3], "model")
    assert isinstance(caught.value.body, dict)
    assert caught.value.body["type"] == "error"


async def test_messages_and_refusals_name_their_request() -> None:
    """Anthropic's client reads the request's id of answers and of errors."""
    async with client() as claude:
        with pytest.raises(anthropic.BadRequestError) as caught:
            await claude.messages.create(model=NAMES[0], max_tokens=-1, messages=[{"role": "user", "content": "x"}])
        assert caught.value.request_id
        with pytest.raises(anthropic.NotFoundError) as lost:
            await claude.post("/v1/messages/nothing", cast_to=object)
        assert lost.value.request_id
