"""A tenant's part of the KV cache on real vLLM: its own requests wait for it, other tenants go on."""

import asyncio
import re
import time
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import httpx
import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.samples.chat_bodies import CHAT, PATIENT

pytestmark = pytest.mark.integration

WORDS, TOKENS = 100, 12
"""A prompt of some 130 tokens: with its answer five blocks of 32, of the 356 that SmolLM2's 256 MiB hold."""
PART = 0.03
"""Ten blocks: two of these requests."""
MANY = 5


class Inside(NamedTuple):
    """When a request's first and last tokens came: between them it was in the engine."""

    first: float
    last: float
    degraded: str | None


@pytest.fixture(scope="module")
def keys(platform: Platform) -> dict[str, str]:
    """Return keys of a bounded tenant, one without a bound, one that accepts shorter answers, and a neighbour."""
    plans = {
        "bound": [f"kv_part={PART}"],
        "free": [],
        "short": [f"kv_part={PART}", "degrade_output_tokens=4"],
        "neighbour": [],
    }
    secrets = {}
    for name, plan in plans.items():
        platform.run("tenants", "create", f"kv-{name}", *(word for one in plan for word in ("--plan", one)))
        secrets[name] = re.findall(r"psk_\w+", platform.run("keys", "create", f"kv-{name}").stdout)[0]
    for secret in secrets.values():
        until("the gateway knows the key", partial(is_known, platform, secret))
    return secrets


def is_known(platform: Platform, key: str) -> bool:
    with platform.http(key) as http:
        return http.get("/v1/models").status_code == httpx.codes.OK


async def ask(platform: Platform, key: str, number: int, words: int = WORDS) -> Inside:
    """Stream an answer to a prompt of its own, so that no prefix is shared."""
    body = {
        "model": "smollm2",
        "messages": [{"role": "user", "content": f"{number} " + " ".join(f"w{i % 10}" for i in range(words // 2))}],
        "max_tokens": TOKENS,
        "ignore_eos": True,
        "stream": True,
    }
    first = 0.0
    headers = {"authorization": f"Bearer {key}", **PATIENT}
    async with (
        httpx.AsyncClient(base_url=platform.url, headers=headers, timeout=120, trust_env=False) as http,
        http.stream("POST", CHAT, json=body) as answer,
    ):
        assert answer.status_code == httpx.codes.OK, await answer.aread()
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and '"content"' in line:
                first = first or time.monotonic()
    return Inside(first, time.monotonic(), answer.headers.get("x-penstock-degraded"))


def at_once(found: Sequence[Inside]) -> int:
    """Return how many were in the engine at one time."""
    return max(sum(other.first <= one.first < other.last for other in found) for one in found)


async def test_a_bounded_tenants_requests_wait_for_each_other_and_nobody_else_does(
    platform: Platform, keys: dict[str, str]
) -> None:
    """Five at once: without a bound more than two run together, with one two at most; a neighbour passes them."""
    free = await asyncio.gather(*(ask(platform, keys["free"], number) for number in range(MANY)))
    assert at_once(free) > 2
    running = [asyncio.create_task(ask(platform, keys["bound"], number)) for number in range(MANY)]
    await asyncio.sleep(0.3)
    neighbour = await ask(platform, keys["neighbour"], 0, words=20)
    bound = await asyncio.gather(*running)
    assert at_once(bound) <= 2
    assert neighbour.first < sorted(one.first for one in bound)[-2]
    assert not any(one.degraded for one in (*free, *bound))


async def test_who_accepts_shorter_answers_gets_them_beyond_its_part(platform: Platform, keys: dict[str, str]) -> None:
    """The first two are whole, later ones are capped at once and say so; all are answered."""
    found = await asyncio.gather(*(ask(platform, keys["short"], number) for number in range(MANY)))
    assert {one.degraded for one in found} == {None, "output-capped"}
    assert sum(one.degraded is None for one in found) >= 2
    assert at_once(found) <= 2
