"""What an invariant sees: one stack's nodes, indexed, beside the config it was built from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from infra.config.kinds import StackKind
from infra.config.model import Fleet, Region
from infra.graph.nodes import Graph, Node
from infra.graph.values import Json, items, mapping, parsed, text

DOCUMENTS = {
    "aws:iam/role:Role": "assumeRolePolicy",
    "aws:iam/rolePolicy:RolePolicy": "policy",
    "aws:iam/policy:Policy": "policy",
    "aws:s3/bucketPolicy:BucketPolicy": "policy",
    "aws:kms/key:Key": "policy",
    "aws:kms/replicaKey:ReplicaKey": "policy",
    "aws:sns/topicPolicy:TopicPolicy": "policy",
    "aws:sqs/queuePolicy:QueuePolicy": "policy",
    "aws:ec2/vpcEndpoint:VpcEndpoint": "policy",
}
"""Resource type to the property that holds its policy document."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One stack. `region` is empty for the account-wide kinds; `theirs` are types that others made all of."""

    fleet: Fleet
    kind: StackKind
    region_name: str
    graph: Graph
    by_type: Mapping[str, tuple[Node, ...]] = field(default_factory=dict)
    theirs: tuple[str, ...] = ()

    @property
    def region(self) -> Region:
        """The config of the stack's region."""
        return self.fleet.region(self.region_name)

    def of(self, *types: str) -> Iterator[Node]:
        """The nodes of these types."""
        for token in types:
            yield from self.by_type.get(token, ())

    def aws(self) -> Iterator[Node]:
        """Every AWS resource."""
        return (node for node in self.graph.nodes if node.type.startswith("aws:"))

    def objects(self, kind: str) -> Iterator[Node]:
        """Every Kubernetes object of a kind, whatever its API group."""
        return (
            node for node in self.graph.nodes if node.type.startswith("kubernetes:") and node.type.endswith(f":{kind}")
        )

    def companions(self, token: str, prop: str, node: Node) -> list[Node]:
        """The nodes of a type whose property was made from that node."""
        return [other for other in self.of(token) if node.urn in other.references.get(prop, ())]

    def statements(self, *types: str) -> Iterator[tuple[Node, Json]]:
        """Every statement of every policy document, with its node; documents not known yet are skipped."""
        for token in types or tuple(DOCUMENTS):
            for node in self.of(token):
                for statement in items(parsed(node.inputs.get(DOCUMENTS[token])), "Statement"):
                    yield node, statement


NETWORK = ("aws:ec2/vpc:Vpc", "aws:ec2/subnet:Subnet")
CLUSTER = ("aws:eks/cluster:Cluster", "aws:eks/addon:Addon")


def build(fleet: Fleet, kind: StackKind, region_name: str, graph: Graph) -> View:
    """The view with its index, without what others made: it is judged before it is taken (`config/existing.py`)."""
    region = fleet.region(region_name) if region_name else None
    theirs = (*(NETWORK if region and region.existing else ()), *(CLUSTER if region and region.cluster else ()))
    graph = replace(graph, nodes=tuple(node for node in graph.nodes if node.type not in theirs))
    index: dict[str, list[Node]] = {}
    for node in graph.nodes:
        index.setdefault(node.type, []).append(node)
    by_type = {token: tuple(nodes) for token, nodes in index.items()}
    return View(fleet=fleet, kind=kind, region_name=region_name, graph=graph, by_type=by_type, theirs=theirs)


def allowed_actions(statement: Json) -> list[str]:
    """The actions a statement allows; none if it denies."""
    return [str(action) for action in items(statement, "Action")] if text(statement, "Effect") == "Allow" else []


def pod_spec(node: Node) -> Mapping[str, Json]:
    """The pod inside a workload."""
    return mapping(node.inputs, "spec.template.spec")


def pod_labels(node: Node) -> Mapping[str, Json]:
    """The labels of the pod inside."""
    return mapping(node.inputs, "spec.template.metadata.labels")
