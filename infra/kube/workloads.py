"""What every workload has beside its pods: account, service, disruption budget, certificate, network policies."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_network

from infra.config.existing import SERVICE_NETWORKS
from infra.contract import Process, processes
from infra.kube.manifest import Manifest
from infra.kube.namespaces import (
    METADATA_SERVICE,
    POD_IDENTITY,
    QUERIES,
    SERVING,
    NetworkPolicy,
    block,
    namespace_peer,
    policy,
)

STORES = {"postgresql": 5432, "redis": 6379}
"""Ports of the region's stores by the contract's names of what is spoken there."""
API_SERVICE = tuple(f"{ip_network(one)[1]}/32" for one in SERVICE_NETWORKS)
"""The API server's own service: the first address of the one or other network that EKS gives services to."""
PRIORITIES = {
    "penstock-gateway": 100000,
    "penstock-controller": 90000,
    "penstock-worker": 80000,
    "penstock-runner": 70000,
}


def labels_of(workload: str, **more: str) -> dict[str, str]:
    """The labels that select a workload's pods."""
    return {"app.kubernetes.io/name": workload, "app.kubernetes.io/part-of": "penstock", **more}


def account(workload: str) -> Manifest:
    """A service account; its token is mounted only if a pod asks for it."""
    return Manifest(
        api_version="v1",
        kind="ServiceAccount",
        name=workload,
        namespace=SERVING,
        body={"automountServiceAccountToken": False},
    )


def service(process: Process, *ports: str, headless: bool = False) -> Manifest:
    """A service of some of its ports, which stays in the caller's zone while it can.

    Headless where callers choose the pod themselves.
    """
    numbers = {name: process.ports[name].number for name in ports}
    spec: dict[str, object] = {
        "selector": labels_of(process.name),
        "ports": [{"name": name, "port": number, "targetPort": name} for name, number in numbers.items()],
    }
    spec |= {"clusterIP": "None"} if headless else {"trafficDistribution": "PreferClose"}
    return Manifest(api_version="v1", kind="Service", name=process.name, namespace=SERVING, body={"spec": spec})


def disruption_budget(name: str, labels: Mapping[str, str]) -> Manifest:
    """One pod at a time may be moved, and a pod that is not ready anyway never blocks a drain."""
    return Manifest(
        api_version="policy/v1",
        kind="PodDisruptionBudget",
        name=name,
        namespace=SERVING,
        body={
            "spec": {
                "maxUnavailable": 1,
                "selector": {"matchLabels": dict(labels)},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            }
        },
    )


def priorities() -> Iterator[Manifest]:
    """Who is evicted last when a node fills up: what callers meet first."""
    for name, value in PRIORITIES.items():
        yield Manifest(
            api_version="scheduling.k8s.io/v1",
            kind="PriorityClass",
            name=name,
            body={"value": value, "globalDefault": False, "preemptionPolicy": "PreemptLowerPriority"},
        )


def network_policies(cidr: str) -> Iterator[Manifest]:
    """The serving namespace's network policies: exactly the calls of the contract, each opened at both ends.

    Probes come from the pod's own node, and operators through the API server: no policy stands in their way.
    """
    for process in processes().values():
        for allowed in (*_inward(process, cidr), *_outward(process, cidr)):
            yield policy(SERVING, allowed)


def _inward(process: Process, cidr: str) -> Iterator[NetworkPolicy]:
    known = {"clients": block(cidr), "metrics": namespace_peer("monitoring", name="prometheus")}
    known |= {name: namespace_peer(SERVING, name=name) for name in processes()}
    known["keda"] = namespace_peer("autoscaling", name="keda-operator")
    for port in process.ports.values():
        peers = tuple(known[caller] for caller in port.callers if caller in known)
        yield _policy(process, port.number, *peers, outward=False)


def _outward(process: Process, cidr: str) -> Iterator[NetworkPolicy]:
    for number in sorted({STORES[port] for port in process.calls.values() if port in STORES}):
        yield _policy(process, number, block(cidr))
    for name, port in process.calls.items():
        if name in processes():
            yield _policy(process, processes()[name].ports[port].number, namespace_peer(SERVING, name=name))
    if {"artifacts", "audit"} & process.calls.keys():
        yield _policy(process, 80, block(POD_IDENTITY))
    if "prometheus" in process.calls:
        yield _policy(process, QUERIES, namespace_peer("monitoring", name="prometheus"))
    if tls := [*_over_tls(process, cidr)]:
        yield _policy(process, 443, *tls)


def _over_tls(process: Process, cidr: str) -> Iterator[Mapping[str, object]]:
    if {"artifacts", "audit"} & process.calls.keys():  # S3 has addresses of its own, outside of this network
        yield block("0.0.0.0/0", METADATA_SERVICE, cidr, *API_SERVICE)
    if {"cluster", "keys"} & process.calls.keys():  # KMS has an endpoint in this network, and so has the API server
        yield block(cidr)
    if "cluster" in process.calls:
        yield from map(block, API_SERVICE)


def _policy(process: Process, port: int, *peers: Mapping[str, object], outward: bool = True) -> NetworkPolicy:
    return NetworkPolicy(
        name=f"{process.name}-{'to' if outward else 'from'}-{port}",
        outward=outward,
        ports=(port,),
        pods={"app.kubernetes.io/name": process.name},
        peers=peers,
    )
