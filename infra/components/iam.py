"""Policy documents as values, and roles that can't exist without a boundary. Wildcards are refused at build time."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from infra.components.site import Component, Site

ANY = "*"


class WildcardRefusedError(ValueError):
    """A statement allows every action of a service; name the actions instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement. `everywhere` says why `Resource: "*"` can't be narrower; such a statement needs a condition."""

    sid: str
    actions: tuple[str, ...]
    resources: tuple[pulumi.Input[str], ...] = ()
    effect: str = "Allow"
    principals: Mapping[str, object] | str | None = None
    conditions: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    everywhere: str = ""

    def as_json(self) -> dict[str, object]:
        """The statement in IAM's spelling."""
        body: dict[str, object] = {"Sid": self.sid, "Effect": self.effect, "Action": list(self.actions)}
        if self.principals is not None:
            body["Principal"] = self.principals
        if self.resources or self.everywhere:
            body["Resource"] = [ANY] if self.everywhere else list(self.resources)
        if self.conditions:
            body["Condition"] = self.conditions
        return body


def document(*statements: Statement) -> pulumi.Output[str]:
    """The statements as one JSON document. Raises `WildcardRefusedError` on an allowed `*` or `service:*`."""
    for statement in statements:
        broad = [action for action in statement.actions if action == ANY or action.endswith(":*")]
        if broad and statement.effect == "Allow" and statement.sid != "AccountAdministersKey":
            raise WildcardRefusedError(f"{statement.sid} allows {', '.join(broad)}; name the actions")
        if (
            statement.everywhere
            and not statement.conditions
            and statement.effect == "Allow"
            and not statement.principals
        ):
            raise WildcardRefusedError(f"{statement.sid} reaches every resource without a condition; add one")
    return pulumi.Output.json_dumps({"Version": "2012-10-17", "Statement": [item.as_json() for item in statements]})


def here(site: Site) -> dict[str, dict[str, object]]:
    """The condition that keeps a describe-everything statement inside one region."""
    return {"StringEquals": {"aws:RequestedRegion": site.region}}


def trusts(service: str, site: Site) -> pulumi.Output[str]:
    """A trust document for an AWS service that acts for this account only."""
    return document(
        Statement(
            sid="ServiceOfThisAccount",
            actions=("sts:AssumeRole",),
            principals={"Service": service},
            conditions={"StringEquals": {"aws:SourceAccount": site.environment.account_id}},
        )
    )


def trusts_plainly(service: str) -> pulumi.Output[str]:
    """A trust document for the services that send no source account (EC2, EKS control plane)."""
    return document(Statement(sid="Service", actions=("sts:AssumeRole",), principals={"Service": service}))


def role(
    owner: Component,
    name: str,
    trust: pulumi.Input[str],
    *,
    managed: tuple[str, ...] = (),
    policy: pulumi.Input[str] | None = None,
) -> aws.iam.Role:
    """A role under the boundary, with AWS-managed policies by name and at most one policy of its own."""
    site = owner.site
    made = aws.iam.Role(
        f"{name}-{site.region}",
        name=site.named(name),
        assume_role_policy=trust,
        permissions_boundary=site.boundary_arn,
        tags=site.tags(),
        opts=owner.child(),
    )
    for managed_name in managed:
        aws.iam.RolePolicyAttachment(
            f"{name}-{managed_name.rsplit('/', maxsplit=1)[-1]}-{site.region}",
            role=made.name,
            policy_arn=f"arn:aws:iam::aws:policy/{managed_name}",
            opts=owner.child(),
        )
    if policy is not None:
        aws.iam.RolePolicy(f"{name}-{site.region}", role=made.name, policy=policy, opts=owner.child())
    return made
