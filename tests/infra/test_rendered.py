"""What the pinned charts really bring, as Helm renders them with our values, agrees with everything around them.

The facts are Helm's (`infra/rendered`), not our values'; what somebody has agreed to stands in `agreed.yaml`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.catalogue.charts import charts, mirrored, repositories
from infra.config.load import load
from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import dig, mapping, text
from infra.kube.namespaces import LEVELS, OPERATORS, POD_NAME
from infra.rendered import checked_in
from infra.rendered.checked_in import OF, REGISTRY, facts
from infra.rendered.mirror import commands, copies

AGREED: dict[str, list[Any]] = yaml.safe_load(Path(__file__).with_name("agreed.yaml").read_text(encoding="utf-8"))
RELEASE = "kubernetes:helm.sh/v3:Release"
STRICTEST = ("restricted", "baseline", "privileged")


@pytest.fixture(scope="module")
def platform(by_label: dict[str, Capture]) -> Capture:
    return by_label[OF[1]]


@pytest.fixture(scope="module")
def releases(platform: Capture) -> dict[str, Node]:
    return {node.name: node for node in platform.graph.of(RELEASE)}


def workloads() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each rendered workload by ``chart/name``."""
    for chart, found in facts().items():
        for one in found["workloads"]:
            yield f"{chart}/{one['name']}", one


def today() -> date:
    return datetime.now(UTC).date()


# -- the facts themselves ----------------------------------------------------------------------


def test_every_release_was_rendered_as_it_is(releases: dict[str, Node]) -> None:
    """Facts of another version or of other values say nothing: render again (`make infra-charts`)."""
    assert set(releases) == set(facts()) == set(charts())
    told = [
        checked_in.stale(name, text(node.inputs, "version"), node.inputs["values"], today())
        for name, node in releases.items()
    ]
    assert [reason for reason in told if reason] == []


@pytest.mark.parametrize(
    ("version", "values", "days", "reason"),
    [("9.9.9", None, 0, "pinned at 9.9.9"), (None, {}, 0, "other values"), (None, None, 91, "91 days ago")],
)
def test_stale_facts_are_told(
    releases: dict[str, Node], version: str | None, values: object, days: int, reason: str
) -> None:
    """A raised pin, a changed value and a season each make the facts stale, in words."""
    node, read = releases["keda"], facts()["keda"]["read"]
    late = date.fromisoformat(read["date"]) + timedelta(days=days)
    given = node.inputs["values"] if values is None else values
    assert reason in checked_in.stale("keda", version or read["version"], given, late)
    assert checked_in.stale("unheard-of", "1", {}, late) == "unheard-of was never rendered"


def test_a_chart_that_changed_under_its_version_is_refused(tmp_path: Path) -> None:
    """A publisher may replace a chart: one more byte is another chart; under another version it is a new one."""
    read = facts()["keda"]["read"]
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/a.yaml").write_text("a: 1")
    before = checked_in.content_digest(tmp_path)
    (tmp_path / "templates/a.yaml").rename(tmp_path / "b.yaml")
    assert before != checked_in.content_digest(tmp_path)
    assert "has other content than on" in checked_in.changed("keda", read["version"], before)
    assert checked_in.changed("keda", "9.9.9", before) == ""
    assert [one for one in facts() if checked_in.changed(one, facts()[one]["read"]["version"], before) == ""] == []


def test_the_autoscaler_is_of_the_clusters_minor(fleet: Fleet) -> None:
    """Upstream tests Cluster Autoscaler against the same minor alone; what counts is the image and not the chart."""
    (image,) = facts()["cluster-autoscaler"]["images"]
    assert image.rpartition(":v")[2].rpartition(".")[0] == fleet.environment.kubernetes.version


# -- images ------------------------------------------------------------------------------------


def test_every_image_lies_in_the_mirror(by_label: dict[str, Capture]) -> None:
    """Each image that a chart pulls is of our registry, in a repository that the account has, by tag or digest."""
    made = {text(node.inputs, "name") for node in by_label["global"].graph.of("aws:ecr/repository:Repository")}
    for chart, found in facts().items():
        paths = {image.removeprefix(f"{REGISTRY}/").partition("@")[0].partition(":")[0] for image in found["images"]}
        assert all(image.startswith(f"{REGISTRY}/mirror/") for image in found["images"]), chart
        assert paths <= made
        assert f"charts/{chart}" in made
        assert paths == {mirrored(image) for image in charts()[chart]["images"]}, chart
        assert all(":" in image for image in found["images"]), chart


def test_the_mirror_is_filled_with_what_is_asked_for() -> None:
    """Each reference that a chart renders is the target of one copy, and no target's tag moves or is missing."""
    targets = {target for _, target in copies(REGISTRY, facts())}
    for found in facts().values():
        for image in found["images"]:
            assert image.partition("@")[0] in targets or "@" in image
    assert not [target for target in targets if target.rpartition(":")[2] in {"", "latest", "latest-dev"}]
    assert all(source.count(":") + source.count("@") >= 1 for source, _ in copies(REGISTRY, facts()))


