"""What the scalers ask Prometheus: queries that parse, metrics the code exports, ports and endpoints it really has."""

import ast
import json
import re
from pathlib import Path

import pytest

from infra.graph.captured import Capture
from infra.graph.values import items, mapping, number, parsed, text
from tests.infra.model.metrics import exported, unknown

ROOT = Path(__file__).resolve().parents[2]
SCALED_OBJECT = "kubernetes:keda.sh/v1alpha1:ScaledObject"


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


def test_the_gateways_scaler_is_made_as_the_workers_are(clusters: tuple[Capture, ...]) -> None:
    """Two programs write scalers: but for names and numbers they write the same, and each asks for its own object."""
    shapes = []
    for item in clusters:
        for node in item.graph.of(SCALED_OBJECT):
            spec = dict(mapping(node.inputs, "spec"))
            name, least, most = text(spec, "scaleTargetRef.name"), spec["minReplicaCount"], spec["maxReplicaCount"]
            assert text(node.inputs, "metadata.name") == name
            del spec["scaleTargetRef"], spec["minReplicaCount"], spec["maxReplicaCount"]
            spec.pop("cooldownPeriod", None)  # for going to zero, which gateways never do
            (query,) = (text(one, "metadata.query") for one in items(spec, "triggers")[1:])
            assert query.count(f'{{object="{name}"}}') == 2
            assert mapping(spec, "fallback")["replicas"] == max(1, int(str(least)))
            ways = mapping(spec, "advanced.horizontalPodAutoscalerConfig.behavior")
            assert {number(way, "policies.0.value") for way in ways.values()} == {float(str(most))}
            plain = json.dumps(spec, sort_keys=True).replace(name, "NAME")
            shapes.append(re.sub(r'("replicas"|"value"): \d+', r"\1: N", plain))
    assert len(shapes) > sum("serving" in item.label for item in clusters)
    assert len(set(shapes)) == 1


def test_the_scale_file_is_one_that_the_controller_takes(clusters: tuple[Capture, ...]) -> None:
    """The shipped scale file has keys that the controller's reader knows, and the bounds of the gateways' scaler."""
    tree = ast.parse((ROOT / "platform/penstock/scaling/bounds.py").read_text(encoding="utf-8"))
    known = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.endswith("_KEYS")
    }
    found = 0
    for item in clusters:
        scalers = {text(one.inputs, "metadata.name"): one.inputs for one in item.graph.of(SCALED_OBJECT)}
        for node in item.graph.of("kubernetes:core/v1:ConfigMap"):
            told = parsed(mapping(node.inputs, "data").get("scale.yaml"))
            if told is None:
                continue
            found += 1
            gateways, spec = mapping(told, "gateways"), mapping(scalers["gateway"], "spec")
            assert tuple(gateways) == tuple(sorted(known["_GATEWAY_KEYS"]))
            assert (gateways["least"], gateways["most"]) == (spec["minReplicaCount"], spec["maxReplicaCount"])
            assert all(set(mapping({"it": one}, "it")) <= set(known["_KEYS"]) for one in items(told, "scale"))
    assert found
