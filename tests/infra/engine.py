"""A captured graph as the policy engine would hand it over, and as it looks at preview."""

from collections.abc import Mapping
from dataclasses import replace

from pulumi_policy import (
    PolicyCustomTimeouts,
    PolicyProviderResource,
    PolicyResource,
    PolicyResourceOptions,
    ResourceValidationArgs,
)

from infra.graph.nodes import Graph, Node
from infra.graph.values import Json, is_list


def as_policy_resources(graph: Graph) -> list[PolicyResource]:
    """Every node as the engine's resource, with its references resolved."""
    made = {node.urn: _resource(node) for node in graph.nodes}
    providers = {node.urn: node for node in graph.nodes if node.type.startswith("pulumi:providers:")}
    for node in graph.nodes:
        resource = made[node.urn]
        resource.parent = made.get(node.parent)
        resource.dependencies = [made[urn] for urn in node.dependencies if urn in made]
        resource.property_dependencies = {
            key: [made[urn] for urn in urns if urn in made] for key, urns in node.references.items()
        }
        owner = providers.get(node.provider.rsplit("::", maxsplit=1)[0])
        if owner is not None:
            resource.provider = PolicyProviderResource(owner.type, owner.inputs, node.provider, owner.name)
    return list(made.values())


def as_single_resources(graph: Graph) -> list[ResourceValidationArgs]:
    """Every node as a resource policy gets it: what the program wrote, one resource at a time."""
    found = []
    for resource in as_policy_resources(graph):
        args = ResourceValidationArgs(
            resource.resource_type, resource.props, resource.urn, resource.name, resource.opts, resource.provider
        )
        found.append(args)
    return found


def _resource(node: Node) -> PolicyResource:
    options = PolicyResourceOptions(
        protect=node.options.protect,
        ignore_changes=list(node.options.ignore_changes),
        delete_before_replace=None,
        aliases=list(node.options.aliases),
        custom_timeouts=PolicyCustomTimeouts(0, 0, 0),
        additional_secret_outputs=[],
    )
    return PolicyResource(node.type, node.inputs, node.urn, node.name, options, None, None, [], {})


def at_preview(graph: Graph, unknown: str) -> Graph:
    """The graph before anything exists: each text that holds a computed value is not known."""
    computed = {
        value
        for node in graph.nodes
        for key, value in node.outputs.items()
        if isinstance(value, str) and value and node.custom and (key == "id" or key not in node.inputs)
    }
    return replace(
        graph, nodes=tuple(replace(node, inputs=_blind(node.inputs, computed, unknown)) for node in graph.nodes)
    )


def _blind(inputs: Mapping[str, Json], computed: set[str], unknown: str) -> Mapping[str, Json]:
    return {key: _hidden(value, computed, unknown) for key, value in inputs.items()}


def _hidden(value: Json, computed: set[str], unknown: str) -> Json:
    if isinstance(value, str):
        return unknown if any(token in value for token in computed) else value
    if isinstance(value, Mapping):
        return {key: _hidden(inner, computed, unknown) for key, inner in value.items()}
    return [_hidden(inner, computed, unknown) for inner in value] if is_list(value) else value
