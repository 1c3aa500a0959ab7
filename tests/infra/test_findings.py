"""What a real account would have refused, or done otherwise: facts from AWS's and Kubernetes' own documentation."""

import base64
import json
import re

import pytest
import yaml

from infra.catalogue.instances import instances
from infra.components.site import Site
from infra.components.userdata import has_nvme, user_data
from infra.config.load import load
from infra.config.pools import Pool
from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import items, text
from infra.kube.sizing import Device, devices
from infra.kube.worker_pod import WorkerPod
from tests.infra.written import pools_of

GROUP = "aws:eks/nodeGroup:NodeGroup"
TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
EAST = "region-us-east-1"

LONGEST = {
    ("aws:iam/role:Role", "name"): (64, r"[\w+=,.@-]+"),
    ("aws:iam/policy:Policy", "name"): (128, r"[\w+=,.@-]+"),
    ("aws:lb/loadBalancer:LoadBalancer", "name"): (32, r"[A-Za-z0-9-]+"),
    ("aws:lb/targetGroup:TargetGroup", "namePrefix"): (6, r"[A-Za-z0-9-]+"),
    ("aws:s3/bucket:Bucket", "bucket"): (63, r"[a-z0-9.-]+"),
    ("aws:elasticache/replicationGroup:ReplicationGroup", "replicationGroupId"): (40, r"[a-z][a-z0-9-]+"),
    ("aws:eks/cluster:Cluster", "name"): (100, r"[A-Za-z0-9][A-Za-z0-9-]+"),
    ("aws:eks/nodeGroup:NodeGroup", "nodeGroupNamePrefix"): (37, r"[A-Za-z0-9][A-Za-z0-9-]+"),
    ("aws:sqs/queue:Queue", "name"): (80, r"[\w-]+"),
    ("aws:rds/cluster:Cluster", "clusterIdentifier"): (63, r"[a-z][a-z0-9-]+"),
    ("aws:kms/alias:Alias", "name"): (256, r"alias/[\w/-]+"),
}
"""How long a name may be and of which letters, by the API reference of each service."""


def of(by_label: dict[str, Capture], label: str, token: str) -> list[Node]:
    return list(by_label[label].graph.of(token))


def named(nodes: list[Node], name: str) -> Node:
    return next(node for node in nodes if node.name == name)


def test_every_name_is_one_that_aws_takes(captures: tuple[Capture, ...]) -> None:
    """Finding U6: each physical name has the length and letters that its service allows, in any region."""
    seen = 0
    for item in captures:
        for node in item.graph.nodes:
            for (token, key), (most, letters) in LONGEST.items():
                name = text(node.inputs, key) if node.type == token else ""
                if name:
                    seen += 1
                    longest = name.replace(node.region, "ap-southeast-2") if node.region else name
                    assert len(longest) <= most, name
                    assert re.fullmatch(letters, name), name
    assert seen > 50


def test_what_may_be_replaced_has_no_fixed_name(captures: tuple[Capture, ...]) -> None:
    """Finding R8: whatever an update may have to replace is made anew before the old one goes."""
    replaceable = {GROUP, TEMPLATE, "aws:lb/targetGroup:TargetGroup", "aws:ec2/securityGroup:SecurityGroup"}
    fixed = [
        node.urn
        for item in captures
        for node in item.graph.of(*replaceable)
        if "name" in node.inputs or "nodeGroupName" in node.inputs
    ]
    assert fixed == []


def test_a_replica_of_all_gpus_is_admitted_by_its_node(by_label: dict[str, Capture]) -> None:
    """Finding R5: no node asks for one NUMA node alone, for a p5's eight GPUs hang on two."""
    for node in of(by_label, EAST, TEMPLATE):
        told = base64.b64decode(text(node.inputs, "userData")).decode()
        assert "single-numa-node" not in told
        if node.name == "h100-block":
            body = told.split("application/node.eks.aws\n\n")[1].split("\n--")[0]
            assert yaml.safe_load(body)["spec"]["kubelet"]["config"]["topologyManagerPolicy"] == "restricted"