@pytest.mark.parametrize("name", ["dev", "prod"])
def test_the_mirror_is_told_what_its_account_has_room_for(name: str) -> None:
    """Each line fills a repository that the environment makes, after a login to each registry of AWS's own."""
    pins = load(name).environment.charts
    lines, entered = list(commands("HOST", pins)), set()
    room = repositories(tuple(pins))
    for line in lines:
        words = line.split()
        if "login" in words:
            entered.add(words[words.index("login") + 1])
        if words[:2] == ["crane", "copy"]:
            host = words[2].partition("/")[0]
            assert host in entered or ".dkr.ecr." not in host
            assert words[3].removeprefix("HOST/").rpartition(":")[0] in room
    pushed = [
        line.split()[2].removesuffix(f"-{pins[chart].version}.tgz")
        for chart in pins
        for line in lines
        if f"push {chart}-" in line
    ]
    assert sorted(pushed) == sorted(pins)


def test_a_pin_that_was_not_rendered_is_not_mirrored(fleet: Fleet) -> None:
    """Facts of another version name other images."""
    pins = {"keda": replace(fleet.environment.charts["keda"], version="9.9.9")}
    with pytest.raises(ValueError, match=r"keda is pinned at 9\.9\.9"):
        list(commands("HOST", pins))


# -- pods --------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", sorted({one["namespace"] for _, one in workloads()}))
def test_a_namespace_enforces_just_what_its_pods_need(namespace: str) -> None:
    """The level is the strictest that admits every pod of the charts: none is refused, and none could ask for more."""
    needed = max((one["level"] for _, one in workloads() if one["namespace"] == namespace), key=STRICTEST.index)
    assert LEVELS[namespace] == needed


@pytest.mark.parametrize(
    ("what", "field"), [("unplaced", "node_selector"), ("unweighed", "asks_for_memory"), ("unranked", "priority")]
)
def test_pods_have_a_place_a_weight_and_a_rank(what: str, field: str) -> None:
    """Operators stand on their own nodes, make them look full, and are not evicted first."""
    told = {name: one[field] for name, one in workloads()}
    ours = {
        name: any(key.startswith("penstock.io/") for key in value) for name, value in told.items() if what == "unplaced"
    }
    assert {name for name, value in (ours or told).items() if not value} == set(AGREED[what])


def test_operators_are_read_where_they_tell() -> None:
    """Each operator that Prometheus reads has a pod of that name, in that namespace, with that port."""
    found = {(one["namespace"], one["labels"].get(POD_NAME), port) for _, one in workloads() for port in one["ports"]}
    asked = {(space, name, port) for space, pods in OPERATORS.items() for name, port in pods.items()}
    assert asked <= found


# -- what pods meet ------------------------------------------------------------------------------


def test_webhooks_that_fail_closed_are_agreed_to() -> None:
    """No webhook stops objects of everybody while its program is away, and each other one has a row."""
    closed = [(f"{chart}/{hook['name']}", hook) for chart, found in facts().items() for hook in found["webhooks"]]
    closed = [(name, hook) for name, hook in closed if hook["fails_closed"]]
    assert {name for name, _ in closed} == set(AGREED["fail_closed"])
    core = {
        name for name, hook in closed if hook["everywhere"] and any(one.startswith("core/") for one in hook["asks"])
    }
    assert core == set()


def test_no_chart_takes_up_ingresses() -> None:
    """Without a class, an Ingress that somebody makes starts nothing."""
    assert [name for found in facts().values() for name in found["classes"]] == []


def test_nobody_else_reads_every_secret() -> None:
    """An account with a right to Secrets of all namespaces is one that needs it."""
    readers = {line.partition(":")[0] for found in facts().values() for line in found["reads_secrets_everywhere"]}
    assert readers == set(AGREED["read_secrets"])


def test_kinds_outlive_their_release(releases: dict[str, Node]) -> None:
    """CRDs in templates are kept when a release goes; a chart that can't keep them is protected as a whole."""
    lost = {chart for chart, found in facts().items() if not all(found["crds"]["in_templates"].values())}
    assert lost == set(AGREED["not_kept"])
    assert all(releases[chart].options.protect for chart in lost)


def test_kinds_outside_templates_are_raised_by_hand() -> None:
    """Helm installs them once: the page on raising a pin names each such chart."""
    page = (Path(checked_in.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    raised = page[page.index("### Raising a pin") :]
    assert [name for name, found in facts().items() if found["crds"]["outside"] and f"`{name}`" not in raised] == []


def test_monitors_and_rules_are_loaded(releases: dict[str, Node]) -> None:
    """Prometheus selects every monitor and rule that charts bring, among them the alert that always fires."""
    spec = mapping(releases["kube-prometheus-stack"].inputs, "values.prometheus.prometheusSpec")
    for kind, labels in _brought():
        assert mapping(spec, f"{kind}Selector.matchLabels").items() <= labels.items()
        assert dig(spec, f"{kind}NamespaceSelector") == {}
    assert "Watchdog" in facts()["kube-prometheus-stack"]["alerts"]["names"]
    monitor = mapping(releases["gpu-operator"].inputs, "values.dcgmExporter.serviceMonitor.additionalLabels")
    assert mapping(spec, "serviceMonitorSelector.matchLabels") == monitor


def _brought() -> Iterator[tuple[str, Mapping[str, str]]]:
    for found in facts().values():
        for one in found["monitors"]:
            yield one["kind"][0].lower() + one["kind"][1:], one["labels"]
        if found["alerts"]:
            yield "rule", found["alerts"]["labels"]
