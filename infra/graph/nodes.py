"""The captured graph: frozen nodes in the order of their URNs, and what the stack exports."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from infra.graph.values import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The resource options that decide what a change may do to a resource."""

    protect: bool = False
    retain_on_delete: bool = False
    ignore_changes: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One resource. `references` names, per input, the URNs whose outputs it was made from."""

    urn: str
    type: str
    name: str
    parent: str
    inputs: Mapping[str, Json]
    outputs: Mapping[str, Json] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    dependencies: tuple[str, ...] = ()
    references: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    provider: str = ""
    region: str = ""
    options: Options = field(default_factory=Options)
    existing: bool = False
    """Whether others made it, and it is read alone."""

    @property
    def custom(self) -> bool:
        """Whether a provider makes something of it, unlike a component."""
        return not self.type.startswith(("penstock:", "pulumi:"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """One stack as its program registered it."""

    project: str
    stack: str
    nodes: tuple[Node, ...]
    exports: Mapping[str, Json] = field(default_factory=dict)

    def of(self, *types: str) -> Iterator[Node]:
        """The nodes of these types."""
        return (node for node in self.nodes if node.type in types)

    def resources(self) -> Iterator[Node]:
        """The nodes a provider makes something of."""
        return (node for node in self.nodes if node.custom and not node.existing)
