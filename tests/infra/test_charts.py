"""Third-party charts come up with our values: pods that are admitted, images that exist, facts that they ask for.

`charts.yaml` says what each chart's templates do with values; it is written from the charts, not from our values.
"""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import Json, dig, items, mapping, text
from infra.kube.gpu import CHECK

CHARTS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("charts.yaml").read_text(encoding="utf-8"))
RELEASE = "kubernetes:helm.sh/v3:Release"
REGISTRY = "111122223333.dkr.ecr.us-east-1.amazonaws.com"
EAST = "platform-us-east-1"


@pytest.fixture(scope="module")
def releases(by_label: dict[str, Capture]) -> dict[str, Node]:
    return {node.name: node for node in by_label[EAST].graph.of(RELEASE)}


def at(values: Json, path: str) -> Json:
    return dig(values, path)


def references(chart: str, values: Json) -> Iterator[str]:
    """Join each image as the chart's template does."""
    for image in CHARTS[chart]["images"]:
        name = at(values, image.get("repository", "")) or image.get("default", "")
        registry = at(values, image.get("registry", ""))
        yield f"{registry}/{name}" if registry else str(name)


def test_every_chart_is_known(releases: dict[str, Node]) -> None:
    """What is installed is what the table speaks of, and each row names its source."""
    assert set(releases) == set(CHARTS)
    assert all(row["source"] for row in CHARTS.values())


def refused(chart: str, values: Json) -> list[str]:
    """Say what Pod Security `restricted` would refuse in the chart's pods."""
    row, faults = CHARTS[chart], list[str]()
    faults += [f"{path} is off" for path in row.get("enabled", ()) if at(values, f"{path}.enabled") is not True]
    for path in row["pods"]:
        pod = mapping(values, path)
        if pod.get("runAsNonRoot") is not True or at(pod, "seccompProfile.type") != "RuntimeDefault":
            faults.append(f"{path} lacks runAsNonRoot or seccompProfile")
    for path in row.get("containers", ()):
        box = mapping(values, path)
        if box.get("allowPrivilegeEscalation") is not False or items(box, "capabilities.drop") != ["ALL"]:
            faults.append(f"{path} lacks allowPrivilegeEscalation false or capabilities.drop ALL")
    if not row.get("containers") and not row.get("fixed"):
        faults.append("no container context")
    return faults


@pytest.mark.parametrize("chart", [name for name, row in CHARTS.items() if row.get("level") is None])
def test_pod_security_admits_every_pod(releases: dict[str, Node], by_label: dict[str, Capture], chart: str) -> None:
    """Finding P1: each pod of a chart in a `restricted` namespace carries the four fields where its template reads."""
    assert refused(chart, releases[chart].inputs["values"]) == []
    assert level(by_label[EAST], releases[chart]) == "restricted"


def level(item: Capture, release: Node) -> str:
    named = text(release.inputs, "namespace")
    labels = [mapping(node.inputs, "metadata.labels") for node in item.graph.nodes if is_namespace(node, named)]
    return str(labels[0]["pod-security.kubernetes.io/enforce"])


def is_namespace(node: Node, name: str) -> bool:
    return node.type.endswith(":Namespace") and text(node.inputs, "metadata.name") == name


@pytest.mark.parametrize("chart", [name for name, row in CHARTS.items() if row.get("level")])
def test_a_chart_that_can_not_be_restricted_stands_apart(
    releases: dict[str, Node], by_label: dict[str, Capture], chart: str
) -> None:
    """Where a chart's own templates exclude `restricted`, its namespace enforces just what they allow."""
    assert level(by_label[EAST], releases[chart]) == CHARTS[chart]["level"]


def test_a_missing_field_is_found(releases: dict[str, Node]) -> None:
    """The chart's defaults alone are refused: an empty context, or a switch that is off."""
    assert refused("cluster-autoscaler", {}) != []
    assert refused("policy-controller", {"webhook": {"securityContext": {"enabled": False}}}) != []


@pytest.mark.parametrize("chart", CHARTS)
def test_every_image_is_mirrored(by_label: dict[str, Capture], releases: dict[str, Node], chart: str) -> None:
    """Findings G2, P2, P9: each image of each pod lies in a repository that the account really has."""
    made = {text(node.inputs, "name") for node in by_label["global"].graph.of("aws:ecr/repository:Repository")}
    found = list(references(chart, releases[chart].inputs["values"]))
    assert found
    assert [one for one in found if not one.startswith(f"{REGISTRY}/mirror/")] == []
    assert [one for one in found if one.removeprefix(f"{REGISTRY}/") not in made] == []
    assert f"charts/{chart}" in made


