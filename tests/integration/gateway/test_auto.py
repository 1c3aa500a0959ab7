"""Names that stand for rules, on a real gateway process before two engines, asked by the official SDK."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest
from openai import BadRequestError, OpenAI

from penstock.domain.fleet.table import Route, RoutingTable, Share, WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import Alias, VersionId, WorkerId
from penstock.domain.money import MicroUsd
from penstock.domain.serving.auto import Auto, Rule
from tests.integration.gateway.test_brake import Engine, engines
from tests.support.gateways.process import GatewayProcess, Home, prepare, started

pytestmark = pytest.mark.integration

SMALL, BIG = VersionId("toy@0123456789ab"), VersionId("big@ba9876543210")
CONTEXT = 64
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
PICTURE = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
RULES = (
    Rule(name="short", to=Alias("toy"), prompt_tokens=20, json=False),
    Rule(name="small", to=Alias("toy"), json=False),
    Rule(name="rest", to=Alias(BIG)),
)


def ruled(home: Home, big: Engine) -> None:
    """Let the last good table hold a small model, a dearer one with tool calls, and an auto alias over both."""
    kept = home.root / "run/gateway/table.json"
    table = msgspec.json.decode(kept.read_bytes(), type=RoutingTable)
    (small,) = table.versions
    worker = WorkerEntry(id=WorkerId("w-big"), url=big.url, state=WorkerState.READY)
    price = replace(small.price, output_per_mtok=MicroUsd(500_000))
    other = replace(
        small, id=BIG, digest="ba9876543210" + "0" * 52, workers=(worker,), max_model_len=512, price=price,
        tool_parser="hermes",
    )  # fmt: skip
    route = Route(alias=Alias("big"), shares=(Share(version=BIG, weight=10_000),))
    autos = (Auto(alias=Alias("auto"), rules=RULES),)
    whole = replace(table, versions=(small, other), routes=(*table.routes, route), autos=autos)
    kept.write_bytes(msgspec.json.encode(whole))


@dataclass
class Answer:
    """What an answer says of the choice."""

    version: str
    rule: str
    id: str


@dataclass
class Town:
    """A gateway, and the SDK before it."""

    gateway: GatewayProcess
    sdk: OpenAI

    def ask(self, text: str = "hi", *, headers: dict[str, str] | None = None, **more: object) -> Answer:
        messages = more.pop("messages", [{"role": "user", "content": text}])
        told = self.sdk.chat.completions.with_raw_response.create(  # type: ignore[call-overload]
            model="auto", messages=messages, max_tokens=5, extra_headers=headers or {}, **more
        )
        told.parse()
        names = ("x-penstock-version", "x-penstock-auto", "x-request-id")
        return Answer(*(told.headers.get(name, "") for name in names))

    def counted(self) -> dict[str, float]:
        found = re.findall(
            r'^penstock_gateway_auto_choices_total\{rule="([^"]+)"\} (\S+)', self.gateway.metrics, re.MULTILINE
        )
        return {rule: float(value) for rule, value in found}


@contextmanager
def running(folder: Path) -> Iterator[Town]:
    with engines() as (small, big):
        home = prepare(folder, small.url, context=CONTEXT)
        ruled(home, big)
        with started(home) as gateway:
            yield Town(gateway, OpenAI(base_url=f"{gateway.url}/v1", api_key=home.key, max_retries=0))


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    with running(tmp_path_factory.mktemp("auto")) as one:
        yield one


def test_the_smallest_model_that_is_able_answers(town: Town) -> None:
    """By length, tools and form; the answer names version and rule, and each choice is counted."""
    before = town.counted()
    asked = {
        "short": town.ask(),
        "small": town.ask("the " * 25),
        "rest": town.ask("the " * 100),
    }
    assert {rule: (one.rule, one.version) for rule, one in asked.items()} == {
        "short": ("short", SMALL), "small": ("small", SMALL), "rest": ("rest", BIG),
    }  # fmt: skip
    for able in ({"tools": [TOOL]}, {"response_format": SCHEMA}):
        assert town.ask(**able).version == BIG
    after = {rule: value - before.get(rule, 0.0) for rule, value in town.counted().items()}
    assert after == {"auto/short": 1.0, "auto/small": 1.0, "auto/rest": 3.0}


def test_streams_name_their_rule_too(town: Town) -> None:
    """In the head, before the first token."""
    stream = town.sdk.chat.completions.with_raw_response.create(
        model="auto", messages=[{"role": "user", "content": "hi"}], max_tokens=5, stream=True
    )
    assert stream.headers["x-penstock-auto"] == "short"
    assert len(list(stream.parse())) > 1


def test_a_conversation_goes_up_and_not_down(town: Town) -> None:
    """Turn by turn it grows past the small model; with its rule sent back, a shortened turn stays at the large one."""
    said: list[dict[str, str]] = []
    rules = []
    for _ in range(8):
        said += [{"role": "user", "content": "the " * 10}]
        rules.append(town.ask(messages=said).rule)
        said += [{"role": "assistant", "content": "the " * 5}]
    order = [rule.name for rule in RULES]
    places = [order.index(rule) for rule in rules]
    assert places == sorted(places)
    assert {rules[0], rules[-1]} == {"short", "rest"}
    kept = town.ask("hi", headers={"x-penstock-auto": rules[-1]})
    assert (kept.rule, kept.version) == ("rest", BIG)


def test_tools_of_an_earlier_turn_stay_in_mind(town: Town) -> None:
    """A caller's cap and nothing else keeps it from the dear model: then no rule fits, and each says why."""
    with pytest.raises(BadRequestError) as caught:
        town.ask(tools=[TOOL], headers={"x-penstock-price-cap": "0.10"})
    error = caught.value
    assert error.code == "no_rule_fits"
    assert "short: its model was taught no tool calls" in error.message
    assert "rest: its model is dearer than the price cap" in error.message
    assert town.counted()["auto/_none"] >= 1
    assert town.ask(headers={"x-penstock-price-cap": "0.10"}).version == SMALL


