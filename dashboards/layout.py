"""Where things stand on a board, and what all boards have in common: variables, annotations, links."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dashboards import panels
from dashboards.panels import Dashboard, Panel
from dashboards.queries import VARIABLES, increase, series
from penstock.telemetry import names
from penstock.telemetry.definitions import Label

WIDTH = 24
HEAD, SHORT, TALL = 1, 5, 8
"""Heights of a headline, of a row of numbers, of a row with lines, in the grid's units."""
ANY = ".*"

VALUES = {
    Label.MODEL: f"label_values({names.REQUESTS.name}_total, model)",
    Label.VERSION: f'label_values({names.WORKERS.name}{{version=~"($model)@.+"}}, version)',
    Label.TIER: f"label_values({names.TTFT_SECONDS.name}_count, tier)",
    Label.ZONE: "label_values(up, zone)",
    Label.TENANT: f'label_values({names.REQUESTS.name}_total{{model=~"$model"}}, tenant)',
}
"""Where each variable's values come from."""
ALL = dict.fromkeys(VARIABLES, ANY) | {Label.VERSION: None}
"""What all values mean: whatever there is. Versions are those of the chosen models, which alone makes that choice
reach series that know a version and no model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels beside one another under a headline."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One board: what it answers, in a sentence, and its rows in reading order."""

    title: str
    says: str
    rows: Sequence[Row]


def laid_out(board: Board, uid: str) -> Dashboard:
    """Return the board with every panel in its place; ids and places follow from the order alone."""
    return panels.board(
        uid,
        f"Penstock / {board.title}",
        board.says,
        list(_placed(board.rows)),
        [
            panels.source_variable(),
            *(panels.variable(label, VALUES[label], all_value=ALL[label]) for label in VARIABLES),
        ],
        _annotations(),
    )


def _placed(rows: Sequence[Row]) -> Iterator[Panel]:
    number, top = 1, 0
    for row in rows:
        yield panels.placed(panels.row(row.title), number, (0, top, WIDTH, HEAD))
        number, top = number + 1, top + HEAD
        height = SHORT if all(panels.is_number(panel) for panel in row.panels) else TALL
        for i, panel in enumerate(row.panels):
            left, right = (WIDTH * at // len(row.panels) for at in (i, i + 1))
            yield panels.placed(panel, number, (left, top, right - left, height))
            number += 1
        top += height


def _annotations() -> list[dict[str, object]]:
    """Return what happened to the platform itself, to be seen under every line: rollouts and restarts."""
    serving = series(names.WORKERS, state="ready")
    lag = f"{names.LOOP_LAG_SECONDS.name}_count"
    return [
        panels.annotation(
            "rollouts",
            f"sum by (version) ({serving}) > 0 unless sum by (version) ({serving} offset 1m) > 0",
            "blue",
            "{{version}} serves",
        ),
        panels.annotation(
            "engine restarts",
            f"{increase(names.ENGINE_RESTARTS, 'version', 'reason', window='1m')} > 0",
            "red",
            "{{version}}: engine restarted after {{reason}}",
        ),
        panels.annotation(
            "process restarts",
            f'resets({lag}{{zone=~"$zone"}}[1m]) > 0',
            "orange",
            "{{instance}} restarted",
        ),
    ]
