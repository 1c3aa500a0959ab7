"""Service tiers with both SDKs on a running platform: answers, bills, records and shares agree."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal

import httpx
import pytest
from anthropic import Anthropic
from anthropic import BadRequestError as RefusedMessage
from anthropic.types import MessageParam
from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types.chat import ChatCompletionMessageParam

from penstock.domain.money import MicroUsd, Price
from tests.support.patience import until
from tests.support.platforms.local import Platform

pytestmark = pytest.mark.integration

TENANT = "tiered"
TIERS = "flex:batch:0.5:batch,priority:interactive:2.25"
FACTORS = {"default": 1.0, "flex": 0.5, "priority": 2.25}
MODEL = "smollm2"
TURNS: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Count to ten."}]
MESSAGES: list[MessageParam] = [{"role": "user", "content": "Count to ten."}]
LONG = {"ignore_eos": True}
CROWD = 80
"""Flex requests at a time: more than the demo's engine takes at once."""


@dataclass(frozen=True)
class Sdks:
    openai: OpenAI
    anthropic: Anthropic
    key: str


@pytest.fixture(scope="module")
def sdks(platform: Platform) -> Iterator[Sdks]:
    """Yield both SDKs with a key of a tenant that has flex and priority."""
    platform.run("tenants", "create", TENANT, "--plan", f"service_tiers={TIERS}")
    shown = platform.run("keys", "create", TENANT).stdout
    found = re.search(r"psk_\w+", shown)
    assert found is not None, shown
    key = found[0]
    with (
        OpenAI(base_url=f"{platform.url}/v1", api_key=key, max_retries=0, timeout=120) as one,
        Anthropic(base_url=platform.url, api_key=key, max_retries=0, timeout=120) as other,
    ):
        until("the gateway knows the key", lambda: _is_known(one))
        yield Sdks(one, other, key)


def _is_known(sdk: OpenAI) -> bool:
    try:
        return bool(sdk.models.list().data)
    except Exception:  # noqa: BLE001  any refusal is a no
        return False


@pytest.mark.parametrize(
    ("asked", "served"),
    [("auto", "default"), ("default", "default"), ("flex", "flex"), ("priority", "priority"), ("fast", "priority")],
)
def test_openai_answers_name_the_tier_that_served(sdks: Sdks, asked: str, served: str) -> None:
    """Chat and Responses, whole and streamed, name the tier in the SDK's own field."""
    chats, responses = sdks.openai.chat.completions, sdks.openai.responses
    more = {"service_tier": asked}
    whole = chats.create(model=MODEL, messages=TURNS, max_tokens=4, extra_body=more)
    assert whole.service_tier == served
    chunks = list(chats.create(model=MODEL, messages=TURNS, max_tokens=4, stream=True, extra_body=more))
    assert {chunk.service_tier for chunk in chunks} == {served}
    response = responses.create(model=MODEL, input="Count.", max_output_tokens=4, extra_body=more)
    assert response.service_tier == served
    events = list(responses.create(model=MODEL, input="Count.", max_output_tokens=4, stream=True, extra_body=more))
    assert {event.response.service_tier for event in events if hasattr(event, "response")} == {served}


def test_messages_name_the_tier_in_anthropics_words(platform: Platform, sdks: Sdks) -> None:
    """``auto`` is the plan's own choice, and ``standard_only`` the default tier."""
    for auto, told in (("priority", "priority"), ("flex", "batch"), ("default", "standard")):
        platform.run("tenants", "plan", TENANT, f"auto_tier={auto}")
        until(f"auto is {auto}", partial(_says, sdks, told))
        assert _message(sdks, "standard_only") == "standard"
        stream = sdks.anthropic.messages.create(
            model=MODEL,
            messages=MESSAGES,
            max_tokens=4,
            stream=True,
            service_tier="auto",
        )
        begun = next(event for event in stream if event.type == "message_start")
        assert begun.message.usage.service_tier == told


def _says(sdks: Sdks, told: str) -> bool:
    return _message(sdks, "auto") == told


