"""The deployments and the processes agree: every manifest of every environment against the platform's contract."""

from dataclasses import replace

import pytest

from infra.contract import ContractError, is_bare, process
from infra.graph.captured import Capture
from infra.graph.nodes import Graph
from infra.graph.values import items, text
from infra.kube import pods
from tests.infra import seam
from tests.infra.edits import EAST_PLATFORM, EAST_REGION, EAST_SERVING, POOLS, Spoil, drop, matching, put, shipped
from tests.infra.written import pools_of, with_workers

EAST = "us-east-1"
POD = "spec/template/spec"
MAIN = f"{POD}/containers/0"
WORKER = "template/spec/containers/0"
GATEWAY, CONTROLLER, BASE = "penstock-gateway", "penstock-controller", "l40s"


def in_region(captures: tuple[Capture, ...], region: str) -> tuple[Capture, ...]:
    return tuple(item for item in captures if item.region == region)


@pytest.mark.parametrize("environment", ["prod", "dev"])
def test_the_halves_agree(captures: tuple[Capture, ...], small_captures: tuple[Capture, ...], environment: str) -> None:
    """Review 3: each pod is told what its process reads, finds its files, and listens where it is looked for."""
    every = captures if environment == "prod" else small_captures
    for region in {one.region for one in every} - {""}:
        mine = in_region(every, region)
        assert list(seam.faults(mine)) == []
        assert {text(told, "name") for _, told, _ in seam.pods(with_workers(mine))} == set(seam.PROCESSES)


def kind_of(name: str) -> str:
    """Return what a workload is: gateways have a volume each."""
    return "StatefulSet" if name == GATEWAY else "Deployment"


def variable(name: str, old: str, new: dict[str, object]) -> Spoil:
    """Write another variable in the place of one of a workload."""

    def spoil(graph: Graph) -> Graph:
        (node,) = matching(graph, kind_of(name), name)
        names = [text(one, "name") for one in items(node.inputs, f"{MAIN}.env".replace("/", "."))]
        return put(kind_of(name), name, f"{MAIN}/env/{names.index(old)}", new)(graph)

    return spoil


def of_worker(device: str, old: str, new: dict[str, object]) -> Spoil:
    """Write another variable in the place of one of the workers on a device."""

    def spoil(graph: Graph) -> Graph:
        pools = pools_of(graph)
        assert pools
        (found,) = (one for one in pools.devices if one.name == device)
        names = [one["name"] for one in found.template["spec"]["containers"][0]["env"]]  # type: ignore[index]
        return shipped(device, f"template/spec/containers/0/env/{names.index(old)}", new)(graph)

    return spoil


def volume(name: str, called: str, new: dict[str, object]) -> Spoil:
    """Put another volume in the place of one of a workload."""

    def spoil(graph: Graph) -> Graph:
        (node,) = matching(graph, kind_of(name), name)
        names = [text(one, "name") for one in items(node.inputs, f"{POD}.volumes".replace("/", "."))]
        return put(kind_of(name), name, f"{POD}/volumes/{names.index(called)}", {"name": called, **new})(graph)

    return spoil


def without_volumes(name: str, called: str) -> Spoil:
    """Put a folder that ends with the pod in the place of each replica's own volume."""

    def spoil(graph: Graph) -> Graph:
        (node,) = matching(graph, "StatefulSet", name)
        volumes = [
            *items(node.inputs, f"{POD}.volumes".replace("/", ".")),
            {"name": called, "emptyDir": {"sizeLimit": "1024Mi"}},
        ]
        graph = put("StatefulSet", name, "spec/volumeClaimTemplates", [])(graph)
        return put("StatefulSet", name, f"{POD}/volumes", volumes)(graph)

    return spoil


