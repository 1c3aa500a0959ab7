"""Third-party operators, each one release at a pinned version from the account's own registry, with visible values."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_kubernetes as kubernetes

from infra.components.labels import FAMILY, GPU_TAINT, ROLE
from infra.components.site import Component, Site
from infra.config.pools import Pool
from infra.kube.gpu import gpu_operator_values

SYSTEM = {"nodeSelector": {ROLE: "system"}}
TIMEOUT_S = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What operators must know of the cluster they run in."""

    name: pulumi.Input[str]
    vpc_cidr: str
    interruption_queue: pulumi.Input[str]
    pools: tuple[Pool, ...]


def values(site: Site, facts: ClusterFacts) -> Mapping[str, Mapping[str, object]]:
    """The values of every chart. Only what differs from the chart's defaults, and why it must."""
    image = f"{site.registry}/mirror"
    return {
        "aws-efa-k8s-device-plugin": {
            "image": {"repository": f"{image}/aws-efa-k8s-device-plugin"},
            "nodeSelector": {FAMILY: "p5"},
            "tolerations": [{"key": GPU_TAINT, "operator": "Exists"}],
        },
        "aws-load-balancer-controller": _load_balancer_controller(site, facts, image),
        "cert-manager": {
            **SYSTEM,
            "replicaCount": 2,
            "crds": {"enabled": True, "keep": True},
            "image": {"repository": f"{image}/cert-manager-controller"},
            "prometheus": {"enabled": True},
        },
        "cluster-autoscaler": _cluster_autoscaler(site, facts, image),
        "external-secrets": {
            **SYSTEM,
            "replicaCount": 2,
            "installCRDs": True,
            "image": {"repository": f"{image}/external-secrets"},
            "serviceAccount": {"create": True, "name": "external-secrets"},
        },
        "gpu-operator": gpu_operator_values(facts.pools, image),
        "karpenter": _karpenter(facts, image),
        "keda": {
            **SYSTEM,
            "operator": {"replicaCount": 2},
            "metricsServer": {"replicaCount": 2},
            "image": {
                "keda": {"repository": f"{image}/keda"},
                "metricsApiServer": {"repository": f"{image}/keda-metrics"},
            },
        },
        "kube-prometheus-stack": _monitoring(image),
        "lws": {**SYSTEM, "replicaCount": 2, "image": {"manager": {"repository": f"{image}/lws"}}},
        "policy-controller": {
            "webhook": {
                **SYSTEM,
                "replicaCount": 2,
                "image": {"repository": f"{image}/policy-controller"},
                "failurePolicy": "Fail",
                "serviceAccount": {"create": True, "name": "policy-controller"},
            },
            "cosign": {"webhookName": "policy.sigstore.dev"},
        },
    }


def _load_balancer_controller(site: Site, facts: ClusterFacts, image: str) -> dict[str, object]:
    """It only moves pods in and out of a target group that Pulumi owns; everything else it could do is off."""
    return {
        **SYSTEM,
        "clusterName": facts.name,
        "region": site.region,
        "replicaCount": 2,
        "enableShield": False,
        "enableWaf": False,
        "enableWafv2": False,
        "enableBackendSecurityGroup": False,
        "image": {"repository": f"{image}/aws-load-balancer-controller"},
        "serviceAccount": {"create": True, "name": "aws-load-balancer-controller"},
    }


def _cluster_autoscaler(site: Site, facts: ClusterFacts, image: str) -> dict[str, object]:
    """It finds the node groups by the cluster's tag; Karpenter's machines carry none."""
    return {
        **SYSTEM,
        "replicaCount": 2,
        "awsRegion": site.region,
        "autoDiscovery": {"clusterName": facts.name},
        "rbac": {"serviceAccount": {"create": True, "name": "cluster-autoscaler"}},
        "image": {"repository": f"{image}/cluster-autoscaler"},
        "extraArgs": {
            "balance-similar-node-groups": True,
            "balancing-ignore-label": "penstock.io/zone",
            "expander": "least-waste",
            "scale-down-unneeded-time": "20m",
            "skip-nodes-with-local-storage": False,
        },
    }


def _karpenter(facts: ClusterFacts, image: str) -> dict[str, object]:
    """It hears interruptions by queue and never swaps one spot machine for another on price."""
    return {
        **SYSTEM,
        "replicas": 2,
        "settings": {
            "clusterName": facts.name,
            "interruptionQueue": facts.interruption_queue,
            "featureGates": {"spotToSpotConsolidation": False, "staticCapacity": False},
        },
        "serviceAccount": {"create": True, "name": "karpenter"},
        "controller": {"image": {"repository": f"{image}/karpenter"}},
    }


def _monitoring(image: str) -> dict[str, object]:
    """Two Prometheus replicas that keep two weeks; rules and pod monitors with our label are loaded from anywhere."""
    ours = {"matchLabels": {"penstock.io/monitored": "true"}}
    storage = {
        "volumeClaimTemplate": {
            "spec": {"storageClassName": "encrypted", "resources": {"requests": {"storage": "200Gi"}}}
        }
    }
    return {
        "nodeExporter": {"enabled": False},
        "kubeControllerManager": {"enabled": False},
        "kubeScheduler": {"enabled": False},
        "kubeEtcd": {"enabled": False},
        "global": {"imageRegistry": image},
        "prometheusOperator": SYSTEM,
        "prometheus": {
            "prometheusSpec": {
                **SYSTEM,
                "replicas": 2,
                "retention": "15d",
                "scrapeInterval": "15s",
                "evaluationInterval": "15s",
                "storageSpec": storage,
                "ruleSelector": ours,
                "podMonitorSelector": ours,
                "ruleNamespaceSelector": {},
                "podMonitorNamespaceSelector": {},
                "topologySpreadConstraints": [],
            }
        },
        "alertmanager": {"alertmanagerSpec": {**SYSTEM, "replicas": 3, "alertmanagerConfigSelector": ours}},
        "grafana": {
            **SYSTEM,
            "replicas": 2,
            "adminUser": "",
            "admin": {"existingSecret": "grafana-admin"},
            "sidecar": {"dashboards": {"enabled": True, "label": "penstock.io/dashboard", "labelValue": "true"}},
        },
    }


class Operators(Component):
    """One Helm release per chart. `releases` lets custom resources wait for the operator that defines them."""

    def __init__(
        self,
        name: str,
        site: Site,
        facts: ClusterFacts,
        namespaces: Mapping[str, pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Operators", name, site, opts)
        settings = values(site, facts)
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
                opts=self.child(namespaces[pin.namespace]),
            )
            for chart, pin in sorted(site.environment.charts.items())
        }
        self.register_outputs({})
