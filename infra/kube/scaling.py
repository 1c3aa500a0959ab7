"""How many gateways: KEDA on the signals that the code exports, never on utilisation.

How many workers, the controller says, in scalers of its own.

The metric names here must exist in the platform's catalogue; a test reads both.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING

REQUESTS_IN_FLIGHT = "penstock_requests_in_flight"
LOOP_LAG_SECONDS = "penstock_loop_lag_seconds"

IN_FLIGHT_PER_GATEWAY = 400
POLL_S = 10
UP_WINDOW_S = 30
DOWN_WINDOW_S = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One query and the value that one replica may carry; `guard` makes it a ceiling over all replicas instead."""

    metric: str
    query: str
    threshold: float
    activation: float
    guard: bool = False

    def as_keda(self, server: object) -> dict[str, object]:
        """The trigger in KEDA's spelling."""
        return {
            "type": "prometheus",
            "name": self.metric.removeprefix("penstock_").replace("_", "-"),
            "metricType": "Value" if self.guard else "AverageValue",
            "metadata": {
                "serverAddress": server,
                "query": self.query,
                "threshold": f"{self.threshold:g}",
                "activationThreshold": f"{self.activation:g}",
                "ignoreNullValues": "false",
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled:
    """What is scaled, between which bounds, on what."""

    name: str
    target: Mapping[str, str]
    min_replicas: int
    max_replicas: int
    triggers: tuple[Trigger, ...]
    cooldown_s: int


def gateway_triggers() -> tuple[Trigger, ...]:
    """Requests in flight, and the event loop's lag as the guard that something else is slow."""
    in_flight = f"sum({REQUESTS_IN_FLIGHT})"
    return (
        Trigger(metric=REQUESTS_IN_FLIGHT, query=in_flight, threshold=IN_FLIGHT_PER_GATEWAY, activation=1),
        Trigger(
            metric=LOOP_LAG_SECONDS,
            query=_quantile(0.99, LOOP_LAG_SECONDS, ""),
            threshold=0.1,
            activation=0.05,
            guard=True,
        ),
    )


def _quantile(part: float, histogram: str, selector: str) -> str:
    """A quantile that is 0 if nothing was observed, and nothing at all where nobody was scraped.

    Without observations the quantile is no number, which no scaler may be handed; hence the comparison.
    """
    rate = f"rate({histogram}_bucket{selector}[2m])"
    count = f"rate({histogram}_count{selector}[2m])"
    return f"histogram_quantile({part:g}, sum by (le) ({rate})) >= 0 or 0 * sum({count})"


def scaled_object(scaled: Scaled, server: object) -> Manifest:
    """Out in half a minute, in by one pod every two minutes: a cold start costs more than an idle pod.

    A query without an answer is an error here, on which the scaler holds the number that it has. There is no
    fallback: a static number would scale a loaded fleet in, just when nobody can see it.
    """
    down = {
        "stabilizationWindowSeconds": DOWN_WINDOW_S,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    }
    up = {
        "stabilizationWindowSeconds": UP_WINDOW_S,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 30}],
    }
    return Manifest(
        api_version="keda.sh/v1alpha1",
        kind="ScaledObject",
        name=scaled.name,
        namespace=SERVING,
        body={
            "spec": {
                "scaleTargetRef": dict(scaled.target),
                "minReplicaCount": scaled.min_replicas,
                "maxReplicaCount": scaled.max_replicas,
                "pollingInterval": POLL_S,
                "cooldownPeriod": scaled.cooldown_s,
                "advanced": {
                    "restoreToOriginalReplicaCount": False,
                    "horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": up, "scaleDown": down}},
                },
                "triggers": [trigger.as_keda(server) for trigger in scaled.triggers],
            }
        },
    )
