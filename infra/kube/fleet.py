"""What the controller runs workers with: the pools' devices as a file, and its rights in the cluster.

No version is known here: the registry has them, and the controller says their numbers (ADR 0062, ADR 0120).
"""

import hashlib
from collections.abc import Iterator

import pulumi

from infra.components.site import Site
from infra.config.model import Region
from infra.contract import process
from infra.kube import scaling
from infra.kube.control_tier import POOLS
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.sizing import Device, devices
from infra.kube.worker_pod import WorkerPod
from infra.kube.workloads import account, service

EDITION = 5
"""Of the file's form, which is the platform's: `penstock.connectors.kubernetes.pools`."""

START_S = 1800
"""Fetch, verify, load, compile, warm: a large model on a cold node is ready only after many minutes."""

FILE = "pools.json"
PATH = f"/etc/penstock/pools/{FILE}"
RBAC = "rbac.authorization.k8s.io"


def pools_file(site: Site, region: Region, bucket: pulumi.Input[str], server: pulumi.Input[str]) -> pulumi.Output[str]:
    """The region's devices, each with the pod of its workers."""
    shipped = [_shipped(site, device, bucket) for device in devices(region.pools)]
    told = {"prometheus": server, "scaler": scaling.address(), "devices": shipped}
    content = {"edition": EDITION, "namespace": SERVING, **told}
    return pulumi.Output.json_dumps(content, sort_keys=True)


def pools_digest(content: pulumi.Output[str]) -> pulumi.Output[str]:
    """What changes with the file: the controller reads it when it starts, so its pods are exchanged with it."""
    return content.apply(lambda text: hashlib.sha256(text.encode()).hexdigest())


def manifests(content: pulumi.Output[str]) -> Iterator[Manifest]:
    """The file, and the controller's rights."""
    yield Manifest(api_version="v1", kind="ConfigMap", name=POOLS, namespace=SERVING, body={"data": {FILE: content}})
    yield from rights()


def shared() -> Iterator[Manifest]:
    """What all workers share: an account, and a headless service, for the routing table names pods themselves."""
    yield account("worker")
    yield service(process("worker"), "gate", "status", headless=True)


def rights() -> Iterator[Manifest]:
    """Exactly what the contract lists, in this one namespace."""
    controller = process("controller")
    rules = [
        {"apiGroups": [one.group], "resources": [one.resource], "verbs": list(one.verbs)} for one in controller.rights
    ]
    subject = {"kind": "ServiceAccount", "name": controller.name, "namespace": SERVING}
    role = {"apiGroup": RBAC, "kind": "Role", "name": controller.name}
    yield Manifest(
        api_version=f"{RBAC}/v1", kind="Role", name=controller.name, namespace=SERVING, body={"rules": rules}
    )
    yield Manifest(
        api_version=f"{RBAC}/v1",
        kind="RoleBinding",
        name=controller.name,
        namespace=SERVING,
        body={"subjects": [subject], "roleRef": role},
    )


def _shipped(site: Site, device: Device, bucket: pulumi.Input[str]) -> dict[str, object]:
    return {
        "name": device.name,
        "bytes": device.bytes,
        "bytes_per_s": device.bytes_per_s,
        "places": device.places,
        "sizes": [
            {"gpus": gpus, "most": device.most(gpus), "resources": device.resources(gpus)} for gpus in device.sizes
        ],
        "template": WorkerPod(site=site, device=device, artifact_bucket=bucket).template(),
        "start_s": START_S,
        "dollars_per_hour": device.usd_per_h,
    }