@pytest.mark.parametrize("chart", CHARTS)
def test_charts_are_told_what_they_ask_for(releases: dict[str, Node], chart: str) -> None:
    """Findings P4 to P6: facts that pods can't find out are given, and selectors stand where the chart reads them."""
    values = releases[chart].inputs["values"]
    assert [path for path in CHARTS[chart].get("needed", ()) if not at(values, path)] == []
    for path in CHARTS[chart].get("selectors", ()):
        assert mapping(values, path) == {"penstock.io/role": "system"}


def test_grafana_waits_for_its_account(by_label: dict[str, Capture], releases: dict[str, Node]) -> None:
    """Finding P5: the secret that Grafana starts with is kept from Secrets Manager, and the release waits for it."""
    graph = by_label[EAST].graph
    (kept,) = [node for node in graph.nodes if node.type.endswith(":ExternalSecret")]
    release = releases["kube-prometheus-stack"]
    assert text(kept.inputs, "spec.target.name") == text(release.inputs, "values.grafana.admin.existingSecret")
    assert kept.urn in release.dependencies
    keys = {text(item, "secretKey") for item in items(kept.inputs, "spec.data")}
    admin = mapping(release.inputs, "values.grafana.admin")
    assert keys == {admin["userKey"], admin["passwordKey"]}
    remote = {text(item, "remoteRef.key") for item in items(kept.inputs, "spec.data")}
    secrets = {text(node.inputs, "name") for node in by_label["region-us-east-1"].graph.of(SECRET)}
    assert remote <= secrets


SECRET = "aws:secretsmanager/secret:Secret"


def test_every_monitor_is_selected(releases: dict[str, Node]) -> None:
    """Finding P7: the label of the GPU exporter's monitor is the one that Prometheus selects, from any namespace."""
    label = mapping(releases["gpu-operator"].inputs, "values.dcgmExporter.serviceMonitor.additionalLabels")
    spec = mapping(releases["kube-prometheus-stack"].inputs, "values.prometheus.prometheusSpec")
    for kind in ("serviceMonitor", "podMonitor", "rule"):
        assert mapping(spec, f"{kind}Selector.matchLabels") == label
        assert dig(spec, f"{kind}NamespaceSelector") == {}


def test_slices_are_offered_as_they_are_asked_for(by_label: dict[str, Capture], releases: dict[str, Node]) -> None:
    """A worker asks for a slice by its profile, and the device plugin names it so under one strategy alone."""
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
    (shipped,) = [node for node in by_label["serving-us-east-1"].graph.nodes if node.name.endswith("worker-pools")]
    assert '"nvidia.com/mig-' in str(mapping(shipped.inputs, "data")["pools.json"])
    assert text(releases["gpu-operator"].inputs, "values.mig.strategy") == "mixed"


def test_alerts_reach_people(by_label: dict[str, Capture], releases: dict[str, Node]) -> None:
    """Finding P8: what is not routed elsewhere goes to the region's alarm topic, by the account's own identity."""
    config = mapping(releases["kube-prometheus-stack"].inputs, "values.alertmanager.config")
    receivers = {text(item, "name"): item for item in items(config, "receivers")}
    topics = [text(item, "topic_arn") for item in items(receivers[text(config, "route.receiver")], "sns_configs")]
    made = [text(node.outputs, "arn") for node in by_label["region-us-east-1"].graph.of("aws:sns/topic:Topic")]
    assert topics == made


@pytest.mark.parametrize(("cache", "wanted"), [("same", 1), ("/dev/shm", 0)])
def test_the_cache_check_can_fail(tmp_path: Path, cache: str, wanted: int) -> None:
    """Finding P10: a cache on the root disk's device is refused, one on a device of its own is not."""
    root = tmp_path / "os-release"
    root.write_text("x")
    environment = {
        "PATH": "/usr/bin:/bin",
        "CACHE": str(tmp_path) if cache == "same" else cache,
        "ROOT_DISK": str(root),
    }
    done = subprocess.run(["sh", "-c", CHECK], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == wanted, done.stdout


def test_the_check_runs_where_it_looks(by_label: dict[str, Capture]) -> None:
    """The daemon compares the cache with a file of the node's root disk, both mounted from the node."""
    (daemon,) = [
        node for node in by_label[EAST].graph.nodes if node.name.endswith("weight-cache") and "Daemon" in node.type
    ]
    pod = mapping(daemon.inputs, "spec.template.spec")
    told = {text(item, "name"): text(item, "value") for item in items(pod, "containers.0.env")}
    mounted = {text(item, "mountPath"): text(item, "name") for item in items(pod, "containers.0.volumeMounts")}
    paths: Mapping[str, str] = {text(item, "name"): text(item, "hostPath.path") for item in items(pod, "volumes")}
    assert paths[mounted[told["CACHE"]]] == "/mnt/k8s-disks/0"
    assert paths[mounted[told["ROOT_DISK"]]] == "/usr/lib/os-release"
    assert CHECK in str(items(pod, "containers.0.command")[-1])
