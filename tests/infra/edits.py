"""How a captured graph is spoiled: one value set, one node taken out, one statement added. Always on a copy."""

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from infra.graph.nodes import Graph, Node, Options

Spoil = Callable[[Graph], Graph]
EAST_REGION = "region-us-east-1"
EAST_PLATFORM = "platform-us-east-1"
EAST_SERVING = "serving-us-east-1"
POOLS = "penstock-worker-pools"
"""The config map that ships the pools."""


BY_NAME = ("option", "statement", "twin", "plant")
"""Ways to spoil that take the values by name."""


def matching(graph: Graph, kind: str, name: str) -> list[Node]:
    """The nodes whose type ends with `:kind` and whose name is `name` (or all, where it is empty)."""
    return [node for node in graph.nodes if node.type.endswith(f":{kind}") and name in ("", node.name)]


def _each(graph: Graph, kind: str, name: str, change: Callable[[Node], Node | None]) -> Graph:
    hit = {node.urn for node in matching(graph, kind, name)}
    assert hit, f"no {kind} named {name!r} in {graph.stack}"
    kept = (change(node) if node.urn in hit else node for node in graph.nodes)
    return replace(graph, nodes=tuple(node for node in kept if node is not None))


def put(kind: str, name: str, path: str, value: object) -> Spoil:
    """Set one input; `None` takes it out. Steps of the path are divided by `/`, or by `|` where a key holds one."""

    def change(node: Node) -> Node:
        inputs: Any = copy.deepcopy(dict(node.inputs))
        *steps, last = path.split("|" if "|" in path else "/")
        inner = inputs
        for step in steps:
            inner = inner[int(step)] if isinstance(inner, list) else inner.setdefault(step, {})
        if isinstance(inner, list):
            inner[int(last)] = value
        elif value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
        return replace(node, inputs=inputs)

    return lambda graph: _each(graph, kind, name, change)


def shipped(device: str, path: str, value: object) -> Spoil:
    """Set one value of what is shipped of a device, `None` takes it out; steps as in `put`."""

    def change(node: Node) -> Node:
        told = json.loads(str(node.inputs["data"]["pools.json"]))  # type: ignore[index,call-overload]
        (inner,) = (one for one in told["devices"] if one["name"] == device)
        *steps, last = path.split("|" if "|" in path else "/")
        for step in steps:
            inner = inner[int(step)] if isinstance(inner, list) else inner.setdefault(step, {})
        if isinstance(inner, list):
            inner[int(last)] = value
        elif value is None:
            inner.pop(last, None)
        else:
            inner[last] = value
        return replace(node, inputs={**node.inputs, "data": {"pools.json": json.dumps(told)}})

    return lambda graph: _each(graph, "ConfigMap", POOLS, change)


def env(name: str, variable: str, value: str) -> Spoil:
    """Tell a workload's process another value of a variable."""

    def change(node: Node) -> Node:
        inputs: Any = copy.deepcopy(dict(node.inputs))
        (held,) = (one for one in inputs["spec"]["template"]["spec"]["containers"][0]["env"] if one["name"] == variable)
        held["value"] = value
        return replace(node, inputs=inputs)

    kind = "StatefulSet" if name.endswith("gateway") else "Deployment"
    return lambda graph: _each(graph, kind, name, change)


def drop(kind: str, name: str = "") -> Spoil:
    return lambda graph: _each(graph, kind, name, lambda _: None)


def option(kind: str, name: str, **options: object) -> Spoil:
    def change(node: Node) -> Node:
        kept = {key: getattr(node.options, key) for key in Options.__slots__}
        return replace(node, options=Options(**{**kept, **options}))

    return lambda graph: _each(graph, kind, name, change)


def unlink(kind: str, name: str, prop: str, *urns_of: str) -> Spoil:
    """Point a property's references elsewhere: at the nodes of these names, or at nothing."""

    def spoil(graph: Graph) -> Graph:
        kinds = {
            node.type for node in graph.nodes for hit in matching(graph, kind, name) if node.urn in hit.references[prop]
        }
        urns = tuple(node.urn for node in graph.nodes if node.name in urns_of and node.type in kinds)
        return _each(graph, kind, name, lambda node: replace(node, references={**node.references, prop: urns}))

    return spoil


def statement(kind: str, name: str, prop: str, **fields: object) -> Spoil:
    """Add a statement to a policy document."""

    def change(node: Node) -> Node:
        document = json.loads(str(node.inputs[prop]))
        document["Statement"].append({"Sid": "Planted", "Effect": "Allow", **fields})
        return replace(node, inputs={**node.inputs, prop: json.dumps(document)})

    return lambda graph: _each(graph, kind, name, change)


def rewrite(kind: str, name: str, prop: str, old: str, new: str) -> Spoil:
    def change(node: Node) -> Node:
        content = str(node.inputs[prop])
        assert old in content, f"{name}.{prop} holds no {old!r}"
        return replace(node, inputs={**node.inputs, prop: content.replace(old, new)})

    return lambda graph: _each(graph, kind, name, change)


def twin(kind: str, name: str, **inputs: object) -> Spoil:
    """Add a copy of a node under another name, with other inputs."""

    def spoil(graph: Graph) -> Graph:
        node = matching(graph, kind, name)[0]
        other = replace(node, urn=f"{node.urn}-twin", name=f"{node.name}-twin", inputs={**node.inputs, **inputs})  # type: ignore[dict-item]
        return replace(graph, nodes=(*graph.nodes, other))

    return spoil


def plant(token: str, called: str = "planted", **inputs: object) -> Spoil:
    """Add a resource of a type that has no business there."""
    node = Node(urn=f"urn:pulumi:x::y::{token}::{called}", type=token, name=called, parent="", inputs=inputs)  # type: ignore[arg-type]
    return lambda graph: replace(graph, nodes=(*graph.nodes, node))


def provider(kind: str, name: str, value: str, region: str | None = None) -> Spoil:
    def change(node: Node) -> Node:
        return replace(node, provider=value, region=node.region if region is None else region)

    return lambda graph: _each(graph, kind, name, change)
