"""What a rendered chart brings into a cluster, as the facts that our own objects must agree with. Pure.

Read are the objects alone, never the values that made them: pods and their place, images, Services, webhooks, CRDs,
monitors, and the accounts that may read Secrets of every namespace.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from infra.rendered.manifests import Object

Facts = dict[str, Any]
WORKLOADS = {"Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob"}
KEEP = "helm.sh/resource-policy"
PULLING = ("Prometheus", "Alertmanager", "ClusterPolicy")
"""Kinds of custom resources of which an operator makes pods."""
OF_A_VERSION = {"helm.sh/chart", "chart", "heritage", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"}
_ARGUMENT = re.compile(r"--(?:prometheus-config-reloader|acme-http01-solver-image)=(.+)")
"""Images that a program is told by argument, for pods that the program makes."""
WRITTEN = {"scaledobjects.keda.sh"}
"""Kinds of which the project uses fields that no published models have: their schemas are held against its objects."""
SANDBOX = {"ccManager", "vfioManager", "vgpuDeviceManager", "sandboxDevicePlugin", "kataSandboxDevicePlugin"}
"""Parts of a ClusterPolicy without pods unless ``sandboxWorkloads`` is on (gpu-operator v26.3.1, controllers/)."""


def facts(found: Sequence[Object], outside: Sequence[Object], namespace: str) -> Facts:
    """Return a chart's facts from its rendered objects and the CRDs outside its templates."""
    pods = [one for one in found if one["kind"] in WORKLOADS]
    return {
        "images": sorted({image for one in found for image in _images(one)}),
        "workloads": [_workload(one, namespace) for one in pods],
        "services": [_service(one, namespace) for one in _of(found, "Service")],
        "webhooks": [hook for one in found for hook in _webhooks(one)],
        "crds": {
            "in_templates": {_name(one): _is_kept(one) for one in _of(found, "CustomResourceDefinition")},
            "outside": sorted(map(_name, outside)),
        },
        "schemas": {one["spec"]["names"]["kind"]: _schema(one) for one in found if _name(one) in WRITTEN},
        "monitors": [_monitor(one) for kind in ("ServiceMonitor", "PodMonitor") for one in _of(found, kind)],
        "alerts": _alerts(_of(found, "PrometheusRule")),
        "reads_secrets_everywhere": sorted(set(_readers(found, namespace))),
        "classes": sorted(f"{one['kind']} {_name(one)}" for one in found if one["kind"] in ("IngressClass", "Gateway")),
    }


def _schema(crd: Object) -> object:
    """Return the schema of a kind's `spec`, without words for people."""
    (version,) = crd["spec"]["versions"]
    return _wordless(version["schema"]["openAPIV3Schema"]["properties"]["spec"])


