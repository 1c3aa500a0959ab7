"""What the manifests say, held against `contract.json` as data: each half's word about the other, one fault a line.

It shares no code with what makes the manifests but the reading of plain values.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

import jsonschema

from infra.graph.captured import Capture
from infra.graph.nodes import Node
from infra.graph.values import Json, dig, items, mapping, number, text
from infra.policy.view import pod_labels
from tests.infra.written import with_workers

CONTRACT: Json = json.loads(Path(__file__).resolve().parents[2].joinpath("infra/contract.json").read_text())
PROCESSES = mapping(CONTRACT, "processes")
KINDS = ("Deployment", "StatefulSet", "Job")
NAME = "app.kubernetes.io/name"


def of(captures: tuple[Capture, ...], *kinds: str) -> Iterator[Node]:
    """Yield the nodes of these kinds over all stacks."""
    return (node for item in captures for node in item.graph.nodes if node.type.rsplit(":", 1)[-1] in kinds)


def pods(captures: tuple[Capture, ...]) -> Iterator[tuple[str, Json, Json]]:
    """Yield name, process and pod of each workload of ours."""
    for node in of(captures, *KINDS):
        pod = mapping(node.inputs, "spec.template.spec")
        own: list[Json] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claimed(node)]
        whole: Json = {**pod, "volumes": [*items(pod, "volumes"), *own]}
        yield node.name, PROCESSES[str(pod_labels(node)[NAME])], whole


def claimed(node: Node) -> list[str]:
    """Return the volumes that each replica of a StatefulSet has of its own."""
    return [text(one, "metadata.name") for one in items(node.inputs, "spec.volumeClaimTemplates")]


def faults(captures: tuple[Capture, ...]) -> Iterator[str]:
    """Yield everything that the two halves disagree on, workers as the controller makes them among it."""
    captures = with_workers(captures)
    kept = files_and_keys(captures)
    for name, process, pod in pods(captures):
        for found in (variables, files, configs, folders, ports, probes, ending, devices):
            yield from (f"{name}: {fault}" for fault in found(process, pod, kept))
    yield from services(captures)
    yield from monitors(captures)
    yield from network_policies(captures)
    yield from balancer(captures)


Kept = Mapping[str, set[str]]


def files_and_keys(captures: tuple[Capture, ...]) -> Kept:
    """Return the keys of each secret that the cluster will have, as far as Secrets Manager has them."""
    written = {text(node.inputs, "name") for node in of(captures, "Secret") if node.type.startswith("aws:")}
    kept: dict[str, set[str]] = {}
    for node in of(captures, "ExternalSecret"):
        told = [(text(one, "secretKey"), text(one, "remoteRef.key")) for one in items(node.inputs, "spec.data")]
        paths = [text(one, "extract.key") for one in items(node.inputs, "spec.dataFrom")]
        told += [(PurePosixPath(path).name, path) for path in paths]
        kept[text(node.inputs, "spec.target.name")] = {key for key, path in told if path in written}
    for node in of(captures, "ConfigMap"):
        kept[f"configMap {text(node.inputs, 'metadata.name')}"] = set(mapping(node.inputs, "data"))
    for node in of(captures, "Certificate"):
        kept[text(node.inputs, "spec.secretName")] = {"tls.crt", "tls.key", "ca.crt"}
    return kept


def main_of(process: Json, pod: Json) -> Json:
    """Return the container that runs the process."""
    (main,) = (one for one in items(pod, "containers") if text(one, "name") == text(process, "name"))
    return main


def told(process: Json, pod: Json) -> dict[str, Json]:
    return {text(one, "name"): one for one in items(main_of(process, pod), "env")}


def variables(process: Json, pod: Json, kept: Kept) -> Iterator[str]:
    """Compare names, types, bounds, secrecy and completeness of variables, and the command."""
    known = {text(one, "name"): one for one in items(process, "settings")}
    given = told(process, pod)
    if dig(pod, "enableServiceLinks") is not False:
        yield "Kubernetes adds variables of its own"
    if items(main_of(process, pod), "command")[:2] != items(process, "command")[:2]:
        yield "the command is another"
    yield from (f"nobody reads {name}" for name in given if name.startswith("PENSTOCK_") and name not in known)
    yield from (f"is not told {name}" for name in items(process, "needed") if name not in given)
    for name, setting in known.items():
        yield from _value(setting, given[name], kept) if name in given else ()


def _value(setting: Json, given: Json, kept: Kept) -> Iterator[str]:
    name, value, kind = text(setting, "name"), dig(given, "value"), text(setting, "type")
    if text(setting, "kind") == "secret" and not _is_address(str(value)):
        reference = mapping(given, "valueFrom.secretKeyRef")
        if reference.get("key") not in kept.get(str(reference.get("name")), ()):
            yield f"{name} comes from no secret"
    elif value is not None:
        schema = {key: dig(setting, key) for key in ("type", "minimum", "maximum", "exclusiveMinimum", "enum")}
        if not _takes(json.dumps({key: one for key, one in schema.items() if one is not None}), kind, str(value)):
            yield f"{name} can't be {value!r}"


@cache
def _takes(schema: str, kind: str, value: str) -> bool:
    try:
        jsonschema.validate({"integer": int, "number": float}.get(kind, str)(value), json.loads(schema))
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def _is_address(value: str) -> bool:
    """Return whether it is a server's address and can't hold a password: host and port, and nothing else."""
    return re.fullmatch(r"https?://[a-z0-9.-]+(:\d+)?/?", value) is not None


def mount(pod: Json, container: Json, path: str) -> tuple[Json, Json]:
    """Return the mount that holds a path, the nearest one, and its volume."""
    holding = [one for one in items(container, "volumeMounts") if _holds(text(one, "mountPath"), path)]
    if not holding:
        return None, None
    nearest = max(holding, key=lambda one: len(text(one, "mountPath")))
    return nearest, next((one for one in items(pod, "volumes") if dig(one, "name") == dig(nearest, "name")), None)


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def files(process: Json, pod: Json, kept: Kept) -> Iterator[str]:
    """Compare each secret file with what is mounted where it is looked for."""
    given, main = told(process, pod), main_of(process, pod)
    named = [text(one, "setting") for one in items(process, "secrets") if dig(one, "optional") is not True]
    named += [text(process, f"certificate.{part}_setting") for part in ("cert", "key", "ca")]
    for setting in filter(None, named):
        path = PurePosixPath(text(given.get(setting), "value"))
        at, volume = mount(pod, main, str(path))
        if mapping(volume, "secret"):
            there = str(path.parent) == text(at, "mountPath") and path.name in kept.get(
                text(volume, "secret.secretName"), ()
            )
            closed = number(volume, "secret.defaultMode") == 0o440 and number(pod, "securityContext.fsGroup") > 0
            if not there or not closed:
                yield f"{setting}: {path} is not there, or open to others"
        elif not any(_makes(one, at, str(path)) for one in items(pod, "initContainers")):
            yield f"{setting}: nobody puts {path} there"


def configs(process: Json, pod: Json, kept: Kept) -> Iterator[str]:
    """Compare the file of pools with what is mounted where it is looked for, and the cluster's token with its use."""
    path = text(told(process, pod).get("PENSTOCK_POOLS_FILE"), "value")
    if items(process, "rights"):
        at, volume = mount(pod, main_of(process, pod), path) if path else (None, None)
        name = text(volume, "configMap.name")
        if PurePosixPath(path).name not in kept.get(f"configMap {name}", ()):
            yield f"{path or 'no file of pools'} is not there"
        elif str(PurePosixPath(path).parent) != text(at, "mountPath"):
            yield f"{path} is elsewhere"
        if text(told(process, pod).get("PENSTOCK_FLEET"), "value") != "kubernetes":
            yield "runs workers in its own pod"
    if (dig(pod, "automountServiceAccountToken") is True) != bool(items(process, "rights")):
        yield "has a token of the cluster without rights, or none for them"


