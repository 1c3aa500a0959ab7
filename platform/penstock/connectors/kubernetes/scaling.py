"""How KEDA gets a version's replicas: its ScaledObject; also reports Deployments that don't follow their number. Pure.

The HPA has no tolerance, window or slow policy, since the autoscaler has them. While the controller is away, the last
number that Prometheus scraped applies for an hour; after that the present replicas stay.
"""

from collections.abc import Iterable, Mapping

from penstock.connectors.kubernetes.placing import Placed
from penstock.connectors.kubernetes.pools import Pools
from penstock.telemetry.names import SCALE_REPLICAS

POLL_S = 10
COOLDOWN_S = 30
"""Seconds from the number 0 to no replica: three polls. The idle time before it is the autoscaler's."""
HPA_S = 15
"""The HPA's own period, and so the shortest that a policy of its can have an effect in."""
FAILURES = 3
AUTHENTICATION = "penstock-scaler"
"""The infrastructure's TriggerAuthentication, with KEDA's own certificate."""


def spec(placed: Placed, target: dict[str, str], pools: Pools) -> dict[str, object]:
    least, most = placed.served.least, max(placed.size.most, placed.served.least)
    bounds = {"least": least, "most": most, "held": max(1, least)}
    return written(target, bounds, pools.scaler, pools.prometheus) | {"cooldownPeriod": COOLDOWN_S}


def written(target: dict[str, str], bounds: Mapping[str, object], scaler: str, server: str) -> dict[str, object]:
    """Return the ScaledObject, with placeholders for the infrastructure's gateways.

    ``fallback`` must have replicas: with none, KEDA takes an error for no load and scales to zero (2.19,
    ``scale_scaledobjects.go``).
    """
    rules = {
        "stabilizationWindowSeconds": 0,
        "tolerance": "0",
        "policies": [{"type": "Pods", "value": bounds["most"], "periodSeconds": HPA_S}],
    }
    return {
        "scaleTargetRef": target,
        "minReplicaCount": bounds["least"],
        "maxReplicaCount": bounds["most"],
        "pollingInterval": POLL_S,
        "fallback": {
            "failureThreshold": FAILURES,
            "replicas": bounds["held"],
            "behavior": "currentReplicasIfHigher",
        },
        "advanced": {
            "restoreToOriginalReplicaCount": False,
            "horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": rules, "scaleDown": rules}},
        },
        "triggers": [_pushed(scaler), _floor(server, target["name"])],
    }


def _pushed(scaler: str) -> dict[str, object]:
    return {
        "type": "external-push",
        "name": "controller",
        "metricType": "AverageValue",
        "metadata": {"scalerAddress": scaler, "enableTLS": "true"},
        "authenticationRef": {"name": AUTHENTICATION},
    }


def _floor(server: str, name: str) -> dict[str, object]:
    """The last number that Prometheus scraped; it fails if there was none for an hour."""
    told = f'{SCALE_REPLICAS.name}{{object="{name}"}}'
    return {
        "type": "prometheus",
        "name": "last-number",
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": server,
            "query": f"max({told}) or max(last_over_time({told}[1h]))",
            "threshold": "1",
            "activationThreshold": "0",
            "ignoreNullValues": "false",
        },
    }


def unfollowed(numbers: Mapping[str, int], replicas: Mapping[str, int]) -> Iterable[tuple[str, str]]:
    """Other replicas than decided, each with the remedy."""
    for name, number in numbers.items():
        if (found := replicas.get(name, number)) != number:
            do = f"if it was scaled by hand, KEDA sets it back; else `kubectl describe scaledobject {name}` tells why"
            yield name, f"{name} has {found} replicas, and {number} are told: {do}"