def _wordless(schema: object) -> object:
    if isinstance(schema, list):
        return [_wordless(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _wordless(one) for key, one in schema.items() if key != "description" or not isinstance(one, str)}


def _of(found: Iterable[Object], kind: str) -> list[Object]:
    return [one for one in found if one["kind"] == kind]


def _name(one: Object) -> str:
    return str(one["metadata"]["name"])


def _annotations(one: Object) -> Mapping[str, str]:
    return one["metadata"].get("annotations") or {}


def _labels(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels that others may select by: all but those that change with a chart's version."""
    found: Mapping[str, str] = metadata.get("labels") or {}
    return {name: value for name, value in found.items() if name not in OF_A_VERSION}


def _is_kept(one: Object) -> bool:
    return _annotations(one).get(KEEP) == "keep"


# -- pods ------------------------------------------------------------------------------------


def _template(one: Object) -> Mapping[str, Any]:
    spec = one["spec"]
    return dict(spec["jobTemplate"]["spec"]["template"] if one["kind"] == "CronJob" else spec["template"])


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [*(pod.get("initContainers") or ()), *pod["containers"]]


def _workload(one: Object, namespace: str) -> Facts:
    template = _template(one)
    pod = template["spec"]
    return {
        "kind": one["kind"],
        "name": _name(one),
        "namespace": one["metadata"].get("namespace", namespace),
        "labels": _labels(template.get("metadata") or {}),
        "ports": sorted({port["containerPort"] for each in _containers(pod) for port in each.get("ports") or ()}),
        "node_selector": dict(pod.get("nodeSelector") or {}),
        "level": level(pod),
        "asks_for_memory": all(map(_asks_for_memory, pod["containers"])),
        "priority": pod.get("priorityClassName", ""),
    }


def _asks_for_memory(container: Mapping[str, Any]) -> bool:
    return "memory" in ((container.get("resources") or {}).get("requests") or {})


def level(pod: Mapping[str, Any]) -> str:
    """Return the strictest level of Pod Security that admits the pod (Kubernetes, Pod Security Standards)."""
    containers = _containers(pod)
    shares = any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC"))
    mounts = any("hostPath" in volume for volume in pod.get("volumes") or ())
    raised = any(_context(each).get("privileged") for each in containers)
    ports = any(port.get("hostPort") for each in containers for port in each.get("ports") or ())
    added = any(
        set((_context(each).get("capabilities") or {}).get("add") or ()) - {"NET_BIND_SERVICE"} for each in containers
    )
    if shares or mounts or raised or ports or added:
        return "privileged"
    return (
        "restricted"
        if all(_is_restricted(each, pod.get("securityContext") or {}) for each in containers)
        else "baseline"
    )


def _context(container: Mapping[str, Any]) -> Mapping[str, Any]:
    return container.get("securityContext") or {}


def _is_restricted(container: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    own = _context(container)
    merged = {**pod, **own}
    seccomp = (merged.get("seccompProfile") or {}).get("type")
    return (
        merged.get("runAsNonRoot") is True
        and merged.get("runAsUser") != 0
        and seccomp in ("RuntimeDefault", "Localhost")
        and own.get("allowPrivilegeEscalation") is False
        and "ALL" in ((own.get("capabilities") or {}).get("drop") or ())
    )


def _images(one: Object) -> Iterator[str]:
    if one["kind"] in WORKLOADS:
        for container in _containers(_template(one)["spec"]):
            yield container["image"]
            yield from (told[1] for text in container.get("args") or () if (told := _ARGUMENT.match(str(text))))
    elif one["kind"] in PULLING:
        yield from _pulled(one["spec"])


def _pulled(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the images that a custom resource's switched-on parts name, whole or in three fields."""
    off = set() if (spec.get("sandboxWorkloads") or {}).get("enabled") else SANDBOX
    parts = [part for name, part in spec.items() if isinstance(part, dict) and name not in off]
    for part in (spec, *(part for part in parts if part.get("enabled") is not False)):
        if {"repository", "image", "version"} <= set(part):
            mark = "@" if str(part["version"]).startswith("sha256:") else ":"
            yield f"{part['repository']}/{part['image']}{mark}{part['version']}"
        elif isinstance(part.get("image"), str):
            yield part["image"]


# -- what pods meet ----------------------------------------------------------------------------


def _service(one: Object, namespace: str) -> Facts:
    spec = one["spec"]
    return {
        "name": _name(one),
        "namespace": one["metadata"].get("namespace", namespace),
        "selector": dict(spec.get("selector") or {}),
        "ports": {str(port["port"]): port.get("targetPort", port["port"]) for port in spec["ports"]},
    }


def _webhooks(one: Object) -> Iterator[Facts]:
    if one["kind"] not in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        return
    for hook in one.get("webhooks") or ():
        yield {
            "name": hook["name"],
            "service": hook["clientConfig"]["service"]["name"],
            "fails_closed": hook.get("failurePolicy", "Fail") == "Fail",
            "asks": sorted(
                {
                    f"{group or 'core'}/{kind}"
                    for rule in hook.get("rules") or ()
                    for group in rule["apiGroups"]
                    for kind in rule["resources"]
                }
            ),
            "everywhere": not (hook.get("namespaceSelector") or hook.get("objectSelector")),
        }


def _monitor(one: Object) -> Facts:
    spec = one["spec"]
    ends = spec.get("endpoints") or spec.get("podMetricsEndpoints") or ()
    return {
        "kind": one["kind"],
        "name": _name(one),
        "labels": _labels(one["metadata"]),
        "ports": sorted({str(end.get("port", end.get("targetPort"))) for end in ends}),
        "namespaces": sorted((spec.get("namespaceSelector") or {}).get("matchNames") or ()),
    }


def _alerts(rules: Sequence[Object]) -> Facts:
    """Return the names of the alerts that a chart loads, and the labels that all its rules' objects share."""
    if not rules:
        return {}
    labels = [set(_labels(one["metadata"]).items()) for one in rules]
    found = [rule for one in rules for group in one["spec"]["groups"] for rule in group["rules"]]
    return {
        "names": sorted({rule["alert"] for rule in found if "alert" in rule}),
        "labels": dict(sorted(set.intersection(*labels))),
    }


def _readers(found: Sequence[Object], namespace: str) -> Iterator[str]:
    """Yield the accounts with a right to Secrets of all namespaces, each as ``namespace/name: verbs``."""
    verbs = {_name(one): _on_secrets(one) for one in _of(found, "ClusterRole")}
    for one in _of(found, "ClusterRoleBinding"):
        if granted := verbs.get(one["roleRef"]["name"]):
            for subject in one.get("subjects") or ():
                yield f"{subject.get('namespace', namespace)}/{subject['name']}: {', '.join(sorted(granted))}"


def _on_secrets(role: Object) -> set[str]:
    return {
        verb
        for rule in role.get("rules") or ()
        if {"", "*"} & set(rule.get("apiGroups") or ()) and {"secrets", "*"} & set(rule.get("resources") or ())
        if not rule.get("resourceNames")
        for verb in rule["verbs"]
    }
