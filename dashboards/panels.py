"""The house's panels: the only place that knows grafanalib, so that another library would touch one file."""

from collections.abc import Sequence

from grafanalib.core import (
    GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
    Annotations,
    Dashboard,
    GridPos,
    Panel,
    RowPanel,
    Stat,
    Target,
    Template,
    Templating,
    Time,
    TimeSeries,
)

from dashboards.queries import Query

__all__ = [
    "Dashboard",
    "Panel",
    "annotation",
    "board",
    "is_number",
    "lines",
    "number",
    "parts",
    "placed",
    "row",
    "source_variable",
    "variable",
]

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
"""Which Prometheus: whoever imports a board chooses."""
SHARE = "percentunit"
"""Of shares the axis shows all, from nothing to the whole."""
STACKED = {"mode": "normal", "group": "A"}
FILL_LINE, FILL_STACK = 10, 60


def lines(title: str, says: str, unit: str, *queries: Query) -> TimeSeries:
    """Return lines over time; ``says`` is the sentence behind the panel's i: what to read from it."""
    return TimeSeries(
        title=title,
        description=says,
        dataSource=SOURCE,
        targets=_targets(queries),
        unit=unit,
        fillOpacity=FILL_LINE,
        showPoints="never",
        spanNulls=False,
        tooltipMode="multi",
        tooltipSort="desc",
        axisSoftMin=0,
        axisSoftMax=1 if unit == SHARE else None,
        maxDataPoints=None,
    )


def parts(title: str, says: str, unit: str, *queries: Query) -> TimeSeries:
    """Return lines on top of one another: parts of a whole."""
    panel = lines(title, says, unit, *queries)
    panel.stacking, panel.fillOpacity = STACKED, FILL_STACK
    return panel


def number(title: str, says: str, unit: str, *queries: Query, steps: Sequence[tuple[float | None, str]] = ()) -> Stat:
    """Return the last value of each line, large; ``steps`` are (from this value on, this colour), lowest first."""
    return Stat(
        title=title,
        description=says,
        dataSource=SOURCE,
        targets=_targets(queries),
        format=unit,
        reduceCalc="lastNotNull",
        graphMode="area",
        color={"mode": "thresholds"},
        thresholds=[{"value": value, "color": colour} for value, colour in steps or ((None, "text"),)],
        noValue="-",
        maxDataPoints=None,
    )


def row(title: str) -> RowPanel:
    """Return the headline of what stands below it."""
    return RowPanel(title=title, maxDataPoints=None)


def is_number(panel: Panel) -> bool:
    """Tell whether a panel is one large number, which needs less room than lines do."""
    return isinstance(panel, Stat)


def placed(panel: Panel, number: int, box: tuple[int, int, int, int]) -> Panel:
    """Give a panel its number and its place on the grid: left, top, width, height."""
    left, top, width, height = box
    panel.id, panel.gridPos = number, GridPos(x=left, y=top, w=width, h=height)
    return panel


def source_variable() -> Template:
    """Return the variable that says which Prometheus is asked."""
    return Template(name="datasource", label="data source", type="datasource", query="prometheus")


def variable(name: str, query: str, *, all_value: str | None) -> Template:
    """Return a variable with several values or all; without ``all_value`` all means those that were found."""
    return Template(
        name=name,
        query=query,
        dataSource=SOURCE,
        includeAll=True,
        allValue=all_value,
        multi=True,
        refresh=2,  # whenever the time range changes: models come and go
    )


def annotation(name: str, expr: str, colour: str, title: str) -> dict[str, object]:
    """Return vertical lines at the times at which the expression has a value."""
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "hide": False,
        "iconColor": colour,
        "target": {"refId": "Anno", "expr": expr, "interval": "30s"},
        "titleFormat": title,
    }


def board(
    uid: str, title: str, says: str, panels: Sequence[Panel], variables: Sequence[Template], notes: Sequence[object]
) -> Dashboard:
    """Return a whole board; each leads to all others of the house, with the time and variables that are set."""
    others = {"type": "dashboards", "tags": ["penstock"], "title": "Penstock", "asDropdown": True, "includeVars": True}
    return Dashboard(
        uid=uid,
        title=title,
        description=says,
        tags=["penstock"],
        panels=list(panels),
        templating=Templating(list=list(variables)),
        annotations=Annotations(list=list(notes)),
        links=[{**others, "keepTime": True, "icon": "external link", "targetBlank": False, "tooltip": "", "url": ""}],
        refresh="30s",
        time=Time("now-1h", "now"),
        timezone="browser",
        graphTooltip=GRAPH_TOOLTIP_MODE_SHARED_CROSSHAIR,
    )


def _targets(queries: Sequence[Query]) -> list[Target]:
    return [
        Target(expr=one.expr, legendFormat=one.legend, refId=chr(ord("A") + i), datasource=SOURCE)
        for i, one in enumerate(queries)
    ]
