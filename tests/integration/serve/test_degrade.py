"""Degrade before deny: a rush on the real engine, a model that refuses or is gone, with and without opting in."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import httpx
import pytest

from penstock.domain.ids import Alias
from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.tenant import Plan
from penstock.telemetry import names
from tests.support.gateways.zones import Site, site
from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.platforms.readings import Fleet
from tests.support.samples.chat_bodies import CHAT, chat, long_answer

pytestmark = pytest.mark.integration

CROWD = 48
"""Half as many again as the engine has seats."""
MOST_TOKENS, FEWEST_TOKENS = 200, 25
AGAIN_S = 0.25
CAP = 8
PATIENCE_MS, HURRY_MS = 110_000, 900
"""Longer than the engine's first seats are taken on a busy machine; shorter than the wait that is called pressure."""
TRIES = 10
"""On a busy machine the time of some is over before the worker is asked: that is no refusal."""
REFUSALS = {httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.TOO_MANY_REQUESTS}
DOLLARS = 100
"""The big model costs one a token."""
OPTED_IN = f"degrade_output_tokens={CAP}"


@pytest.fixture(scope="module")
def keys(platform: Platform) -> dict[str, str]:
    """Return keys of a tenant that floods, and of one that prefers short answers to refusals."""
    platform.run("tenants", "create", "crowd")
    platform.run("tenants", "create", "thrifty", "--priority", "interactive", "--plan", OPTED_IN)
    made = {name: platform.run("keys", "create", name).stdout for name in ("crowd", "thrifty")}
    secrets = {name: re.findall(r"psk_\w+", text)[0] for name, text in made.items()}
    for secret in secrets.values():
        until("the gateway knows the key", partial(is_known, platform, secret))
    return secrets


def is_known(platform: Platform, key: str) -> bool:
    with platform.http(key) as http:
        return http.get("/v1/models").status_code == httpx.codes.OK


@asynccontextmanager
async def rush(platform: Platform, key: str) -> AsyncIterator[None]:
    """Keep enough streams asked for to fill the engine and its queue; leave them all at the end."""
    headers = {"authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=CROWD)
    async with AsyncExitStack() as open_:
        http = httpx.AsyncClient(base_url=platform.url, headers=headers, timeout=120, limits=limits, trust_env=False)
        await open_.enter_async_context(http)
        waiting = [asyncio.create_task(asks_again(http)) for _ in range(CROWD)]
        try:
            yield
        finally:
            for one in waiting:
                one.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)


async def asks_again(http: httpx.AsyncClient) -> None:
    """Read one long answer after another; ask for less if the engine is too slow to let so long ones wait."""
    tokens = MOST_TOKENS
    while True:
        async with http.stream("POST", CHAT, json=long_answer(tokens, stream=True)) as answer:
            if answer.status_code == httpx.codes.OK:
                async for _ in answer.aiter_raw():
                    pass
                continue
        tokens = max(FEWEST_TOKENS, tokens // 2)
        await asyncio.sleep(AGAIN_S)


HELLO = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}


def ask(platform: Platform, key: str, deadline_ms: int, tokens: int) -> httpx.Response:
    with platform.http(key, timeout_s=2 * PATIENCE_MS / 1e3) as http:
        return http.post(
            CHAT,
            json=chat("Count.", max_tokens=tokens, ignore_eos=True),
            headers={"x-penstock-deadline-ms": str(deadline_ms)},
        )


async def test_under_a_rush_who_opted_in_gets_a_short_answer_and_others_a_refusal(
    platform: Platform, keys: dict[str, str]
) -> None:
    """The capped answer says what it is, in header, body and ledger; the other tenant hears 503; then it is over."""
    fleet = Fleet(platform=platform)
    async with rush(platform, keys["crowd"]):
        await asyncio.to_thread(until, "there is pressure", lambda: fleet.counted(names.PRESSURE) == 1)
        asked = asyncio.create_task(asyncio.to_thread(ask, platform, keys["thrifty"], PATIENCE_MS, 200))
        refused = await asyncio.to_thread(ask, platform, keys["crowd"], HURRY_MS, 200)
        for _ in range(TRIES):
            if refused.status_code not in REFUSALS:
                refused = await asyncio.to_thread(ask, platform, keys["crowd"], HURRY_MS, 200)
        short = await asked
    assert refused.status_code in REFUSALS, refused.text
    assert short.status_code == httpx.codes.OK, short.text
    assert short.headers["x-penstock-degraded"] == "output-capped"
    assert short.json()["penstock"]["degraded"] == ["output-capped"]
    assert short.json()["choices"][0]["finish_reason"] == "length"
    assert short.json()["usage"]["completion_tokens"] == CAP
    assert int(refused.headers["retry-after"]) >= 1
    until("the row is delivered", lambda: lacks(platform) == ["output-capped"])
    until("the pressure is over", lambda: fleet.counted(names.PRESSURE) == 0)
    whole = ask(platform, keys["thrifty"], PATIENCE_MS, 3 * CAP)
    assert whole.json()["usage"]["completion_tokens"] == 3 * CAP
    assert "x-penstock-degraded" not in whole.headers
    fleet.until_idle()


