"""A fault of seconds: its alerts fire while it burns, end soon after it, and say that it is over.

Prometheus itself evaluates the platform's own rules every 30 s, as ``penstock up --observe`` has it.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from penstock.apps import slos
from penstock.domain.models.model import Tier
from penstock.slo import recorded, rules
from penstock.slo.indicators import Measure
from penstock.slo.recorded import Promise
from tests.support.monitoring import burns, promtool
from tests.support.monitoring.burns import Stretch

FAULT_S = 19
"""A hung engine until its successor was ready, as an outsider timed it."""
CALM_S = 300
IDLE_S = 3600
BEGAN_S = IDLE_S + CALM_S
LOW, HIGH = 0.5, 50.0
"""Requests a second: ten are hurt by the fault, or a thousand."""
PAGES, TICKETS = ("1h", "6h"), ("1d", "3d")
ENDS_WITHIN_S = {**dict.fromkeys(PAGES, 360), **dict.fromkeys(TICKETS, 2250)}
"""Its window of now, the base window behind that, and two evaluations."""


def promised() -> Promise:
    (found,) = [one for one in rules.promises(slos.load()[Tier.STANDARD]) if one.objective == "availability"]
    return found


def traffic(per_s: float, *, idle_s: int, after_s: int) -> list[Stretch]:
    return [
        Stretch(length_s=idle_s, per_s=0),
        Stretch(length_s=CALM_S, per_s=per_s),
        Stretch(length_s=FAULT_S, per_s=per_s, bad_ratio=1),
        Stretch(length_s=after_s, per_s=per_s),
    ]


def asked(folder: Path, stretches: list[Stretch], **checks: list[dict[str, Any]]) -> str:
    """Run promtool over this traffic with these checks; return its objections."""
    promise = promised()
    assert isinstance(promise.measure, Measure)
    (group,) = rules.groups([promise], slos.windows())
    promtool.write(folder / "rules.yaml", {"groups": [group.plain()]})
    test = {"interval": "15s", "input_series": burns.input_series(promise.measure, stretches, 15), **checks}
    every = f"{recorded.INTERVAL_S}s"
    told = promtool.write(
        folder / "test.yaml", {"rule_files": ["rules.yaml"], "evaluation_interval": every, "tests": [test]}
    )
    return promtool.failures([told]).get(told, "")


def firing_at(folder: Path, window: str, stretches: list[Stretch], until_s: int) -> list[int]:
    """Return the seconds after the fault's begin at which the alert of a window fires."""
    query = f'count(ALERTS{{alertname="AvailabilityBurn",alertstate="firing",window="{window}"}})'
    times = range(BEGAN_S // 30 * 30, BEGAN_S + until_s, 30)
    checks = [{"expr": query, "eval_time": f"{at}s", "exp_samples": []} for at in times]
    told = asked(folder, stretches, promql_expr_test=checks)
    return [_seconds(found) - BEGAN_S for found in re.findall(r"time: (\w+),", told)]


def _seconds(text: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    return sum(int(count) * units[unit] for count, unit in re.findall(r"(\d+)([hms])", text))


@pytest.mark.parametrize("per_s", [LOW, HIGH], ids=["low", "high"])
@pytest.mark.parametrize("window", [*PAGES, *TICKETS])
def test_alerts_end_with_a_fault_of_seconds(tmp_path: Path, window: str, per_s: float) -> None:
    """After an idle hour, five calm minutes and 19 bad seconds, each fires within a minute, and no longer than now."""
    until_s = ENDS_WITHIN_S[window] + 600
    found = firing_at(tmp_path, window, traffic(per_s, idle_s=IDLE_S, after_s=until_s), until_s)
    assert found[0] <= 60
    assert found == list(range(found[0], found[-1] + 1, 30))
    assert FAULT_S < found[-1] < FAULT_S + ENDS_WITHIN_S[window]


def test_one_bad_request_in_an_idle_hour_raises_nothing(tmp_path: Path) -> None:
    """At very low traffic one failure is all of the window's requests, and no outage."""
    stretches = [
        Stretch(length_s=BEGAN_S, per_s=0),
        Stretch(length_s=10, per_s=0.1, bad_ratio=1),
        Stretch(length_s=900),
    ]
    for window in (*PAGES, *TICKETS):
        assert firing_at(tmp_path, window, stretches, 600) == []


def test_a_page_says_since_when_it_is_over(tmp_path: Path) -> None:
    """While the fault goes on nothing of its end is said; four minutes later the page names the last bad minute."""
    for folder, after_s, is_over in (("during", 30, False), ("after", 240, True)):
        (tmp_path / folder).mkdir()
        check = {"eval_time": f"{BEGAN_S + after_s}s", "alertname": "AvailabilityBurn", "exp_alerts": []}
        told = asked(tmp_path / folder, traffic(LOW, idle_s=IDLE_S, after_s=600), alert_rule_test=[check])
        assert "broke the promise" in told
        assert bool(re.search(r"Over since 1970-01-01 01:0[56]:\d\d", told)) is is_over, told
