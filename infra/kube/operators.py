"""Third-party operators, each one release at a pinned version from the account's own registry, with visible values."""

import math
from collections.abc import Iterable, Mapping

import pulumi
import pulumi_kubernetes as kubernetes

from infra.components.labels import FAMILY, GPU_TAINT
from infra.components.site import Component, Site
from infra.contract import process
from infra.kube.control_tier import UNLISTED_S
from infra.kube.gpu import gpu_operator_values
from infra.kube.values import cluster, monitoring, scaling
from infra.kube.values.common import ClusterFacts

TIMEOUT_S = 900
MONITORING = "kube-prometheus-stack"
UNKEPT = ("policy-controller",)
"""Charts whose CRDs go with their release, and with them every object of theirs: the release is protected instead."""


def values(facts: ClusterFacts) -> Mapping[str, Mapping[str, object]]:
    """The values of every chart."""
    drain_s = UNLISTED_S + facts.site.environment.worker_drain_s + math.ceil(process("worker").beyond_s)
    efa = "602401143452.dkr.ecr.us-west-2.amazonaws.com/eks/aws-efa-k8s-device-plugin"
    return {
        "aws-efa-k8s-device-plugin": {
            "image": {"repository": facts.mirror("aws-efa-k8s-device-plugin").image(efa)},
            "nodeSelector": {FAMILY: "p5"},
            "tolerations": [{"key": GPU_TAINT, "operator": "Exists"}],
        },
        "aws-load-balancer-controller": cluster.load_balancer_controller(facts),
        "cert-manager": cluster.cert_manager(facts),
        "cluster-autoscaler": scaling.cluster_autoscaler(facts, drain_s=drain_s),
        "external-secrets": cluster.external_secrets(facts),
        "gpu-operator": gpu_operator_values(facts),
        "karpenter": scaling.karpenter(facts),
        "keda": scaling.keda(facts),
        MONITORING: monitoring.kube_prometheus_stack(facts),
        "policy-controller": cluster.policy_controller(facts),
    }


class Operators(Component):
    """One Helm release per chart. `releases` lets custom resources wait for the operator that defines them."""

    def __init__(
        self,
        name: str,
        site: Site,
        facts: ClusterFacts,
        namespaces: Mapping[str, pulumi.Resource],
        charts: Iterable[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Operators", name, site, opts)
        settings, wanted = values(facts), set(charts)
        self.releases = {
            chart: kubernetes.helm.v3.Release(
                chart,
                name=chart,
                chart=f"oci://{site.registry}/charts/{chart}",
                version=pin.version,
                namespace=pin.namespace,
                create_namespace=False,
                atomic=True,
                cleanup_on_fail=True,
                timeout=TIMEOUT_S,
                values=dict(settings[chart]),
                opts=self._options(namespaces[pin.namespace], chart),
            )
            for chart, pin in sorted(site.environment.charts.items())
            if chart in wanted
        }
        self.register_outputs({})

    def _options(self, namespace: pulumi.Resource, chart: str) -> pulumi.ResourceOptions:
        kept = pulumi.ResourceOptions(protect=chart in UNKEPT and self.site.environment.keep)
        return pulumi.ResourceOptions.merge(self.child(namespace), kept)
