"""A network and a cluster of others: what does not fit is refused in words, and what fits is walked to its end."""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from infra.capture.fleet import capture_fleet
from infra.capture.others import route
from infra.capture.run import ORGANIZATION, CaptureFailedError, run
from infra.config.existing import Existing, judge_named
from infra.config.kinds import Tier
from infra.config.load import load
from infra.config.model import Fleet
from infra.config.problems import ConfigRefusedError
from infra.estimate.report import estimate
from infra.graph.captured import Capture
from infra.graph.values import Json, dig, items, parsed
from infra.kube.namespaces import LEVELS
from infra.rendered.checked_in import facts
from infra.stacks import global_, region
from tests.infra.edits import Spoil, plant
from tests.infra.existing import CLUSTER, DRIVER, VPC, Cloud, cloud, named
from tests.infra.model.judge import faults
from tests.infra.model.neighbours import ADDED, neighbours
from tests.infra.model.world import World

ZONE = "use1-az2"
NODES = f"subnet-private-{ZONE}"
PAGE = Path(__file__).parents[2].joinpath("infra/README.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("### A network or a cluster of yours")[2].partition("\n### ")[0]
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
THEIRS = ("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:eks/cluster:Cluster", "aws:eks/addon:Addon")


def others(fleet: Fleet) -> Existing:
    existing = fleet.regions[0].existing
    assert existing is not None
    return existing


@pytest.fixture(scope="module")
def whole() -> tuple[Fleet, tuple[Capture, ...]]:
    fleet = named()
    return fleet, capture_fleet(fleet)


def test_all_of_others_works(whole: tuple[Fleet, tuple[Capture, ...]]) -> None:
    """The walks pass over a fleet in a network and a cluster of others, and none of it is made again or changed."""
    fleet, captures = whole
    assert [one for one in faults(fleet, captures) if not one.startswith("access: ")] == []
    made = next(one.graph for one in captures if one.label == "region-us-east-1")
    assert [node.urn for node in made.resources() if node.type in THEIRS] == []
    assert [node.urn for node in made.of(ENDPOINT)] == []
    assert made.exports["clusterName"] == CLUSTER


def test_the_month_needs_no_account(whole: tuple[Fleet, tuple[Capture, ...]]) -> None:
    """`make infra-cost` answers its own questions: pools cost, and what others made costs them."""
    fleet, captures = whole
    (item,) = (one for one in captures if one.label == "region-us-east-1")
    told = estimate(fleet.environment, item.kind, item.graph, fleet.regions[0])
    assert any(line.what.startswith("pool ") for line in told.lines)
    assert not [one for one in told.lines if one.what == "Cluster serving" or one.what.startswith("NatGateway")]


def test_their_driver_may_use_the_key_of_volumes(whole: tuple[Fleet, tuple[Capture, ...]]) -> None:
    """The cluster's own driver brings volumes that our key encrypts; no other key of ours names it."""
    (graph,) = (one.graph for one in whole[1] if one.label == "region-us-east-1")
    allowed = {
        key.name: {str(action) for one in items(parsed(key.inputs["policy"]), "Statement") for action in named_in(one)}
        for key in graph.of("aws:kms/key:Key")
    }
    (name,) = (key for key, actions in allowed.items() if actions)
    assert name == "nodes-us-east-1"
    needed = {"Decrypt", "GenerateDataKeyWithoutPlaintext", "DescribeKey", "CreateGrant"}
    assert {f"kms:{action}" for action in needed} <= allowed[name]


def named_in(statement: Json) -> list[Json]:
    """The actions of a statement that names the driver's role."""
    return items(statement, "Action") if DRIVER in items(statement, "Principal.AWS") else []


GATEWAY = {"vpcId": VPC, "vpcEndpointType": "Gateway", "serviceName": "com.amazonaws.us-east-1.s3"}
INTERFACE = {"vpcId": VPC, "privateDnsEnabled": True, "serviceName": "com.amazonaws.us-east-1.sts"}
OURS_ALONE = (
    '{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "s3:*", "Resource": "arn:aws:s3:::penstock-dev-*"}}'
)
HARMS = [
    (ENDPOINT, GATEWAY, "changes it"),
    (ENDPOINT, {**GATEWAY, "policy": OURS_ALONE}, "lose s3: the endpoint's policy names ours alone"),
    (ENDPOINT, {**INTERFACE, "securityGroupIds": ["sg-ours"]}, "lose sts: its endpoint lets 10.48.0.0/16 in alone"),
    ("aws:ec2/networkAclRule:NetworkAclRule", {"vpcId": VPC}, "changes it"),
    ("aws:ec2/routeTableAssociation:RouteTableAssociation", {"subnetId": NODES}, "changes it"),
    ("aws:eks/addon:Addon", {"clusterName": CLUSTER}, "changes it"),
]


@pytest.mark.parametrize(("kind", "inputs", "fault"), HARMS)
def test_neighbours_keep_their_ways(
    whole: tuple[Fleet, tuple[Capture, ...]], kind: str, inputs: dict[str, Json], fault: str
) -> None:
    """What draws the calls of other workloads to itself, or changes a thing of theirs, makes a sentence."""
    fleet, captures = whole
    world = World(fleet=fleet, region="us-east-1", captures=captures)
    assert list(neighbours(world)) == []
    spoil: Spoil = plant(kind, "strange", **inputs)
    spoilt = tuple(replace(one, graph=spoil(one.graph)) if one.label == "region-us-east-1" else one for one in captures)
    told = list(neighbours(replace(world, captures=spoilt, kept={})))
    assert any(fault in line for line in told), told


def test_the_page_names_all_that_is_added() -> None:
    """What may be put beside others is told to them, kind by kind."""
    assert [words for words in ADDED.values() if words not in SECTION] == []


def test_a_network_of_others_takes_a_cluster_of_ours(whole: tuple[Fleet, tuple[Capture, ...]]) -> None:
    """Without a cluster's name, ours is made in their subnets."""
    fleet = named(cluster="")
    made = run(east(fleet), project="p", stack="s", account="4", producers=exported(whole[1]), cloud=cloud(fleet))
    (cluster,) = [node for node in made.resources() if node.type == THEIRS[2]]
    assert dig(cluster.inputs, "vpcConfig.subnetIds") == [*others(fleet).of(Tier.PRIVATE).values()]


def exported(captures: tuple[Capture, ...]) -> dict[str, Mapping[str, Json]]:
    return {f"{ORGANIZATION}/penstock-global/dev": captures[0].graph.exports}


def test_what_the_account_has_is_left_alone() -> None:
    """A linked role and an identity provider that are there are used and not made; the pipeline's role stays."""
    fleet = load("dev")
    assert fleet.environment.publisher is not None
    has = ("autoscaling.amazonaws.com", fleet.environment.publisher.issuer)
    used = replace(fleet, environment=replace(fleet.environment, account_has=has))
    made = run(partial(global_.program, used), project="p", stack="s", account="4", producers={})
    assert [node.name for node in made.of("aws:iam/serviceLinkedRole:ServiceLinkedRole")] == ["spot"]
    assert [*made.of("aws:iam/openIdConnectProvider:OpenIdConnectProvider")] == []
    (pipeline,) = (node for node in made.of("aws:iam/role:Role") if "publisher" in node.name)
    (trust,) = items(parsed(pipeline.inputs["assumeRolePolicy"]), "Statement")
    assert items(trust, "Principal.Federated") == [f"arn:aws:iam::444455556666:oidc-provider/{has[1]}"]


def test_the_page_looks_for_operators_that_are_there() -> None:
    """What the platform's stack makes is looked for in a used cluster by name: namespaces, kinds, node scalers."""
    (looks,) = (block for block in re.findall(r"```sh\n(.*?)```", SECTION, re.DOTALL) if "--ignore-not-found" in block)
    spaces, kinds, scalers = (shlex.split(line) for line in looks.splitlines()[1:])
    assert sorted(set(spaces) & set(LEVELS)) == sorted(LEVELS)
    brought = {chart: {*one["crds"]["in_templates"], *one["crds"]["outside"]} for chart, one in facts().items()}
    assert [chart for chart, names in brought.items() if names and not names & set(kinds)] == []
    assert scalers[-1] == "app.kubernetes.io/name in (cluster-autoscaler, aws-cluster-autoscaler, karpenter)"


def east(fleet: Fleet) -> Callable[[], None]:
    return partial(region.program, fleet, "us-east-1")


def answer(question: str, **changed: object) -> Callable[[Cloud], None]:
    def spoil(found: Cloud) -> None:
        found[question] = {**(found[question] or {}), **changed}

    return spoil


def of_cluster(**changed: object) -> Callable[[Cloud], None]:
    return answer(f"aws:eks/getCluster:getCluster {CLUSTER}", **changed)


def addon(name: str, **changed: object) -> Callable[[Cloud], None]:
    return answer(f"aws:eks/getAddon:getAddon {name} {CLUSTER}", **changed)


def subnet(name: str, **changed: object) -> Callable[[Cloud], None]:
    return answer(f"aws:ec2/getSubnet:getSubnet {name}", **changed)


def absent(question: str) -> Callable[[Cloud], None]:
    """Have the provider say that it knows no such thing."""

    def spoil(found: Cloud) -> None:
        assert question in found
        found[question] = None

    return spoil


def routes(tier: Tier, *way: object) -> Callable[[Cloud], None]:
    return answer(f"aws:ec2/getRouteTable:getRouteTable rtb-{tier}", routes=[*way])


def on_the_main_table(found: Cloud) -> None:
    """Take the associations of private subnets away: EC2 then uses the table that is the VPC's main one."""
    answer("aws:ec2/getRouteTable:getRouteTable rtb-private", associations=[])(found)


INTERNET, FIREWALL = route(gatewayId="igw-1"), route(vpcEndpointId="vpce-1")
ELSEWHERE = {"vpcId": "vpc-9", "clusterSecurityGroupId": "sg-cluster", "endpointPrivateAccess": False}
FAULTS = [
    (answer(f"aws:ec2/getVpc:getVpc {VPC}", enableDnsHostnames=False), "vpc_id: gives no DNS host names", "modify-vpc"),
    (
        answer(f"aws:ec2/getVpc:getVpc {VPC}", cidrBlockAssociations=[{"cidrBlock": "10.9.0.0/16"}]),
        "cidr: is 10.48.0.0/16, the VPC has 10.9.0.0/16",
        "write the one that the subnets lie in",
    ),
    (subnet(NODES, cidrBlock="100.64.0.0/18"), f"({NODES}): has 100.64.0.0/18, outside of `cidr`", "10.48.0.0/16"),
    (subnet(NODES, vpcId="vpc-9"), f"({NODES}): is in vpc-9", f"a subnet of {VPC}"),
    (subnet(NODES, availabilityZoneId="use1-az1"), f"({NODES}): is in use1-az1", "`zone_id`"),
    (subnet(NODES, mapPublicIpOnLaunch=True), f"({NODES}): is public, and named private: nodes", "NAT"),
    (routes(Tier.PRIVATE, INTERNET), f"({NODES}): is public, and named private: nodes", "NAT"),
    (routes(Tier.PRIVATE), f"({NODES}): has no way out", "default route"),
    (routes(Tier.DATA, INTERNET), "is public, and named data: databases", "NAT"),
    (
        routes(Tier.PUBLIC, route(natGatewayId="nat-2")),
        "no public subnet: its default route leads to nat-2",
        "internet gateway",
    ),
    (subnet(NODES, availableIpAddressCount=20), f"({NODES}): has 20 free addresses", "64 for each node"),
    (subnet(NODES, tags={}), f"({NODES}): lacks tags", "create-tags --resources"),
    (on_the_main_table, f"({NODES}): has no way out", "default route"),
    (of_cluster(version="1.33"), "cluster: runs 1.33, the pins are of 1.35", "raise the cluster"),
    (of_cluster(status="UPDATING"), "cluster: is UPDATING", "wait"),
    (of_cluster(vpcConfig=ELSEWHERE), "cluster: stands in vpc-9", "of this VPC"),
    (of_cluster(vpcConfig=ELSEWHERE), "cluster: has no private endpoint", "endpointPrivateAccess"),
    (of_cluster(accessConfigs=[]), "authenticates by CONFIG_MAP", "authenticationMode=API_AND_CONFIG_MAP"),
    (addon("vpc-cni", configurationValues="{}"), "cluster: enforces no network policies", "enableNetworkPolicy"),
    (addon("coredns", addonVersion="v1.10.1-eksbuild.1"), "cluster.coredns: is v1.10.1", "update-addon"),
    (of_cluster(kubernetesNetworkConfigs=[{"serviceIpv4Cidr": "10.96.0.0/16"}]), "addresses of 10.96.0.0/16", "leave"),
    (of_cluster(kubernetesNetworkConfigs=[{"serviceIpv4Cidr": ""}]), "gives services addresses of IPv6", "leave"),
    (absent(f"aws:eks/getAddon:getAddon coredns {CLUSTER}"), "existing.cluster.coredns: AWS tells nothing", "create-"),
    (absent(f"aws:eks/getAddon:getAddon vpc-cni {CLUSTER}"), "cluster: enforces no network policies", "enableNetwork"),
    (absent(f"aws:eks/getCluster:getCluster {CLUSTER}"), "existing.cluster: AWS tells nothing", "name a cluster"),
    (absent(f"aws:ec2/getSubnet:getSubnet {NODES}"), f"subnets({NODES}): AWS tells nothing", f"a subnet of {VPC}"),
    (absent(f"aws:ec2/getVpc:getVpc {VPC}"), "existing.vpc_id: AWS tells nothing", "name a VPC"),
]


@pytest.fixture(scope="module")
def questions() -> tuple[Fleet, Cloud]:
    fleet = named()
    return fleet, cloud(fleet)


@pytest.mark.parametrize(("spoil", "fault", "remedy"), FAULTS, ids=[fault for _, fault, _ in FAULTS])
def test_what_does_not_fit_is_refused(
    questions: tuple[Fleet, Cloud], spoil: Callable[[Cloud], None], fault: str, remedy: str
) -> None:
    """Each fact that would not work is told with its field and remedy, before anything is made."""
    fleet, fine = questions
    spoilt = {**fine}
    spoil(spoilt)
    told = refused(fleet, spoilt)
    assert any(fault in line and remedy in line for line in told), told


def refused(fleet: Fleet, spoilt: Cloud) -> list[str]:
    """The lines in which the region's program ends, before its own keys and roles."""
    with pytest.raises(CaptureFailedError, match="config refused") as failed:
        run(east(fleet), project="p", stack="s", account="4", producers={}, cloud=spoilt)
    return str(failed.value).splitlines()


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"zone_id": "use1-az4"}, "has private in use1-az4, use1-az4, use1-az6"),
        ({"tier": Tier.DATA}, "has private in use1-az4, use1-az6"),
    ],
)
def test_one_subnet_a_tier_and_zone(questions: tuple[Fleet, Cloud], changed: dict[str, str], fault: str) -> None:
    """Subnets of one zone, two in one, or none of a tier are refused without asking the cloud."""
    existing, zones = others(questions[0]), questions[0].regions[0].zone_ids
    moved = tuple(replace(one, **changed) if one.id == NODES else one for one in existing.subnets)  # type: ignore[arg-type]
    told = [str(one) for one in judge_named("us-east-1", zones, replace(existing, subnets=moved))]
    assert any(fault in line and "give one private subnet in each of" in line for line in told), told
    same = tuple(replace(one, id=NODES) for one in existing.subnets)
    told = [str(one) for one in judge_named("us-east-1", zones, replace(existing, subnets=same))]
    assert any(f"{NODES} stands 9 times" in line for line in told), told


