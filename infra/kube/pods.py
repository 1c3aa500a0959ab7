"""The parts that every pod of ours is made of, safe by construction. Nothing here knows what a pod does."""

import math
from collections.abc import Mapping

from infra.components.labels import HOST, ZONE
from infra.contract import Probe

UID = 10001
WORKER_UID = 10001

SAFE_CONTAINER: Mapping[str, object] = {
    "runAsNonRoot": True,
    "runAsUser": UID,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SAFE_POD: Mapping[str, object] = {
    "runAsNonRoot": True,
    "runAsUser": UID,
    "runAsGroup": UID,
    "fsGroup": UID,
    "seccompProfile": {"type": "RuntimeDefault"},
}
NOT_AWAITED: Mapping[str, str] = {"pulumi.com/skipAwait": "true"}
"""For what becomes ready later than an update waits: Kubernetes finishes the rollout, or holds it where it fails."""


def digest_reference(registry: str, repository: str, digest: str) -> str:
    """An image by digest; there is no way here to say a tag."""
    return f"{registry}/{repository}@{digest}"


def container(name: str, image: str, *, cpu: str, memory: str) -> dict[str, object]:
    """A container that asks for what it gets."""
    return bare(name, image) | {"resources": resources(cpu=cpu, memory=memory)}


def bare(name: str, image: str) -> dict[str, object]:
    """A container that does not say yet what it asks of its node."""
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": dict(SAFE_CONTAINER),
    }


def resources(*, cpu: str, memory: str, **devices: str) -> dict[str, object]:
    """Equal requests and limits of memory and devices. CPU has no limit: throttling costs latency."""
    return {"requests": {"cpu": cpu, "memory": memory, **devices}, "limits": {"memory": memory, **devices}}


def http_probe(probe: Probe, *, period_s: int, failures: int) -> dict[str, object]:
    """A probe on one of the real endpoints; an answer within its time is not cut off."""
    return {
        "httpGet": {"path": probe.path, "port": probe.port},
        "periodSeconds": period_s,
        "timeoutSeconds": math.ceil(probe.within_s) + 1,
        "failureThreshold": failures,
    }


def pause_before_stop(seconds: int) -> dict[str, object]:
    """Endpoints forget a pod while it still answers; only then comes SIGTERM and the drain."""
    return {"preStop": {"sleep": {"seconds": seconds}}}


def spread(labels: Mapping[str, str], *, hosts: bool) -> list[dict[str, object]]:
    """Evenly over zones, or not at all; over hosts as well as may be.

    A lost zone's nodes are tainted: honouring taints, it is no domain any more, and the other two may fill up.
    Each revision is spread by itself, so that a rollout leaves no skew behind.
    """
    found = [_constraint(ZONE, "DoNotSchedule", labels)]
    return [*found, _constraint(HOST, "ScheduleAnyway", labels)] if hosts else found


def _constraint(key: str, otherwise: str, labels: Mapping[str, str]) -> dict[str, object]:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": otherwise,
        "labelSelector": {"matchLabels": dict(labels)},
        "nodeTaintsPolicy": "Honor",
        "matchLabelKeys": ["pod-template-hash", "controller-revision-hash"],  # a Deployment's, a StatefulSet's
    }


def plain(name: str, value: object) -> dict[str, object]:
    """An environment variable that is no secret."""
    return {"name": name, "value": value}


def from_secret(name: str, secret: str, key: str) -> dict[str, object]:
    """An environment variable out of a secret that External Secrets keeps."""
    return {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}


def from_field(name: str, path: str) -> dict[str, object]:
    """An environment variable out of the pod's own metadata."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