def lacks(platform: Platform) -> list[str]:
    """Return what the ledger says of the opted-in tenant's answers."""
    return [row["degraded"] for row in platform.usage("thrifty")]


@pytest.fixture(scope="module")
def two_models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Yield a gateway before one engine each of a big and a small model; its tenant takes the small one for the big."""
    plan = Plan(degrade_model=Alias("small"), spend_per_day=MicroUsd(DOLLARS * 1_000_000))
    models = {"big": {"a": 1}, "small": {"a": 1}}
    with site(tmp_path_factory.mktemp("degrade"), models, plan=plan, start_s=20.0, dear="big") as made:
        yield made


@pytest.fixture
def models(two_models: Site) -> Site:
    for engine in two_models.engines.values():
        engine.behave(mode="ok")
    return two_models


def small_answered(answer: httpx.Response) -> bool:
    assert answer.status_code == httpx.codes.OK, answer.text
    degraded: bool = answer.headers.get("x-penstock-degraded") == "smaller-model"
    assert degraded == answer.headers["x-penstock-version"].startswith("small@")
    return degraded


def test_a_refused_request_is_answered_by_the_smaller_model(models: Site) -> None:
    """The wished model's engine sends it away: the small one answers, once, and the answer names it."""
    assert not small_answered(models.ask("big"))
    models.engines["big-a0"].behave(mode="refuse", reason="overloaded")
    answer = models.ask("big")
    assert small_answered(answer)
    assert answer.json()["model"].startswith("small@")
    with (
        models.gateway.http() as http,
        http.stream("POST", CHAT, json={**HELLO, "model": "big", "stream": True}) as told,
    ):
        assert told.headers["x-penstock-degraded"] == "smaller-model"
        assert "data: [DONE]" in told.read().decode()
    assert models.counted(names.DEGRADED, reason="smaller-model") == 2


def test_a_request_beyond_its_part_of_the_kv_cache_is_degraded_or_sent_again_to_wait(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A worker's refusal for that part caps the answer; one that can't be capped goes back and is answered whole."""
    plan = Plan(kv_part=0.25, degrade_output_tokens=CAP)
    with site(tmp_path_factory.mktemp("kv"), {"big": {"a": 1}}, plan=plan, start_s=20.0) as one:
        engine = one.engines["big-a0"]
        for fields, most in (({}, CAP), ({"response_format": {"type": "json_object"}}, 3 * CAP)):
            engine.behave(mode="refuse", reason="overloaded", why="tenant_kv", wait_s=30.0, times=1)
            before = engine.stats["requests"]
            answer = one.ask("big", max_tokens=3 * CAP, **fields)
            assert answer.status_code == httpx.codes.OK, answer.text
            assert answer.json()["usage"]["completion_tokens"] == most
            assert (answer.headers.get("x-penstock-degraded") == "output-capped") == (most == CAP)
            assert engine.stats["requests"] == before + 2


def test_what_the_budget_does_not_reach_the_smaller_model_answers(models: Site) -> None:
    """A long answer of the big model costs more than is left: the small one gives it, and a seed hears 402."""
    assert not small_answered(models.ask("big"))
    assert small_answered(models.ask("big", max_tokens=DOLLARS + 1))
    assert models.ask("big", max_tokens=DOLLARS + 1, seed=7).status_code == httpx.codes.PAYMENT_REQUIRED


def test_a_contract_is_not_broken_for_it(models: Site) -> None:
    """A request for the same answer again, or for an exact version, is refused as ever."""
    models.engines["big-a0"].behave(mode="refuse", reason="overloaded")
    for fields in ({"seed": 7}, {"tools": [{"type": "function", "function": {"name": "f"}}]}):
        assert models.ask("big", **fields).status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert models.ask("big@0123456789ab").status_code == httpx.codes.SERVICE_UNAVAILABLE


def test_where_both_refuse_the_refusal_is_told(models: Site) -> None:
    """With the small model full too the answer is 503, and no engine was asked for ever."""
    for engine in models.engines.values():
        engine.behave(mode="refuse", reason="overloaded")
    answer = models.ask("big")
    assert answer.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert int(answer.headers["retry-after"]) >= 1


def test_a_model_that_is_gone_is_replaced_without_a_try(models: Site) -> None:
    """The first request finds out; then the wished model isn't asked any more, and the small one answers at once."""
    models.engines["big-a0"].close()
    retries = models.counted(names.RETRIES)
    assert all(small_answered(models.ask("big")) for _ in range(20))
    assert models.counted(names.RETRIES) - retries <= 3
