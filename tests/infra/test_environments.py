"""Environments beside production: the small default, and one that does not serve from where AWS keeps its metrics."""

from pathlib import Path

from infra.capture.fleet import capture_fleet
from infra.config.load import load
from infra.config.model import Fleet
from infra.estimate.report import estimate
from infra.graph.captured import Capture
from infra.policy.registry import INVARIANTS
from infra.policy.view import build
from tests.infra.provider import as_stored

DEAREST_SMALL_USD = 4000


def breaches(fleet: Fleet, captures: tuple[Capture, ...]) -> list[str]:
    """Return what any invariant finds, over inputs or over what is stored, as each of them asks."""
    found = []
    for item in captures:
        for rule in INVARIANTS:
            graph = item.graph if rule.as_written else as_stored(item.graph)
            view = build(fleet, item.kind, item.region, graph)
            found += [f"{item.label}: {rule.id}: {message}" for _, message in rule.breaches(view)]
    return found


def test_the_small_environment_is_cheap(small: Fleet, small_captures: tuple[Capture, ...]) -> None:
    """Its month at the size it keeps is a few thousand dollars, within its own budgets."""
    months = [
        estimate(small.environment, item.kind, item.graph, small.region(item.region) if item.region else None)
        for item in small_captures
    ]
    assert all(month.within for month in months)
    assert 1000 < sum(month.usd for month in months) < DEAREST_SMALL_USD


def test_no_environment_must_serve_from_the_metrics_region(environments: Path) -> None:
    """Finding U5: an environment of the west alone is accepted, and hears of its health by a topic in the east."""
    path = environments / "prod/environment.yaml"
    told = path.read_text(encoding="utf-8")
    path.write_text(told.replace("regions: [us-east-1, us-west-2]", "regions: [us-west-2]"), encoding="utf-8")
    fleet = load("prod", environments)
    captures = capture_fleet(fleet)
    assert breaches(fleet, captures) == []
    mesh = captures[-1].graph
    (alarm,) = [node for node in mesh.of("aws:cloudwatch/metricAlarm:MetricAlarm") if "RegionOut" in node.name]
    (topic,) = mesh.of("aws:sns/topic:Topic")
    assert alarm.region == topic.region == "us-east-1"
    assert alarm.inputs["alarmActions"] == [topic.outputs["arn"]]
    assert {node.region for node in mesh.of("aws:wafv2/webAcl:WebAcl")} == {"us-west-2"}
