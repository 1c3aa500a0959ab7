"""The metrics that the platform exports, read from its catalogue without importing it, and what a query asks beyond."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CATALOGUE = sorted((ROOT / "platform/penstock/telemetry").glob("*names.py"))
METRIC = re.compile(r"\bpenstock_[a-z0-9_]+")
SUFFIXES = ("_bucket", "_sum", "_count", "_total")


@cache
def exported() -> dict[str, tuple[str, ...]]:
    """Read metric names and their labels out of the platform's catalogue, which needs no import of the platform."""
    found = {}
    for call in (node for file in CATALOGUE for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Metric":
            given = {keyword.arg: keyword.value for keyword in call.keywords}
            name = ast.literal_eval(given["name"])
            labels = given.get("labels")
            held = labels.elts if isinstance(labels, ast.Tuple) else []
            found[name] = tuple(item.attr.lower() for item in held if isinstance(item, ast.Attribute))
    return found


def unknown(query: str, names: dict[str, tuple[str, ...]]) -> list[str]:
    """Return the metrics of a query that the code does not export, and labels that they do not carry."""
    wrong = []
    for used in METRIC.findall(query):
        base = next((used.removesuffix(end) for end in SUFFIXES if used.endswith(end)), used)
        name = used if used in names else base
        if name not in names:
            wrong.append(used)
            continue
        selected = re.search(rf"{used}\{{([^}}]*)\}}", query)
        labels = re.findall(r"(\w+)=", selected.group(1)) if selected else []
        wrong += [f"{used}{{{label}}}" for label in labels if label not in names[name]]
    return wrong
