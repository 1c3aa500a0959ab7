"""Cluster Autoscaler for node groups, Karpenter for burst and spot, KEDA for pods."""

from infra.kube.values.common import CONTAINER, CRITICAL, KEPT, POD, SYSTEM, ClusterFacts, resources

LONGEST_DRAIN_MARGIN_S = 120


def cluster_autoscaler(facts: ClusterFacts, *, drain_s: int) -> dict[str, object]:
    """It finds the node groups by the cluster's tag; Karpenter's machines carry none.

    A node is given the time that its longest pod needs to drain: the default of ten minutes would cut streams.
    """
    mirror = facts.mirror("cluster-autoscaler")
    return {
        **SYSTEM,
        "replicaCount": 2,
        "awsRegion": facts.site.region,
        "autoDiscovery": {"clusterName": facts.name},
        "rbac": {"serviceAccount": {"create": True, "name": "cluster-autoscaler"}},
        "image": {"repository": mirror.image("registry.k8s.io/autoscaling/cluster-autoscaler")},
        "securityContext": {**POD, "runAsUser": 65534},
        "containerSecurityContext": CONTAINER,
        "resources": resources("600Mi", cpu="100m"),
        "extraArgs": {
            "balance-similar-node-groups": True,
            "balancing-ignore-label": "penstock.io/zone",
            "expander": "least-waste",
            "max-graceful-termination-sec": drain_s + LONGEST_DRAIN_MARGIN_S,
            "scale-down-unneeded-time": "20m",
            "skip-nodes-with-local-storage": False,
        },
    }


def karpenter(facts: ClusterFacts) -> dict[str, object]:
    """It hears interruptions by queue, leaves a zone that was shifted away, and swaps no spot machine on price."""
    return {
        **SYSTEM,
        "replicas": 2,
        "podSecurityContext": {**POD, "fsGroup": 65532},
        "settings": {
            "clusterName": facts.name,
            "interruptionQueue": facts.interruption_queue,
            "enableZonalShift": True,
            "featureGates": {"spotToSpotConsolidation": False, "staticCapacity": False},
        },
        "serviceAccount": {"create": True, "name": "karpenter"},
        "controller": {
            "image": {"repository": facts.mirror("karpenter").image("public.ecr.aws/karpenter/controller")},
            "resources": resources("1Gi", cpu="500m"),
        },
    }


def keda(facts: ClusterFacts) -> dict[str, object]:
    """The chart joins registry and repository itself, so the registry alone is ours."""
    parts = ("operator", "metricServer", "webhooks")
    return {
        **SYSTEM,
        **CRITICAL,
        "crds": {"additionalAnnotations": KEPT},
        "prometheus": {"operator": {"enabled": True}, "metricServer": {"enabled": True}},
        "operator": {"replicaCount": 2},
        "metricsServer": {"replicaCount": 2},
        "webhooks": {"replicaCount": 2},
        "global": {"image": {"registry": facts.mirror("keda").root}},
        "podSecurityContext": dict.fromkeys(parts, POD),
        "securityContext": dict.fromkeys(parts, CONTAINER),
    }
