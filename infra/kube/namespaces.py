"""Namespaces: a Pod Security level each, deny-all in both directions, then what is allowed by name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pulumi

from infra.components.site import Component, Site
from infra.contract import processes
from infra.kube.manifest import Manifest, apply

SERVING = "penstock"
GPU = "gpu-operator"
PRIVILEGED = (GPU,)
"""Where driver plumbing runs; nothing of ours may stand there but the daemon that prepares the weight cache."""

LEVELS: Mapping[str, str] = {
    SERVING: "restricted",
    "autoscaling": "restricted",
    "cert-manager": "restricted",
    "edge-system": "restricted",
    "external-secrets": "restricted",
    GPU: "privileged",
    "image-policy": "restricted",
    "monitoring": "restricted",
}
METADATA_SERVICE = "169.254.169.254/32"
POD_IDENTITY = "169.254.170.23/32"
NAME = "kubernetes.io/metadata.name"
POD_NAME = "app.kubernetes.io/name"
QUERIES = 9090
"""Where Prometheus is asked."""
PROMETHEUS = {POD_NAME: "prometheus"}
OPERATORS: Mapping[str, Mapping[str, int]] = {
    "autoscaling": {
        "aws-cluster-autoscaler": 8085,
        "karpenter": 8080,
        "keda-operator": 8080,
        "keda-operator-metrics-apiserver": 8080,
    },
    "cert-manager": {"cert-manager": 9402, "webhook": 9402, "cainjector": 9402},
    "edge-system": {"aws-load-balancer-controller": 8080},
    "external-secrets": {"external-secrets": 8080, "external-secrets-webhook": 8080},
    GPU: {"gpu-operator": 8080},
    "image-policy": {"policy-controller": 9090},
}
"""Where operators tell of themselves, by namespace and pod. Their charts' own monitors can't be used: the kind of a
monitor comes with the chart of Prometheus, which needs some of these operators first.
"""
GPU_METRICS = 9400


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkPolicy:
    """What one policy allows: in or out, to pods of labels, with peers as NetworkPolicy has them."""

    name: str
    outward: bool
    ports: tuple[int, ...]
    pods: Mapping[str, str]
    peers: tuple[Mapping[str, object], ...]
    protocols: tuple[str, ...] = ("TCP",)


def namespace_peer(namespace: str, *, name: str = "", label: str = POD_NAME) -> dict[str, object]:
    """Pods of a namespace, narrowed by the label of their name if given."""
    peer: dict[str, object] = {"namespaceSelector": {"matchLabels": {NAME: namespace}}}
    if name:
        peer["podSelector"] = {"matchLabels": {label: name}}
    return peer


def block(cidr: str, *but: str) -> dict[str, object]:
    """Addresses outside the cluster."""
    return {"ipBlock": {"cidr": cidr, "except": list(but)} if but else {"cidr": cidr}}


def policy(namespace: str, allowed: NetworkPolicy) -> Manifest:
    """What is allowed, as a manifest."""
    ports = [{"protocol": protocol, "port": port} for protocol in allowed.protocols for port in allowed.ports]
    rule = {"to" if allowed.outward else "from": list(allowed.peers), "ports": ports}
    direction = "egress" if allowed.outward else "ingress"
    return Manifest(
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        name=allowed.name,
        namespace=namespace,
        body={
            "spec": {
                "podSelector": {"matchLabels": dict(allowed.pods)},
                "policyTypes": [direction.capitalize()],
                direction: [rule],
            }
        },
    )


def deny_all(namespace: str) -> Manifest:
    """Nothing in, nothing out, for every pod."""
    spec = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return Manifest(
        api_version="networking.k8s.io/v1",
        kind="NetworkPolicy",
        name="deny-all",
        namespace=namespace,
        body={"spec": spec},
    )


def _dns() -> NetworkPolicy:
    peer = {
        "namespaceSelector": {"matchLabels": {NAME: "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    return NetworkPolicy(name="allow-dns", outward=True, ports=(53,), pods={}, peers=(peer,), protocols=("UDP", "TCP"))


def operator_policies(cidr: str) -> Iterator[NetworkPolicy]:
    """What every operator needs: the API server and AWS by TLS, pod credentials, webhooks, and to be scraped."""
    yield NetworkPolicy(
        name="allow-apis", outward=True, ports=(443,), pods={}, peers=(block("0.0.0.0/0", METADATA_SERVICE),)
    )
    yield NetworkPolicy(name="allow-credentials", outward=True, ports=(80,), pods={}, peers=(block(POD_IDENTITY),))
    hooks = (443, 6443, 8443, 9443, 10250)
    yield NetworkPolicy(name="allow-webhooks", outward=False, ports=hooks, pods={}, peers=(block(cidr),))
    yield NetworkPolicy(
        name="allow-scrape", outward=False, ports=metrics_ports(), pods={}, peers=(namespace_peer("monitoring"),)
    )


def metrics_ports() -> tuple[int, ...]:
    """Return the ports at which Prometheus reads operators, its own chart's programs and the GPU exporter."""
    return tuple(sorted({GPU_METRICS, KUBE_STATE, *(port for pods in OPERATORS.values() for port in pods.values())}))


