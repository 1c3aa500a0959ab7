"""Objects of a version on its device: Deployment, ScaledObject, disruption budget. Pure.

A Deployment here never states its replicas: the scaler sets them, and a second writer would reset them.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from penstock.connectors.kubernetes import names, scaling
from penstock.connectors.kubernetes.kinds import BUDGET, DEPLOYMENT, SCALER, ObjectKind
from penstock.connectors.kubernetes.placing import Placed, place
from penstock.connectors.kubernetes.pools import Pools
from penstock.domain.fleet.versions import Served

GATES = [{"name": names.SCALER}]
SPARE = "20%"
"""The share of a version's workers on node groups that planned work may take at once: they are scaled for a load of
80 %. Others have no budget, for a machine that is taken anyway must not wait with telling its worker.
"""
ROLLOUT_SLACK_S = 600
"""Seconds that a rollout may take longer than one start before Kubernetes reports it as stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    kind: ObjectKind
    name: str
    body: Mapping[str, object]


def written(served: Served, pools: Pools) -> Iterator[Written]:
    placed = place(served, pools.devices)
    if placed is not None:
        yield from _objects(placed, pools)


def _objects(placed: Placed, pools: Pools) -> Iterator[Written]:
    version, device = placed.served.version, placed.device.name
    name, filling = names.workload(version, device), names.filled(version, device)
    select = {names.WORKLOAD: name}
    target = {"apiVersion": DEPLOYMENT.api_version, "kind": DEPLOYMENT.name, "name": name}
    deployment = _deployment(placed, select, filling)
    specs: tuple[tuple[ObjectKind, dict[str, object]], ...] = (
        (DEPLOYMENT, deployment),
        (
            BUDGET,
            {
                "maxUnavailable": SPARE,
                "selector": {"matchLabels": {**select, names.SCALER: names.GROUPS}},
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        ),
        (SCALER, scaling.spec(placed, target, pools)),
    )
    for kind, spec in specs:
        meta = {
            "name": name,
            "namespace": pools.namespace,
            "labels": {names.MANAGED_BY: names.OWNER, **select},
            "annotations": {names.VERSION: version, **(_mark(deployment) if kind is DEPLOYMENT else {})},
        }
        body = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, "spec": spec}
        yield Written(kind=kind, name=name, body=body)


def _deployment(placed: Placed, select: dict[str, str], filling: Mapping[str, str]) -> dict[str, object]:
    served = placed.served
    template = fill(placed.device.template, filling)
    assert isinstance(template, dict)  # noqa: S101  a template is an object, and so is what is made of it
    meta = dict(template["metadata"])
    meta["labels"] = {
        **meta.get("labels", {}),
        names.MANAGED_BY: names.OWNER,
        names.DEVICE: placed.device.name,
        **select,
    }
    meta["annotations"] = {
        **meta.get("annotations", {}),
        names.VERSION: served.version,
        names.NEEDED: str(served.gpus),
        **({names.RENEWED: f"{served.renew_before:.3f}"} if served.renew_before else {}),
    }
    containers = [
        {**one, "resources": placed.size.resources} if one["name"] == names.MAIN else one
        for one in template["spec"]["containers"]
    ]
    spec = {**template["spec"], "containers": containers, "schedulingGates": GATES}
    return {
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": placed.device.start_s + ROLLOUT_SLACK_S,
        "selector": {"matchLabels": select},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": meta, "spec": spec},
    }


def _mark(deployment: Mapping[str, object]) -> dict[str, str]:
    text = msgspec.json.encode(deployment["template"], order="sorted")
    return {names.TEMPLATE: hashlib.sha256(text).hexdigest()[:16]}


def fill(value: object, filling: Mapping[str, str]) -> object:
    if isinstance(value, Mapping):
        return {key: fill(one, filling) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [fill(one, filling) for one in value]
    if isinstance(value, str):
        for place_, text in filling.items():
            value = value.replace(place_, text)
    return value
