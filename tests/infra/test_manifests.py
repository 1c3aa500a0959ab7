"""Every manifest fits its published schema; custom resources fit their published models or our own minimal ones."""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import Json, is_list, mapping
from infra.rendered.checked_in import facts

VERSION = "1.35"
OWN = yaml.safe_load(Path(__file__).with_name("schemas").joinpath("custom.yaml").read_text(encoding="utf-8"))
PUBLISHED = {
    "TriggerAuthentication": "cloudcoil.models.keda.v1alpha1",
    "PodMonitor": "cloudcoil.models.prometheus_operator.v1",
    "PrometheusRule": "cloudcoil.models.prometheus_operator.v1",
    "Certificate": "cloudcoil.models.cert_manager.v1",
    "ClusterIssuer": "cloudcoil.models.cert_manager.v1",
}


def closed(schema: Json) -> Json:
    """Return a schema that takes no key beyond its own, as the API server drops such keys without a word."""
    if isinstance(schema, Mapping):
        inner = {key: closed(one) for key, one in schema.items()}
        return {**inner, "additionalProperties": False} if "properties" in inner else inner
    return [closed(one) for one in schema] if is_list(schema) else schema


RENDERED = {
    kind: mapping({"it": closed(one)}, "it") for chart in facts().values() for kind, one in chart["schemas"].items()
}
"""Of the pinned charts' own CRDs."""
HELM = "kubernetes:helm.sh/v3:Release"


def objects(captures: tuple[Capture, ...]) -> Iterator[Node]:
    for item in captures:
        for node in item.graph.resources():
            if node.type.startswith("kubernetes:") and node.type != HELM:
                yield node


def fault(manifest: Mapping[str, Json]) -> str:
    """Say what is wrong with a manifest; empty where it fits."""
    kind = str(manifest["kind"])
    if kind in PUBLISHED:
        return published_fault(manifest, PUBLISHED[kind], kind)
    try:
        if kind in RENDERED:
            jsonschema.validate(manifest["spec"], RENDERED[kind])
        elif kind in OWN:
            jsonschema.validate(manifest["spec"], OWN[kind])
        else:
            kubernetes_validate.validate(manifest, VERSION, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        return str(error.message)
    return ""


def published_fault(manifest: Mapping[str, Json], module: str, kind: str) -> str:
    """Compare a manifest with what its model keeps of it: the models ignore keys they do not know."""
    model = getattr(importlib.import_module(module), kind)
    try:
        kept = model.model_validate(manifest).model_dump(mode="json", by_alias=True, exclude_unset=True)
    except ValueError as error:
        return str(error)
    lost = sorted(missing(manifest, kept, ""))
    return f"unknown keys {lost}" if lost else ""


def missing(given: Json, kept: Json, path: str) -> Iterator[str]:
    if isinstance(given, Mapping):
        for key, value in given.items():
            if not isinstance(kept, Mapping) or key not in kept:
                yield f"{path}.{key}"
            else:
                yield from missing(value, kept[key], f"{path}.{key}")
    elif isinstance(given, list) and isinstance(kept, list):
        for index, value in enumerate(given):
            yield from missing(value, kept[index], f"{path}[{index}]")


def test_every_manifest_fits_its_schema(clusters: tuple[Capture, ...]) -> None:
    """No object of any cluster has an unknown key, a missing one or a wrong type, the controller's own included."""
    faults = [f"{node.urn}: {found}" for node in objects(clusters) if (found := fault(node.inputs))]
    assert faults == []


def test_every_custom_resource_has_a_schema(captures: tuple[Capture, ...]) -> None:
    """Each kind that Kubernetes does not define is checked by a published model or by one of ours, and none is idle."""
    custom = {
        str(node.inputs["kind"]) for node in objects(captures) if "." in str(node.inputs["apiVersion"]).split("/")[0]
    }
    built_in = {"NetworkPolicy", "PriorityClass", "StorageClass", "Role", "RoleBinding"}
    built_in |= {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert custom - built_in == set(OWN) | set(PUBLISHED) | set(RENDERED)


def test_the_controllers_objects_are_among_them(clusters: tuple[Capture, ...]) -> None:
    """Row 3.7: what a version gets is judged like the rest: pods, budget, scaler."""
    made = [
        (node.inputs["kind"], mapping(node.inputs, "metadata.labels")["penstock.io/workload"])
        for node in objects(clusters)
        if mapping(node.inputs, "metadata.labels").get("app.kubernetes.io/managed-by") == "penstock-controller"
    ]
    kinds = {str(kind) for kind, _ in made}
    assert kinds == {"Deployment", "PodDisruptionBudget", "ScaledObject"}
    assert len(made) == 2 * 3 * len(kinds)  # in each region: a whole GPU, a slice, several GPUs


@pytest.mark.parametrize(
    ("kind", "path", "value", "told"),
    [
        ("Deployment", "spec/template/spec/containers/0/livenesProbe", {}, "livenesProbe"),
        ("Deployment", "spec/replicas", "three", "three"),
        ("ScaledObject", "spec/minReplicaCont", 1, "minReplicaCont"),
        ("ScaledObject", "spec/scaleTargetRef", None, "scaleTargetRef"),
        ("Certificate", "spec/dnsName", [], "dnsName"),
        ("NodePool", "spec/tmpl", {}, "tmpl"),
        ("TargetGroupBinding", "spec/targetGroupARN", "tg", "arn"),
    ],
)
def test_a_bad_manifest_is_found(captures: tuple[Capture, ...], kind: str, path: str, value: object, told: str) -> None:
    """A misspelt, missing or mistyped field is refused by its schema."""
    node = next(node for node in objects(captures) if node.inputs["kind"] == kind)
    assert told in fault(spoil(node.inputs, path.split("/"), value))


def spoil(given: Json, path: list[str], value: object) -> Mapping[str, Json]:
    """Copy a manifest with one field changed."""
    step, *rest = path
    if isinstance(given, list):
        inner = spoil(given[int(step)], rest, value)
        return [*given[: int(step)], inner, *given[int(step) + 1 :]]  # type: ignore[return-value]
    copied = dict(mapping({"it": given}, "it"))
    if rest:
        copied[step] = spoil(copied[step], rest, value)
    elif value is None:
        copied.pop(step)
    else:
        copied[step] = value  # type: ignore[assignment]
    return copied
