"""The metrics that the platform exports, by its own catalogue, and what a query asks beyond."""

import re

from penstock.telemetry.names import CATALOGUE

METRIC = re.compile(r"\bpenstock_[a-z0-9_]+")
SUFFIXES = ("_bucket", "_sum", "_count", "_total")


def exported() -> dict[str, tuple[str, ...]]:
    """Return metric names with their labels."""
    return {one.name: tuple(label.value for label in one.labels) for one in CATALOGUE}


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
