"""A network and a cluster of others: what does not fit is refused in words, and what fits is walked to its end."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from infra.capture.fleet import capture_fleet
from infra.capture.run import ORGANIZATION, CaptureFailedError, run
from infra.config.existing import Existing, judge_named
from infra.config.kinds import Tier
from infra.config.load import load
from infra.config.model import Fleet
from infra.config.problems import ConfigRefusedError
from infra.graph.captured import Capture
from infra.graph.values import dig
from infra.stacks import region
from tests.infra.existing import CLUSTER, INTERNET, NOWHERE, VPC, Cloud, cloud, named
from tests.infra.model.judge import faults

ZONE = "use1-az2"
NODES, PUBLIC = f"subnet-private-{ZONE}", f"subnet-public-{ZONE}"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
THEIRS = ("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet", "aws:eks/cluster:Cluster", "aws:eks/addon:Addon")


def others(fleet: Fleet) -> Existing:
    existing = fleet.regions[0].existing
    assert existing is not None
    return existing


@pytest.fixture(scope="module")
def whole() -> tuple[Fleet, tuple[Capture, ...]]:
    fleet = named(endpoints=("s3", "sts"))
    return fleet, capture_fleet(fleet, cloud(fleet))


def test_all_of_others_works(whole: tuple[Fleet, tuple[Capture, ...]]) -> None:
    """The walks pass over a fleet in a network and a cluster of others, and none of it is made again or changed."""
    fleet, captures = whole
    assert [one for one in faults(fleet, captures) if not one.startswith("access: ")] == []
    made = next(one.graph for one in captures if one.label == "region-us-east-1")
    assert [node.urn for node in made.resources() if node.type in THEIRS] == []
    services = {str(node.inputs["serviceName"]).rpartition("us-east-1.")[2] for node in made.of(ENDPOINT)}
    assert {"s3", "sts"} & services == set()
    assert "ecr.api" in services
    assert made.exports["clusterName"] == CLUSTER


def test_a_network_of_others_takes_a_cluster_of_ours(whole: tuple[Fleet, tuple[Capture, ...]]) -> None:
    """Without a cluster's name, ours is made in their subnets."""
    account = {f"{ORGANIZATION}/penstock-global/dev": whole[1][0].graph.exports}
    fleet = named(cluster="")
    made = run(east(fleet), project="p", stack="s", account="4", producers=account, cloud=cloud(fleet))
    (cluster,) = [node for node in made.resources() if node.type == THEIRS[2]]
    assert dig(cluster.inputs, "vpcConfig.subnetIds") == [*others(fleet).of(Tier.PRIVATE).values()]


def east(fleet: Fleet) -> Callable[[], None]:
    return partial(region.program, fleet, "us-east-1")


def answer(question: str, **changed: object) -> Callable[[Cloud], None]:
    def spoil(found: Cloud) -> None:
        found[question] = {**found[question], **changed}

    return spoil


def of_cluster(**changed: object) -> Callable[[Cloud], None]:
    return answer(f"aws:eks/getCluster:getCluster {CLUSTER}", **changed)


def addon(name: str, **changed: object) -> Callable[[Cloud], None]:
    return answer(f"aws:eks/getAddon:getAddon {name} {CLUSTER}", **changed)


def subnet(name: str, **changed: object) -> Callable[[Cloud], None]:
    return answer(f"aws:ec2/getSubnet:getSubnet {name}", **changed)


def routes(name: str, *way: object) -> Callable[[Cloud], None]:
    return answer(f"aws:ec2/getRouteTable:getRouteTable {name}", routes=[*way])


BY_NAT = NOWHERE | {"natGatewayId": "nat-2"}
ELSEWHERE = {"vpcId": "vpc-9", "clusterSecurityGroupId": "sg-cluster", "endpointPrivateAccess": False}
FAULTS = [
    (answer(f"aws:ec2/getVpc:getVpc {VPC}", enableDnsHostnames=False), "vpc_id: gives no DNS host names", "modify-vpc"),
    (answer(f"aws:ec2/getVpc:getVpc {VPC}", cidrBlock="10.9.0.0/16"), "cidr: is 10.48.0.0/16, the VPC has", "write"),
    (subnet(NODES, vpcId="vpc-9"), f"({NODES}): is in vpc-9", f"a subnet of {VPC}"),
    (subnet(NODES, availabilityZoneId="use1-az1"), f"({NODES}): is in use1-az1", "`zone_id`"),
    (subnet(NODES, mapPublicIpOnLaunch=True), f"({NODES}): is public, and named private: nodes", "NAT"),
    (routes(NODES, INTERNET), f"({NODES}): is public, and named private: nodes", "NAT"),
    (routes(NODES), f"({NODES}): has no way out", "default route"),
    (routes(f"subnet-data-{ZONE}", INTERNET), "is public, and named data: databases", "NAT"),
    (
        routes(PUBLIC, NOWHERE | {"natGatewayId": "nat-2"}),
        "no public subnet: its default route leads to nat-2",
        "internet gateway",
    ),
    (subnet(NODES, availableIpAddressCount=20), f"({NODES}): has 20 free addresses", "64 for each node"),
    (subnet(NODES, tags={}), f"({NODES}): lacks tags", "create-tags --resources"),
    (of_cluster(version="1.33"), "cluster: runs 1.33, the pins are of 1.35", "raise the cluster"),
    (of_cluster(status="UPDATING"), "cluster: is UPDATING", "wait"),
    (of_cluster(vpcConfig=ELSEWHERE), "cluster: stands in vpc-9", "of this VPC"),
    (of_cluster(vpcConfig=ELSEWHERE), "cluster: has no private endpoint", "endpointPrivateAccess"),
    (of_cluster(accessConfigs=[]), "authenticates by CONFIG_MAP", "authenticationMode=API_AND_CONFIG_MAP"),
    (addon("vpc-cni", configurationValues="{}"), "cluster: enforces no network policies", "enableNetworkPolicy"),
    (addon("coredns", addonVersion="v1.10.1-eksbuild.1"), "cluster.coredns: is v1.10.1", "update-addon"),
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


def test_an_unknown_name_ends_the_update(questions: tuple[Fleet, Cloud]) -> None:
    """A VPC that is not there is no fact to judge: the engine's own error names it."""
    with pytest.raises(CaptureFailedError, match="getVpc"):
        run(east(questions[0]), project="p", stack="s", account="4", producers={}, cloud={})


def test_the_config_takes_them(environments: Path) -> None:
    """A team writes them into the region's file; any private block will do there, and a misspelt tier will not."""
    file = environments / "prod/us-east-1.yaml"
    zones = ("use1-az2", "use1-az4", "use1-az6")
    rows = [f"{{id: subnet-{tier}-{zone}, zone_id: {zone}, tier: {tier}}}" for tier in Tier for zone in zones]
    text = file.read_text(encoding="utf-8").replace("cidr: 10.16.0.0/16", "cidr: 10.16.0.0/18")
    file.write_text(f"{text}existing: {{vpc_id: {VPC}, cluster: {CLUSTER}, subnets: [{', '.join(rows)}]}}\n")
    taken = load("prod", environments).regions[0]
    assert (taken.cluster, len(others(load("prod", environments)).subnets)) == (CLUSTER, 9)
    file.write_text(file.read_text(encoding="utf-8").replace("tier: data", "tier: stores"))
    with pytest.raises(ConfigRefusedError, match="use one of: public, private, data"):
        load("prod", environments)
