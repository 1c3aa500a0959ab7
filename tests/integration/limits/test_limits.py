"""Limits hold over all gateways together: none over, none lost, through every death of a process."""

import asyncio
import json
import math
import re
import time
from datetime import UTC, datetime

import openai
import pytest

from penstock.gateway.admission.reservations import HOLD_S
from tests.integration.limits.conftest import BUDGET_FOR, REQUESTS_PER_MIN, SDK_RPM, SLOTS, TOKENS_PER_MIN
from tests.support.gateways.shared_limits import GATEWAYS, OUTPUT_TOKENS, Fleet, statuses, until

pytestmark = pytest.mark.integration


async def test_a_rate_has_no_overshoot_over_four_gateways(gateways: Fleet) -> None:
    """Of 400 requests at once exactly the limit is admitted, and what a bucket refills meanwhile."""
    began = time.monotonic()
    answers = await gateways.burst("rate", 400)
    refilled = math.floor((time.monotonic() - began) * REQUESTS_PER_MIN / 60)
    counts = statuses(answers)
    assert set(counts) == {200, 429}
    assert REQUESTS_PER_MIN <= counts[200] <= REQUESTS_PER_MIN + refilled


async def test_answers_tell_what_is_left_and_refusals_how_long_to_wait(gateways: Fleet) -> None:
    """``x-ratelimit-*`` with every answer, ``Retry-After`` and the reason with every refusal."""
    given = await gateways.ask("once")
    told = {name: given.headers[f"x-ratelimit-{name}"] for name in ("limit-requests", "limit-tokens")}
    assert told == {"limit-requests": "1000", "limit-tokens": "1000000"}
    for measure in ("requests", "tokens"):
        assert int(given.headers[f"x-ratelimit-remaining-{measure}"]) < int(told[f"limit-{measure}"])
        assert given.headers[f"x-ratelimit-reset-{measure}"]
    answers = await gateways.burst("rate", REQUESTS_PER_MIN + 8)
    refused = [answer for answer in answers if answer.status == 429]
    assert refused
    for answer in refused:
        assert 1 <= int(answer.headers["retry-after"]) <= math.ceil(60 / REQUESTS_PER_MIN)
        error = json.loads(answer.text)["error"]
        assert (error["code"], error["reason"]) == ("rate_limit_exceeded", "tenant_requests")


def refused_by_sdk(gateways: Fleet, tenant: str, max_tokens: int) -> openai.APIStatusError:
    with openai.OpenAI(
        api_key=gateways.secrets[tenant], base_url=f"{gateways.gateways[0].url}/v1", max_retries=0
    ) as sdk:
        for _ in range(100):
            try:
                sdk.chat.completions.create(
                    model="toy", messages=[{"role": "user", "content": "hello"}], max_tokens=max_tokens
                )
            except openai.APIStatusError as error:
                return error
    raise AssertionError("nothing was refused")


def test_the_official_sdk_reads_limits_waits_and_reasons(gateways: Fleet) -> None:
    """A 429 is its RateLimitError, with OpenAI's headers, the exact wait and the limit that refused."""
    error = refused_by_sdk(gateways, "sdk", max_tokens=5)
    told = error.response.headers
    assert isinstance(error, openai.RateLimitError)
    assert (told["x-ratelimit-limit-requests"], told["x-ratelimit-remaining-requests"]) == (str(SDK_RPM), "0")
    assert (told["x-ratelimit-limit-tokens"], told["x-should-retry"]) == ("9000", "true")
    assert 0 < int(told["x-ratelimit-remaining-tokens"]) < 9000
    for measure in ("requests", "tokens"):
        assert re.fullmatch(r"\d+ms|\d+(\.\d+)?s|\d+m\d+s", told[f"x-ratelimit-reset-{measure}"])
    assert 0 < int(told["retry-after-ms"]) <= 60_000 / SDK_RPM
    assert int(told["retry-after"]) == math.ceil(int(told["retry-after-ms"]) / 1000)
    assert (error.code, told["x-penstock-reason"]) == ("rate_limit_exceeded", "tenant_requests")


