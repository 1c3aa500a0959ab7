"""What the cloud would answer: a distinct, well-formed placeholder for every computed property of a resource.

The SDK's own classes say which properties a type has, so no output is ever silently `None`; a few that
are lists or structures stand in a table. Each placeholder is unique, so it can be traced back to its origin.
"""

import functools
import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from infra.graph.sdk import camel, resource_class
from infra.graph.values import Json, items, mapping, text

_SNAKE = re.compile(r"(?<!^)(?=[A-Z])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A resource that is about to get its outputs."""

    urn: str
    type: str
    name: str
    region: str
    account: str
    inputs: Mapping[str, Json]

    @property
    def mark(self) -> str:
        """Ten hex digits that no other resource of any stack shares."""
        return hashlib.sha256(self.urn.encode()).hexdigest()[:10]


@functools.cache
def text_properties(token: str) -> tuple[str, ...]:
    """The computed properties of a type that are text, in the engine's spelling."""
    cls = resource_class(token)
    if cls is None:
        return ()
    found = []
    for name, member in inspect.getmembers(cls, lambda item: isinstance(item, property)):
        hint = str(getattr(member.fget, "__annotations__", {}).get("return", ""))
        if hint.endswith("Output[str]"):
            found.append(camel(name))
    return tuple(name for name in found if name not in ("urn", "id"))


def outputs(subject: Subject) -> dict[str, Json]:
    """Inputs as given, and a placeholder for everything the cloud would compute."""
    state: dict[str, Json] = dict(subject.inputs)
    for prop in text_properties(subject.type):
        if state.get(prop) is None:
            state[prop] = _arn(subject) if prop == "arn" else f"{subject.name}-{_kebab(prop)}-{subject.mark}"
    for prop, make in _STRUCTURED.get(subject.type, {}).items():
        state[prop] = make(subject)
    return state


def identity(subject: Subject) -> str:
    """The provider's id of the resource."""
    if subject.type == "aws:s3/bucket:Bucket":
        return str(subject.inputs.get("bucket", ""))
    kind = _kebab(subject.type.rsplit(":", maxsplit=1)[-1])
    return f"{kind}-{subject.mark}"


def _kebab(name: str) -> str:
    return _SNAKE.sub("-", name).lower()


_BALANCING = "arn:aws:elasticloadbalancing:{region}:{account}:"
_ARN_SHAPES: dict[str, str] = {
    "aws:s3/bucket:Bucket": "arn:aws:s3:::{bucket}",
    "aws:kms/key:Key": "arn:aws:kms:{region}:{account}:key/mrk-{mark}",
    "aws:kms/replicaKey:ReplicaKey": "arn:aws:kms:{region}:{account}:key/mrk-{mark}",
    "aws:iam/role:Role": "arn:aws:iam::{account}:role/{mark}-{name}",
    "aws:iam/policy:Policy": "arn:aws:iam::{account}:policy/{mark}-{name}",
    "aws:iam/instanceProfile:InstanceProfile": "arn:aws:iam::{account}:instance-profile/{mark}-{name}",
    "aws:sqs/queue:Queue": "arn:aws:sqs:{region}:{account}:{name}-{mark}",
    "aws:sns/topic:Topic": "arn:aws:sns:{region}:{account}:{name}-{mark}",
    "aws:secretsmanager/secret:Secret": "arn:aws:secretsmanager:{region}:{account}:secret:{name}-{mark}",
    "aws:cloudwatch/logGroup:LogGroup": "arn:aws:logs:{region}:{account}:log-group:{name}-{mark}",
    "aws:eks/cluster:Cluster": "arn:aws:eks:{region}:{account}:cluster/{name}-{mark}",
    "aws:ecr/repository:Repository": "arn:aws:ecr:{region}:{account}:repository/{name}-{mark}",
    "aws:lb/targetGroup:TargetGroup": _BALANCING + "targetgroup/{name}/{mark}",
    "aws:lb/loadBalancer:LoadBalancer": _BALANCING + "loadbalancer/app/{name}/{mark}",
    "aws:wafv2/webAcl:WebAcl": "arn:aws:wafv2:{region}:{account}:regional/webacl/{name}/{mark}",
    "aws:acm/certificate:Certificate": "arn:aws:acm:{region}:{account}:certificate/{mark}",
    "aws:acm/certificateValidation:CertificateValidation": "arn:aws:acm:{region}:{account}:certificate/{mark}",
}


def _arn(subject: Subject) -> str:
    service = subject.type.split(":")[1].split("/")[0]
    kind = _kebab(subject.type.rsplit(":", maxsplit=1)[-1])
    shape = _ARN_SHAPES.get(subject.type, "arn:aws:" + service + ":{region}:{account}:" + kind + "/{name}-{mark}")
    return shape.format(
        region=subject.region,
        account=subject.account,
        name=subject.name,
        mark=subject.mark,
        bucket=subject.inputs.get("bucket", subject.mark),
    )


def _validation(subject: Subject) -> Json:
    names = [text(subject.inputs, "domainName"), *map(str, items(subject.inputs, "subjectAlternativeNames"))]
    return [
        {
            "domainName": name,
            "resourceRecordName": f"_{subject.mark}{index}.{name}",
            "resourceRecordType": "CNAME",
            "resourceRecordValue": f"_{subject.mark}{index}.acm-validations.aws",
        }
        for index, name in enumerate(names)
    ]


_STRUCTURED: dict[str, dict[str, Callable[[Subject], Json]]] = {
    "aws:eks/cluster:Cluster": {
        "certificateAuthority": lambda s: {"data": f"certificate-authority-{s.mark}"},
        "identities": lambda s: [{"oidcs": [{"issuer": f"https://oidc.eks.{s.region}.amazonaws.com/id/{s.mark}"}]}],
        "vpcConfig": lambda s: {
            **mapping(s.inputs, "vpcConfig"),
            "clusterSecurityGroupId": f"security-group-of-{s.mark}",
        },
        "endpoint": lambda s: f"https://{s.mark}.eks.{s.region}.amazonaws.com",
    },
    "aws:eks/nodeGroup:NodeGroup": {
        "resources": lambda s: [{"autoscalingGroups": [{"name": f"eks-{s.name}-{s.mark}"}]}],
    },
    "aws:ec2/launchTemplate:LaunchTemplate": {"latestVersion": lambda _: 1},
    "aws:acm/certificate:Certificate": {"domainValidationOptions": _validation},
    "aws:route53/zone:Zone": {"nameServers": lambda s: [f"ns-{index}-{s.mark}.example.net" for index in range(4)]},
    "aws:rds/cluster:Cluster": {"clusterResourceId": lambda s: f"cluster-{s.mark.upper()}"},
}
