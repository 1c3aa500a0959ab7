"""Boards as a Grafana would use them: their queries, with variables and windows filled in."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dashboards.build import boards
from penstock.slo.windows import seconds

ALL = ".*"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One query of a board, and its place."""

    board: str
    panel: str
    ref: str
    expr: str

    @property
    def place(self) -> str:
        return f"{self.board} / {self.panel} / {self.ref}"


def panels(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def asked() -> Iterator[Asked]:
    for uid, board in boards().items():
        for panel in panels(board):
            for target in panel["targets"]:
                yield Asked(board=uid, panel=panel["title"], ref=target["refId"], expr=target["expr"])


def filled(expr: str, *, window: str = "1m", shown: str = "10m", values: Mapping[str, str] | None = None) -> str:
    """Return a query as it is sent; a variable without a value matches everything."""
    shown_s = str(seconds(shown))
    expr = expr.replace("$__rate_interval", window).replace("$__range_s", shown_s).replace("$__range", shown)
    return re.sub(r"\$(\w+)", lambda found: (values or {}).get(found[1], ALL), expr)
