"""Money on the running platform: budgets end in time, each request has one row, a restart forgets nothing."""

import csv
import io
import re

import httpx
import pytest

from tests.support.patience import until
from tests.support.platforms.local import Platform
from tests.support.samples.chat_bodies import CHAT

pytestmark = pytest.mark.integration

BUDGET_EXCEEDED = 402
PER_DAY_MICRO_USD = 12
TOKENS = 40
"""At the demo's price an answer of so many tokens costs about 3 micro-dollars."""
TENANT = "spender"


@pytest.fixture(scope="module")
def key(platform: Platform) -> str:
    """Return a key of a tenant with a small budget."""
    platform.run("tenants", "create", TENANT)
    platform.run("budgets", "set", f"tenant:{TENANT}", "--per-day", f"{PER_DAY_MICRO_USD / 1e6:.6f}")
    shown = platform.run("keys", "create", TENANT).stdout
    found = re.search(r"psk_\w+", shown)
    assert found is not None, shown
    until("the gateway knows the key", lambda: ask(platform, found[0], 1).status_code != httpx.codes.UNAUTHORIZED)
    return found[0]


def ask(platform: Platform, key: str, max_tokens: int) -> httpx.Response:
    body = {"model": "smollm2", "messages": [{"role": "user", "content": "Count."}], "ignore_eos": True}
    with platform.http(key) as http:
        return http.post(CHAT, json={**body, "max_tokens": max_tokens})


def rows(platform: Platform) -> list[dict[str, str]]:
    return platform.usage(TENANT)


def test_a_budget_ends_and_the_ledger_says_what_it_bought(platform: Platform, key: str) -> None:
    """Requests run until the budget is used up, then 402; rows add up to no more than the cap, each request once."""
    answers = [ask(platform, key, TOKENS) for _ in range(8)]
    served = [answer for answer in answers if answer.status_code == httpx.codes.OK]
    refused = [answer for answer in answers if answer.status_code == BUDGET_EXCEEDED]
    assert served
    assert refused
    assert len(served) + len(refused) == len(answers)
    assert refused[0].json()["error"]["code"] == "budget_exceeded"
    assert int(refused[0].headers["retry-after"]) > 0

    def billed() -> list[dict[str, str]]:
        return [row for row in rows(platform) if row["outcome"] == "ok" and int(row["output_tokens"]) > 1]

    until("the rows are delivered", lambda: len(billed()) >= len(served))
    assert len(billed()) == len(served)
    all_ = rows(platform)
    assert len({row["request"] for row in all_}) == len(all_)
    exported = platform.run("usage", "export", "--tenant", TENANT).stdout
    assert list(csv.DictReader(io.StringIO(exported)))[: len(all_)] == all_
    assert sum(int(row["cost"]) for row in all_) <= PER_DAY_MICRO_USD
    usage = [answer.json()["usage"] for answer in served]
    assert sorted(int(row["output_tokens"]) for row in billed()) == sorted(u["completion_tokens"] for u in usage)


def test_a_restarted_gateway_remembers_what_was_spent(platform: Platform, key: str) -> None:
    """After `kill -9` of the gateway the budget is as used up as before."""
    platform.kill("gateway")
    until("a gateway answers again", lambda: _answers(platform, key), within_s=60)
    until("the past is counted", lambda: ask(platform, key, TOKENS).status_code == BUDGET_EXCEEDED)


def _answers(platform: Platform, key: str) -> bool:
    try:
        return ask(platform, key, TOKENS).status_code in {httpx.codes.OK, BUDGET_EXCEEDED}
    except httpx.HTTPError:
        return False
