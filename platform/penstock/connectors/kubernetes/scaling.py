"""Queries of the scaler (KEDA) for replica counts, from the metrics catalogue, never from utilisation.

A query without an answer is an error, on which KEDA keeps the present number: no query replaces a missing answer by a
number, and there is no fallback, which would scale in a loaded fleet that can't be observed.
"""

from penstock.connectors.kubernetes.placing import Placed
from penstock.telemetry.names import KV_USED_RATIO, QUEUED_TOKENS, TTFT_SECONDS

QUEUED_TOKENS_PER_WORKER = 20_000
KV_TARGET_RATIO = 0.75
TTFT_GUARD_S = 2.0
POLL_S, COOLDOWN_S = 10, 900
UP_WINDOW_S, DOWN_WINDOW_S = 30, 300


def spec(placed: Placed, target: dict[str, str], server: str) -> dict[str, object]:
    down = {
        "stabilizationWindowSeconds": DOWN_WINDOW_S,
        "policies": [{"type": "Pods", "value": 1, "periodSeconds": 120}],
    }
    up = {
        "stabilizationWindowSeconds": UP_WINDOW_S,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": 30}],
    }
    return {
        "scaleTargetRef": target,
        "minReplicaCount": placed.served.least,
        "maxReplicaCount": max(placed.size.most, placed.served.least),
        "pollingInterval": POLL_S,
        "cooldownPeriod": COOLDOWN_S,
        "advanced": {
            "restoreToOriginalReplicaCount": False,
            "horizontalPodAutoscalerConfig": {"behavior": {"scaleUp": up, "scaleDown": down}},
        },
        "triggers": triggers(placed, server),
    }


def triggers(placed: Placed, server: str) -> list[dict[str, object]]:
    """Return the triggers: queued tokens first, KV use as bound on concurrency, and TTFT as a guard."""
    version = placed.served.version
    of = f'{{version="{version}"}}'
    queued, used = f"sum({QUEUED_TOKENS.name}{of})", f"sum({KV_USED_RATIO.name}{of})"
    late = _quantile(0.95, TTFT_SECONDS.name, f'{{model="{version.partition("@")[0]}"}}')
    guard = _trigger(server, "ttft-seconds", late, threshold=TTFT_GUARD_S, activation=TTFT_GUARD_S)
    return [
        _trigger(server, "queued-tokens", queued, threshold=QUEUED_TOKENS_PER_WORKER, activation=1),
        _trigger(server, "kv-used-ratio", used, threshold=KV_TARGET_RATIO, activation=0.1),
        {**guard, "metricType": "Value"},  # a ceiling over all workers, not a share of each
    ]


def _trigger(server: str, name: str, query: str, *, threshold: float, activation: float) -> dict[str, object]:
    return {
        "type": "prometheus",
        "name": name,
        "metricType": "AverageValue",
        "metadata": {
            "serverAddress": server,
            "query": query,
            "threshold": f"{threshold:g}",
            "activationThreshold": f"{activation:g}",
            "ignoreNullValues": "false",
        },
    }


def _quantile(part: float, histogram: str, selector: str) -> str:
    """Return a quantile query: its value is 0 without observations (a scaler must not get NaN), absent without
    targets.
    """
    rate = f"rate({histogram}_bucket{selector}[2m])"
    count = f"rate({histogram}_count{selector}[2m])"
    return f"histogram_quantile({part:g}, sum by (le) ({rate})) >= 0 or 0 * sum({count})"