def test_what_nobody_sees_is_refused_with_the_reason(town: Town) -> None:
    """No rule here says that its model sees; and no word of the prompt is in the refusal."""
    messages = [{"role": "user", "content": [{"type": "text", "text": "sesame"}, *PICTURE]}]
    with pytest.raises(BadRequestError, match="takes no images") as caught:
        town.ask(messages=messages)
    assert "sesame" not in caught.value.message


def test_what_is_too_long_for_all_is_that_error(town: Town) -> None:
    """The code that clients know, so that they shorten and come again."""
    with pytest.raises(BadRequestError) as caught:
        town.ask("the " * 600)
    assert caught.value.code == "context_length_exceeded"


def test_large_bodies_are_led_by_the_same_rules(town: Town) -> None:
    """They are read in another process and searched, not walked."""
    filler = " " * (20 << 10)
    tools = [{**TOOL, "function": {**TOOL["function"], "description": filler}}]  # type: ignore[dict-item]
    assert town.ask(tools=tools, tool_choice="none").rule in {"short", "small"}
    with pytest.raises(BadRequestError, match="takes no images"):
        town.ask(messages=[{"role": "user", "content": PICTURE}] * 300)


def test_a_repeated_request_is_told_the_same(town: Town) -> None:
    """The answer under an idempotency key names its version and its rule."""
    key = {"idempotency-key": "auto-1"}
    first, again = town.ask(headers=key), town.ask(headers=key)
    assert (first.version, first.rule) == (again.version, again.rule) == (SMALL, "short")


def test_explain_tells_the_rule(town: Town) -> None:
    """Why it was this model, and why not those before it."""
    asked = town.ask("the " * 25)
    with town.gateway.http() as http:
        told = http.get(f"/v1/requests/{asked.id}").json()
    assert "Of the rules of auto, small led it to toy, after short (the prompt is longer than it takes)." in str(told)


def test_the_list_of_models_has_it(town: Town) -> None:
    """As a name that may be asked, with the largest context behind it."""
    card = {one.id: one for one in town.sdk.models.list()}["auto"].model_dump()
    assert (card["max_model_len"], card["rules"]) == (512, ["short", "small", "rest"])