@pytest.mark.parametrize("change", [routes(Tier.PRIVATE, FIREWALL), routes(Tier.PUBLIC, FIREWALL)])
def test_a_firewall_is_a_way(whole: tuple[Fleet, tuple[Capture, ...]], change: Callable[[Cloud], None]) -> None:
    """A default route to a firewall's endpoint is a way out of private subnets, and public before a gateway."""
    fleet, captures = whole
    changed = cloud(fleet)
    change(changed)
    run(east(fleet), project="p", stack="s", account="4", producers=exported(captures), cloud=changed)


def test_a_cluster_names_its_driver(questions: tuple[Fleet, Cloud]) -> None:
    """Without the driver's role no volume of ours is ever made: it is asked for before the cloud is."""
    region_of = questions[0].regions[0]
    told = [*judge_named("us-east-1", region_of.zone_ids, replace(others(questions[0]), volumes_role=""))]
    assert [one.key for one in told] == ["us-east-1.existing.volumes_role"]
    assert f"describe-addon --cluster-name {CLUSTER} --addon-name aws-ebs-csi-driver" in told[0].remedy


def test_the_config_takes_them(environments: Path) -> None:
    """A team writes them into the region's file; any private block will do there, and a misspelt tier will not."""
    file = environments / "prod/us-east-1.yaml"
    zones = ("use1-az2", "use1-az4", "use1-az6")
    rows = [f"{{id: subnet-{tier}-{zone}, zone_id: {zone}, tier: {tier}}}" for tier in Tier for zone in zones]
    text = file.read_text(encoding="utf-8").replace("cidr: 10.16.0.0/16", "cidr: 10.16.0.0/18")
    whole_of = f'vpc_id: {VPC}, cluster: {CLUSTER}, volumes_role: "{DRIVER}", subnets: [{", ".join(rows)}]'
    file.write_text(f"{text}existing: {{{whole_of}}}\n", encoding="utf-8")
    taken = load("prod", environments).regions[0]
    assert (taken.cluster, len(others(load("prod", environments)).subnets)) == (CLUSTER, 9)
    file.write_text(file.read_text(encoding="utf-8").replace("tier: data", "tier: stores"))
    with pytest.raises(ConfigRefusedError, match="use one of: public, private, data"):
        load("prod", environments)
