"""GPUs as Kubernetes sees them: device plugin, MIG layouts per pool, exporter, and the prepared weight cache.

The node images carry driver and toolkit, so the operator installs neither. DRA stays off: its driver and the
device plugin must not share a node, and the plugin is what Cluster Autoscaler simulates today.
"""

from collections.abc import Iterator

import yaml

from infra.components.labels import CAPACITY, GPU_TAINT, ROLE, mig_config_name
from infra.components.userdata import WEIGHT_CACHE
from infra.config.kinds import Capacity
from infra.config.pools import Pool
from infra.kube.manifest import Manifest
from infra.kube.namespaces import GPU, SERVING
from infra.kube.pods import WORKER_UID, container, plain
from infra.kube.values.common import ClusterFacts

MIG_LAYOUTS = "penstock-mig-layouts"
CACHE_VOLUME = "weight-cache"
CACHE_MARKER = ".penstock-nvme"
CAPACITY_FILE = ".penstock-capacity"
"""How the node was bought, as its label says it: no pod may read labels of nodes, but this file."""
CACHE_CLAIM_SIZE = "500Gi"

_TOLERATES_GPU = {"key": GPU_TAINT, "operator": "Exists", "effect": "NoSchedule"}


def gpu_operator_values(facts: ClusterFacts) -> dict[str, object]:
    """The operator's values; the MIG manager runs only if a pool has a layout."""
    tolerations, mirror = [_TOLERATES_GPU], facts.mirror("gpu-operator")
    nvidia = mirror.folder("nvcr.io/nvidia/gpu-operator")
    plugin = {"repository": mirror.folder("nvcr.io/nvidia/k8s-device-plugin"), "image": "k8s-device-plugin"}
    discovery = {"repository": mirror.image("registry.k8s.io/nfd/node-feature-discovery")}
    return {
        "driver": {"enabled": False},
        "toolkit": {"enabled": False},
        "operator": {"repository": nvidia, "image": "gpu-operator", "nodeSelector": {ROLE: "system"}},
        "validator": {"repository": nvidia, "image": "gpu-operator"},
        "devicePlugin": plugin,
        "gfd": plugin,
        "daemonsets": {"tolerations": tolerations},
        "node-feature-discovery": {
            "image": discovery,
            "master": {"nodeSelector": {ROLE: "system"}},
            "gc": {"nodeSelector": {ROLE: "system"}},
            "worker": {"tolerations": tolerations, "nodeSelector": {ROLE: "gpu"}},
        },
        "mig": {"strategy": "mixed"},
        "migManager": {
            "enabled": any(pool.mig for pool in facts.pools),
            "repository": mirror.folder("nvcr.io/nvidia/cloud-native/k8s-mig-manager"),
            "config": {"name": MIG_LAYOUTS, "default": "all-disabled"},
        },
        "dcgmExporter": {
            "enabled": True,
            "repository": mirror.folder("nvcr.io/nvidia/k8s/dcgm-exporter"),
            "serviceMonitor": {"enabled": True, "additionalLabels": {"penstock.io/monitored": "true"}},
        },
    }


def mig_layouts(pools: tuple[Pool, ...]) -> Manifest:
    """One named layout per pool; a node's label picks it, and a change of it drains the node first."""
    layouts: dict[str, object] = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
    for pool in pools:
        if pool.mig:
            layouts[mig_config_name(pool)] = [{"devices": "all", "mig-enabled": True, "mig-devices": dict(pool.mig)}]
    config = yaml.safe_dump({"version": "v1", "mig-configs": layouts}, sort_keys=True)
    return Manifest(
        api_version="v1", kind="ConfigMap", name=MIG_LAYOUTS, namespace=GPU, body={"data": {"config.yaml": config}}
    )


ROOT_FILE = "/usr/lib/os-release"
"""A file of the node's root disk: whatever lies on the same device lies on no instance store."""

CHECK = """if [ "$(stat -c %d "$CACHE")" = "$(stat -c %d "$ROOT_DISK")" ]; then
echo "the weight cache lies on the root disk: no instance store is joined here"; exit 1
fi"""
_PREPARE = f"""set -eu
{CHECK}
mkdir -p /cache/weights
chown {WORKER_UID}:{WORKER_UID} /cache/weights
echo "$CAPACITY" > /cache/weights/{CAPACITY_FILE}
touch /cache/weights/{CACHE_MARKER}
exec sleep infinity"""


def weight_cache(image: str, pools: tuple[Pool, ...]) -> Iterator[Manifest]:
    """A daemon for each way of buying machines, that proves the cache lies on NVMe and owns it to the workers, and the
    volume they claim.

    Pods under Pod Security `restricted` may not name host paths; a claim on a prepared volume they may.
    """
    for capacity in sorted({pool.capacity for pool in pools if pool.gpu}):
        yield _daemon(image, capacity)
    claim = {"namespace": SERVING, "name": CACHE_VOLUME}
    yield Manifest(
        api_version="v1",
        kind="PersistentVolume",
        name=CACHE_VOLUME,
        body={
            "spec": {
                "capacity": {"storage": CACHE_CLAIM_SIZE},
                "accessModes": ["ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": claim,
                "hostPath": {"path": f"{WEIGHT_CACHE}/weights", "type": "Directory"},
            }
        },
    )
    yield Manifest(
        api_version="v1",
        kind="PersistentVolumeClaim",
        name=CACHE_VOLUME,
        namespace=SERVING,
        body={
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "storageClassName": "",
                "volumeName": CACHE_VOLUME,
                "resources": {"requests": {"storage": CACHE_CLAIM_SIZE}},
            }
        },
    )


def _daemon(image: str, capacity: Capacity) -> Manifest:
    labels = {"app.kubernetes.io/name": "weight-cache", CAPACITY: capacity.value}
    prepare = container("prepare", image, cpu="10m", memory="32Mi") | {
        "command": ["sh", "-c", _PREPARE],
        "securityContext": {
            "runAsUser": 0,
            "runAsNonRoot": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "env": [plain("CACHE", "/cache"), plain("ROOT_DISK", "/root-disk"), plain("CAPACITY", capacity.value)],
        "volumeMounts": [
            {"name": "cache", "mountPath": "/cache"},
            {"name": "root-disk", "mountPath": "/root-disk", "readOnly": True},
        ],
        "readinessProbe": {"exec": {"command": ["test", "-f", f"/cache/weights/{CACHE_MARKER}"]}, "periodSeconds": 10},
    }
    pod = {
        "nodeSelector": {ROLE: "gpu", CAPACITY: capacity.value},
        "tolerations": [_TOLERATES_GPU],
        "priorityClassName": "system-node-critical",
        "automountServiceAccountToken": False,
        "containers": [prepare],
        "volumes": [
            {"name": "cache", "hostPath": {"path": WEIGHT_CACHE, "type": "Directory"}},
            {"name": "root-disk", "hostPath": {"path": ROOT_FILE, "type": "File"}},
        ],
    }
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    name = f"weight-cache-{capacity.value}"
    return Manifest(api_version="apps/v1", kind="DaemonSet", name=name, namespace=GPU, body={"spec": spec})
