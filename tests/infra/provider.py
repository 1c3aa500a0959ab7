"""What a provider gives back for what a program wrote: unset properties at their zero, set ones kept.

An engine hands stack policies this, not the inputs. Here it is as unkind as providers are: empty texts where nothing
was given, sizes that a scaler has moved, policy documents whose lists of one became the one, a server's own defaults.
"""

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from infra.graph.nodes import Graph, Node
from infra.graph.sdk import camel, resource_class
from infra.graph.values import Json, items, mapping, number, parsed
from infra.policy.view import DOCUMENTS

ZEROES: tuple[tuple[str, Json], ...] = (("Sequence", []), ("Mapping", {}), ("bool", False), ("int", 0), ("str", ""))
OF_A_SERVER: Mapping[str, Mapping[str, Json]] = {
    "Service": {
        "clusterIP": "10.100.12.7",
        "internalTrafficPolicy": "Cluster",
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
        "type": "ClusterIP",
    },
    "Deployment": {"replicas": 7, "minReadySeconds": 0, "paused": False},
    "StatefulSet": {"replicas": 7, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}},
    "DaemonSet": {"minReadySeconds": 0, "revisionHistoryLimit": 10, "updateStrategy": {"type": "RollingUpdate"}},
}
OF_A_POD: Mapping[str, Json] = {
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "serviceAccount": "",
}


@cache
def zeroes(token: str) -> Mapping[str, Json]:
    """Every property of an AWS type, at the zero of its kind."""
    cls = resource_class(token)
    found: dict[str, Json] = {}
    for name, member in inspect.getmembers(cls, lambda item: isinstance(item, property)) if cls else ():
        hint = str(getattr(member.fget, "__annotations__", {}).get("return", ""))
        for kind, zero in ZEROES:
            if re.search(rf"\b{kind}\b", hint):
                found[camel(name)] = zero
                break
    return {key: value for key, value in found.items() if key not in ("urn", "id", "arn")}


def as_stored(graph: Graph) -> Graph:
    """The graph as it stands in the state after an update, and after the scalers have worked."""
    return replace(graph, nodes=tuple(_stored(node) for node in graph.nodes))


def _stored(node: Node) -> Node:
    if node.type.startswith("aws:"):
        return replace(node, inputs=_from_aws(node))
    return replace(node, inputs=_from_server(node)) if node.type.startswith("kubernetes:") else node


def _from_aws(node: Node) -> Mapping[str, Json]:
    state: dict[str, Json] = {**zeroes(node.type), **node.inputs}
    if "arn" in node.outputs:
        state["arn"] = node.outputs["arn"]
    if "tags" in node.inputs:
        state["tagsAll"] = node.inputs["tags"]
    document = DOCUMENTS.get(node.type)
    if document and isinstance(node.inputs.get(document), str):
        state[document] = _as_aws_writes(str(node.inputs[document]))
    if node.type == "aws:eks/nodeGroup:NodeGroup":
        scaling = mapping(node.inputs, "scalingConfig")
        state["scalingConfig"] = {**scaling, "desiredSize": number(node.inputs, "scalingConfig.maxSize")}
    return state


def _as_aws_writes(document: str) -> str:
    """IAM and its kin give back a list of one as the one."""
    known = parsed(document)
    if known is None:
        return document
    statements = [
        {key: _one(value) for key, value in mapping({"it": one}, "it").items()} for one in items(known, "Statement")
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


def _one(value: Json) -> Json:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _from_server(node: Node) -> Mapping[str, Json]:
    state: dict[str, Json] = {**node.inputs, "status": {"conditions": []}}
    kind = node.type.rsplit(":", maxsplit=1)[-1]
    if "spec" in node.inputs:
        spec = {**OF_A_SERVER.get(kind, {}), **mapping(node.inputs, "spec")}
        if spec.get("clusterIP") == "None":
            spec["clusterIPs"] = ["None"]
        template = mapping(spec, "template")
        if mapping(template, "spec") and kind in OF_A_SERVER:
            spec["template"] = {**template, "spec": {**OF_A_POD, **mapping(template, "spec")}}
        state["spec"] = spec
    if "metadata" in node.inputs:
        state["metadata"] = {**mapping(node.inputs, "metadata"), "generation": 4, "resourceVersion": "12345"}
    return state
