"""The evaluator decides as AWS documents it; each example names the page that it is taken from."""

import pytest

from tests.infra.access.conditions import UnknownOperatorError, holds, like
from tests.infra.access.evaluate import Actor, Call, Document, UnknownElementError, decide

ROLE = "arn:aws:iam::111122223333:role/worker"
ROOT = "arn:aws:iam::111122223333:root"
KEY = "arn:aws:kms:us-east-1:111122223333:key/1"
BUCKET = "arn:aws:s3:::store"


def allow(action: str, resource: str = "*", **more: object) -> Document:
    return {"Statement": [{"Effect": "Allow", "Action": action, "Resource": resource, **more}]}


def deny(action: str, resource: str = "*", **more: object) -> Document:
    return {"Statement": {"Effect": "Deny", "Action": [action], "Resource": [resource], **more}}


def role(*identity: Document, boundary: Document | None = None) -> Actor:
    return Actor(arn=ROLE, identity=identity, boundary=boundary)


@pytest.mark.parametrize(
    ("actor", "call", "allowed"),
    [
        # "By default, all requests are implicitly denied": reference_policies_evaluation-logic_policy-eval-denyallow
        (role(), Call(action="s3:GetObject", resource=f"{BUCKET}/x"), False),
        (role(allow("s3:Get*")), Call(action="s3:GetObject", resource=f"{BUCKET}/x"), True),
        # "An explicit deny in any policy overrides any allows"
        (role(allow("s3:*"), deny("s3:GetObject")), Call(action="s3:GetObject", resource=f"{BUCKET}/x"), False),
        # "permissions boundaries ... the intersection": access_policies_boundaries
        (role(allow("s3:*"), boundary=allow("ec2:*")), Call(action="s3:GetObject", resource=BUCKET), False),
        (role(allow("s3:*"), boundary=allow("s3:Get*")), Call(action="s3:GetObject", resource=BUCKET), True),
        (role(boundary=allow("*")), Call(action="s3:GetObject", resource=BUCKET), False),
        # "resource-based policies within the same account: a logical OR", but a boundary limits a named role
        (
            role(),
            Call(action="s3:GetObject", resource=BUCKET, resource_policy=allow("s3:*", Principal={"AWS": ROLE})),
            True,
        ),
        (
            role(boundary=allow("ec2:*")),
            Call(action="s3:GetObject", resource=BUCKET, resource_policy=allow("s3:*", Principal={"AWS": ROLE})),
            False,
        ),
        (
            role(),
            Call(action="s3:GetObject", resource=BUCKET, resource_policy=allow("s3:*", Principal={"AWS": ROOT})),
            False,
        ),
        # "Unless the key policy explicitly allows it, you cannot use IAM policies": kms key-policies
        (role(allow("kms:*")), Call(action="kms:Decrypt", resource=KEY), False),
        (
            role(allow("kms:*")),
            Call(action="kms:Decrypt", resource=KEY, resource_policy=allow("kms:*", Principal={"AWS": ROOT})),
            True,
        ),
        (
            role(),
            Call(action="kms:Decrypt", resource=KEY, resource_policy=allow("kms:*", Principal={"AWS": ROOT})),
            False,
        ),
        (
            role(),
            Call(action="kms:Decrypt", resource=KEY, resource_policy=allow("kms:Decrypt", Principal={"AWS": ROLE})),
            True,
        ),
        # "An endpoint policy ... does not override; both must allow": vpc-endpoints-access
        (
            role(allow("s3:*")),
            Call(action="s3:GetObject", resource=BUCKET, endpoint=allow("s3:Put*", Principal="*")),
            False,
        ),
        (
            role(allow("s3:*")),
            Call(action="s3:GetObject", resource=BUCKET, endpoint=allow("s3:Get*", Principal="*")),
            True,
        ),
        # a service acts by the resource's policy alone
        (
            Actor(service="events.amazonaws.com"),
            Call(
                action="sns:Publish",
                resource="t",
                resource_policy=allow("sns:Publish", Principal={"Service": "events.amazonaws.com"}),
            ),
            True,
        ),
        (
            Actor(service="events.amazonaws.com"),
            Call(
                action="sns:Publish",
                resource="t",
                resource_policy=allow("sns:Publish", Principal={"Service": "sns.amazonaws.com"}),
            ),
            False,
        ),
        # NotAction and NotResource
        (
            role({"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}),
            Call(action="s3:GetObject", resource="x"),
            True,
        ),
        (
            role({"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}),
            Call(action="iam:GetUser", resource="x"),
            False,
        ),
        (
            role({"Statement": [{"Effect": "Allow", "Action": "*", "NotResource": BUCKET}]}),
            Call(action="s3:GetObject", resource=BUCKET),
            False,
        ),
    ],
)
def test_the_order_of_decision(actor: Actor, call: Call, allowed: bool) -> None:
    """Denials first, then the endpoint, the resource's policy, the identity and the boundary, as documented."""
    assert decide(actor, call).allowed == allowed


@pytest.mark.parametrize(
    ("block", "given", "held"),
    [
        (
            {"StringEquals": {"aws:RequestedRegion": ["us-east-1", "us-west-2"]}},
            {"aws:requestedregion": ("us-west-2",)},
            True,
        ),
        ({"StringEquals": {"aws:X": "a"}}, {}, False),  # a missing key fails a positive operator
        ({"StringNotEquals": {"aws:X": "a"}}, {}, True),  # and satisfies a negated one
        ({"StringNotEquals": {"aws:X": ["a", "b"]}}, {"aws:x": ("b",)}, False),
        ({"StringEqualsIfExists": {"aws:X": "a"}}, {}, True),
        ({"StringEqualsIfExists": {"aws:X": "a"}}, {"aws:x": ("b",)}, False),
        ({"StringLike": {"aws:X": "ec2.*.amazonaws.com"}}, {"aws:x": ("ec2.eu-west-1.amazonaws.com",)}, True),
        ({"ArnLike": {"aws:X": "arn:aws:logs:*:1:log-group:*"}}, {"aws:x": ("arn:aws:logs:r:1:log-group:/a:b",)}, True),
        ({"ArnLike": {"aws:X": "arn:aws:s3:::a*"}}, {"aws:x": ("arn:aws:sns:r:1:a",)}, False),
        ({"Bool": {"aws:SecureTransport": False}}, {"aws:securetransport": ("false",)}, True),
        ({"NumericLessThan": {"s3:TlsVersion": "1.2"}}, {"s3:tlsversion": ("1.1",)}, True),
        ({"Null": {"aws:X": "true"}}, {}, True),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}, {"aws:tagkeys": ("a", "c")}, False),
        ({"ForAllValues:StringEquals": {"aws:TagKeys": ["a", "b"]}}, {}, True),  # an empty set holds
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": "a"}}, {"aws:tagkeys": ("c", "a")}, True),
        ({"ForAnyValue:StringEquals": {"aws:TagKeys": "a"}}, {}, False),
        ({"StringEquals": {"aws:X": "a"}, "Bool": {"aws:Y": "true"}}, {"aws:x": ("a",)}, False),  # all blocks must hold
    ],
)
def test_conditions(block: dict[str, dict[str, object]], given: dict[str, tuple[str, ...]], held: bool) -> None:
    """Operators, lists, sets and missing keys, as in the reference of condition operators and of multivalued keys."""
    assert holds(block, given) == held


def test_nothing_is_guessed() -> None:
    """An operator or an element that the evaluator does not know is an error, never an answer."""
    with pytest.raises(UnknownOperatorError, match="DateLessThan"):
        holds({"DateLessThan": {"aws:CurrentTime": "x"}}, {"aws:currenttime": ("y",)})
    with pytest.raises(UnknownElementError, match="NotPrincipal"):
        decide(role(), Call(action="a:B", resource="x", resource_policy=deny("*", NotPrincipal={"AWS": ROLE})))


def test_patterns_know_two_letters_only() -> None:
    """`*` is any text and `?` one letter; nothing else is special."""
    assert like("ec2:RunInstances", "ec2:run*", ignore_case=True)
    assert not like("arn:aws:s3:::store.x", "arn:aws:s3:::store?y")
    assert not like("storeXbucket", "store.bucket")
