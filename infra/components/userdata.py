"""What a node reads at first boot: NVMe joined into one cache disk if there is any, devices aligned if it has EFA.

Amazon Linux takes a NodeConfig in MIME, Bottlerocket (CPU pools, no instance store) takes TOML.
EKS merges its own part into both.
"""

import base64

import yaml

from infra.catalogue.instances import instances
from infra.config.pools import Pool

WEIGHT_CACHE = "/mnt/k8s-disks/0"
"""Where RAID0 over the instance store is mounted; a daemon checks that it is another device than the root disk."""

_BOUNDARY = "penstock"


def has_nvme(pool: Pool) -> bool:
    """Whether every type of the pool brings instance store."""
    return all(instances()[name].nvme_gb > 0 for name in pool.instance_types)


def user_data(pool: Pool) -> str:
    """The pool's user data, base64 as EC2 wants it."""
    content = _bottlerocket() if pool.image.bottlerocket else _amazon_linux(pool)
    return base64.b64encode(content.encode()).decode()


def _amazon_linux(pool: Pool) -> str:
    kubelet: dict[str, object] = {"shutdownGracePeriod": "90s", "shutdownGracePeriodCriticalPods": "30s"}
    if pool.efa:
        # A replica of all eight GPUs needs both NUMA nodes, so one node alone would be refused to it.
        kubelet |= {"topologyManagerPolicy": "restricted"}
    spec: dict[str, object] = {"kubelet": {"config": kubelet}, "featureGates": {"FastImagePull": True}}
    if has_nvme(pool):
        # Images stay on the EBS disk: a stop wipes the instance store, and a warm node starts again without pulling.
        spec["instance"] = {"localStorage": {"strategy": "RAID0", "disabledMounts": ["Containerd"]}}
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    body = yaml.safe_dump(config, sort_keys=True)
    head = f'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="{_BOUNDARY}"\n'
    return f"{head}\n--{_BOUNDARY}\nContent-Type: application/node.eks.aws\n\n{body}\n--{_BOUNDARY}--\n"


def _bottlerocket() -> str:
    lines = [
        "[settings.kubernetes]",
        'shutdown-grace-period = "90s"',
        'shutdown-grace-period-for-critical-pods = "30s"',
        "[settings.container-runtime]",
        'snapshotter = "soci"',
    ]
    return "\n".join(lines) + "\n"