def test_the_official_sdk_is_told_of_a_budgets_end(gateways: Fleet) -> None:
    """A 402 says which budget of what window, until when, and that trying again is of no use now."""
    while True:  # a request that has just ended still holds its money for a moment
        error = refused_by_sdk(gateways, "sdk-money", max_tokens=OUTPUT_TOKENS)
        told = error.response.headers
        if told["x-should-retry"] == "false":
            break
    now = datetime.now(UTC)
    assert (error.status_code, error.code, told["x-penstock-reason"]) == (402, "budget_exceeded", "tenant_spend")
    assert (told["x-should-retry"], told["x-ratelimit-limit-requests"]) == ("false", "9000")
    assert f"for {now:%Y-%m-%d} is used up; the day ends at " in error.message
    assert 0 < int(told["retry-after"]) <= 86_400


def test_a_request_larger_than_its_limit_is_not_tried_again(gateways: Fleet) -> None:
    """The SDK hears that no waiting helps."""
    error = refused_by_sdk(gateways, "sdk-small", max_tokens=500)
    assert (error.status_code, error.code) == (429, "request_exceeds_limit")
    assert error.response.headers["x-should-retry"] == "false"
    assert "retry-after" not in error.response.headers


async def test_slots_are_never_exceeded_at_the_engine(gateways: Fleet) -> None:
    """However many ask at once through four gateways, the engine never sees more than the plan allows."""
    gateways.engine.forget()
    gateways.engine.behave(delay_ms=300)
    answers = await gateways.burst("slots", 200)
    peak, counts = gateways.engine.stats["peak"], statuses(answers)
    assert set(counts) == {200, 429}
    assert peak == SLOTS


async def test_a_budget_for_k_admits_exactly_k(gateways: Fleet) -> None:
    """200 at once against money for 23: 23 answers, 177 refusals with 402, and no slack for a 24th later."""
    counts = statuses(await gateways.burst("budget", 200))
    assert counts == {200: BUDGET_FOR, 402: 200 - BUDGET_FOR}
    assert statuses(await gateways.burst("budget", 8)) == {402: 8}


async def test_tokens_overshoot_by_less_than_a_round_of_the_running_streams(gateways: Fleet) -> None:
    """Streams that outgrow what was reserved run on until the next round of top-ups, one second, and no longer."""
    step_s, wanted = 0.005, 2000
    gateways.engine.behave(step_ms=step_s * 1e3)
    began = time.monotonic()
    answers = await gateways.burst("tokens", 8, stream=True, max_tokens=wanted)
    took_s = time.monotonic() - began
    streams = [answer.text.count('"content":" the"') for answer in answers if answer.status == 200]
    refilled = took_s * TOKENS_PER_MIN / 60
    over = sum(streams) - TOKENS_PER_MIN - refilled
    bound = len(streams) * 1.0 / step_s
    assert len(streams) >= 3
    assert max(streams) < wanted
    assert over <= bound
    assert all("rate_limit_exceeded" in answer.text for answer in answers)


async def test_slots_of_a_killed_gateway_free_themselves(gateways: Fleet) -> None:
    """Kill -9 with both slots held: others are refused until the hold runs out, and served then."""
    gateways.gateways.append(doomed := gateways.start())
    gateways.engine.behave(mode="freeze", times=2)
    holding = [asyncio.create_task(gateways.ask("killed", GATEWAYS)) for _ in range(2)]
    await asyncio.sleep(1.0)
    assert (await gateways.ask("killed", 0)).status == 429
    doomed.process.kill()
    await asyncio.gather(*holding, return_exceptions=True)
    gateways.gateways.remove(doomed)

    async def served() -> bool:
        return (await gateways.ask("killed", 1)).status == 200

    await until(served, HOLD_S + 1.0)