def _makes(maker: Json, at: Json, path: str) -> bool:
    mounts = [one for one in items(maker, "volumeMounts") if dig(one, "name") == dig(at, "name")]
    return bool(mounts) and not dig(mounts[0], "readOnly") and path in " ".join(map(str, items(maker, "command")))


def folders(process: Json, pod: Json, _: Kept) -> Iterator[str]:
    """Compare each folder with a volume that can be written and holds enough, but not more than was promised."""
    given, main = told(process, pod), main_of(process, pod)
    for folder in items(process, "folders"):
        path = text(given.get(text(folder, "setting")), "value") or text(folder, "path")
        at, volume = mount(pod, main, path)
        if volume is None or dig(at, "readOnly"):
            yield f"{path} can't be written"
        elif "emptyDir" in mapping({"it": volume}, "it"):
            size = int(text(volume, "emptyDir.sizeLimit").removesuffix("Mi") or 0) << 20
            if size != number(folder, "size_bytes"):
                yield f"{path} holds {size} bytes"
            if text(folder, "life") == "replica":
                yield f"{path} ends with its pod"


def ports(process: Json, pod: Json, _: Kept) -> Iterator[str]:
    """Compare what the container is said to listen on with what the process is told to listen on."""
    given = told(process, pod)
    listens = {text(one, "name"): text(given.get(text(one, "setting")), "value") for one in items(process, "ports")}
    named = {text(one, "name"): text(one, "containerPort") for one in items(main_of(process, pod), "ports")}
    if listens != named:
        yield f"listens on {listens}, not on {named}"


def probes(process: Json, pod: Json, _: Kept) -> Iterator[str]:
    """Compare each probe with a page of the process, its port and its patience."""
    if not items(process, "ports"):
        return
    for kind, page in (("liveness", "live"), ("readiness", "ready"), ("startup", "live")):
        probe, wanted = mapping(main_of(process, pod), f"{kind}Probe"), mapping(process, f"probes.{page}")
        asked = (text(probe, "httpGet.port"), text(probe, "httpGet.path"))
        if asked != (wanted["port"], wanted["path"]) or number(probe, "timeoutSeconds") < number(wanted, "within_s"):
            yield f"{kind} asks {asked}"
        waits = number(probe, "periodSeconds") * number(probe, "failureThreshold")
        if kind == "startup" and waits < number(wanted, "start_within_s"):
            yield f"gives up a start after {waits} s"


