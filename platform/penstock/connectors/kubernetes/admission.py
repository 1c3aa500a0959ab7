"""Decides which node scaler adds the machine for a gated pod, so that exactly one does. Pure.

No scaler looks at a pod behind a scheduling gate. The scalers of the pod's device are asked in the shipped order, each
for the places that it may bring, counted over all versions.
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.connectors.kubernetes import names
from penstock.connectors.kubernetes.pods import is_told_to_go, running
from penstock.connectors.kubernetes.pools import Device, ScalerLimit

GIVE_UP_S = 900.0
"""Seconds until a pod without a node is made anew: Cluster Autoscaler gives a machine up after 15 minutes by default
(``max-node-provision-time``)."""

Pods = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admit:
    """Opens a pod's gate for the nodes of one scaler, with an affinity for nodes that hold its files."""

    name: str
    scaler: str
    affinity: Mapping[str, object] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Admission:
    """Remembers, by device, scalers that added no machine in time; a new leader starts without that memory."""

    devices: tuple[Device, ...]
    _passed_until: dict[tuple[str, str], float] = field(default_factory=dict)

    def admitted(self, pods: Pods, now: float) -> Iterator[Admit]:
        """Oldest pods come first; a pod without a free place stays gated."""
        waiting, held = self._counted(pods)
        for name in waiting:
            device, needed = self._asks(pods[name])
            scaler = next(
                (one.scaler for one in self._order(device, now) if held[device.name, one.scaler] + needed <= one.most),
                "",
            )
            if scaler:
                held[device.name, scaler] += needed
                yield Admit(name=name, scaler=scaler)

    def overdue(self, pods: Pods, now: float) -> Iterator[str]:
        """Their scalers are passed over for the next pods."""
        for name, pod in pods.items():
            scaler = pod["metadata"].get("labels", {}).get(names.SCALER, "")
            at = float(pod["metadata"].get("annotations", {}).get(names.ADMITTED, "inf"))
            if scaler and now - at >= GIVE_UP_S and not is_told_to_go(pod) and not _has_node(pod):
                self._passed_until[_device_of(pod), scaler] = now + GIVE_UP_S
                yield name

    def _counted(self, pods: Pods) -> tuple[list[str], Counter[tuple[str, str]]]:
        """Gated pods by age, and devices that admitted pods hold, by device and scaler."""
        waiting, held = [], Counter[tuple[str, str]]()
        for name, pod in pods.items():
            if running(pod) is None or not any(one.name == _device_of(pod) for one in self.devices):
                continue
            scaler = pod["metadata"].get("labels", {}).get(names.SCALER, "")
            if scaler:
                held[_device_of(pod), scaler] += _needed(pod)
            elif not is_told_to_go(pod):
                waiting.append(name)
        return sorted(waiting, key=lambda name: (pods[name]["metadata"]["creationTimestamp"], name)), held

    def _asks(self, pod: Mapping[str, Any]) -> tuple[Device, int]:
        return next(one for one in self.devices if one.name == _device_of(pod)), _needed(pod)

    def _order(self, device: Device, now: float) -> list[ScalerLimit]:
        return sorted(device.places, key=lambda one: self._passed_until.get((device.name, one.scaler), 0.0) > now)


def _device_of(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get(names.DEVICE, ""))


def _needed(pod: Mapping[str, Any]) -> int:
    return int(pod["metadata"].get("annotations", {}).get(names.NEEDED, "1"))


def _has_node(pod: Mapping[str, Any]) -> bool:
    return bool(pod.get("status", {}).get("startTime"))
