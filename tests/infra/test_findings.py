"""What a real account would have refused, or done otherwise: facts from AWS's and Kubernetes' own documentation."""

import base64
import json
import re
from fnmatch import fnmatch

import pytest
import yaml

from infra.catalogue.instances import instances
from infra.components.site import Site
from infra.components.userdata import has_nvme, user_data
from infra.config.load import load
from infra.config.pools import Pool
from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import dig, items, mapping, number, text
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


def test_the_autoscaler_knows_gpu_nodes_and_waits_for_drains(
    by_label: dict[str, Capture], clusters: tuple[Capture, ...]
) -> None:
    """Finding R6: GPU groups carry its own label, and no drain is cut before the longest worker's grace ends."""
    for node in of(by_label, EAST, GROUP):
        tainted = bool(items(node.inputs, "taints"))
        assert ("k8s.amazonaws.com/accelerator" in mapping(node.inputs, "labels")) == tainted
    release = named(of(by_label, "platform-us-east-1", "kubernetes:helm.sh/v3:Release"), "cluster-autoscaler")
    patience = number(mapping(release.inputs, "values.extraArgs"), "max-graceful-termination-sec")
    graces = [
        number(node.inputs, "spec.template.spec.terminationGracePeriodSeconds")
        for kind in ("Deployment", "StatefulSet")
        for item in clusters
        for node in item.graph.of(f"kubernetes:apps/v1:{kind}")
    ]
    assert patience > max(graces)


@pytest.mark.parametrize(
    ("path", "comes_in"),
    [
        ("/v1/chat/completions", True),
        ("/v1/models/a/b", True),
        ("/docs", True),
        ("/docs/start.js", True),
        ("/v2", True),
        ("/v2/models/efficientnet/infer", True),
        ("/v2/health/ready", True),
        ("/openapi.json", True),
        ("/readyz/region", True),
        ("/readyz", False),
        ("/metrics", False),
        ("/healthz", False),
        ("/internal/anything", False),
        ("/", False),
        ("/v1", False),
    ],
)
def test_only_the_public_interface_comes_in(by_label: dict[str, Capture], path: str, comes_in: bool) -> None:
    """Finding R12: the balancer forwards the listed paths and answers everything else itself."""
    (listener,) = of(by_label, EAST, "aws:lb/listener:Listener")
    assert text(listener.inputs, "defaultActions.0.type") == "fixed-response"
    rules = of(by_label, EAST, "aws:lb/listenerRule:ListenerRule")
    patterns = [str(one) for rule in rules for one in items(rule.inputs, "conditions.0.pathPattern.values")]
    assert all(len(items(rule.inputs, "conditions.0.pathPattern.values")) <= 5 for rule in rules)  # a rule's quota
    assert len({dig(rule.inputs, "priority") for rule in rules}) == len(rules)
    assert any(fnmatch(path, pattern) for pattern in patterns) == comes_in


COUNTED = {
    "AWSManagedRulesCommonRuleSet": {
        "NoUserAgent_HEADER",
        "SizeRestrictions_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
    },
    "AWSManagedRulesKnownBadInputsRuleSet": {"JavaDeserializationRCE_BODY", "Log4JRCE_BODY", "ReactJSRCE_BODY"},
}
"""https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html"""


def test_no_prompt_is_blocked_for_what_it_says(by_label: dict[str, Capture]) -> None:
    """Finding R13: every managed rule that reads a body counts, and so does the one against nameless programs."""
    for acl in of(by_label, "mesh", "aws:wafv2/webAcl:WebAcl"):
        for rule in items(acl.inputs, "rules"):
            group = mapping(rule, "statement.managedRuleGroupStatement")
            counted = {
                text(one, "name")
                for one in items(group, "ruleActionOverrides")
                if "count" in mapping(one, "actionToUse")
            }
            assert COUNTED.get(text(rule, "name"), set()) <= counted


def test_callers_with_a_credential_meet_no_bound_by_address(by_label: dict[str, Capture]) -> None:
    """Finding R13: the bound by address is for those without a credential, and says when to come back."""
    for acl in of(by_label, "mesh", "aws:wafv2/webAcl:WebAcl"):
        rules = {text(rule, "name"): rule for rule in items(acl.inputs, "rules")}
        (flood,) = [rule for rule in rules.values() if mapping(rule, "statement.rateBasedStatement")]
        scope = mapping(flood, "statement.rateBasedStatement.scopeDownStatement.notStatement.statement")
        mark = rules[text(scope, "labelMatchStatement.key")]
        assert number(mark, "priority") < number(flood, "priority")
        headers = {
            text(one, "sizeConstraintStatement.fieldToMatch.singleHeader.name")
            for one in items(mark, "statement.orStatement.statements")
        }
        assert headers == {"authorization", "x-api-key"}
        assert number(flood, "action.block.customResponse.responseCode") == 429


def test_the_trail_does_not_record_its_own_deliveries(by_label: dict[str, Capture]) -> None:
    """Finding G5: the selector of object writes leaves out the bucket that the trail writes to."""
    (trail,) = of(by_label, "global", "aws:cloudtrail/trail:Trail")
    bucket = named(of(by_label, "global", "aws:s3/bucket:Bucket"), "audit-us-east-1")
    fields = [field for one in items(trail.inputs, "advancedEventSelectors") for field in items(one, "fieldSelectors")]
    left_out = [str(one) for field in fields for one in items(field, "notStartsWiths")]
    assert left_out == [f"arn:aws:s3:::{text(bucket.inputs, 'bucket')}/"]


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


def test_the_autoscaler_can_choose_a_zone(by_label: dict[str, Capture]) -> None:
    """Finding R9: each group stands in one zone, and the zones' shares add up to what the config gives the pool."""
    for region in by_label["region-us-east-1"], by_label["region-us-west-2"]:
        sizes: dict[str, list[float]] = {}
        for node in region.graph.of(GROUP):
            assert len(items(node.inputs, "subnetIds")) == 1
            pool = str(mapping(node.inputs, "labels")["penstock.io/pool"])
            found = sizes.setdefault(pool, [0, 0, 0])
            for index, path in enumerate(("scalingConfig.minSize", "scalingConfig.maxSize", "warmPoolConfig.minSize")):
                found[index] += number(node.inputs, path)
        assert sizes["l40s-base"] == [3, 12, 3]
        assert sizes["system"] == [3, 9, 0]
        assert sizes["a100-mig"] == [0, 1, 0]


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


def test_a_worker_leaves_before_a_groups_update_gives_up(captures: tuple[Capture, ...]) -> None:
    """EKS ends the update of a group with an error if a pod has not left its node within fifteen minutes."""
    # https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html: PodEvictionFailure.
    shipped = [pools for item in captures if (pools := pools_of(item.graph))]
    graces = [one.template["spec"]["terminationGracePeriodSeconds"] for pools in shipped for one in pools.devices]  # type: ignore[index]
    assert graces
    assert max(graces) < 15 * 60


def test_a_device_has_a_price_and_a_slice_a_part_of_it(captures: tuple[Capture, ...]) -> None:
    """The controller tells what workers cost: of east's devices, by the cheapest machine of their first pools."""
    (shipped,) = [pools for item in captures if item.label == "serving-us-east-1" and (pools := pools_of(item.graph))]
    prices = {one.name: one.dollars_per_hour for one in shipped.devices}
    expected = {"l40s": 2.2421, "a100-40-3g-20gb": round(21.95764 / 16, 4)}
    assert {name: price for name, price in prices.items() if name in expected} == expected
    assert all(price is not None and price > 0 for price in prices.values())
