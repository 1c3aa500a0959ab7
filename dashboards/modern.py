"""What grafanalib writes, as a current Grafana reads it: it was made for the schema of some years ago.

Everything that is out of date is put right here and nowhere else; a later release of the library makes this file less.
"""

import json
from typing import Any

from grafanalib.core import Dashboard

Json = dict[str, Any]

SCHEMA_VERSION = 41
"""Grafana 11.6 and later read it; newer ones move it on themselves."""
KINDS = ("row", "stat", "timeseries")
"""Panels whose JSON was compared with Grafana's types; the library has older ones, which Grafana no longer draws."""
GONE = {
    "board": ("__inputs", "gnetId", "hideControls", "rows", "sharedCrosshair", "style"),
    "panel": ("cacheTimeout", "editable", "error", "height", "hideTimeOverride", "maxPerRow", "minSpan", "span"),
    "row": ("datasource", "fieldConfig", "links", "targets", "transformations", "transparent"),
    "time": ("time_options",),
    "target": ("intervalFactor", "metric", "query", "step", "target"),
    "variable": ("auto", "auto_count", "auto_min", "current", "tagValuesQuery", "tagsQuery", "useTags"),
}
"""Keys that Grafana no longer knows, by what they stand in."""
ALL = {"selected": True, "text": ["All"], "value": ["$__all"]}
LABEL_VALUES = 1
"""How Grafana numbers a variable's query of label values."""


class OutOfDate(Exception):
    """A panel is of a kind that a current Grafana does not draw."""


def written(dashboard: Dashboard) -> Json:
    """Return the board as a current Grafana's JSON."""
    board = _without(_plain(dashboard), "board")
    board["panels"] = [_panel(panel) for panel in board["panels"]]
    board["templating"]["list"] = [_variable(one) for one in board["templating"]["list"]]
    board["timepicker"] = _without(board["timepicker"], "time")
    return {**board, "schemaVersion": SCHEMA_VERSION, "fiscalYearStartMonth": 0, "preload": False}


def _plain(dashboard: Dashboard) -> Json:
    """Return the library's objects as JSON without nulls: what is not said is Grafana's own default."""
    told = json.loads(json.dumps(dashboard, default=lambda one: one.to_json_data()))
    return {key: _without_nulls(value) for key, value in told.items() if value is not None}


def _without_nulls(value: Any) -> Any:  # noqa: ANN401  any JSON
    """Drop nulls, except a null as the first threshold, which means below everything."""
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    if not isinstance(value, dict) or set(value) == {"color", "value"}:
        return value
    return {key: _without_nulls(one) for key, one in value.items() if one is not None}


def _panel(panel: Json) -> Json:
    if panel["type"] not in KINDS:
        raise OutOfDate(f"{panel['title']}: a {panel['type']} is none of {', '.join(KINDS)}")
    panel = _without(panel, "panel")
    if panel["type"] == "row":
        return _without(panel, "row")
    panel["targets"] = [_target(target) for target in panel["targets"]]
    if panel["type"] == "timeseries":
        panel["options"]["legend"]["showLegend"] = True
        defaults = panel["fieldConfig"]["defaults"]
        defaults["custom"]["scaleDistribution"] = {"type": "linear"}
        del defaults["thresholds"]
    return panel


def _target(target: Json) -> Json:
    return {**_without(target, "target"), "editorMode": "code", "range": not target["instant"]}


def _variable(variable: Json) -> Json:
    text, variable = variable["query"], _without(variable, "variable")
    if variable["type"] != "query":
        return variable
    asked = {"qryType": LABEL_VALUES, "query": text, "refId": f"variable-{variable['name']}"}
    return {**variable, "query": asked, "current": ALL}


def _without(value: Json, kind: str) -> Json:
    return {key: one for key, one in value.items() if key not in GONE[kind]}