def _message(sdks: Sdks, asked: Literal["auto", "standard_only"]) -> str | None:
    made = sdks.anthropic.messages.create(model=MODEL, messages=MESSAGES, max_tokens=4, service_tier=asked)
    return made.usage.service_tier


def test_a_tier_that_the_plan_has_not_is_refused(sdks: Sdks) -> None:
    """The 400 names the field and the tiers that the plan has; no SDK value is taken for another."""
    for asked in ("scale", "ultrafast"):
        with pytest.raises(BadRequestError, match="default, flex, priority") as refused:
            sdks.openai.chat.completions.create(
                model=MODEL,
                messages=TURNS,
                max_tokens=4,
                extra_body={"service_tier": asked},
            )
        assert refused.value.param == "service_tier"
    with pytest.raises(RefusedMessage, match="standard_only"):
        sdks.anthropic.messages.create(
            model=MODEL, messages=MESSAGES, max_tokens=4, extra_body={"service_tier": "flex"}
        )


def test_bill_and_record_know_tier_and_factor(platform: Platform, sdks: Sdks) -> None:
    """Each row's cost is its version's price at the factor; row, record and metric name the same tier."""
    asked: dict[str, str] = {}
    for tier in FACTORS:
        made = sdks.openai.chat.completions.create(
            model=MODEL,
            messages=TURNS,
            max_tokens=40,
            extra_body={"service_tier": tier, **LONG},
        )
        asked[(made.model_extra or {})["penstock"]["request_id"]] = tier

    def rows() -> dict[str, dict[str, str]]:
        return {row["request"]: row for row in platform.usage(TENANT) if row["request"] in asked}

    until("the rows are delivered", lambda: len(rows()) == len(asked))
    price = _price(platform)
    for request, row in rows().items():
        factor = FACTORS[asked[request]]
        assert (row["service_tier"], float(row["price_factor"])) == (asked[request], factor)
        tokens = (int(row[name]) for name in ("prompt_tokens", "cached_tokens", "output_tokens"))
        prompt, cached, output = tokens
        assert int(row["cost"]) == price.at(factor).of(prompt=prompt, cached=cached, output=output)
        if asked[request] != "default":
            with platform.http(sdks.key) as http:
                says = " ".join(http.get(f"/v1/requests/{request}").json()["says"])
            assert f"service tier {asked[request]}" in says
    with platform.http() as http:
        page = http.get(platform.metrics_url).text
    assert 'penstock_service_tier_requests_total{outcome="ok",service_tier="flex"}' in page


def _price(platform: Platform) -> Price:
    with httpx.Client(
        base_url=platform.controller_url, headers={"authorization": f"Bearer {platform.admin_key}"}
    ) as http:
        routes = {one["alias"]: one["shares"] for one in http.get("/admin/v1/aliases").json()["aliases"]}
        told = http.get(f"/admin/v1/models/{routes[MODEL][0]['version']}").json()["manifest"]["price"]
    return Price(**{name: MicroUsd(told[name]) for name in Price.__dataclass_fields__})


async def test_a_priority_request_overtakes_flex_ones(sdks: Sdks) -> None:
    """Behind more flex requests of its own tenant than the engine takes, it ends before most of them."""
    ended: list[str] = []

    async def ask(sdk: AsyncOpenAI, tier: str) -> None:
        made = await sdk.chat.completions.create(
            model=MODEL,
            messages=TURNS,
            max_tokens=24,
            extra_body={"service_tier": tier, **LONG},
        )
        assert made.service_tier == tier
        ended.append(tier)

    async with (
        AsyncOpenAI(base_url=sdks.openai.base_url, api_key=sdks.key, max_retries=0, timeout=300) as sdk,
        asyncio.TaskGroup() as group,
    ):
        for _ in range(CROWD):
            group.create_task(ask(sdk, "flex"))
        await asyncio.sleep(1.0)
        group.create_task(ask(sdk, "priority"))
    assert ended.index("priority") < CROWD / 2
