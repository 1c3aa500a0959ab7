"""What the controller runs workers with: the pools as a file, and its rights in the cluster, both from their owners.

No version is known here: the registry has them, and the controller says their numbers (ADR 0062, ADR 0120).
"""

import hashlib
from collections.abc import Iterator

import pulumi

from infra.components.labels import mig_resource
from infra.components.site import Site
from infra.config.kinds import Capacity
from infra.config.model import Region
from infra.config.pools import Pool
from infra.contract import process
from infra.kube import scaling
from infra.kube.control_tier import POOLS
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.sizing import device_bytes, resources, sizes, workers_held
from infra.kube.worker_pod import WorkerPod
from infra.kube.workloads import account, service

EDITION = 2
"""Of the file's form, which is the platform's: `penstock.connectors.kubernetes.pools`."""

START_S = 1800
"""Fetch, verify, load, compile, warm: a large model on a cold node is ready only after many minutes."""

FILE = "pools.json"
PATH = f"/etc/penstock/pools/{FILE}"
GPU = "nvidia.com/gpu"
RBAC = "rbac.authorization.k8s.io"


def pools_file(site: Site, region: Region, bucket: pulumi.Input[str], server: pulumi.Input[str]) -> pulumi.Output[str]:
    """The region's GPU pools in the order of the config, each with the pod of its workers."""
    shipped = [one for pool in region.pools if pool.gpu for one in _shipped(site, pool, bucket)]
    content = {
        "edition": EDITION,
        "namespace": SERVING,
        "prometheus": server,
        "scaler": scaling.address(),
        "pools": shipped,
    }
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


def _shipped(site: Site, pool: Pool, bucket: pulumi.Input[str]) -> Iterator[dict[str, object]]:
    """One entry, or one for each kind of slice that the pool's GPUs are cut into."""
    pod = WorkerPod(site=site, pool=pool, artifact_bucket=bucket)
    for profile in sorted(pool.mig) or [""]:
        suffix = f"-{profile.replace('.', '-')}" if len(pool.mig) > 1 else ""
        yield {
            "name": f"{pool.name}{suffix}",
            "device": mig_resource(profile) if profile else GPU,
            "device_bytes": device_bytes(pool, profile),
            "sizes": [
                {"gpus": gpus, "most": workers_held(pool, gpus, profile), "resources": resources(pool, gpus, profile)}
                for gpus in sizes(pool)
            ],
            "template": pod.template(),
            "is_spot": pool.capacity is Capacity.SPOT,
            "start_s": START_S,
        }
