"""The closed sets of the config, so a misspelt word is refused by name and never deployed."""

from enum import StrEnum

LINKED_ROLES = {
    "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
}
"""Who boots machines for us, by service: node groups through the first, Karpenter's spot through the second."""


class Capacity(StrEnum):
    """How a pool's machines are bought. One pool has exactly one."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVED = "reserved"
    CAPACITY_BLOCK = "capacity-block"


class Scaler(StrEnum):
    """The scaler that adds and removes a pool's nodes; the two never see each other's pods."""

    ASG = "asg"
    KARPENTER = "karpenter"


class Image(StrEnum):
    """The EKS-optimised images the pools may boot, by the name of the EKS API."""

    AL2023_CPU = "AL2023_x86_64_STANDARD"
    AL2023_GPU = "AL2023_x86_64_NVIDIA"
    BOTTLEROCKET_CPU = "BOTTLEROCKET_x86_64"
    BOTTLEROCKET_GPU = "BOTTLEROCKET_x86_64_NVIDIA"

    @property
    def for_gpu(self) -> bool:
        """Whether the image carries the NVIDIA driver."""
        return self.value.endswith("NVIDIA")

    @property
    def bottlerocket(self) -> bool:
        """Whether user data is TOML and the warm pool can neither hibernate nor reuse."""
        return self.value.startswith("BOTTLEROCKET")


class WarmState(StrEnum):
    """What a warm instance does while it waits, in the spelling of the EKS API."""

    STOPPED = "STOPPED"
    RUNNING = "RUNNING"
    HIBERNATED = "HIBERNATED"


class DataClass(StrEnum):
    """How sensitive the bytes behind a resource are; a tag on everything that can carry one."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"


class Tier(StrEnum):
    """The use of a subnet: for load balancer and NAT, for nodes and pods, for stores."""

    PUBLIC = "public"
    PRIVATE = "private"
    DATA = "data"


class Purpose(StrEnum):
    """What a customer managed key is for. One key per purpose, so a grant on one opens nothing else."""

    ARTIFACTS = "artifacts"
    DATA = "data"
    AUDIT = "audit"
    LOGS = "logs"
    CLUSTER = "cluster"
    NODES = "nodes"
    MESSAGES = "messages"
    PAYLOADS = "payloads"
    SEALING = "sealing"
    REGISTRY = "registry"
    SIGNING = "signing"
    MODELS = "models"
    CHAIN = "chain"


class StackKind(StrEnum):
    """The five programs, in the order in which they are brought up."""

    GLOBAL = "global"
    REGION = "region"
    PLATFORM = "platform"
    SERVING = "serving"
    MESH = "mesh"
