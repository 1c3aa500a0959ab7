"""What charts are told: secrets that exist, slices as they are asked for, alerts that reach people."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.config.load import load
from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import items, mapping, text
from infra.kube import observability
from infra.kube.gpu import CHECK

RELEASE = "kubernetes:helm.sh/v3:Release"
EAST = "platform-us-east-1"


@pytest.fixture(scope="module")
def releases(by_label: dict[str, Capture]) -> dict[str, Node]:
    return {node.name: node for node in by_label[EAST].graph.of(RELEASE)}


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


def test_one_of_two_replicas_reconciles(releases: dict[str, Node]) -> None:
    """Finding N15: external-secrets' replicas elect a leader, which its chart leaves off."""
    values = mapping(releases["external-secrets"].inputs, "values")
    assert (values["replicaCount"], values["leaderElect"]) == (2, True)


def test_files_that_are_not_built_are_an_error(tmp_path: Path) -> None:
    """Finding N12: a cluster without rules or boards would look like one that is well."""
    for load_ in (observability.rules, observability.dashboards):
        with pytest.raises(FileNotFoundError, match="make alerts dashboards"):
            list(load_(observability.Sources(rules=tmp_path, dashboards=tmp_path)))


def test_the_signature_check_needs_no_public_mirror(releases: dict[str, Node]) -> None:
    """policy-controller ends itself if Sigstore's TUF mirror can't be reached, unless it is told to do without."""
    values = mapping(releases["policy-controller"].inputs, "values.webhook")
    assert mapping(values, "extraArgs")["disable-tuf"] is True


def test_a_shifted_zone_gets_no_nodes(releases: dict[str, Node]) -> None:
    """Finding N14: the cluster takes part in zonal shift, so Karpenter does, too."""
    assert mapping(releases["karpenter"].inputs, "values.settings")["enableZonalShift"] is True


def test_silences_outlive_their_pods(releases: dict[str, Node]) -> None:
    """Each Alertmanager has a volume; of Grafana there is one, since replicas would each have their own boards."""
    values = mapping(releases["kube-prometheus-stack"].inputs, "values")
    assert mapping(values, "alertmanager.alertmanagerSpec.storage.volumeClaimTemplate")
    assert text(values, "grafana.replicas") in ("", "1")


def test_slices_are_offered_as_they_are_asked_for(by_label: dict[str, Capture], releases: dict[str, Node]) -> None:
    """A worker asks for a slice by its profile, and the device plugin names it so under one strategy alone."""
    # https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-mig.html
    (shipped,) = [node for node in by_label["serving-us-east-1"].graph.nodes if node.name.endswith("worker-pools")]
    assert '"nvidia.com/mig-' in str(mapping(shipped.inputs, "data")["pools.json"])
    assert text(releases["gpu-operator"].inputs, "values.mig.strategy") == "mixed"


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
    """The daemon compares the cache with a file of the node's root disk, both mounted from it; no node is without."""
    found = [node for node in by_label[EAST].graph.nodes if "weight-cache" in node.name and "Daemon" in node.type]
    bought = {mapping(node.inputs, "spec.template.spec.nodeSelector")["penstock.io/capacity"] for node in found}
    assert bought == {pool.capacity for pool in load("prod").region("us-east-1").pools if pool.gpu}
    for daemon in found:
        pod = mapping(daemon.inputs, "spec.template.spec")
        told = {text(item, "name"): text(item, "value") for item in items(pod, "containers.0.env")}
        mounted = {text(item, "mountPath"): text(item, "name") for item in items(pod, "containers.0.volumeMounts")}
        paths: Mapping[str, str] = {text(item, "name"): text(item, "hostPath.path") for item in items(pod, "volumes")}
        assert paths[mounted[told["CACHE"]]] == "/mnt/k8s-disks/0"
        assert paths[mounted[told["ROOT_DISK"]]] == "/usr/lib/os-release"
        assert told["CAPACITY"] == mapping(pod, "nodeSelector")["penstock.io/capacity"]
        assert CHECK in str(items(pod, "containers.0.command")[-1])
