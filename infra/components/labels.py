"""The labels and taints that tie pods to nodes. A worker asks for a kind of GPU; the controller adds the node scaler
that may answer it (ADR 0121), so neither scaler sees the other's pods.
"""

from infra.catalogue.instances import instances
from infra.config.kinds import Scaler
from infra.config.pools import Pool

POOL = "penstock.io/pool"
ROLE = "penstock.io/role"
SCALER = "penstock.io/scaler"
CAPACITY = "penstock.io/capacity"
GPU = "penstock.io/gpu"
FAMILY = "penstock.io/family"
MIG_CONFIG = "nvidia.com/mig.config"
GPU_TAINT = "nvidia.com/gpu"
GPU_TAINT_VALUE = "present"
ZONE = "topology.kubernetes.io/zone"
ACCELERATOR = "k8s.amazonaws.com/accelerator"
"""Cluster Autoscaler's own GPU label: with it a node is ready for it only once its GPUs are."""

HOST = "kubernetes.io/hostname"


def pool_labels(pool: Pool) -> dict[str, str]:
    """What every node of the pool carries."""
    first = instances()[pool.instance_types[0]]
    labels = {POOL: pool.name, ROLE: pool.role, SCALER: pool.scaler.value, CAPACITY: pool.capacity.value}
    if pool.gpu:
        labels |= {GPU: first.gpu, FAMILY: first.family}
        if pool.scaler is Scaler.ASG:
            labels[ACCELERATOR] = first.gpu.lower()
    if pool.mig:
        labels[MIG_CONFIG] = mig_config_name(pool)
    return labels


def mig_config_name(pool: Pool) -> str:
    """The name of the pool's layout in the MIG manager's config map; one layout per pool, for a change resets GPUs."""
    return f"penstock-{pool.name}"


def mig_resource(profile: str) -> str:
    """The extended resource of one slice under the device plugin's mixed strategy."""
    return f"nvidia.com/mig-{profile}"
