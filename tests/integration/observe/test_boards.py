"""Every query of every board is asked of a real Prometheus that has watched real traffic, and worse."""

import asyncio
import re
import sys
import threading
import time
from typing import Any

import pytest

from dashboards.build import boards as built
from tests.support.monitoring import boards
from tests.support.patience import until
from tests.support.platforms import full
from tests.support.platforms.observed import Observed
from tests.support.scenarios import all_traffic

pytestmark = [pytest.mark.observe, pytest.mark.timeout(600)]

Watched = tuple[Observed, float]
WINDOW = "15s"
CALM_S, REST_S, AFTER_S = 25.0, 8.0, 25.0
EMPTY = {
    "penstock_degraded": "no tenant of this traffic asked to be degraded",
    "penstock_background_failures": "none fails",
    "penstock_worker_lost": "engines end here, and no worker",
    "penstock_oldest_transaction": "no runner of jobs looks for it: tests/integration/jobs has some",
    "penstock_job": "no runner of jobs belongs to this platform: tests/integration/jobs has some",
    "penstock_webhook": "no runner of this platform sends webhooks: tests/integration/jobs has some",
    "penstock_runner_": "no runner of jobs belongs to this platform: tests/integration/jobs has some",
    "penstock_safety_judge": "no pack of this traffic has a judge that confirms",
    "penstock_kept_responses": "a platform without a runner keeps no responses: tests/integration/jobs has some",
    "penstock_scale_": "no version scales: tests/integration/scaling has some",
}
"""Queries that have no answer on either platform, by a part of their text, with the reason."""
OF_A_POOL = (
    *("penstock_limits_reach", "penstock_limits_gateways", "penstock_limits_alone", "penstock_certificate_ends"),
    *("penstock_rollout", "penstock_gateway_auto_choices", "penstock_adapter", "penstock_pool", "penstock_wake"),
    *("penstock_batch", "penstock_prepare", *(f'stage=~"{one}"' for one in ("adapter", "batch_wait", "prepare"))),
    *('stage=~"compute"', "penstock_safety_hold", "penstock_safety_held"),
)
"""Queries that have an answer in the drill alone, on a platform with a pool, adapters, rules and a rollout."""
BY_CHANCE = {
    "penstock_ttft_error_ratio": "an engine predicts once it has learned its pace from steps that nothing disturbed"
}
"""Queries that have an answer on a quiet machine."""


@pytest.fixture(scope="module")
def watched(observed: Observed) -> Watched:
    """Return the platform after traffic in which an engine and a gateway were killed, and when that began."""
    began = time.time()
    secrets = all_traffic.keys(observed.platform)
    running = threading.Thread(
        target=lambda: asyncio.run(all_traffic.run(observed.platform, secrets, seconds=CALM_S + REST_S + AFTER_S))
    )
    running.start()
    time.sleep(CALM_S)
    observed.platform.kill("gateway")
    time.sleep(REST_S)  # its successor shall see the rest
    observed.platform.kill("engine")
    running.join()
    until("the engines are back", lambda: "ready" in str(observed.query("penstock_workers{state='ready'} > 0")))
    time.sleep(2.0)  # two scrapes
    return observed, began


@pytest.fixture(scope="module")
def swapped(crowded: Observed) -> Watched:
    """Return the platform after traffic for which models slept and woke, and when that began."""
    began = time.time()
    full.run(crowded.platform)
    time.sleep(2.0)  # two scrapes
    return crowded, began


def values(observed: Observed, expr: str, began: float) -> int:
    """Return how many values a query has over the time since ``began``."""
    found = observed.api("query_range", query=expr, start=began, end=time.time(), step=1)["result"]
    return sum(value != "NaN" for series in found for _, value in series["values"])


def empty(*watched: Watched) -> list[boards.Asked]:
    """Return the queries of all boards that have an answer on none of these platforms; an error raises."""
    asked = list(boards.asked())
    filled = {one: boards.filled(one.expr, window=WINDOW) for one in asked}
    found = {one: [values(where, expr, began) for where, began in watched] for one, expr in filled.items()}
    panels = {(one.board, one.panel) for one in asked}
    without = [one for one, numbers in found.items() if not any(numbers)]
    sys.stdout.write(f"boards: {len(panels)} panels, {len(asked)} queries, {len(without)} empty, 0 errors\n")
    sys.stdout.write("".join(f"  empty: {one.place}: {one.expr}\n" for one in without))
    return without


def unexplained(without: list[boards.Asked], *reasons: str) -> list[str]:
    return [one.place for one in without if not any(part in one.expr for part in (*reasons, *BY_CHANCE))]


def refuted(without: list[boards.Asked], *reasons: str) -> list[str]:
    return [part for part in reasons if not any(part in one.expr for one in without)]


def test_no_query_errs_and_none_is_empty(watched: Watched) -> None:
    """Each panel's queries run as Grafana would send them, and have an answer but for a listed few."""
    without = empty(watched)
    assert unexplained(without, *EMPTY, *OF_A_POOL) == []
    assert refuted(without, *EMPTY, *OF_A_POOL) == [], "they have answers"


@pytest.mark.drill
def test_a_pool_and_adapters_fill_the_rest(watched: Watched, swapped: Watched) -> None:
    """Queries about sleeping models, adapters, rules and rollouts have an answer on a platform with all of them."""
    without = empty(watched, swapped)
    assert unexplained(without, *EMPTY) == []
    assert refuted(without, *EMPTY) == [], "they have answers"


def test_each_variable_has_values(watched: Watched) -> None:
    """What a board can be narrowed to is found as Grafana finds it, and narrows to what it says."""
    observed, began = watched
    variables = built()["penstock-overview"]["templating"]["list"][1:]
    for variable in variables:
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", boards.filled(variable["query"]["query"]))
        assert asked is not None
        found: list[Any] = observed.api(f"label/{asked[2]}/values", **{"match[]": asked[1], "start": began})
        assert found, variable["name"]


def test_a_board_narrowed_to_one_tenant_shows_that_one_alone(watched: Watched) -> None:
    """The variable reaches the queries: other tenants are gone, and this one is still there."""
    observed, began = watched
    (query,) = (one for one in boards.asked() if one.panel == "Requests by tenant")
    expr = boards.filled(query.expr, window=WINDOW, values={"tenant": "light"})
    found = observed.api("query_range", query=expr, start=began, end=time.time(), step=1)["result"]
    assert [series["metric"]["tenant"] for series in found] == ["light"]


def test_restarts_and_rollouts_are_drawn(watched: Watched) -> None:
    """What was done to the platform shows as lines under every panel."""
    observed, began = watched
    for note in built()["penstock-overview"]["annotations"]["list"]:
        assert values(observed, boards.filled(note["target"]["expr"]), began) > 0, note["name"]


def test_every_rule_is_judged(watched: Watched) -> None:
    """No rule that was loaded fails on what a running platform says."""
    observed, _ = watched
    rules = [rule for group in observed.api("rules")["groups"] for rule in group["rules"]]
    assert rules
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] == "err"] == []
