"""Fields that the platform serves itself, over the ASGI application: tier, cache key, region."""

from dataclasses import replace

import httpx
import msgspec
import pytest

from penstock.domain.serving.request import Api
from penstock.gateway.dispatch.wire import body_of
from penstock.gateway.openai.parse import PLATFORMS
from penstock.intake.limits import Limits
from tests.support.gateways.toy import SECRET, Toy, edge, hello
from tests.support.samples.calls import VERSION

TURNS = [{"role": "user", "content": "hi"}]
BODIES: dict[Api, dict[str, object]] = {
    Api.CHAT: {"messages": TURNS},
    Api.COMPLETIONS: {"prompt": "hi"},
    Api.RESPONSES: {"input": "hi"},
    Api.MESSAGES: {"messages": TURNS, "max_tokens": 9},
}

OPENAIS = {"service_tier": "default", "prompt_cache_key": "k"}
FIELDS = {
    Api.CHAT: OPENAIS,
    Api.COMPLETIONS: {"service_tier": "default"},
    Api.RESPONSES: OPENAIS,
    Api.MESSAGES: {"service_tier": "auto", "inference_geo": "eu-north"},
}


async def post(api: Api, **fields: object) -> tuple[httpx.Response, Toy]:
    toy = Toy(hello)
    app = replace(edge(toy, Limits()), region="eu-north")
    transport = httpx.ASGITransport(app=app)
    headers = {"authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as http:
        return await http.post(str(api), json={"model": "m", **BODIES[api], **fields}), toy


@pytest.mark.parametrize("api", BODIES)
async def test_no_engine_gets_what_the_platform_serves(api: Api) -> None:
    """They stay in the body until it is sent, so that an idempotency key with another tier is another body."""
    fields = FIELDS[api]
    answer, toy = await post(api, **fields)
    assert answer.status_code == httpx.codes.OK, answer.text
    request = toy.seen.calls[0].request
    assert (request.cache_key, request.geo) == (fields.get("prompt_cache_key", ""), fields.get("inference_geo", ""))
    assert request.body.keys() >= fields.keys()
    sent = msgspec.json.decode(body_of(request, VERSION, "salt"))
    assert not sent.keys() & PLATFORMS


@pytest.mark.parametrize(("asked", "geo"), [("eu-north", "eu-north"), ("global", "eu-north"), (None, "")])
async def test_a_region_that_answers_is_served(asked: str | None, geo: str) -> None:
    """Its own name and ``global`` are true of this gateway; null is as if left out."""
    answer, toy = await post(Api.MESSAGES, inference_geo=asked)
    assert answer.status_code == httpx.codes.OK
    assert toy.seen.calls[0].request.geo == geo


async def test_another_region_is_refused_with_the_remedy() -> None:
    """No prompt is answered elsewhere than its caller allows."""
    answer, toy = await post(Api.MESSAGES, inference_geo="us")
    assert answer.status_code == httpx.codes.BAD_REQUEST
    error = answer.json()["error"]
    assert error["param"] == "inference_geo"
    assert "eu-north" in error["message"]
    assert not toy.seen.calls


@pytest.mark.parametrize(
    ("api", "field"), [(Api.CHAT, "service_tier"), (Api.CHAT, "prompt_cache_key"), (Api.MESSAGES, "inference_geo")]
)
@pytest.mark.parametrize("value", [7, "", ["a"], {}, True, "x" * 300])
async def test_no_form_of_them_is_taken_for_another(api: Api, field: str, value: object) -> None:
    """Each refusal names the field, and none grows with what the caller sent."""
    answer, toy = await post(api, **{field: value})
    assert answer.status_code == httpx.codes.BAD_REQUEST
    assert answer.json()["error"]["param"] == field
    assert len(answer.content) < 600
    assert not toy.seen.calls
