"""What the scalers ask Prometheus: queries that parse, metrics the code exports, ports and endpoints it really has."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest

from infra.graph.captured import Capture
from infra.graph.values import items, mapping, text

ROOT = Path(__file__).resolve().parents[2]
CATALOGUE = sorted((ROOT / "platform/penstock/telemetry").glob("*names.py"))
METRIC = re.compile(r"\bpenstock_[a-z0-9_]+")
SUFFIXES = ("_bucket", "_sum", "_count", "_total")


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


def queries(clusters: tuple[Capture, ...]) -> Iterator[str]:
    for item in clusters:
        for node in item.graph.of("kubernetes:keda.sh/v1alpha1:ScaledObject"):
            for trigger in items(node.inputs, "spec.triggers"):
                yield text(trigger, "metadata.query")


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


def test_every_metric_is_exported(clusters: tuple[Capture, ...]) -> None:
    """Each metric and label that a scaler reads stands in the platform's catalogue."""
    names = exported()
    assert {query: wrong for query in queries(clusters) if (wrong := unknown(query, names))} == {}


def test_every_query_parses(clusters: tuple[Capture, ...]) -> None:
    """Each scaler's query is PromQL."""
    found = list(queries(clusters))
    assert found
    for query in found:
        promql_parser.parse(query)


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("sum(penstock_queued_token)", ["penstock_queued_token"]),
        ('sum(penstock_queued_tokens{model="x"})', ["penstock_queued_tokens{model}"]),
        ('sum(penstock_queued_tokens{version="x"})', []),
    ],
)
def test_an_unknown_metric_is_found(query: str, wrong: list[str]) -> None:
    """A misspelt metric or a label that it lacks is reported."""
    assert unknown(query, exported()) == wrong


def test_missing_data_never_reads_as_no_load(clusters: tuple[Capture, ...]) -> None:
    """Finding 3.18: no query gives a number where an answer is missing, and no scaler falls back to one."""
    for query in queries(clusters):
        assert "vector(" not in query
        assert "absent" not in query
    for item in clusters:
        for node in item.graph.of("kubernetes:keda.sh/v1alpha1:ScaledObject"):
            assert "fallback" not in mapping(node.inputs, "spec")
            for trigger in items(node.inputs, "spec.triggers"):
                assert text(trigger, "metadata.ignoreNullValues") == "false"


def test_a_quantile_is_a_number_or_nothing(clusters: tuple[Capture, ...]) -> None:
    """Without observations a quantile is no number: each one is compared, and stands beside a count of its own."""
    found = [query for query in queries(clusters) if "histogram_quantile" in query]
    assert found
    for query in found:
        metric = re.search(r"rate\((\w+)_bucket(\{[^}]*\})?\[2m\]\)", query)
        assert metric
        counted = f"{metric.group(1)}_count{metric.group(2) or ''}[2m]"
        assert query.endswith(f" >= 0 or 0 * sum(rate({counted}))")
