"""Workers as a rule sees them: none stands in a stack, for the controller makes them of the pools that a stack ships.

What a pool's file holds is judged as if it stood there: the pod of each device, at each size.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, parsed, text
from infra.policy.view import View

PODS = ("Deployment", "StatefulSet", "DaemonSet", "Job")
FILE = "pools.json"


def standing(view: View) -> Iterator[Node]:
    """The workloads that are resources of the stack."""
    for kind in PODS:
        yield from view.objects(kind)


def workloads(view: View) -> Iterator[Node]:
    """Those, and the workers that each device may get; nothing of them while the file is not known."""
    yield from standing(view)
    for node, told in files(view):
        for device in items(told, "devices"):
            for size in items(device, "sizes"):
                yield replace(node, inputs=_workload(told, device, mapping(size, "resources")))


def files(view: View) -> Iterator[tuple[Node, Json]]:
    """The config maps that ship pools, with what they say."""
    for node in view.objects("ConfigMap"):
        told = parsed(mapping(node.inputs, "data").get(FILE))
        if told is not None:
            yield node, told


def _workload(told: Json, device: Json, resources: Mapping[str, Json]) -> Mapping[str, Json]:
    """What the controller makes of a template, as far as rules look at it."""
    template = mapping(device, "template")
    main, *others = items(template, "spec.containers")
    sized: Json = {**mapping({"it": main}, "it"), "resources": resources}
    spec: Json = {**mapping(template, "spec"), "containers": [sized, *others]}
    return {
        "metadata": {"name": text(device, "name"), "namespace": text(told, "namespace")},
        "spec": {"template": {**template, "spec": spec}},
    }