KUBE_STATE = 8080
"""Of kube-state-metrics, and of the reloaders beside Prometheus and Alertmanager."""
ITS_OWN = (3000, 9090, 9093, 9153, 10250)
"""Grafana, Prometheus, Alertmanager, CoreDNS; kubelets and the operator of Prometheus."""


def _between(
    name: str, namespace: str, port: int, *ends: str, label: str = POD_NAME, protocols: tuple[str, ...] = ("TCP",)
) -> Iterator[NetworkPolicy]:
    """Both halves of one way between two programs of a namespace, caller and called.

    The VPC CNI opens a Service's cluster address only if the Service's own selector has the peer's label: the label
    must be one that pods and Service share (aws/amazon-network-policy-controller-k8s, pkg/resolvers/endpoints.go).
    """
    caller, called = ends
    for outward, own, other in ((True, caller, called), (False, called, caller)):
        yield NetworkPolicy(
            name=f"{name}-{'out' if outward else 'in'}",
            outward=outward,
            ports=(port,),
            pods={label: own},
            peers=(namespace_peer(namespace, name=other, label=label),),
            protocols=protocols,
        )


def _special(namespace: str, cidr: str) -> Iterator[NetworkPolicy]:
    if namespace == "monitoring":
        ours = {one.ports[one.metrics[0]].number for one in processes().values() if one.ports}
        targets = tuple(sorted({*metrics_ports(), *ITS_OWN} | ours))
        yield NetworkPolicy(name="allow-scraping", outward=True, ports=targets, pods={}, peers=(block(cidr),))
        asking = [name for name, one in processes().items() if "prometheus" in one.calls]
        ours_too = tuple(namespace_peer(SERVING, name=name) for name in asking)
        yield NetworkPolicy(name="allow-promises", outward=False, ports=(QUERIES,), pods=PROMETHEUS, peers=ours_too)
        queries = (namespace_peer("autoscaling"), namespace_peer("monitoring"))
        yield NetworkPolicy(name="allow-queries", outward=False, ports=(9090, 9093, 3000), pods={}, peers=queries)
        yield from _between("allow-gossip", namespace, 9094, "alertmanager", "alertmanager", protocols=("TCP", "UDP"))
        yield from _between("allow-boards", namespace, QUERIES, "grafana", "prometheus")
        yield from _between("allow-silences", namespace, 9093, "grafana", "alertmanager")
    if namespace == "autoscaling":
        prometheus = (namespace_peer("monitoring", name="prometheus"),)
        yield NetworkPolicy(name="allow-queries-out", outward=True, ports=(9090,), pods={}, peers=prometheus)
        scaler = processes()["controller"].ports["scaler"].number
        controllers = (namespace_peer(SERVING, name="controller"),)
        pods = {POD_NAME: "keda-operator"}
        yield NetworkPolicy(name="allow-numbers", outward=True, ports=(scaler,), pods=pods, peers=controllers)
        ends = ("keda-operator-metrics-apiserver", "keda-operator")
        yield from _between("allow-metrics", namespace, 9666, *ends, label="app")


class Namespaces(Component):
    """Every namespace with its level, its deny-all and its policies. Serving's own come with its pods."""

    def __init__(self, name: str, site: Site, cidr: str, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Namespaces", name, site, opts)
        self.made = {namespace: self._namespace(namespace, level) for namespace, level in LEVELS.items()}
        for namespace, made in self.made.items():
            policies = [_dns(), *_special(namespace, cidr)]
            if namespace != SERVING:
                policies += operator_policies(cidr)
            for manifest in (deny_all(namespace), *(policy(namespace, allowed) for allowed in policies)):
                apply(self, manifest, made)
        self.register_outputs({})

    def _namespace(self, namespace: str, level: str) -> pulumi.Resource:
        stages = ("enforce", "audit", "warn")
        labels = {f"pod-security.kubernetes.io/{stage}": level for stage in stages}
        if namespace == SERVING:
            labels["policy.sigstore.dev/include"] = "true"
        return apply(self, Manifest(api_version="v1", kind="Namespace", name=namespace, labels=labels))
