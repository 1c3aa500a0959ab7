"""The captured account as the evaluator sees it: who holds which documents, and what lies on the way to a resource."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from infra.config.model import Environment
from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import items, text
from tests.infra.access.evaluate import Actor, Document

ROLE = "aws:iam/role:Role"
ATTACHED = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
INLINE = "aws:iam/rolePolicy:RolePolicy"
ASSOCIATION = "aws:eks/podIdentityAssociation:PodIdentityAssociation"
ADDON = "aws:eks/addon:Addon"
ENDPOINT = "aws:ec2/vpcEndpoint:VpcEndpoint"
ON_THE_RESOURCE = {
    "aws:kms/key:Key": "",
    "aws:kms/replicaKey:ReplicaKey": "",
    ROLE: "assumeRolePolicy",
    "aws:s3/bucketPolicy:BucketPolicy": "bucket",
    "aws:sns/topicPolicy:TopicPolicy": "arn",
    "aws:sqs/queuePolicy:QueuePolicy": "queueUrl",
}
NAMED = re.compile(r"\{(\w+):([\w.{}-]+?)\}")


class NotInTheGraphError(LookupError):
    """A case names a resource or a principal that no stack has."""


@cache
def managed() -> Mapping[str, Any]:
    """AWS's own managed policies, as the mock cloud ships them."""
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    known: dict[str, Any] = json.loads(aws_managed_policies_data)
    return known


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Every stack's nodes. Names in cases are those of one region."""

    environment: Environment
    captures: tuple[Capture, ...]
    region: str
    _nodes: dict[str, list[Node]] = field(default_factory=dict)
    _policies: dict[str, Document] = field(default_factory=dict)

    def nodes(self, token: str) -> Iterator[Node]:
        """The nodes of a type, over all stacks."""
        if not self._nodes:
            for item in self.captures:
                for node in item.graph.nodes:
                    self._nodes.setdefault(node.type, []).append(node)
        yield from self._nodes.get(token, ())

    def fill(self, template: str) -> str:
        """A case's text with the ARNs it names (`{Key:logs-us-east-1}`), and the account, region and cluster."""
        plain = {"region": self.region, "account": self.environment.account_id, "home": self.environment.primary}
        plain |= {"cluster": f"{self.prefix}-serving-{self.region}", "prefix": self.prefix, "other": self.other}
        for key, value in plain.items():
            template = template.replace(f"{{{key}}}", value)
        for purpose in ("Artifacts", "Data", "Signing", "Models", "Chain"):
            template = template.replace(f"{{{purpose}Key}}", f"{{TravellingKey:{purpose.lower()}-{self.region}}}")
            template = template.replace(f"{{{purpose}Key:other}}", f"{{TravellingKey:{purpose.lower()}-{self.other}}}")
        return NAMED.sub(lambda found: text(self._named(*found.groups()).outputs, "arn"), template)

    @property
    def other(self) -> str:
        """Another region, or this one where there is but one."""
        return next((name for name in self.environment.regions if name != self.region), self.region)

    @property
    def prefix(self) -> str:
        return f"{self.environment.organization}-{self.environment.name}"

    def _named(self, kind: str, name: str) -> Node:
        if kind == "TravellingKey":
            original = name.endswith(self.environment.primary)
            return self._named("Key" if original else "ReplicaKey", name)
        for item in self.captures:
            for node in item.graph.nodes:
                if node.type.endswith(f":{kind}") and node.name == name and node.region in ("", self._place(node)):
                    return node
        raise NotInTheGraphError(f"{kind} {name} in {self.region}")

    def _place(self, node: Node) -> str:
        """Regional resources of one name stand in both regions; the others stand where they stand."""
        twins = {other.region for other in self.nodes(node.type) if other.name == node.name}
        return self.region if self.region in twins else node.region

    def actor(self, who: Mapping[str, str]) -> Actor:
        """The principal of a case: a pod, a role, an AWS service, or a service-linked role."""
        if "service" in who:
            return Actor(service=self.fill(who["service"]))
        if "elsewhere" in who:
            everything = {"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
            return Actor(arn=f"arn:aws:iam::999988887777:role/{who['elsewhere']}", identity=(everything,))
        if "linked" in who:
            arn = f"arn:aws:iam::{self.environment.account_id}:role/aws-service-role/{who['linked']}"
            return Actor(arn=arn)
        role = self._pod(who["pod"]) if "pod" in who else self._named("Role", self.fill(who["role"]))
        return Actor(arn=text(role.outputs, "arn"), identity=tuple(self._identity(role)), boundary=self._boundary())

    def _pod(self, account: str) -> Node:
        roles = {node.urn: node for node in self.nodes(ROLE)}
        for node in self.nodes(ASSOCIATION):
            found = f"{text(node.inputs, 'namespace')}/{text(node.inputs, 'serviceAccount')}"
            if found == account and node.region == self.region:
                return roles[node.references["roleArn"][0]]
        for node in self.nodes(ADDON):
            for given in items(node.inputs, "podIdentityAssociations"):
                named = text(given, "serviceAccount") == account.split("/")[1]
                if named and node.region == self.region:
                    return next(role for role in roles.values() if role.outputs["arn"] == text(given, "roleArn"))
        raise NotInTheGraphError(f"no identity for {account} in {self.region}")

    def _identity(self, role: Node) -> Iterator[Document]:
        for node in self.nodes(INLINE):
            if role.urn in node.references.get("role", ()):
                yield json.loads(text(node.inputs, "policy"))
        for node in self.nodes(ATTACHED):
            if role.urn in node.references.get("role", ()):
                yield managed()[text(node.inputs, "policyArn").rsplit("/", maxsplit=1)[-1]]["Document"]

    def _boundary(self) -> Document:
        node = next(node for node in self.nodes("aws:iam/policy:Policy") if node.name == "boundary")
        document: Document = json.loads(text(node.inputs, "policy"))
        return document

    def resource_policy(self, arn: str) -> Document | None:
        """The policy that stands on the resource itself; a bucket's speaks for its objects too."""
        if not self._policies:
            self._policies.update(self._policed())
        return self._policies.get(arn.split("/", maxsplit=1)[0] if arn.startswith("arn:aws:s3:::") else arn)

    def _policed(self) -> Iterator[tuple[str, Document]]:
        """Every resource's ARN with its own policy; a bucket's objects are named by their bucket."""
        owned = {node.urn: text(node.outputs, "arn") for item in self.captures for node in item.graph.nodes}
        for token, prop in reversed(ON_THE_RESOURCE.items()):
            for node in reversed([*self.nodes(token)]):
                document = json.loads(text(node.inputs, "assumeRolePolicy" if token == ROLE else "policy"))
                urns = (node.urn,) if not prop or token == ROLE else node.references.get(prop, ())
                yield from ((owned.get(urn, ""), document) for urn in urns)

    def endpoint_policy(self, service: str) -> Document | None:
        """The policy of the region's endpoint of a service; most have none of their own, which allows everything."""
        for node in self.nodes(ENDPOINT):
            named = text(node.inputs, "serviceName") == f"com.amazonaws.{self.region}.{service}"
            if named and node.region == self.region and text(node.inputs, "policy"):
                document: Document = json.loads(text(node.inputs, "policy"))
                return document
        return None