def test_regions_share_no_record(by_label: dict[str, Capture]) -> None:
    """Finding R18: the shared domain's proof is the account's, so a region that goes breaks no other's certificate."""
    token = "aws:route53/record:Record"
    names = [(label, text(node.inputs, "name")) for label in by_label for node in of(by_label, label, token)]
    proofs = [(label, name) for label, name in names if name.startswith("_")]
    assert len({name for _, name in proofs}) == len(proofs) == 3
    assert all("region" in label or label == "global" for label, _ in proofs)
    assert not [node for label in by_label for node in of(by_label, label, token) if node.inputs.get("allowOverwrite")]


def test_a_region_needs_no_other(by_label: dict[str, Capture], captures: tuple[Capture, ...]) -> None:
    """Finding R16: each region has a database that it writes itself, and no stack joins them into one."""
    assert not [node for item in captures for node in item.graph.of("aws:rds/globalCluster:GlobalCluster")]
    for region in ("us-east-1", "us-west-2"):
        (cluster,) = of(by_label, f"region-{region}", "aws:rds/cluster:Cluster")
        assert cluster.inputs["masterUsername"]
        assert "globalClusterIdentifier" not in cluster.inputs


def test_the_zone_can_be_delegated(by_label: dict[str, Capture]) -> None:
    """Finding G4: the name servers that the parent zone must name are an output of the first stack."""
    assert len(items(by_label["global"].graph.exports, "nameServers")) == 4


def test_children_wait_for_what_their_component_waits_for(by_label: dict[str, Capture]) -> None:
    """What a component depends on, its resources depend on: the engine itself passes no such wait down."""
    (replication,) = of(by_label, "global", "aws:ecr/replicationConfiguration:ReplicationConfiguration")
    assert any("RepositoryCreationTemplate" in urn for urn in replication.dependencies)
    gateway = named(of(by_label, "serving-us-east-1", "kubernetes:apps/v1:StatefulSet"), "penstock-gateway")
    assert any("NetworkPolicy" in urn for urn in gateway.dependencies)


def test_key_policies_name_roles_that_exist(by_label: dict[str, Capture]) -> None:
    """Finding R3: each service-linked role that a key policy names is made first; KMS refuses one that is not there."""
    made = {
        text(node.inputs, "awsServiceName")
        for node in of(by_label, "global", "aws:iam/serviceLinkedRole:ServiceLinkedRole")
    }
    told = set()
    for node in of(by_label, EAST, "aws:kms/key:Key"):
        told |= set(re.findall(r"aws-service-role/([\w.]+)/", json.dumps(text(node.inputs, "policy"))))
    assert told == made != set()


@pytest.mark.parametrize("device", devices(load("prod").region("us-east-1").pools), ids=lambda one: one.name)
def test_versions_leave_room_on_the_nodes_disk(device: Device) -> None:
    """Finding N8: copies of versions end well before kubelet evicts, on the smallest machine with the device."""
    # kubelet, `--eviction-hard`: nodefs.available<10%; nodeadm joins the instance stores below /var/lib/kubelet, too.
    smallest = min(instances()[name].nvme_gb for pool in device.pools for name in pool.instance_types) * 10**9
    cache = WorkerPod(
        site=Site(environment=load("prod").environment, region="us-east-1"), device=device, artifact_bucket="b"
    )
    assert 0 < cache.cache_bytes < 0.9 * smallest - 50 * 10**9


@pytest.mark.parametrize("pool", [pool for pool in load("prod").region("us-east-1").pools if has_nvme(pool)], ids=str)
def test_images_survive_a_nodes_stop(pool: Pool) -> None:
    """Finding N9: a warm node that is stopped loses its instance store, so images may not lie there."""
    # amazon-eks-ami, nodeadm: localStorage.disabledMounts names what stays on the root disk.
    assert "disabledMounts:\n    - Containerd" in base64.b64decode(user_data(pool)).decode().replace(
        "      - ", "    - "
    )


def test_a_device_has_a_price_and_a_slice_a_part_of_it(captures: tuple[Capture, ...]) -> None:
    """The controller tells what workers cost: of east's devices, by the cheapest machine of their first pools."""
    (shipped,) = [pools for item in captures if item.label == "serving-us-east-1" and (pools := pools_of(item.graph))]
    prices = {one.name: one.dollars_per_hour for one in shipped.devices}
    expected = {"l40s": 2.2421, "a100-40-3g-20gb": round(21.95764 / 16, 4)}
    assert {name: price for name, price in prices.items() if name in expected} == expected
    assert all(price is not None and price > 0 for price in prices.values())
