"""Pods: closed namespaces, safe containers, images by digest, honest probes, budgets that still let a drain through."""

import re
from collections.abc import Iterator, Mapping

from infra.components.labels import pool_labels
from infra.config.kinds import StackKind
from infra.contract import Process, process, processes
from infra.graph.nodes import Node
from infra.graph.values import UNKNOWN, Json, items, mapping, number, text, texts
from infra.kube.namespaces import LEVELS, POD_NAME, PRIVILEGED, SERVING
from infra.policy.invariant import Book, Breach
from infra.policy.shipped import standing, workloads
from infra.policy.view import View, pod_labels, pod_spec
from infra.rendered.checked_in import facts

book = Book()

RELEASE = "kubernetes:helm.sh/v3:Release"
DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")
LABELLED = ("app.kubernetes.io/name", "k8s-app")
OF_OPERATORS = frozenset({"prometheus", "alertmanager", "kube-dns"})
"""Labels of pods that operators and the cluster make, in no chart's templates."""


def _lasting(view: View) -> Iterator[Node]:
    """Workloads that go on, unlike a job."""
    return (node for node in workloads(view) if not node.type.endswith(":Job"))


def _containers(node: Node) -> Iterator[Json]:
    pod = pod_spec(node)
    yield from items(pod, "containers")
    yield from items(pod, "initContainers")


def _namespace(node: Node) -> str:
    return text(node.inputs, "metadata.namespace")


def _privileged(node: Node) -> bool:
    return _namespace(node) in PRIVILEGED


@book.rule("namespaces-closed", "Every namespace denies all traffic in both directions first", StackKind.PLATFORM)
def namespaces_closed(view: View) -> Iterator[Breach]:
    closed = {
        _namespace(node)
        for node in view.objects("NetworkPolicy")
        if not mapping(node.inputs, "spec.podSelector")
        and set(items(node.inputs, "spec.policyTypes")) == {"Ingress", "Egress"}
        and not items(node.inputs, "spec.ingress")
        and not items(node.inputs, "spec.egress")
    }
    for node in view.objects("Namespace"):
        if text(node.inputs, "metadata.name") not in closed:
            yield node, "add a deny-all NetworkPolicy"


@book.rule("network-policies-known", "Network policies name pods that exist", StackKind.PLATFORM, StackKind.SERVING)
def network_policies_known(view: View) -> Iterator[Breach]:
    rendered = {one["labels"].get(POD_NAME, "") for chart in facts().values() for one in chart["workloads"]}
    known = {*processes(), *rendered, *OF_OPERATORS}
    for node in view.objects("NetworkPolicy"):
        for path, value in texts(node.inputs.get("spec")):
            if path.endswith(tuple(f"matchLabels.{label}" for label in LABELLED)) and value not in known:
                yield node, f"{path} names {value}, which no pod carries"


