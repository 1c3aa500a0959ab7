"""What every Penstock workload has beside its pods: account, service, disruption budget, certificate, doors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING, Door, block, namespace_peer, policy

GATEWAY_PORT = 8080
CONTROLLER_PORT = 8081
METRICS_PORT = 9464
"""Of gateway and controller: numbers of tenants are no caller's to read."""
AGENT_PORT = 8090
ENGINE_PORT = 8100
POSTGRES_PORT = 5432
VALKEY_PORT = 6379
PRIORITIES = {"penstock-gateway": 100000, "penstock-controller": 90000, "penstock-worker": 80000}


def labels_of(workload: str, **more: str) -> dict[str, str]:
    """The labels that select a workload's pods."""
    return {"app.kubernetes.io/name": workload, "app.kubernetes.io/part-of": "penstock", **more}


def account(workload: str) -> Manifest:
    """A service account; its token is mounted only where a pod asks for it."""
    return Manifest(
        api_version="v1",
        kind="ServiceAccount",
        name=workload,
        namespace=SERVING,
        body={"automountServiceAccountToken": False},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """A workload's service: its ports by name. Headless where callers choose the pod themselves."""

    workload: str
    ports: Mapping[str, int]
    headless: bool = False
    selector: Mapping[str, str] = field(default_factory=dict)

    def service(self) -> Manifest:
        """The service, which stays in the caller's zone while it can."""
        spec: dict[str, object] = {
            "selector": dict(self.selector or labels_of(self.workload)),
            "ports": [{"name": name, "port": port, "targetPort": name} for name, port in self.ports.items()],
        }
        spec |= {"clusterIP": "None"} if self.headless else {"trafficDistribution": "PreferClose"}
        return Manifest(api_version="v1", kind="Service", name=self.workload, namespace=SERVING, body={"spec": spec})


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
    """Who is evicted last when a node fills up: the front door."""
    for name, value in PRIORITIES.items():
        yield Manifest(
            api_version="scheduling.k8s.io/v1",
            kind="PriorityClass",
            name=name,
            body={"value": value, "globalDefault": False, "preemptionPolicy": "PreemptLowerPriority"},
        )


def doors(cidr: str) -> Iterator[Manifest]:
    """The serving room's doors, exactly the arrows of the architecture: client, gateway, worker, controller, stores."""
    gateway, controller, worker = (namespace_peer(SERVING, name=name) for name in ("gateway", "controller", "worker"))
    eyes = namespace_peer("monitoring", name="prometheus")
    outside = block(cidr)
    anywhere = block("0.0.0.0/0", "169.254.169.254/32")
    wanted = (
        ("gateway", False, (GATEWAY_PORT,), (outside,)),
        ("gateway", False, (METRICS_PORT,), (eyes,)),
        ("gateway", True, (AGENT_PORT, ENGINE_PORT), (worker,)),
        ("gateway", True, (CONTROLLER_PORT,), (controller,)),
        ("gateway", True, (POSTGRES_PORT, VALKEY_PORT), (outside,)),
        ("controller", False, (CONTROLLER_PORT,), (gateway, worker)),
        ("controller", False, (METRICS_PORT,), (eyes,)),
        ("controller", True, (AGENT_PORT,), (worker,)),
        ("controller", True, (POSTGRES_PORT,), (outside,)),
        ("worker", False, (AGENT_PORT, ENGINE_PORT), (gateway, controller, worker, eyes)),
        ("worker", True, (CONTROLLER_PORT,), (controller,)),
        ("worker", True, (AGENT_PORT, ENGINE_PORT), (worker,)),
        ("gateway", True, (443,), (anywhere,)),
        ("controller", True, (443,), (anywhere,)),
        ("worker", True, (443,), (anywhere,)),
        ("gateway", True, (80,), (block("169.254.170.23/32"),)),
        ("controller", True, (80,), (block("169.254.170.23/32"),)),
        ("worker", True, (80,), (block("169.254.170.23/32"),)),
    )
    for workload, outward, ports, peers in wanted:
        way = "to" if outward else "from"
        name = f"{workload}-{way}-{'-'.join(str(port) for port in ports)}"
        pods = {"app.kubernetes.io/name": workload}
        yield policy(SERVING, Door(name=name, outward=outward, ports=ports, pods=pods, peers=peers))
