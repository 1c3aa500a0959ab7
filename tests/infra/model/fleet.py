"""What no single stack can see: contracts between stacks, symmetry of regions, names that must not vanish."""

import json
import re
from collections.abc import Iterator, Sequence

from infra.config.kinds import StackKind
from infra.config.model import Fleet
from infra.graph.captured import Capture
from infra.graph.values import mapping, text
from tests.infra.access.evaluate import Actor, Call, decide

REFERENCE = "pulumi:pulumi:StackReference"
IN_CHARTS = frozenset(
    {
        "autoscaling/karpenter",
        "autoscaling/cluster-autoscaler",
        "edge-system/aws-load-balancer-controller",
        "external-secrets/external-secrets",
        "image-policy/policy-controller",
        "monitoring/alertmanager",
    }
)
"""Service accounts that charts and add-ons make; each name is pinned in the chart's values."""


def contract(captures: Sequence[Capture]) -> Iterator[str]:
    """Every output that a consumer reads must be exported by its producer."""
    exported = {(item.graph.project, item.graph.stack): item.graph.exports for item in captures}
    for item in captures:
        for node in item.graph.of(REFERENCE):
            _, project, stack = text(node.inputs, "name").split("/")
            missing = [key for key, value in mapping(node.outputs, "outputs").items() if value in (None, "")]
            if (project, stack) not in exported:
                yield f"{item.label} reads {project}/{stack}, which nobody captured"
            elif missing or mapping(node.outputs, "outputs") != exported[(project, stack)]:
                yield f"{item.label} reads {missing or 'other outputs'} of {project}/{stack}"


def symmetry(captures: Sequence[Capture], fleet: Fleet) -> Iterator[str]:
    """Regions differ only by what their configs list as asymmetries."""
    by_kind: dict[StackKind, dict[str, frozenset[str]]] = {}
    for item in captures:
        if item.region:
            by_kind.setdefault(item.kind, {})[item.region] = _shape(item)
    for kind, shapes in by_kind.items():
        first, *others = shapes.items()
        for name, shape in others:
            allowed = {*fleet.region(first[0]).asymmetries, *fleet.region(name).asymmetries}
            for odd in sorted(first[1] ^ shape):
                if not any(f"pool:{pool}" in allowed and pool in odd for pool in _pools(fleet)):
                    yield f"{kind}: {odd} stands only in {first[0] if odd in first[1] else name}"


def _pools(fleet: Fleet) -> set[str]:
    return {pool.name for region in fleet.regions for pool in region.pools}


def _shape(item: Capture) -> frozenset[str]:
    """Types and names without what is the region's own: its name and its zones' numbers."""
    found = set()
    zones: dict[str, str] = {}
    for node in item.graph.resources():
        name = node.name.replace(item.region, "REGION")
        for zone in re.findall(r"us[ew]\d?[a-z]?\d-az\d|[a-z]+\d-az\d", name):
            name = name.replace(zone, zones.setdefault(zone, f"zone{len(zones)}"))
        found.add(f"{node.type} {name}")
    return frozenset(found)


def accounts(captures: Sequence[Capture]) -> Iterator[str]:
    """Every pod identity has its service account in the manifests or in a pinned chart."""
    made = {
        (item.region, f"{text(node.inputs, 'metadata.namespace')}/{text(node.inputs, 'metadata.name')}")
        for item in captures
        for node in item.graph.of("kubernetes:core/v1:ServiceAccount")
    }
    for item in captures:
        for node in item.graph.of("aws:eks/podIdentityAssociation:PodIdentityAssociation"):
            name = f"{text(node.inputs, 'namespace')}/{text(node.inputs, 'serviceAccount')}"
            if (item.region, name) not in made and name not in IN_CHARTS:
                yield f"{item.label}: {name} has a role, and no service account"


def trusted(captures: Sequence[Capture]) -> Iterator[str]:
    """A role that an identity provider's tokens get names whose tokens: else it is everybody's of that provider.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_oidc.html
    """
    for item in captures:
        for node in item.graph.of("aws:iam/role:Role"):
            for one in json.loads(text(node.inputs, "assumeRolePolicy") or "{}").get("Statement", ()):
                asked = {key for test in one.get("Condition", {}).values() for key in test}
                if "Federated" in one.get("Principal", {}) and not {":aud", ":sub"} <= {key[-4:] for key in asked}:
                    yield f"{item.label}: {node.name} trusts everybody of its identity provider"


def failover(captures: Sequence[Capture], fleet: Fleet) -> Iterator[str]:
    """Take any region away: the shared name must still have a record in another one."""
    records = [
        text(node.inputs, "setIdentifier")
        for item in captures
        for node in item.graph.of("aws:route53/record:Record")
        if text(node.inputs, "name") == fleet.environment.domain and text(node.inputs, "setIdentifier")
    ]
    for lost in fleet.environment.regions:
        if not [region for region in records if region != lost]:
            yield f"without {lost} nobody answers {fleet.environment.domain}"


FORBIDDEN = (
    "iam:CreateUser",
    "iam:CreateAccessKey",
    "cloudtrail:StopLogging",
    "kms:ScheduleKeyDeletion",
    "ec2:PurchaseCapacityBlock",
    "s3:PutBucketObjectLockConfiguration",
)
EVERYTHING = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}


def bounded(captures: Sequence[Capture]) -> Iterator[str]:
    """A role that is granted everything still can't mint users, end or unlock the record, or buy capacity."""
    boundary = next(node for item in captures for node in item.graph.of("aws:iam/policy:Policy"))
    role = "arn:aws:iam::111122223333:role/x"
    document = json.loads(text(boundary.inputs, "policy"))
    delegated = {"Statement": {**EVERYTHING["Statement"], "Principal": {"AWS": "arn:aws:iam::111122223333:root"}}}
    near = {"aws:requestedregion": (boundary.region,), "aws:principalaccount": ("111122223333",)}
    for action in FORBIDDEN:
        call = Call(action=action, resource="*", context=near, resource_policy=delegated)
        if decide(Actor(arn=role, identity=(EVERYTHING,), boundary=document), call).allowed:
            yield f"a role under the boundary may {action}"
