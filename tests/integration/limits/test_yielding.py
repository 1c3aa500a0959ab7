"""A tenant that yields: over its rates it runs on spare capacity, or hears of its limit; its slots hold."""

import json

import pytest

from tests.integration.limits.conftest import YIELDS_RPM, YIELDS_SLOTS
from tests.support.gateways.shared_limits import Answer, Fleet, statuses

pytestmark = pytest.mark.integration


def is_over(answer: Answer) -> bool:
    return bool(answer.headers.get("x-penstock-standing") == "over-quota")


async def test_over_its_rates_a_tenant_that_yields_is_served(gateways: Fleet) -> None:
    """Four gateways let exactly the rate in as usual and the rest as over quota; requests at a time are never more."""
    answers = [await gateways.ask("yields", i % 4) for i in range(YIELDS_RPM + 6)]
    assert statuses(answers) == {200: YIELDS_RPM + 6}
    assert [is_over(answer) for answer in answers].count(False) in (YIELDS_RPM, YIELDS_RPM + 1)
    assert is_over(answers[-1])
    gateways.engine.behave(delay_ms=500)
    crowd = await gateways.burst("yields", 60)
    assert statuses(crowd) == {200: YIELDS_SLOTS, 429: 60 - YIELDS_SLOTS}
    reasons = {json.loads(answer.text)["error"]["reason"] for answer in crowd if answer.status == 429}
    assert reasons == {"tenant_concurrency"}


async def test_without_spare_capacity_it_hears_of_its_limit(gateways: Fleet) -> None:
    """Where the worker's door has no room for it, the answer is the 429 that it opted out of, with its wait."""
    for i in range(YIELDS_RPM + 1):
        await gateways.ask("yields", i % 4)
    gateways.engine.behave(mode="refuse", reason="overloaded")
    refused = await gateways.ask("yields")
    assert (refused.status, json.loads(refused.text)["error"]["reason"]) == (429, "tenant_requests")
    assert 1 <= int(refused.headers["retry-after"]) <= 60 // YIELDS_RPM + 1
