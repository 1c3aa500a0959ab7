"""From captured AWS resources to Terraform JSON, driven by the provider's schema and a short table of odd names.

A property that the schema does not know is reported, never dropped in silence.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from infra.graph.nodes import Graph, Node
from infra.graph.values import Json, dig, is_list, text
from infra.review.schema import Block

_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

ODD_TYPES = {
    "aws:lb/loadBalancer:LoadBalancer": "aws_lb",
    "aws:rds/subnetGroup:SubnetGroup": "aws_db_subnet_group",
    "aws:s3/bucketReplicationConfig:BucketReplicationConfig": "aws_s3_bucket_replication_configuration",
    "aws:costexplorer/anomalyMonitor:AnomalyMonitor": "aws_ce_anomaly_monitor",
    "aws:costexplorer/anomalySubscription:AnomalySubscription": "aws_ce_anomaly_subscription",
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": "aws_vpc_security_group_ingress_rule",
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": "aws_vpc_security_group_egress_rule",
    "aws:cloudtrail/trail:Trail": "aws_cloudtrail",
    "aws:iam/openIdConnectProvider:OpenIdConnectProvider": "aws_iam_openid_connect_provider",
    "aws:lb/listenerRule:ListenerRule": "aws_lb_listener_rule",
}
ODD_PROPERTIES = {
    ("aws_ce_anomaly_subscription", "monitor_arn_lists"): "monitor_arn_list",
    ("aws_ecr_repository_creation_template", "applied_fors"): "applied_for",
    ("aws_cloudwatch_metric_alarm", "name"): "alarm_name",
    ("aws_sns_topic_subscription", "topic"): "topic_arn",
}
STRUCTURED = {
    "aws_eks_cluster": {
        "vpcConfig.clusterSecurityGroupId": "vpc_config[0].cluster_security_group_id",
        "certificateAuthority.data": "certificate_authority[0].data",
    },
}


class UnmappedTypeError(LookupError):
    """No Terraform type was found for a Pulumi type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Translation:
    """The configuration, and what the schema had no place for as (type, property)."""

    document: Mapping[str, Json]
    unknown: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def snake(name: str) -> str:
    """The engine's spelling as Terraform's."""
    return _BOUNDARY.sub("_", name).lower()


def terraform_type(token: str, schema: Mapping[str, Block]) -> str:
    """The Terraform type of a Pulumi type. Raises `UnmappedTypeError`."""
    if token in ODD_TYPES:
        return ODD_TYPES[token]
    _, module, name = token.split(":")
    service = module.split("/", maxsplit=1)[0]
    for candidate in (f"aws_{service}_{snake(name)}", f"aws_{snake(name)}"):
        if candidate in schema:
            return candidate
    raise UnmappedTypeError(token)


def translate(graphs: Mapping[str, Graph], schema: Mapping[str, Block], leave_out: Iterable[str] = ()) -> Translation:
    """One configuration over all graphs; the label of each keeps names apart. References stay references."""
    out = frozenset(leave_out)
    nodes = [
        (label, node)
        for label, graph in graphs.items()
        for node in graph.resources()
        if node.type.startswith("aws:") and node.type not in out
    ]
    addresses = {node.urn: _address(label, node, schema) for label, node in nodes}
    writer = _Writer(tokens=_tokens(nodes, addresses), addresses=addresses, unknown=set())
    resources: dict[str, dict[str, Json]] = {}
    for _, node in nodes:
        kind, name = addresses[node.urn].split(".")
        resources.setdefault(kind, {})[name] = writer.resource(node, kind, schema[kind])
    return Translation(document={"resource": resources}, unknown=frozenset(writer.unknown))


def alias(region: str) -> str:
    """The provider alias of a region."""
    return region.replace("-", "_")


def _address(label: str, node: Node, schema: Mapping[str, Block]) -> str:
    name = re.sub(r"[^a-zA-Z0-9_]", "_", f"{label}_{node.name}")
    return f"{terraform_type(node.type, schema)}.{name}"


def _tokens(nodes: list[tuple[str, Node]], addresses: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Placeholder text to (URN, expression). Only text that the cloud would make counts."""
    found: dict[str, tuple[str, str]] = {}
    for _, node in nodes:
        address = addresses[node.urn]
        for key, value in node.outputs.items():
            if isinstance(value, str) and (key == "id" or key not in node.inputs):
                found[value] = (node.urn, f"${{{address}.{snake(key)}}}")
        for path, expression in STRUCTURED.get(address.split(".", maxsplit=1)[0], {}).items():
            found[text(node.outputs, path)] = (node.urn, f"${{{address}.{expression}}}")
    found.pop("", None)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes resources against the schema, resolving placeholders to references."""

    tokens: Mapping[str, tuple[str, str]]
    addresses: Mapping[str, str]
    unknown: set[tuple[str, str]]

    def resource(self, node: Node, kind: str, schema: Block) -> Json:
        """One resource with its provider and its explicit order."""
        own = {token for token, (urn, _) in self.tokens.items() if urn == node.urn}
        inputs = {key: value for key, value in node.inputs.items() if key != "region"}
        body = dict(self._body(inputs, schema, kind, own))
        body["provider"] = f"aws.{alias(node.region)}"
        after = [self.addresses[urn] for urn in node.dependencies if urn in self.addresses and urn != node.urn]
        if after:
            body["depends_on"] = sorted(after)
        return body

    def _body(self, value: Mapping[str, Json], schema: Block, kind: str, own: set[str]) -> Iterable[tuple[str, Json]]:
        for key, inner in value.items():
            name = self._name(key, schema, kind)
            if name is None or inner is None:
                continue
            if name in schema.attributes:
                yield name, self._resolved(inner, own)
            else:
                nested = schema.blocks.get(name) or schema.objects[name]
                yield name, self._nested(inner, nested, kind, own)

    def _name(self, key: str, schema: Block, kind: str) -> str | None:
        plain = snake(key)
        odd = ODD_PROPERTIES.get((kind, plain), plain)
        for candidate in (odd, plain.removesuffix("s"), plain.removesuffix("es"), re.sub("ies$", "y", plain)):
            if candidate in schema.names():
                return candidate
        self.unknown.add((kind, plain))
        return None

    def _nested(self, value: Json, schema: Block, kind: str, own: set[str]) -> Json:
        if is_list(value):
            return [dict(self._body(_as_map(item), schema, kind, own)) for item in value]
        one = dict(self._body(_as_map(value), schema, kind, own))
        return one if schema.single else [one]

    def _resolved(self, value: Json, own: set[str]) -> Json:
        if isinstance(value, str):
            return self._text(value, own)
        if isinstance(value, Mapping):
            return {key: self._resolved(inner, own) for key, inner in value.items()}
        return [self._resolved(inner, own) for inner in value] if is_list(value) else value

    def _text(self, value: str, own: set[str]) -> str:
        for token in sorted(self._inside(value), key=len, reverse=True):
            if token not in own:
                value = value.replace(token, self.tokens[token][1])
        return value

    def _inside(self, value: str) -> list[str]:
        return [token for token in self.tokens if token in value]


def _as_map(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, Mapping) else {"value": dig(value, "")}
