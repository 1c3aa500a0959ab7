"""KEDA and the HPA as their documentation has them: what becomes of replicas when triggers answer, or don't.

Written from https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale/ (algorithm, tolerance,
stabilization, policies, several metrics) and from KEDA's pages on scaling deployments (activation, cooldown, fallback).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SYNC_S = 15.0
TOLERANCE = 0.1
"""Of the cluster, if a behaviour has none of its own."""
Answers = Sequence[float | None]
"""Of each trigger, all AverageValue; None is an error."""


@dataclass(kw_only=True)
class Scaled:
    """A ScaledObject with its HPA, and the replicas of its target."""

    spec: Mapping[str, Any]
    replicas: int
    _wishes: list[tuple[float, int]] = field(default_factory=list)
    _changes: list[tuple[float, int]] = field(default_factory=list)
    _active_at: float = -math.inf
    _failures: list[int] = field(default_factory=list)

    @property
    def least(self) -> int:
        return int(self.spec.get("minReplicaCount", 0))

    @property
    def most(self) -> int:
        return int(self.spec.get("maxReplicaCount", 100))

    def poll(self, now: float, answers: Answers) -> None:
        """KEDA's part: from 0, and to 0. An error is no activity; if there are replicas to fall back to, KEDA waits."""
        self._failures = self._failures or [0] * len(answers)
        self._failures = [0 if value is not None else n + 1 for n, value in zip(self._failures, answers, strict=True)]
        floors = [float(one["metadata"].get("activationThreshold", 0)) for one in self.spec["triggers"]]
        is_active = any(value is not None and value > floor for value, floor in zip(answers, floors, strict=True))
        if is_active:
            self._active_at = now
            if self.replicas == 0:
                self._set(now, max(1, self.least))
            return
        is_error, fallback = None in answers, self.spec.get("fallback")
        if is_error and (fallback is None or fallback["replicas"] != 0):
            return
        cooldown_s = float(self.spec.get("cooldownPeriod", 300))
        if self.least == 0 and self.replicas and now - self._active_at >= cooldown_s:
            self._set(now, 0)

    def sync(self, now: float, answers: Answers) -> None:
        """The HPA's part, each ``SYNC_S``: from 1 to N."""
        if self.replicas == 0:
            return
        given = [self._given(n, value) for n, value in enumerate(answers)]
        wishes = [self._wish(value) for value in given if value is not None]
        if not wishes or (len(wishes) < len(given) and max(wishes) < self.replicas):
            return
        wish = self._stable(now, max(wishes))
        self._set(now, max(1, self.least, min(self.most, self._paced(now, wish))))

    def _given(self, trigger: int, value: float | None) -> float | None:
        fallback = self.spec.get("fallback")
        if value is not None or fallback is None or self._failures[trigger] <= fallback["failureThreshold"]:
            return value
        held = {"static": fallback["replicas"], "currentReplicasIfHigher": max(self.replicas, fallback["replicas"])}
        return float(held[fallback.get("behavior", "static")])

    def _wish(self, value: float) -> int:
        """``ceil(value / target)``, unless the ratio to the present replicas is within the tolerance; target 1."""
        ratio = value / self.replicas
        down, up = (float(self._rules(way).get("tolerance", TOLERANCE)) for way in ("scaleDown", "scaleUp"))
        return self.replicas if 1 - down <= ratio <= 1 + up else math.ceil(value)

    def _stable(self, now: float, wish: int) -> int:
        up, down = (
            float(self._rules(way).get("stabilizationWindowSeconds", default))
            for way, default in (("scaleUp", 0), ("scaleDown", 300))
        )
        known = self._wishes or [(now, self.replicas)]
        self._wishes = [(at, one) for at, one in known if now - at < max(up, down)] + [(now, wish)]
        lowest = min(wish, *(one for at, one in self._wishes if now - at < up), wish)
        highest = max(wish, *(one for at, one in self._wishes if now - at < down), wish)
        return (
            max(lowest, min(self.replicas, highest)) if wish > self.replicas else max(wish, min(self.replicas, highest))
        )

    def _paced(self, now: float, wish: int) -> int:
        if wish > self.replicas:
            return min(wish, max(self._limit(now, one, 1) for one in self._policies("scaleUp")))
        if wish < self.replicas:
            return max(wish, min(self._limit(now, one, -1) for one in self._policies("scaleDown")))
        return wish

    def _limit(self, now: float, policy: Mapping[str, Any], sign: int) -> int:
        """Return the replicas that a policy allows, of those at the start of its period."""
        recent = [change for at, change in self._changes if now - at < policy["periodSeconds"] and change * sign > 0]
        start = self.replicas - sum(recent)
        if policy["type"] == "Pods":
            return int(start + sign * policy["value"])
        return start + sign * math.ceil(start * float(policy["value"]) / 100)

    def _policies(self, way: str) -> Sequence[Mapping[str, Any]]:
        whole = {"type": "Percent", "value": 100, "periodSeconds": 15}
        default = [whole, {"type": "Pods", "value": 4, "periodSeconds": 15}] if way == "scaleUp" else [whole]
        found: Sequence[Mapping[str, Any]] = self._rules(way).get("policies", default)
        return found

    def _rules(self, way: str) -> Mapping[str, Any]:
        behaviour = self.spec.get("advanced", {}).get("horizontalPodAutoscalerConfig", {}).get("behavior", {})
        found: Mapping[str, Any] = behaviour.get(way, {})
        return found

    def _set(self, now: float, replicas: int) -> None:
        if replicas != self.replicas:
            self._changes.append((now, replicas - self.replicas))
            self.replicas = replicas
