"""All the generated documents by file name: what `make infra-graph` writes and its test compares."""

from collections.abc import Sequence
from pathlib import Path

from infra.graph.captured import Capture
from infra.picture.inventory import inventory
from infra.picture.svg import draw
from infra.picture.topology import topology

FOLDER = Path(__file__).resolve().parent.parent / "docs"


def pages(captures: Sequence[Capture]) -> dict[str, str]:
    """File name to content."""
    found = {f"{item.label}.svg": draw(f"Penstock {item.label}", topology(item.graph)) for item in captures}
    return {**found, "inventory.md": inventory(captures)}