MUTATIONS: dict[str, tuple[str, Spoil]] = {
    "a name that nobody reads": (
        EAST_SERVING,
        variable(GATEWAY, "PENSTOCK_LIMITS_URL", pods.from_secret("PENSTOCK_CACHE_URL", "gateway", "limits-url")),
    ),
    "another process's variable": (
        EAST_SERVING,
        of_worker(BASE, "PENSTOCK_WORKER_PORT", pods.plain("PENSTOCK_PORT", "8100")),
    ),
    "a value of another type": (
        EAST_SERVING,
        variable(GATEWAY, "PENSTOCK_DRAIN_GRACE_S", pods.plain("PENSTOCK_DRAIN_GRACE_S", "5m")),
    ),
    "a key that no secret has": (
        EAST_SERVING,
        variable(CONTROLLER, "PENSTOCK_DATABASE_URL", pods.from_secret("PENSTOCK_DATABASE_URL", "controller", "url")),
    ),
    "a port that nobody listens on": (
        EAST_SERVING,
        put("Deployment", CONTROLLER, f"{MAIN}/ports/0/containerPort", 8081),
    ),
    "a probe of a page that is not there": (
        EAST_SERVING,
        shipped(BASE, f"{WORKER}/readinessProbe/httpGet/path", "/ready"),
    ),
    "a probe on the clients' port": (
        EAST_SERVING,
        put("StatefulSet", GATEWAY, f"{MAIN}/livenessProbe/httpGet/port", "public"),
    ),
    "files of another secret": (
        EAST_SERVING,
        volume(GATEWAY, "files", {"secret": {"secretName": "gateway", "defaultMode": 0o440}}),
    ),
    "files open to everybody": (
        EAST_SERVING,
        volume(GATEWAY, "files", {"secret": {"secretName": "gateway-files", "defaultMode": 0o444}}),
    ),
    "a secret that Secrets Manager has not": (EAST_REGION, drop("Secret", "signing-public-key")),
    "nobody makes a worker's key": (EAST_SERVING, shipped(BASE, "template/spec/initContainers", [])),
    "a folder that holds too little": (EAST_SERVING, volume(CONTROLLER, "home", {"emptyDir": {"sizeLimit": "64Mi"}})),
    "a spool that ends with its pod": (EAST_SERVING, without_volumes(GATEWAY, "home")),
    "a spool that nobody keeps": (EAST_SERVING, put("StatefulSet", GATEWAY, "spec/volumeClaimTemplates", [])),
    "a wrong selector": (
        EAST_SERVING,
        put("Service", "penstock-worker", "spec|selector|app.kubernetes.io/name", "workers"),
    ),
    "a service of a port by another name": (
        EAST_SERVING,
        put("Service", CONTROLLER, "spec/ports/0/targetPort", "http"),
    ),
    "a monitor of the requests' port": (
        EAST_PLATFORM,
        put("PodMonitor", "penstock-worker", "spec/podMetricsEndpoints/0/port", "gate"),
    ),
    "a network policy that is missing": (EAST_SERVING, drop("NetworkPolicy", "penstock-gateway-to-8100")),
    "a network policy at the wrong port": (
        EAST_SERVING,
        put("NetworkPolicy", "penstock-controller-from-8079", "spec/ingress/0/ports/0/port", 8081),
    ),
    "workers in the controller's pod": (
        EAST_SERVING,
        variable(CONTROLLER, "PENSTOCK_FLEET", pods.plain("PENSTOCK_FLEET", "local")),
    ),
    "pools elsewhere than they are looked for": (
        EAST_SERVING,
        variable(CONTROLLER, "PENSTOCK_POOLS_FILE", pods.plain("PENSTOCK_POOLS_FILE", "/etc/penstock/pools.json")),
    ),
    "no pools": (EAST_SERVING, drop("ConfigMap", POOLS)),
    "a controller without a token": (
        EAST_SERVING,
        put("Deployment", CONTROLLER, f"{POD}/automountServiceAccountToken", False),
    ),
    "a target group at the wrong port": (EAST_REGION, put("TargetGroup", "gateway", "port", 8081)),
    "variables of Kubernetes' own": (EAST_SERVING, put("StatefulSet", GATEWAY, f"{POD}/enableServiceLinks", None)),
    "killed while it drains": (EAST_SERVING, shipped(BASE, "template/spec/terminationGracePeriodSeconds", 610)),
    "a GPU that may be done without": (
        EAST_SERVING,
        of_worker(BASE, "PENSTOCK_DEVICE", pods.plain("PENSTOCK_DEVICE", "auto")),
    ),
}


