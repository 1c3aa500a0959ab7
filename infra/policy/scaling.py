"""How numbers reach replicas: passed on as they are, held if nothing is known, asked for by KEDA alone."""

from collections.abc import Iterator, Mapping

from infra.config.kinds import StackKind
from infra.contract import process
from infra.graph.values import Json, items, mapping, number, text
from infra.kube.namespaces import POD_NAME
from infra.policy.invariant import Book, Breach
from infra.policy.placement import SCALED_OBJECT
from infra.policy.view import View

book = Book()

FIRST_EXACT = (1, 35)
"""The first Kubernetes whose HPA has a tolerance of its own without a feature gate that somebody must set."""


@book.rule(
    "scalers-exact",
    "A scaler passes the controller's number on as it is: pushed, without tolerance, window or slow policy",
    StackKind.SERVING,
)
def scalers_exact(view: View) -> Iterator[Breach]:
    version = tuple(int(part) for part in view.fleet.environment.kubernetes.version.split("."))
    for node in view.objects(SCALED_OBJECT):
        ways = mapping(node.inputs, "spec.advanced.horizontalPodAutoscalerConfig.behavior")
        most = number(node.inputs, "spec.maxReplicaCount")
        slow = [way for way in ("scaleUp", "scaleDown") if not _passes(mapping(ways, way), most)]
        first, *others = items(node.inputs, "spec.triggers")
        pushed = text(first, "type") == "external-push" and text(first, "metadata.enableTLS") == "true"
        whole = {text(one, "metricType") for one in (first, *others)} == {"AverageValue"}
        if slow or not pushed or not whole or version < FIRST_EXACT:
            yield node, "ask the controller first, over TLS; no tolerance, no window, all pods at once; from 1.35 on"


def _passes(rules: Mapping[str, Json], most: float) -> bool:
    (policy, *others) = items(rules, "policies") or [{}]
    whole = text(policy, "type") == "Pods" and number(policy, "value") >= most
    still = number(rules, "stabilizationWindowSeconds") == 0 and "stabilizationWindowSeconds" in rules
    return whole and still and not others and text(rules, "tolerance") == "0"


@book.rule(
    "scalers-hold",
    "What is not known holds the replicas that run: no query makes a number of nothing, no fallback makes fewer",
    StackKind.SERVING,
)
def scalers_hold(view: View) -> Iterator[Breach]:
    for node in view.objects(SCALED_OBJECT):
        fallback = mapping(node.inputs, "spec.fallback")
        keeps = text(fallback, "behavior") == "currentReplicasIfHigher" and number(fallback, "replicas") >= 1
        floors = [one for one in items(node.inputs, "spec.triggers") if text(one, "type") == "prometheus"]
        guessed = [one for one in floors if "vector(" in text(one, "metadata.query")]
        lenient = [one for one in floors if text(one, "metadata.ignoreNullValues") != "false"]
        if not keeps or not floors or guessed or lenient:
            yield (
                node,
                "fall back to currentReplicasIfHigher of 1 or more, beside a query whose missing answer is an error",
            )


@book.rule("scaler-certified", "KEDA shows the controller a certificate of its own, of this stack", StackKind.SERVING)
def scaler_certified(view: View) -> Iterator[Breach]:
    named = {text(node.inputs, "spec.secretName") for node in view.objects("Certificate")}
    shown = {text(node.inputs, "metadata.name"): node for node in view.objects("TriggerAuthentication")}
    for node in shown.values():
        if any(text(one, "name") not in named for one in items(node.inputs, "spec.secretTargetRef")):
            yield node, "take the certificate from a secret that a Certificate keeps"
    for node in view.objects(SCALED_OBJECT):
        asked = {text(one, "authenticationRef.name") for one in items(node.inputs, "spec.triggers")} - {""}
        if not asked or not asked <= shown.keys():
            yield node, "name a TriggerAuthentication of this stack"


@book.rule(
    "scaler-reached",
    "KEDA alone reaches the scaler's port, and finds every controller's pod behind it",
    StackKind.SERVING,
)
def scaler_reached(view: View) -> Iterator[Breach]:
    scaler = process("controller").ports["scaler"].number
    for node in view.objects("Service"):
        ports = [number(one, "port") for one in items(node.inputs, "spec.ports")]
        if scaler in ports and text(node.inputs, "spec.clusterIP") != "None":
            yield node, "leave out its address: a caller must find the one controller that listens"
    for node in view.objects("NetworkPolicy"):
        for rule in items(node.inputs, "spec.ingress"):
            opened = scaler in [number(one, "port") for one in items(rule, "ports")]
            peers = [mapping(one, "podSelector.matchLabels").get(POD_NAME) for one in items(rule, "from")]
            if opened and peers != ["keda-operator"]:
                yield node, "let keda-operator alone in"
