"""Whether a call is allowed, in the order in which AWS decides: denials, the resource's own policy, identity, boundary.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
There is no organisation around the account here, so service and resource control policies have no say.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.infra.access.conditions import Context, holds, like

Document = Mapping[str, Any]


class UnknownElementError(ValueError):
    """A statement uses an element that this evaluator does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Who calls: a role (`arn`), or an AWS service (`service`) that acts by the resource's policy alone."""

    arn: str = ""
    service: str = ""
    identity: tuple[Document, ...] = ()
    boundary: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One action on one resource. `resource_policy` is the resource's, `endpoint` the network's on the way there."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)
    resource_policy: Document | None = None
    endpoint: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision, and which step took it."""

    allowed: bool
    reason: str


def decide(actor: Actor, call: Call) -> Verdict:
    documents = [*actor.identity, actor.boundary, call.resource_policy, call.endpoint]
    if any(_effect("Deny", document, actor, call) for document in documents if document):
        return Verdict(allowed=False, reason="denied explicitly")
    if call.endpoint is not None and not _effect("Allow", call.endpoint, actor, call):
        return Verdict(allowed=False, reason="the endpoint's policy does not allow it")
    if actor.service:
        named = _effect("Allow", call.resource_policy, actor, call)
        return Verdict(allowed=named, reason="allowed" if named else "the resource's policy does not name the service")
    return _of_role(actor, call)


def _of_role(actor: Actor, call: Call) -> Verdict:
    named = _names(actor, call)
    granted = any(_effect("Allow", document, actor, call) for document in actor.identity)
    if call.action.lower().startswith("kms:") and not named and not _delegates(actor, call):
        return Verdict(allowed=False, reason="the key's policy does not allow it")
    if not granted and not named:
        return Verdict(allowed=False, reason="no identity policy allows it")
    if actor.boundary is not None and not _effect("Allow", actor.boundary, actor, call):
        return Verdict(allowed=False, reason="the boundary does not allow it")
    return Verdict(allowed=True, reason="allowed")


def _names(actor: Actor, call: Call) -> bool:
    """Whether the resource's policy allows the role itself; naming the account only hands the question to IAM."""
    return any(
        _named_directly(statement.get("Principal"), actor)
        for statement in _matching("Allow", call.resource_policy, actor, call)
    )


def _delegates(actor: Actor, call: Call) -> bool:
    return any(True for _ in _matching("Allow", call.resource_policy, actor, call))


def _effect(effect: str, document: Document | None, actor: Actor, call: Call) -> bool:
    return any(True for _ in _matching(effect, document, actor, call))


def _matching(effect: str, document: Document | None, actor: Actor, call: Call) -> Iterator[Mapping[str, Any]]:
    for statement in _many(document["Statement"]) if document else ():
        if statement["Effect"] == effect and _speaks_of(statement, actor, call):
            yield statement


def _speaks_of(statement: Mapping[str, Any], actor: Actor, call: Call) -> bool:
    if "NotPrincipal" in statement:
        raise UnknownElementError("NotPrincipal")
    principal = statement.get("Principal")
    if principal is not None and not _is_principal(principal, actor):
        return False
    return (
        _chosen(statement, "Action", call.action, ignore_case=True)
        and _chosen(statement, "Resource", call.resource, ignore_case=False)
        and holds(statement.get("Condition", {}), call.context)
    )


def _chosen(statement: Mapping[str, Any], element: str, value: str, *, ignore_case: bool) -> bool:
    if f"Not{element}" in statement:
        return not any(like(value, one, ignore_case=ignore_case) for one in _many(statement[f"Not{element}"]))
    if element not in statement:
        return element == "Resource"  # a trust policy names no resource: it stands on the role itself
    return any(like(value, one, ignore_case=ignore_case) for one in _many(statement[element]))


def _is_principal(principal: object, actor: Actor) -> bool:
    if principal == "*":
        return True
    named = principal if isinstance(principal, Mapping) else {}
    if actor.service:
        return actor.service in _many(named.get("Service", ())) or "*" in _many(named.get("AWS", ()))
    account = actor.arn.split(":")[4]
    wanted = {"*", actor.arn, account, f"arn:aws:iam::{account}:root"}
    return bool(wanted & set(_many(named.get("AWS", ()))))


def _named_directly(principal: object, actor: Actor) -> bool:
    named = principal if isinstance(principal, Mapping) else {}
    return principal == "*" or bool({"*", actor.arn} & set(_many(named.get("AWS", ()))))


def _many(value: Any) -> Sequence[Any]:  # noqa: ANN401 - a policy element is one value or a list of them
    return value if isinstance(value, (list, tuple)) else (value,)
