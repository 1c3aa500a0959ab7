"""Burst and spot nodes: a class and a pool of Karpenter per pool of the config, under labels of their own."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pulumi

from infra.catalogue.instances import instances
from infra.components.labels import GPU_TAINT, GPU_TAINT_VALUE, pool_labels
from infra.components.site import Site
from infra.components.userdata import has_nvme
from infra.config.kinds import Capacity, DataClass
from infra.config.pools import Pool
from infra.kube.manifest import Manifest

CALM = "5m"
"""How long a node stands empty before it goes: shorter would chase every dip in traffic with a cold start."""

MAX_LIFE = "Never"
"""An expiry takes nodes with their streams, past every budget; a new image release replaces them by drift, within
budgets: karpenter.sh/docs/concepts/disruption.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What Karpenter's machines are made from. Subnets are by zone id; only those of the pool's zones are used."""

    node_profile: pulumi.Input[str]
    subnets: pulumi.Output[Mapping[str, str]]
    zone_ids: tuple[str, ...]
    security_group_id: pulumi.Input[str]
    disk_key_arn: pulumi.Input[str]


def manifests(site: Site, pool: Pool, facts: NodeFacts) -> Iterator[Manifest]:
    """The node class and the node pool of one pool."""
    yield _node_class(site, pool, facts)
    yield _node_pool(pool)


def _node_class(site: Site, pool: Pool, facts: NodeFacts) -> Manifest:
    disk = {
        "deviceName": "/dev/xvda",
        "ebs": {
            "volumeType": "gp3",
            "volumeSize": f"{pool.disk_gib}Gi",
            "iops": 6000,
            "throughput": 1000,
            "encrypted": True,
            "kmsKeyID": facts.disk_key_arn,
            "deleteOnTermination": True,
        },
    }
    spec: dict[str, object] = {
        "amiSelectorTerms": [{"alias": f"al2023@{site.environment.kubernetes.node_release}"}],
        "instanceProfile": facts.node_profile,
        "subnetSelectorTerms": facts.subnets.apply(lambda subnets: [{"id": subnets[zone]} for zone in facts.zone_ids]),
        "securityGroupSelectorTerms": [{"id": facts.security_group_id}],
        "blockDeviceMappings": [disk],
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1},
        "detailedMonitoring": True,
        "tags": site.tags(DataClass.INTERNAL, pool=pool.name),
    }
    if has_nvme(pool):
        spec["instanceStorePolicy"] = "RAID0"
    return Manifest(api_version="karpenter.k8s.aws/v1", kind="EC2NodeClass", name=pool.name, body={"spec": spec})


def _node_pool(pool: Pool) -> Manifest:
    types = [instances()[name] for name in pool.instance_types]
    bound = {
        "cpu": pool.max_size * max(item.vcpu for item in types),
        GPU_TAINT: pool.max_size * max(item.gpus for item in types),
        "nodes": pool.max_size,
    }
    template = {
        "metadata": {"labels": pool_labels(pool)},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
            "taints": [{"key": GPU_TAINT, "value": GPU_TAINT_VALUE, "effect": "NoSchedule"}],
            "requirements": _requirements(pool),
            "expireAfter": MAX_LIFE,
            "terminationGracePeriod": "30m",
        },
    }
    return Manifest(
        api_version="karpenter.sh/v1",
        kind="NodePool",
        name=pool.name,
        body={
            "spec": {
                "template": template,
                "limits": {key: value if key == "nodes" else str(value) for key, value in bound.items()},
                "disruption": {
                    "consolidationPolicy": "WhenEmpty",
                    "consolidateAfter": CALM,
                    "budgets": [{"nodes": "1"}],
                },
                "weight": 50 if pool.capacity is Capacity.SPOT else 10,
            }
        },
    )


def _requirements(pool: Pool) -> list[dict[str, object]]:
    capacity = "spot" if pool.capacity is Capacity.SPOT else "on-demand"
    return [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(pool.instance_types)},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
    ]
