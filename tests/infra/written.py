"""What the controller writes into a cluster of ours: made of the shipped pools by the platform's own writer.

A stack holds no worker any more; with these beside its own objects it looks as its cluster does once versions are
deployed, and whatever is proven of manifests is proven of theirs.
"""

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from infra.graph.captured import Capture
from infra.graph.nodes import Graph, Node
from infra.graph.values import mapping
from penstock.connectors.kubernetes.kinds import DEPLOYMENT
from penstock.connectors.kubernetes.manifests import written
from penstock.connectors.kubernetes.names import GROUPS, SCALER
from penstock.connectors.kubernetes.pools import EDITION, Pools
from penstock.domain.fleet.versions import Served
from penstock.domain.ids import VersionId

GIB = 1 << 30
DEPLOYED = (
    Served(version=VersionId("chat-8b@4444444444444444"), least=3, workers=3, held_bytes=40 * GIB),
    Served(version=VersionId("embed-small@6666666666666666"), least=2, workers=2, held_bytes=16 * GIB),
    Served(version=VersionId("chat-70b@5555555555555555"), least=1, workers=1, gpus=4, held_bytes=280 * GIB),
)
"""One for each kind of device of the shipped config: a whole GPU, a slice, several GPUs of one node."""


def with_workers(captures: tuple[Capture, ...]) -> tuple[Capture, ...]:
    """The captures with what the controller writes for these versions."""
    return tuple(replace(one, graph=_with(one.graph)) for one in captures)


def pools_of(graph: Graph) -> Pools | None:
    """The pools that a stack ships, read as the controller reads them."""
    node = _shipping(graph)
    if node is None:
        return None
    found = msgspec.json.decode(str(mapping(node.inputs, "data")["pools.json"]), type=Pools)
    assert found.edition == EDITION
    return found


def _shipping(graph: Graph) -> Node | None:
    maps = graph.of("kubernetes:core/v1:ConfigMap")
    return next((node for node in maps if "pools.json" in mapping(node.inputs, "data")), None)


def _with(graph: Graph) -> Graph:
    node, pools = _shipping(graph), pools_of(graph)
    return graph if node is None or pools is None else replace(graph, nodes=(*graph.nodes, *_nodes(node, pools)))


def _nodes(beside: Node, pools: Pools) -> Iterator[Node]:
    for served in DEPLOYED:
        for one in written(served, pools):
            token = f"kubernetes:{one.kind.api_version}:{one.kind.name}"
            plain = msgspec.json.decode(msgspec.json.encode(one.body))
            if one.kind is DEPLOYMENT:
                plain["spec"]["template"]["metadata"]["labels"][SCALER] = GROUPS  # as once its gate is open
            yield replace(beside, urn=f"{token}::{one.name}", type=token, name=one.name, inputs=plain)
