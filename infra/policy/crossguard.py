"""The invariants as `pulumi_policy` policies: what `pulumi up --policy-pack` runs is what the tests run.

Stack policies get each resource's final state, defaults of the provider included; resource policies get what the
program wrote. An invariant says which of the two it speaks of.
At preview many values are not known yet. They arrive here as `UNKNOWN`, and a check may never fail on one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from pulumi_policy import (
    EnforcementLevel,
    PolicyProviderResource,
    PolicyResource,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)
from pulumi_policy.proxy import UnknownValueError

from infra.config.kinds import StackKind
from infra.config.load import load
from infra.config.model import Fleet
from infra.graph.nodes import Graph, Node, Options
from infra.graph.values import UNKNOWN, Json
from infra.policy.invariant import Invariant
from infra.policy.registry import INVARIANTS
from infra.policy.view import View, build

Loader = Callable[[str], Fleet]


def policies(
    loader: Loader = load, invariants: Sequence[Invariant] = INVARIANTS
) -> list[StackValidationPolicy | ResourceValidationPolicy]:
    """One mandatory policy per invariant."""
    return [_of_resource(rule, loader) if rule.as_written else _of_stack(rule, loader) for rule in invariants]


def _of_resource(invariant: Invariant, loader: Loader) -> ResourceValidationPolicy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        node = _node(args, args.urn, _plain(args.props), args.provider)
        for _, message in invariant.breaches(_built((node,), loader)):
            report(message, node.urn)

    return ResourceValidationPolicy(
        name=invariant.id,
        description=invariant.promise,
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
    )


def _of_stack(invariant: Invariant, loader: Loader) -> StackValidationPolicy:
    def validate(args: StackValidationArgs, report: ReportViolation) -> None:
        view = _view(_Held(args.resources), loader)
        for node, message in invariant.breaches(view) if view else ():
            report(message, node.urn if node else None)

    return StackValidationPolicy(
        name=invariant.id,
        description=invariant.promise,
        validate=validate,
        enforcement_level=EnforcementLevel.MANDATORY,
    )


class _Held:
    """A list of resources as a cache key: one stack is converted once for all policies."""

    def __init__(self, resources: list[PolicyResource]) -> None:
        self.resources = resources

    def __hash__(self) -> int:
        return id(self.resources)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.resources is self.resources


@lru_cache(maxsize=1)
def _view(held: _Held, loader: Loader) -> View | None:
    nodes = tuple(_related(resource) for resource in held.resources)
    return _built(nodes, loader) if nodes else None


def _built(nodes: tuple[Node, ...], loader: Loader) -> View:
    stack, project = _address(nodes[0].urn)
    environment, _, region = stack.partition(".")
    graph = Graph(project=project, stack=stack, nodes=tuple(sorted(nodes, key=lambda node: node.urn)))
    return build(_fleet(loader, environment), StackKind(project.removeprefix("penstock-")), region, graph)


@lru_cache(maxsize=4)
def _fleet(loader: Loader, environment: str) -> Fleet:
    return loader(environment)


def _address(urn: str) -> tuple[str, str]:
    head, project = urn.split("::")[:2]
    return head.rsplit(":", maxsplit=1)[-1], project


def _related(resource: PolicyResource) -> Node:
    """A resource of a stack, with what it belongs to and was made from."""
    return replace(
        _node(resource, resource.urn, _plain(resource.props), resource.provider),
        parent=resource.parent.urn if resource.parent else "",
        dependencies=tuple(sorted(other.urn for other in resource.dependencies)),
        references={
            key: tuple(sorted(other.urn for other in others)) for key, others in resource.property_dependencies.items()
        },
    )


def _node(
    resource: PolicyResource | ResourceValidationArgs,
    urn: str,
    inputs: Json,
    provider: PolicyProviderResource | None,
) -> Node:
    own = inputs.get("region") if isinstance(inputs, Mapping) else None
    given = _plain(provider.props).get("region", "") if provider else ""  # type: ignore[union-attr]
    return Node(
        urn=urn,
        type=resource.resource_type,
        name=resource.name,
        parent="",
        inputs=inputs if isinstance(inputs, Mapping) else {},
        provider=provider.urn if provider else "",
        region=str(own or given),
        options=Options(
            protect=resource.opts.protect,
            ignore_changes=tuple(resource.opts.ignore_changes),
            aliases=tuple(resource.opts.aliases),
        ),
    )


def _plain(value: object) -> Json:
    """Out of the SDK's guarded proxies; what is not known becomes `UNKNOWN`."""
    if isinstance(value, Mapping):
        return {str(key): _got(value, key) for key in value}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_got(value, index) for index in range(len(value))]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if isinstance(value, (bool, int, float, str)) else None


def _got(holder: Mapping[str, object] | Sequence[object], key: object) -> Json:
    try:
        return _plain(holder[key])  # type: ignore[call-overload, index]
    except UnknownValueError:
        return UNKNOWN