def ending(process: Json, pod: Json, _: Kept) -> Iterator[str]:
    """Compare the time that a pod has to end with what its process takes."""
    drain = number(process, "ending.beyond_s") + number(main_of(process, pod), "lifecycle.preStop.sleep.seconds")
    setting = text(process, "ending.grace_setting")
    drain += float(text(told(process, pod)[setting], "value")) if setting else 0
    if number(pod, "terminationGracePeriodSeconds") < drain:
        yield f"is killed before its {drain} s are over"


def devices(process: Json, pod: Json, _: Kept) -> Iterator[str]:
    """Compare the devices that a process needs with those it is given and told of."""
    limits = mapping(main_of(process, pod), "resources.limits")
    if text(process, "devices.kind") == "nvidia":
        given = any(key.startswith("nvidia.com/") for key in limits)
        if not given or text(told(process, pod).get("PENSTOCK_DEVICE"), "value") != "cuda":
            yield "has no GPU, or may do without"


def listening(name: str) -> dict[int, Json]:
    """Return the ports of a process by number."""
    return {int(number(one, "number")): one for one in items(PROCESSES.get(name), "ports")}


def services(captures: tuple[Capture, ...]) -> Iterator[str]:
    """Compare each service with the process whose pods it selects."""
    for node in of(captures, "Service"):
        name = str(mapping(node.inputs, "spec.selector").get(NAME))
        labels = [pod_labels(one) for one in of(captures, *KINDS)]
        if not any(mapping(node.inputs, "spec.selector").items() <= one.items() for one in labels):
            yield f"service {node.name} selects nothing"
        for port in items(node.inputs, "spec.ports"):
            if text(listening(name).get(int(number(port, "port"))), "name") != text(port, "targetPort"):
                yield f"service {node.name}: {name} has no {text(port, 'targetPort')} {text(port, 'port')}"


def monitors(captures: tuple[Capture, ...]) -> Iterator[str]:
    """Compare what is scraped with the pages of metrics."""
    scraped = {
        str(mapping(node.inputs, "spec.selector.matchLabels").get(NAME)): mapping(
            node.inputs, "spec.podMetricsEndpoints.0"
        )
        for node in of(captures, "PodMonitor")
    }
    for name, process in PROCESSES.items():
        wanted, asked = mapping(process, "metrics"), scraped.get(name, {})
        if (wanted.get("port"), wanted.get("path")) != (asked.get("port"), asked.get("path")):
            yield f"{name} is scraped at {dict(asked)}"


def network_policies(captures: tuple[Capture, ...]) -> Iterator[str]:
    """Compare the network policies between our processes with who calls whom."""
    wanted = {
        (name, str(called), int(number(port, "number")))
        for name, process in PROCESSES.items()
        for call in items(process, "calls")
        for called, other in PROCESSES.items()
        for port in items(other, "ports")
        if dig(call, "to") == called and dig(call, "port") == dig(port, "name")
    }
    for way, peer in (("egress", "to"), ("ingress", "from")):
        open_ = set()
        for own, rule in _rules(captures, way):
            for other in [str(mapping(one, "podSelector.matchLabels").get(NAME)) for one in items(rule, peer)]:
                pair = (own, other) if way == "egress" else (other, own)
                open_ |= {(*pair, int(number(port, "port"))) for port in items(rule, "ports")}
            if way == "ingress":
                numbers = {int(number(port, "port")) for port in items(rule, "ports")}
                yield from (
                    f"a network policy of {own} to {one}: nobody listens" for one in numbers - {*listening(own)}
                )
        ours = {one for one in open_ if one[0] in PROCESSES and one[1] in PROCESSES}
        yield from (f"{way} of {one} is wrong" for one in sorted(ours ^ wanted))


def _rules(captures: tuple[Capture, ...], way: str) -> Iterator[tuple[str, Json]]:
    for node in of(captures, "NetworkPolicy"):
        own = str(mapping(node.inputs, "spec.podSelector.matchLabels").get(NAME))
        if text(node.inputs, "metadata.namespace") == "penstock" and own in PROCESSES:
            yield from ((own, rule) for rule in items(node.inputs, f"spec.{way}"))


def balancer(captures: tuple[Capture, ...]) -> Iterator[str]:
    """Compare the load balancer's target with the port that clients come in by."""
    (public,) = (one for one in items(PROCESSES["gateway"], "ports") if text(one, "name") == "public")
    told_ = [(node.name, number(node.inputs, "port")) for node in of(captures, "TargetGroup")]
    told_ += [(node.name, number(node.inputs, "spec.serviceRef.port")) for node in of(captures, "TargetGroupBinding")]
    yield from (f"{name} aims at {port}" for name, port in told_ if port != number(public, "number"))
