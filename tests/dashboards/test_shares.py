"""A panel in percent shows a part of a whole: nothing above 100 % but what says so, and nothing clamped to look so."""

import re
from typing import Any

import pytest

from dashboards.build import boards as built
from penstock.telemetry import names
from tests.support.monitoring import boards

SHARE = "percentunit"
PARTS = {
    f"{names.BATCHES_BEYOND_PREDICTED.name}_total": f"{names.BATCHES.name}_total",
    f"{names.PREFIX_HIT_TOKENS.name}_total": f"{names.PREFIX_QUERIED_TOKENS.name}_total",
    names.POOL_HELD_BYTES.name: names.POOL_LIMIT_BYTES.name,
}
"""Metrics that count a part of what another one counts, at the same moment."""
ABOVE = (names.DOOR_SATURATION.name, names.BUDGET_USED_RATIO.name)
"""Ratios that may exceed 100 %: their panels say what that means."""
SHARES = (
    names.ROLLOUT_SHARE_RATIO.name,
    names.KV_USED_RATIO.name,
    names.DOOR_STANDING_BACK.name,
    names.LOOP_SECONDS.name,
    names.CERTIFICATE_STARTS_AT.name,
    names.CERTIFICATE_ENDS_AT.name,
    names.DISK_USED_RATIO.name,
    names.SPOOL_FULL.name,
)
"""Shares by themselves: of an alias, of blocks, of a disk, of time; 0 or 1."""
METRIC = re.compile(r"((?:penstock_|tier_objective:)[\w:]+)(?:\{([^}]*)\})?")

PANELS = [(uid, panel) for uid, board in built().items() for panel in boards.panels(board)]
IN_PERCENT = [(uid, panel) for uid, panel in PANELS if panel["fieldConfig"]["defaults"]["unit"] == SHARE]


def divided(expr: str) -> tuple[str, str] | None:
    """Return the two sides of an expression's outermost division."""
    depth = 0
    for at, sign in enumerate(expr):
        depth += (sign == "(") - (sign == ")")
        if sign == "/" and not depth:
            return expr[:at].strip(), expr[at + 1 :].strip()
    return None


def is_share(expr: str) -> bool:
    """Tell whether the value is a part of a whole, by the selectors of both sides."""
    sides = divided(expr)
    if sides is None:
        found = expr_names(expr)
        return bool(found) and found <= {*SHARES, *(f"{name}_total" for name in SHARES), *ABOVE}
    part, whole = sides
    if part in whole:
        return True
    parts, wholes = METRIC.findall(part), METRIC.findall(whole)
    if len(parts) != 1 or len(wholes) != 1:
        return False
    (name, matchers), (whole_name, whole_matchers) = parts[0], wholes[0]
    if name.removesuffix("_ratio_sum") == whole_name.removesuffix("_ratio_count") and name != whole_name:
        return True  # the mean of observed shares
    of_the_whole = name == whole_name or PARTS.get(name) == whole_name
    return of_the_whole and {*whole_matchers.split(",")} - {""} <= {*matchers.split(",")}


def expr_names(expr: str) -> set[str]:
    """Return the metrics of an expression."""
    return {name for name, _ in METRIC.findall(expr)}


@pytest.mark.parametrize(("uid", "panel"), IN_PERCENT, ids=[f"{uid}: {panel['title']}" for uid, panel in IN_PERCENT])
def test_a_panel_in_percent_shows_a_share(uid: str, panel: dict[str, Any]) -> None:
    """The numerator picks a part of the denominator, or the metric is a share; what may exceed 100 % says so."""
    for target in panel["targets"]:
        assert is_share(target["expr"]), f"{uid}: {target['expr']}"
        if expr_names(target["expr"]) & set(ABOVE):
            assert "100 %" in panel["description"], f"{uid}: {panel['title']}"


def test_nothing_is_clamped() -> None:
    """A value that leaves its range is shown as it is: a clamp would hide a wrong query."""
    assert [one.place for one in boards.asked() if "clamp" in one.expr] == []


@pytest.mark.parametrize(
    ("expr", "is_one"),
    [
        ('sum(rate(penstock_a_total{x="1",z="2"}[1m])) / (sum(rate(penstock_a_total{z="2"}[1m])) > 0)', True),
        ('(sum(rate(penstock_a_total{x="1"}[1m])) or vector(0)) / (sum(rate(penstock_a_total{}[1m])) > 0)', True),
        ('sum(rate(penstock_a_total{z="2"}[1m])) / (sum(rate(penstock_a_total{x="1",z="2"}[1m])) > 0)', False),
        ("sum(rate(penstock_shed_total[1m])) / (sum(rate(penstock_came_total[1m])) > 0)", False),
        ("S / ((W + S) > 0)", True),
        ("1 - tier_objective:slo_budget_left:ratio", False),
    ],
)
def test_a_ratio_of_strangers_is_found(expr: str, is_one: bool) -> None:
    """Two metrics of which neither is a part of the other make no share, and neither does a whole over its part."""
    assert is_share(expr) is is_one
