"""One fleet of gateways for all tests of this folder; each test has a tenant of its own, so that none sees another."""

from collections.abc import Iterator

import pytest

from penstock.domain.money import MicroUsd
from penstock.domain.tenancy.tenant import OverQuota, Plan
from tests.support.gateways.shared_limits import MICRO_USD_PER_TOKEN, OUTPUT_TOKENS, Fleet, fleet

REQUESTS_PER_MIN = 20
SLOTS = 7
BUDGET_FOR = 23
TOKENS_PER_MIN = 1200
SDK_RPM = 3
OVERSPEND_FOR = 2000
OUTAGE_RPM = 40
YIELDS_RPM, YIELDS_SLOTS = 5, 12

PLANS = {
    "free": Plan(),
    "rate": Plan(requests_per_min=REQUESTS_PER_MIN),
    "slots": Plan(max_concurrent=SLOTS),
    "budget": Plan(spend_per_day=MicroUsd(BUDGET_FOR * OUTPUT_TOKENS * MICRO_USD_PER_TOKEN)),
    "tokens": Plan(tokens_per_min=TOKENS_PER_MIN),
    "killed": Plan(max_concurrent=2),
    "sdk": Plan(requests_per_min=SDK_RPM, tokens_per_min=9000),
    "sdk-money": Plan(requests_per_min=9000, spend_per_day=MicroUsd(OUTPUT_TOKENS * MICRO_USD_PER_TOKEN)),
    "sdk-small": Plan(tokens_per_min=100),
    "frozen-rate": Plan(requests_per_min=OUTAGE_RPM),
    "killed-rate": Plan(requests_per_min=OUTAGE_RPM),
    "outage-steady": Plan(requests_per_min=1_000_000, max_concurrent=1000),
    "outage-budget": Plan(spend_per_day=MicroUsd(1_000_000)),
    "yields": Plan(requests_per_min=YIELDS_RPM, max_concurrent=YIELDS_SLOTS, over_quota=OverQuota.YIELD),
    "trained": Plan(spend_per_day=MicroUsd(OVERSPEND_FOR * MICRO_USD_PER_TOKEN)),
    "trained-streams": Plan(spend_per_day=MicroUsd(OVERSPEND_FOR * MICRO_USD_PER_TOKEN)),
    "once": Plan(requests_per_min=1000, tokens_per_min=1_000_000),
}


@pytest.fixture(scope="session")
def _fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("limits"), PLANS) as running:
        yield running


@pytest.fixture
def gateways(_fleet: Fleet) -> Fleet:
    """Return the fleet with its engine well."""
    _fleet.engine.behave()
    return _fleet
