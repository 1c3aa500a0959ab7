"""A stack on one page: what it holds, by type, and a digest of every input. A changed graph is a reviewed diff."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import TypedDict

from infra.graph.captured import Capture

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "golden"


class Summary(TypedDict):
    """The golden content of one stack."""

    resources: int
    digest: str
    types: dict[str, int]
    exports: list[str]
    urns: list[str]


def summary(item: Capture) -> Summary:
    """The page of one capture. Inputs enter the digest alone, so no secret and no size of anything is written out."""
    nodes = list(item.graph.resources())
    body = [[node.urn, node.inputs, sorted(node.options.ignore_changes), node.options.protect] for node in nodes]
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return Summary(
        resources=len(nodes),
        digest=digest,
        types=dict(sorted(Counter(node.type for node in nodes).items())),
        exports=sorted(item.graph.exports),
        urns=[node.urn for node in item.graph.nodes],
    )


def render(item: Capture) -> str:
    """The page as text."""
    return json.dumps(summary(item), indent=1) + "\n"


def path_of(label: str) -> Path:
    """Where a stack's page lies."""
    return FOLDER / f"{label}.json"
