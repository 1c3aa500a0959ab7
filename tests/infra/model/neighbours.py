"""Others in a network, and a cluster, that they share with us: what is put beside them, and which ways they keep."""

import json
from collections.abc import Iterator, Mapping

from infra.config.existing import Existing
from infra.graph.nodes import Node
from infra.graph.values import dig, items, text, texts
from tests.infra.access.evaluate import Actor, Call, decide
from tests.infra.model.world import World, opened

ADDED: Mapping[str, str] = {
    "SecurityGroup": "security groups",
    "LoadBalancer": "load balancer",
    "TargetGroup": "target group",
    "SubnetGroup": "subnet groups",
    "NodeGroup": "node groups",
    "LaunchTemplate": "launch templates",
    "AccessEntry": "access entry",
    "PodIdentityAssociation": "Pod Identity associations",
    "SecurityGroupIngressRule": "rule",
}
"""What may name a thing of others, in the words of the page: nobody's way leads through it. All else changes theirs."""
OURS = "aws:ec2/vpcEndpoint:VpcEndpoint"
SOMEBODY = Actor(
    arn="arn:aws:iam::999988887777:role/theirs",
    identity=({"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}},),
)
BUCKET = "arn:aws:s3:::a-bucket-of-theirs/x"
ANYWHERE = "0.0.0.0/0"


def neighbours(world: World) -> Iterator[str]:
    """What a region changes for other workloads of the network, each of which keeps its way to S3 and each service."""
    existing = world.plan.existing
    if existing is None:
        return
    theirs = names(world, existing)
    for node in world.nodes:
        if node.type.startswith("aws:") and not node.existing and theirs & {word for _, word in texts(node.inputs)}:
            kind = node.type.rsplit(":", 1)[-1]
            if kind not in ADDED:
                yield f"{kind} {node.name} is put into what others made, and changes it"
            yield from caught(world, node) if node.type == OURS else ()


def names(world: World, existing: Existing) -> set[str]:
    """The ids of all that was there: network, subnets, route tables, the cluster and its security group."""
    found = {existing.vpc_id, *(one.id for one in existing.subnets)}
    for node in world.of("eks/cluster:Cluster"):
        if node.existing:
            found |= {existing.cluster, text(node.inputs, "vpcConfig.clusterSecurityGroupId")}
    return found


def caught(world: World, node: Node) -> Iterator[str]:
    """The calls of others that an endpoint draws to itself, and then refuses.

    A gateway takes each way of its route tables, an interface with a private name each call of the network:
    https://docs.aws.amazon.com/vpc/latest/privatelink/privatelink-access-aws-services.html
    """
    service = text(node.inputs, "serviceName").rpartition(".")[2]
    document = json.loads(text(node.inputs, "policy") or "null")
    action = f"{service}:GetObject" if service == "s3" else f"{service}:Anything"
    call = Call(action=action, resource=BUCKET if service == "s3" else "*", endpoint=document)
    if not decide(SOMEBODY, call).allowed:
        yield f"other workloads of the network lose {service}: the endpoint's policy names ours alone"
    groups = items(node.inputs, "securityGroupIds")
    drawn = dig(node.inputs, "privateDnsEnabled") is True
    if drawn and not opened(world, "Ingress", groups, 443, ANYWHERE):
        yield f"other workloads of the network lose {service}: its endpoint lets {world.plan.cidr} in alone"
