"""Environments beside production: the small default, and one that does not serve from where AWS keeps its metrics."""

from dataclasses import replace
from pathlib import Path

import pytest

from infra.capture.fleet import capture_fleet
from infra.config.load import ENVIRONMENTS, load
from infra.config.model import Fleet
from infra.config.problems import ConfigRefusedError
from infra.estimate.report import estimate
from infra.graph.captured import Capture
from infra.policy.registry import INVARIANTS
from infra.policy.view import build
from tests.infra.model.judge import faults
from tests.infra.provider import as_stored

DEAREST_SMALL_USD = 4000
GONE = {
    "deletionProtection": False,
    "enableDeletionProtection": False,
    "forceDelete": True,
    "forceDestroy": True,
    "recoveryWindowInDays": False,
    "skipFinalSnapshot": True,
}
"""How each lock that AWS has stands before an end."""


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


@pytest.mark.parametrize("name", sorted(one.name for one in ENVIRONMENTS.iterdir() if one.name not in ("dev", "prod")))
def test_an_environment_of_yours_keeps_the_rules(name: str) -> None:
    """Whatever lies beside the shipped two is judged as they are: by every rule, and by the walks over its graph."""
    fleet = load(name)
    captures = capture_fleet(fleet)
    assert breaches(fleet, captures) == []
    assert [one for one in faults(fleet, captures) if not one.startswith("access: ")] == []  # cases name the shipped


def test_a_copy_is_an_environment_of_its_own(environments: Path) -> None:
    """The first day's copy of a folder with a name of its own is accepted, and refused while it has another's name."""
    (environments / "prod").rename(environments / "live")
    with pytest.raises(ConfigRefusedError, match="write `name: live`"):
        load("live", environments)
    path = environments / "live/environment.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("name: prod", "name: live"), encoding="utf-8")
    assert load("live", environments).environment.state_bucket == "penstock-live-111122223333-state"


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


def test_an_environment_that_is_not_kept_can_be_taken_down(small: Fleet) -> None:
    """With `keep: false` nothing stops or outlives `pulumi destroy` but the record, and the policies let it be so."""
    fleet = replace(small, environment=replace(small.environment, keep=False))
    captures = capture_fleet(fleet)
    nodes = [node for item in captures for node in item.graph.resources()]
    assert breaches(fleet, captures) == []
    assert [node.name for node in nodes if node.options.protect] == []
    assert {node.name for node in nodes if node.options.retain_on_delete} == {"audit-us-east-1"}  # bucket and key
    stops = {
        (node.name, key)
        for node in nodes
        for key, wanted in GONE.items()
        if key in node.inputs and bool(node.inputs[key]) != wanted
    }
    assert stops == {("audit-us-east-1", "forceDestroy")}


def test_a_kept_environment_keeps_what_is_not_made_again(small: Fleet, small_captures: tuple[Capture, ...]) -> None:
    """Every resource with a lock of its own in AWS is protected in the state, too."""
    assert small.environment.keep
    for node in (node for item in small_captures for node in item.graph.resources()):
        locks = {key: bool(node.inputs[key]) for key in GONE if key in node.inputs}
        assert not locks or (node.options.protect and all(locks[key] != GONE[key] for key in locks)), node.name
