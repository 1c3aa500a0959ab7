"""A tenant's part of the KV cache on real vLLM: its own requests wait for it, other tenants go on.

Who shared the engine's steps is read from the engine's own count of them: callers see both late on a busy machine.
"""

import asyncio
import re
from functools import partial
from typing import Any, NamedTuple

import httpx
import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.samples.chat_bodies import CHAT, PATIENT

pytestmark = pytest.mark.integration

WORDS, TOKENS = 100, 24
BODY = {"model": "smollm2", "max_tokens": TOKENS, "ignore_eos": True}
"""A prompt of some 130 tokens: with its answer five blocks of 32, of the 356 that SmolLM2's 256 MiB hold."""
PART = 0.03
"""Ten blocks: two of these requests."""
MANY = 5
PROBES = 3
"""Steps that the platform's own probes may share with one answer."""


class Ran(NamedTuple):
    """An answer's steps of the engine, the sequences in them all, its own among them, and its wait for the first."""

    steps: int
    beside: int
    waited_s: float
    degraded: str | None

    @property
    def was_crowded(self) -> bool:
        return self.beside > 2 * self.steps + PROBES


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


async def asked(platform: Platform, key: str, many: int = MANY, words: int = WORDS) -> list[Ran]:
    """Ask at once, each with a prompt of its own, so that no prefix is shared."""
    # One client for all: to make one takes as long as an answer on a busy machine.
    headers = {"authorization": f"Bearer {key}", **PATIENT}
    async with httpx.AsyncClient(base_url=platform.url, headers=headers, timeout=120, trust_env=False) as http:
        texts = [f"{number} " + " ".join(f"w{i % 10}" for i in range(words // 2)) for number in range(many)]
        bodies = [{**BODY, "messages": [{"role": "user", "content": text}]} for text in texts]
        answers = await asyncio.gather(*(http.post(CHAT, json=body) for body in bodies))
    assert [answer.status_code for answer in answers] == [httpx.codes.OK] * many, [answer.text for answer in answers]
    return [await asyncio.to_thread(ran, platform, answer) for answer in answers]


def ran(platform: Platform, answer: httpx.Response) -> Ran:
    """Return how an answer was made, once the gateway has the engine's account of it."""
    found: dict[str, Any] = {}

    def is_known() -> bool:
        found.update(operator.get(f"/v1/requests/{answer.headers['x-request-id']}").json())
        return bool(found.get("steps"))

    with platform.http(platform.admin_key) as operator:
        until("its steps are known", is_known)
    waited_s = found["attempts"][-1]["door"]["waited_s"]
    return Ran(found["steps"], found["beside"], waited_s, answer.headers.get("x-penstock-degraded"))


async def test_a_bounded_tenants_requests_wait_for_each_other_and_nobody_else_does(
    platform: Platform, keys: dict[str, str]
) -> None:
    """Five at once: without a bound more than two run together, with one two at most; a neighbour passes them."""
    free = await asked(platform, keys["free"])
    assert any(one.was_crowded for one in free)
    running = asyncio.create_task(asked(platform, keys["bound"]))
    await asyncio.sleep(0.3)
    (neighbour,) = await asked(platform, keys["neighbour"], 1, words=20)
    bound = await running
    assert sum(one.waited_s > 0 for one in bound) >= MANY - 2
    assert sum(one.beside for one in bound) <= 2 * sum(one.steps for one in bound) + 2 * neighbour.steps + MANY * PROBES
    assert neighbour.waited_s < sorted(one.waited_s for one in bound)[-2]
    assert not any(one.degraded for one in (*free, *bound))


def test_who_accepts_shorter_answers_gets_them_beyond_its_part(platform: Platform, keys: dict[str, str]) -> None:
    """The first two are whole, later ones are capped at once and say so; all are answered."""

    def is_calm() -> bool:  # the pressure of earlier tests' requests caps answers as well
        return asyncio.run(asked(platform, keys["short"], 1))[0].degraded is None

    until("no pressure caps answers", is_calm, within_s=60, every_s=1.0)
    found = asyncio.run(asked(platform, keys["short"], 2 * MANY))
    assert {one.degraded for one in found} == {None, "output-capped"}
    assert sum(one.degraded is None for one in found) >= 2
    assert not any(one.was_crowded for one in found)
