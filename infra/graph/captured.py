"""A stack's graph together with what it is the stack of."""

from dataclasses import dataclass

from infra.config.kinds import StackKind
from infra.graph.nodes import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The graph of one stack, and which kind and region it is."""

    kind: StackKind
    region: str
    graph: Graph

    @property
    def label(self) -> str:
        """A short name for files and test ids."""
        return f"{self.kind}-{self.region}" if self.region else str(self.kind)
