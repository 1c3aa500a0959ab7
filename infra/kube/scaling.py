"""How many pods: KEDA on the signals that the code exports, CPU tier and GPU pools apart, never on utilisation.

The metric names here must exist in the platform's catalogue; a test reads both.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING

REQUESTS_IN_FLIGHT = "penstock_requests_in_flight"
LOOP_LAG_SECONDS = "penstock_loop_lag_seconds"
QUEUED_TOKENS = "penstock_queued_tokens"
KV_USED_RATIO = "penstock_kv_used_ratio"
TTFT_SECONDS = "penstock_ttft_seconds"

IN_FLIGHT_PER_GATEWAY = 400
QUEUED_TOKENS_PER_WORKER = 20000
KV_TARGET_RATIO = 0.75
TTFT_GUARD_S = 2.0
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
    """A quantile that is 0 where nothing was observed, and nothing at all where nobody was scraped.

    Without observations the quantile is no number, which no scaler may be handed; hence the comparison.
    """
    rate = f"rate({histogram}_bucket{selector}[2m])"
    count = f"rate({histogram}_count{selector}[2m])"
    return f"histogram_quantile({part:g}, sum by (le) ({rate})) >= 0 or 0 * sum({count})"


def worker_triggers(version: str, model: str, *, carried: int) -> tuple[Trigger, ...]:
    """Queued tokens first, KV use as the concurrency bound; first-token latency guards the floor alone.

    `carried` is how many replicas the placements before this one may have: only what is beyond them counts,
    so the pools fill in the order of the config and no load is answered twice.
    """
    of = f'{{version="{version}"}}'
    queued = _beyond(f"sum({QUEUED_TOKENS}{of})", QUEUED_TOKENS_PER_WORKER * carried)
    used = _beyond(f"sum({KV_USED_RATIO}{of})", KV_TARGET_RATIO * carried)
    found = (
        Trigger(metric=QUEUED_TOKENS, query=queued, threshold=QUEUED_TOKENS_PER_WORKER, activation=1),
        Trigger(metric=KV_USED_RATIO, query=used, threshold=KV_TARGET_RATIO, activation=0.1),
    )
    if carried:
        return found
    late = _quantile(0.95, TTFT_SECONDS, f'{{model="{model}"}}')
    return (
        *found,
        Trigger(metric=TTFT_SECONDS, query=late, threshold=TTFT_GUARD_S, activation=TTFT_GUARD_S, guard=True),
    )


def _beyond(query: str, carried: float) -> str:
    return f"clamp_min({query} - {carried:g}, 0)" if carried else query


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