@book.rule(
    "network-policies-narrow",
    "No network policy opens every port or every namespace",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def network_policies_narrow(view: View) -> Iterator[Breach]:
    for node in view.objects("NetworkPolicy"):
        for way, peer in (("ingress", "from"), ("egress", "to")):
            for rule in items(node.inputs, f"spec.{way}"):
                open_peer = any(
                    isinstance(item, Mapping) and item.get("namespaceSelector") == {} for item in items(rule, peer)
                )
                if not items(rule, "ports") or not items(rule, peer) or open_peer:
                    yield node, "name ports and peers"


@book.rule("pod-security", "Our namespace is `restricted`, and only GPU plumbing is privileged", StackKind.PLATFORM)
def pod_security(view: View) -> Iterator[Breach]:
    for node in view.objects("Namespace"):
        name = text(node.inputs, "metadata.name")
        level = str(mapping(node.inputs, "metadata.labels").get("pod-security.kubernetes.io/enforce", ""))
        if level != LEVELS.get(name) or (level == "privileged" and name not in PRIVILEGED):
            yield node, f"enforce {LEVELS.get(name, 'restricted')}"


@book.rule("containers-safe", "Containers are unprivileged, read-only, without capabilities, under seccomp")
def containers_safe(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        for container in _containers(node):
            context = mapping(container, "securityContext")
            safe = (
                context.get("allowPrivilegeEscalation") is False
                and context.get("readOnlyRootFilesystem") is True
                and items(context, "capabilities.drop") == ["ALL"]
                and text(context, "seccompProfile.type") == "RuntimeDefault"
            )
            if not safe or (context.get("runAsNonRoot") is not True and not _privileged(node)):
                yield node, f"make {text(container, 'name')} safe: see kube/pods.py"


@book.rule(
    "host-untouched",
    "No pod of ours shares the host's network, processes or files",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def host_untouched(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        pod = pod_spec(node)
        shared = [key for key in ("hostNetwork", "hostPID", "hostIPC") if pod.get(key)]
        paths = [volume for volume in items(pod, "volumes") if mapping(volume, "hostPath")]
        if shared or (paths and not _privileged(node)):
            yield node, f"remove {', '.join(shared) or 'the host path'}"


@book.rule("memory-bounded", "Memory and devices are asked for exactly as they are limited")
def memory_bounded(view: View) -> Iterator[Breach]:
    for node in workloads(view):
        for container in _containers(node):
            asked = {key: value for key, value in mapping(container, "resources.requests").items() if key != "cpu"}
            limits = mapping(container, "resources.limits")
            if asked != dict(limits) or "memory" not in asked or not text(container, "resources.requests.cpu"):
                yield node, f"give {text(container, 'name')} equal requests and limits of memory and devices"


@book.rule(
    "probes-real", "Every serving container has the three probes on the endpoints the code has", StackKind.SERVING
)
def probes_real(view: View) -> Iterator[Breach]:
    wanted = {"livenessProbe": "live", "readinessProbe": "ready", "startupProbe": "live"}
    for node in _lasting(view):
        for container in items(pod_spec(node), "containers"):
            has = process(text(container, "name")).probes
            asked = {probe: mapping(container, f"{probe}.httpGet") for probe in wanted}
            wrong = [probe for probe, get in asked.items() if get.get("path") != has[wanted[probe]].path]
            ports = {text(port, "name") for port in items(container, "ports")}
            unbound = [probe for probe, get in asked.items() if get.get("port") not in ports]
            if wrong or unbound:
                yield node, f"correct {', '.join(sorted({*wrong, *unbound}))}"


@book.rule("drain-fits", "A pod leaves the endpoints first, and has the time its drain needs", StackKind.SERVING)
def drain_fits(view: View) -> Iterator[Breach]:
    for node in _lasting(view):
        pod = pod_spec(node)
        for container in items(pod, "containers"):
            pause = number(container, "lifecycle.preStop.sleep.seconds")
            told = {text(item, "name"): text(item, "value") for item in items(container, "env")}
            drain = float(told.get("PENSTOCK_DRAIN_GRACE_S") or 0)
            if pause <= 0 or number(pod, "terminationGracePeriodSeconds") < pause + drain:
                yield node, f"pause before the stop, and grant at least {pause + drain:g} s of grace"


@book.rule("images-by-digest", "Every image is ours, and named by digest")
def images_by_digest(view: View) -> Iterator[Breach]:
    registry = f"{view.fleet.environment.account_id}.dkr.ecr.{view.region_name}.amazonaws.com/"
    for node in workloads(view):
        for container in _containers(node):
            image = text(container, "image")
            if not DIGEST.fullmatch(image) or not image.startswith(registry):
                yield node, f"{image} is not {registry}NAME@sha256:DIGEST"


@book.rule(
    "admission-images", "The API server refuses tags and foreign registries, and unsigned images", StackKind.PLATFORM
)
def admission_images(view: View) -> Iterator[Breach]:
    bound = {text(node.inputs, "spec.policyName") for node in view.objects("ValidatingAdmissionPolicyBinding")}
    enforced = {
        text(node.inputs, "metadata.name")
        for node in view.objects("ValidatingAdmissionPolicy")
        if text(node.inputs, "spec.failurePolicy") == "Fail" and "sha256" in str(node.inputs)
    }
    if not bound & enforced:
        yield None, "bind a ValidatingAdmissionPolicy that demands digests"
    judged = {text(node.inputs, "spec.mode") for node in view.objects("ClusterImagePolicy")}
    if judged != {"enforce"}:
        yield None, "enforce every ClusterImagePolicy"


@book.rule("budget-per-workload", "Every workload has a disruption budget that lets one pod go", StackKind.SERVING)
def budget_per_workload(view: View) -> Iterator[Breach]:
    budgets = list(view.objects("PodDisruptionBudget"))
    for node in standing(view):
        if node.type.endswith(":Job"):
            continue
        labels = dict(pod_labels(node))
        mine = [
            budget
            for budget in budgets
            if mapping(budget.inputs, "spec.selector.matchLabels").items() <= labels.items()
        ]
        if not mine or any(text(budget.inputs, "spec.maxUnavailable") in ("", "0", "0%") for budget in mine):
            yield node, "add a PodDisruptionBudget whose maxUnavailable lets a pod go"


@book.rule(
    "zones-spread", "Workloads spread over zones or do not schedule; the gateway over hosts too", StackKind.SERVING
)
def zones_spread(view: View) -> Iterator[Breach]:
    paid = [pool_labels(pool) for pool in view.region.pools if pool.reservation is not None]
    for node in _lasting(view):
        keys = {
            text(item, "topologyKey"): text(item, "whenUnsatisfiable")
            for item in items(pod_spec(node), "topologySpreadConstraints")
        }
        wanted = mapping(pod_spec(node), "nodeSelector").items()
        in_block = any(wanted <= labels.items() for labels in paid)
        blind = [
            item
            for item in items(pod_spec(node), "topologySpreadConstraints")
            if text(item, "nodeTaintsPolicy") != "Honor" or "pod-template-hash" not in items(item, "matchLabelKeys")
        ]
        if blind:
            yield node, "set nodeTaintsPolicy Honor and matchLabelKeys: a lost zone must not hold up the others"
        if keys.get("topology.kubernetes.io/zone") != "DoNotSchedule" and not in_block:
            yield node, "spread over topology.kubernetes.io/zone with DoNotSchedule"
        if node.name.endswith("-gateway") and "kubernetes.io/hostname" not in keys:
            yield node, "spread over hosts too"


@book.rule(
    "accounts-own", "Every pod has an account of its own, and no Kubernetes token it does not use", StackKind.SERVING
)
def accounts_own(view: View) -> Iterator[Breach]:
    accounts = {text(node.inputs, "metadata.name") for node in view.objects("ServiceAccount")}
    for node in workloads(view):
        pod = pod_spec(node)
        name = str(pod_labels(node).get("app.kubernetes.io/name", ""))
        needed = name in processes() and bool(processes()[name].rights)
        if text(pod, "serviceAccountName") not in accounts or pod.get("automountServiceAccountToken") is not needed:
            yield node, "name a service account of this stack, and mount its token only where the contract has rights"


@book.rule(
    "rights-exact",
    "Each process with rights in the cluster has a Role of exactly these, and nobody has any other",
    StackKind.SERVING,
)
def rights_exact(view: View) -> Iterator[Breach]:
    wanted = {name: set(_granted(one)) for name, one in processes().items() if one.rights}
    roles = {text(node.inputs, "metadata.name"): node for node in view.objects("Role")}
    for name in wanted.keys() - roles.keys():
        yield None, f"add a Role for {name}: see kube/fleet.py"
    for name, node in roles.items():
        if set(_ruled(node)) != wanted.get(name, set()) or _namespace(node) != SERVING:
            yield node, f"grant what the contract lists for {name}, in {SERVING}"
    bound = set()
    for node in view.objects("RoleBinding"):
        role, subjects = text(node.inputs, "roleRef.name"), items(node.inputs, "subjects")
        bound.add(role)
        if [(text(one, "kind"), text(one, "name"), text(one, "namespace")) for one in subjects] != [
            ("ServiceAccount", role, SERVING)
        ]:
            yield node, f"bind {role} to the account {role} of {SERVING} alone"
    for name in wanted.keys() - bound:
        yield None, f"bind the Role of {name}"
    for node in (*view.objects("ClusterRole"), *view.objects("ClusterRoleBinding")):
        yield node, "grant nothing in the whole cluster"


def _granted(one: Process) -> Iterator[tuple[str, str, str]]:
    return ((right.group, right.resource, verb) for right in one.rights for verb in right.verbs)


def _ruled(node: Node) -> Iterator[tuple[str, str, str]]:
    for rule in items(node.inputs, "rules"):
        for group in items(rule, "apiGroups"):
            for resource in items(rule, "resources"):
                yield from ((str(group), str(resource), str(verb)) for verb in items(rule, "verbs"))


LONGEST_CERTIFICATE_H = 24
SECRET_NAME = re.compile(r"(?i)(password|secret|token|pepper|api_?key|(database|limits|answers)_url)(?!\w*_file)")
LONG_RANDOM = re.compile(
    r"(?=[A-Za-z0-9+/_-]*[a-z])(?=[A-Za-z0-9+/_-]*[A-Z])(?=[A-Za-z0-9+/_-]*[0-9])[A-Za-z0-9+/_-]{32,}"
)


@book.rule(
    "no-secret-literals",
    "No manifest holds a secret; they are references to Secrets Manager",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def no_secret_literals(view: View) -> Iterator[Breach]:
    for node in view.objects("Secret"):
        yield node, "use an ExternalSecret"
    for node in workloads(view):
        for container in _containers(node):
            for item in items(container, "env"):
                value = text(item, "value")
                named = SECRET_NAME.search(text(item, "name")) and value
                if named or (LONG_RANDOM.search(value) and value != UNKNOWN):
                    yield node, f"take {text(item, 'name')} from a secretKeyRef"


@book.rule(
    "secret-sources", "Every secret a pod reads is kept by an ExternalSecret or a Certificate", StackKind.SERVING
)
def secret_sources(view: View) -> Iterator[Breach]:
    kept = {text(node.inputs, "spec.target.name") for node in view.objects("ExternalSecret")}
    kept |= {text(node.inputs, "spec.secretName") for node in view.objects("Certificate")}
    for node in workloads(view):
        for path, value in texts(pod_spec(node)):
            wanted = path.endswith(("secretKeyRef.name", "secret.secretName"))
            if wanted and value not in kept:
                yield node, f"{value} comes from nowhere: add an ExternalSecret or a Certificate"


@book.rule(
    "mutual-tls",
    "Every process shows a certificate of its own role, for both ends, good for a day at most",
    StackKind.SERVING,
)
def mutual_tls(view: View) -> Iterator[Breach]:
    found = {text(node.inputs, "spec.secretName"): node for node in view.objects("Certificate")}
    for role in ("gateway", "controller", "worker", "operator", "keda"):
        node = found.get(f"{role}-tls")
        if node is None:
            yield None, f"add a certificate for {role}"
            continue
        hours = int(text(node.inputs, "spec.duration").removesuffix("h") or "0")
        both = {"server auth", "client auth"} <= set(items(node.inputs, "spec.usages"))
        if not both or not 0 < hours <= LONGEST_CERTIFICATE_H:
            yield node, "allow server auth and client auth, for 24h at most"
        if items(node.inputs, "spec.uris") != [f"spiffe://penstock/{role}"]:
            yield node, f"name spiffe://penstock/{role} and nobody else"
    for node in workloads(view):
        yield from ((node, remedy) for remedy in _uncertified(node))


def _uncertified(node: Node) -> Iterator[str]:
    """Say what a pod's main container lacks to show the certificate that the contract asks for."""
    pod, name = pod_spec(node), pod_labels(node).get("app.kubernetes.io/name", "")
    certificate = processes()[str(name)].certificate if name in processes() else None
    if certificate is None:
        return
    secrets = {text(one, "name"): text(one, "secret.secretName") for one in items(pod, "volumes")}
    main = items(pod, "containers")[0]
    told = {text(one, "name"): text(one, "value") for one in items(main, "env")}
    mounts = {text(one, "mountPath"): secrets.get(text(one, "name"), "") for one in items(main, "volumeMounts")}
    for variable in (certificate.certificate, certificate.key, certificate.authorities):
        if mounts.get(told.get(variable, "").rpartition("/")[0]) != f"{certificate.role}-tls":
            yield f"name a file of the secret {certificate.role}-tls in {variable}"
    if told.get("PENSTOCK_TLS", "auto") == "off":
        yield "leave PENSTOCK_TLS to itself"


@book.rule(
    "charts-pinned", "Operators come from the account's registry at the config's exact version", StackKind.PLATFORM
)
def charts_pinned(view: View) -> Iterator[Breach]:
    registry = f"oci://{view.fleet.environment.account_id}.dkr.ecr.{view.region_name}.amazonaws.com/charts/"
    pins = view.fleet.environment.charts
    for node in view.of(RELEASE):
        pin = pins.get(node.name)
        ours = text(node.inputs, "chart") == f"{registry}{node.name}"
        if pin is None or text(node.inputs, "version") != pin.version or not ours:
            yield node, f"install {registry}{node.name} at the pinned version"


@book.rule(
    "namespaces-exist",
    "Every object stands in a namespace that the platform makes",
    StackKind.PLATFORM,
    StackKind.SERVING,
)
def namespaces_exist(view: View) -> Iterator[Breach]:
    for node in view.graph.resources():
        namespace = text(node.inputs, "metadata.namespace") or text(node.inputs, "namespace")
        if namespace and namespace not in LEVELS:
            yield node, f"{namespace} is no namespace of ours; use one of {', '.join(LEVELS)}"
    if view.kind is StackKind.SERVING:
        for node in workloads(view):
            if _namespace(node) != SERVING:
                yield node, f"run it in {SERVING}"
