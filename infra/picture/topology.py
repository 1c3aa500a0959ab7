"""A stack's components as boxes and what they take from one another as arrows; layers follow the dependencies."""

from collections import Counter
from dataclasses import dataclass

from infra.graph.nodes import Graph, Node

LIMIT = 7
"""Lines in a box; the rest is counted on one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One top component: its name, its kind, what it holds by type."""

    name: str
    kind: str
    holds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Boxes in layers from left to right, and arrows from the box that gives to the box that takes."""

    layers: tuple[tuple[Box, ...], ...]
    arrows: tuple[tuple[str, str], ...]


def topology(graph: Graph) -> Topology:
    """The components of a graph, layered so that a box stands right of all it takes from, where there is no circle."""
    by_urn = {node.urn: node for node in graph.nodes}
    owner = {node.urn: _top(node, by_urn) for node in graph.nodes}
    tops = sorted({urn for urn in owner.values() if by_urn[urn].type.startswith("penstock:")})
    arrows = {
        (owner[source], owner[node.urn])
        for node in graph.nodes
        for sources in node.references.values()
        for source in sources
        if source in owner and owner[source] in tops and owner[node.urn] in tops and owner[source] != owner[node.urn]
    }
    depth = _depths(tops, arrows)
    layers: list[list[Box]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for urn in tops:
        layers[depth[urn]].append(_box(by_urn[urn], [node for node in graph.resources() if owner[node.urn] == urn]))
    named = tuple(sorted((by_urn[one].name, by_urn[other].name) for one, other in arrows))
    return Topology(layers=tuple(tuple(layer) for layer in layers), arrows=named)


def _top(node: Node, by_urn: dict[str, Node]) -> str:
    top = node
    while top.parent in by_urn:
        top = by_urn[top.parent]
    return top.urn


def _depths(tops: list[str], arrows: set[tuple[str, str]]) -> dict[str, int]:
    depth = dict.fromkeys(tops, 0)
    for _ in tops:
        for one, other in sorted(arrows):
            depth[other] = max(depth[other], min(depth[one] + 1, len(tops) // 2))
    used = sorted(set(depth.values()))
    return {urn: used.index(value) for urn, value in depth.items()}


def _box(top: Node, nodes: list[Node]) -> Box:
    counts = sorted(
        Counter(node.type.rsplit(":", maxsplit=1)[-1] for node in nodes).items(), key=lambda kv: (-kv[1], kv[0])
    )
    lines = [f"{count} x {kind}" for kind, count in counts[:LIMIT]]
    rest = sum(count for _, count in counts[LIMIT:])
    if rest:
        lines.append(f"{rest} more")
    return Box(name=top.name, kind=top.type.rsplit(":", maxsplit=1)[-1], holds=tuple(lines))
