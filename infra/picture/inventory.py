"""Every stack's resources as one Markdown page: the table a reviewer reads beside the pictures."""

from collections import Counter
from collections.abc import Sequence

from infra.graph.captured import Capture


def inventory(captures: Sequence[Capture]) -> str:
    """The page. Regions of one kind share a table, a column each."""
    page = ["# Inventory", "", "Made by `make infra-graph` from the captured graphs; do not edit.", ""]
    page += ["| stack | resources | exports |", "|---|---|---|"]
    page += [
        f"| [{item.label}]({item.label}.svg) | {len(list(item.graph.resources()))} | {len(item.graph.exports)} |"
        for item in captures
    ]
    for kind in dict.fromkeys(item.kind for item in captures):
        page += ["", f"## {kind}", "", *_table([item for item in captures if item.kind == kind])]
    return "\n".join(page) + "\n"


def _table(captures: Sequence[Capture]) -> list[str]:
    counts = [Counter(node.type for node in item.graph.resources()) for item in captures]
    names = [item.region or "all regions" for item in captures]
    rows = [f"| type | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    rows += [
        f"| `{kind}` | {' | '.join(str(count[kind]) for count in counts)} |" for kind in sorted(set().union(*counts))
    ]
    return rows