def spoilt(captures: tuple[Capture, ...], label: str, spoil: Spoil) -> tuple[Capture, ...]:
    east = in_region(captures, EAST)
    return tuple(replace(item, graph=spoil(item.graph)) if item.label == label else item for item in east)


@pytest.mark.parametrize("mistake", MUTATIONS)
def test_a_mistake_is_found(captures: tuple[Capture, ...], mistake: str) -> None:
    """A realistic mistake on either side of the seam is told."""
    label, spoil = MUTATIONS[mistake]
    assert any(seam.faults(spoilt(captures, label, spoil)))


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (pods.plain("PENSTOCK_CACHE_URL", "redis://x"), "no PENSTOCK_CACHE_URL"),
        (pods.plain("PENSTOCK_GATEWAYS", "33"), "out of bounds"),
        (pods.plain("PENSTOCK_GATEWAYS", "three"), "no integer"),
        (pods.plain("PENSTOCK_METRICS_TENANTS", "all"), "not one of"),
        (pods.plain("PENSTOCK_DATABASE_URL", "postgresql://u:p@h"), "refer to a secret"),
        (pods.plain("PENSTOCK_DATABASE_URL", "postgresql://h"), "refer to a secret"),
        (pods.plain("AWS_REGION", "x"), "is not told"),
    ],
)
def test_what_nobody_reads_cannot_be_written(extra: dict[str, object], told: str) -> None:
    """A program that says a wrong name, value or too little ends before anything is registered."""
    with pytest.raises(ContractError, match=told):
        process("gateway").judge([extra])


@pytest.mark.parametrize(
    ("address", "holds_none"),
    [
        ("http://prometheus.monitoring.svc:9090", True),
        ("https://metrics.example.com/prefix", True),
        ("https://reader:word@metrics.example.com", False),
        ("https://metrics.example.com/?token=word", False),
        ("metrics.example.com", False),
    ],
)
def test_an_address_without_a_password_is_no_secret(address: str, holds_none: bool) -> None:
    """What may hold a password comes from a secret, unless all that it holds is where a server of ours is."""
    setting = process("controller").setting("PENSTOCK_BUDGETS_URL")
    assert (setting.kind, is_bare(address)) == ("secret", holds_none)


def test_workers_read_how_their_node_was_bought(clusters: tuple[Capture, ...]) -> None:
    """Review 3.13: a pod stands on any machine, so it reads from the node whether the two minutes' notice counts."""
    workers = [
        seam.told(contract, pod) for _, contract, pod in seam.pods(clusters) if text(contract, "name") == "worker"
    ]
    written = {
        (value, file)
        for one in workers
        for value, file in [(text(one["PENSTOCK_NOTICE_S"], "value"), text(one["PENSTOCK_CAPACITY_FILE"], "value"))]
    }
    assert written == {("120", "/cache/.penstock-capacity")}


def test_no_engine_sees_the_platforms_key(clusters: tuple[Capture, ...]) -> None:
    """ADR 0051: the container that makes a worker's key is the only one of the pod that mounts what it is made of."""
    for _, contract, pod in seam.pods(clusters):
        if text(contract, "name") == "worker":
            mounts = [text(one, "name") for one in items(seam.main_of(contract, pod), "volumeMounts")]
            assert "key-maker" not in mounts
            assert "key-maker" in [text(one, "name") for one in items(pod, "volumes")]
