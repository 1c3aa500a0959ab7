"""Two halves that must agree: a port and who listens, a probe and who answers, a selector and what it selects.

Each of these was once changed on one side alone without any test noticing.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from infra.contract import process
from infra.graph.captured import Capture
from infra.graph.nodes import Graph, Node
from infra.graph.values import Json, dig, items, mapping, number, text

ROOT = Path(__file__).resolve().parents[2]
PAGES = ROOT / "platform/penstock/telemetry/pages.py"
EAST, SERVING, PLATFORM = "region-us-east-1", "serving-us-east-1", "platform-us-east-1"
LONGEST_SILENCE_S = 60
"""A stream whose heartbeat is lost more than once is dead, and not before."""


def one(by_label: dict[str, Capture], label: str, kind: str, name: str = "") -> Node:
    nodes = by_label[label].graph.nodes
    return next(node for node in nodes if node.type.endswith(f":{kind}") and name in ("", node.name))


def serving(clusters: tuple[Capture, ...]) -> Graph:
    """Return what stands in the east's cluster, the controller's workers among it."""
    return next(item.graph for item in clusters if item.label == SERVING)


def pods(clusters: tuple[Capture, ...]) -> Iterator[tuple[str, Json, Json]]:
    """Yield the name, labels and spec of each workload's pod."""
    graph = serving(clusters)
    for node in (*graph.of("kubernetes:apps/v1:Deployment"), *graph.of("kubernetes:apps/v1:StatefulSet")):
        template = mapping(node.inputs, "spec.template")
        yield node.name, dig(template, "metadata.labels"), dig(template, "spec")


def test_the_balancer_asks_what_gateways_answer(by_label: dict[str, Capture]) -> None:
    """Port and probe of the target group are the gateway container's port and a page that the gateway has."""
    group = one(by_label, EAST, "TargetGroup")
    gateway = one(by_label, SERVING, "StatefulSet", "penstock-gateway")
    listening = {
        number(port, "containerPort") for port in items(gateway.inputs, "spec.template.spec.containers.0.ports")
    }
    assert number(group.inputs, "port") in listening
    assert f'"{text(group.inputs, "healthCheck.path")}"' in PAGES.read_text(encoding="utf-8")
    binding = one(by_label, SERVING, "TargetGroupBinding")
    service = one(by_label, SERVING, "Service", text(binding.inputs, "metadata.namespace") + "-gateway")
    ports = {number(port, "port") for port in items(service.inputs, "spec.ports")}
    assert number(binding.inputs, "spec.serviceRef.port") in ports


def test_targets_are_registered_as_the_group_takes_them(by_label: dict[str, Capture]) -> None:
    """The binding registers pods by what the group holds: the balancer's controller refuses any other kind."""
    group, binding = one(by_label, EAST, "TargetGroup"), one(by_label, SERVING, "TargetGroupBinding")
    assert text(group.inputs, "targetType") == text(binding.inputs, "spec.targetType")


def test_regions_are_asked_where_they_listen(by_label: dict[str, Capture]) -> None:
    """The health check of a region speaks what its balancer speaks, on the port where it does."""
    listener = one(by_label, EAST, "Listener")
    for check in by_label["mesh"].graph.of("aws:route53/healthCheck:HealthCheck"):
        assert text(check.inputs, "type") == text(listener.inputs, "protocol")
        assert number(check.inputs, "port") == number(listener.inputs, "port")


def test_workers_may_write_what_is_prepared_for_them(
    by_label: dict[str, Capture], clusters: tuple[Capture, ...]
) -> None:
    """The weight cache belongs to the user that the image names and that workers run as."""
    (user,) = re.findall(r"^USER (\d+):\d+$", (ROOT / "platform/images/Dockerfile").read_text(), re.MULTILINE)
    daemon = one(by_label, PLATFORM, "DaemonSet")
    owner = re.search(r"chown (\d+):(\d+)", str(items(daemon.inputs, "spec.template.spec.containers.0.command")))
    assert owner
    assert set(owner.groups()) == {user}
    ran_as = {text(spec, "securityContext.runAsUser") for _, _, spec in pods(clusters)}
    assert ran_as == {user}


def test_the_balancer_reaches_the_nodes(by_label: dict[str, Capture]) -> None:
    """The nodes let the balancer in on the gateways' port, and it may go out there."""
    port = number(one(by_label, EAST, "TargetGroup").inputs, "port")
    inward = one(by_label, EAST, "SecurityGroupIngressRule", "gateways-from-alb")
    outward = one(by_label, EAST, "SecurityGroupEgressRule", "alb-gateway")
    for rule in (inward, outward):
        assert number(rule.inputs, "fromPort") == number(rule.inputs, "toPort") == port
    assert any(urn.endswith("::alb") for urn in inward.references["referencedSecurityGroupId"])


def test_a_silent_stream_is_not_cut(by_label: dict[str, Capture]) -> None:
    """The balancer holds a connection for longer than any live stream is silent."""
    assert number(one(by_label, EAST, "LoadBalancer").inputs, "idleTimeout") > LONGEST_SILENCE_S


def test_stores_are_open_to_their_network_alone(by_label: dict[str, Capture]) -> None:
    """Database and limits are reached from the region's own network, on their port, and from nowhere else."""
    network = text(one(by_label, EAST, "Vpc").inputs, "cidrBlock")
    for name, port in (("database", 5432), ("limits", 6379)):
        rule = one(by_label, EAST, "SecurityGroupIngressRule", name)
        assert text(rule.inputs, "cidrIpv4") == network
        assert number(rule.inputs, "fromPort") == number(rule.inputs, "toPort") == port


def test_network_policies_are_enforced(by_label: dict[str, Capture]) -> None:
    """The pod network's add-on is told to enforce policies; without that they are paper."""
    settings = json.loads(text(one(by_label, EAST, "Addon", "vpc-cni").inputs, "configurationValues"))
    assert settings["enableNetworkPolicy"] == "true"


def test_scalers_ask_the_server_that_answers(clusters: tuple[Capture, ...]) -> None:
    """Each scaler asks the controllers by a name of their certificate, then Prometheus' own service on its port."""
    graph = serving(clusters)
    (own,) = (
        one for one in graph.of("kubernetes:cert-manager.io/v1:Certificate") if one.name.endswith("controller-tls")
    )
    hosts = items(own.inputs, "spec.dnsNames")
    for node in graph.of("kubernetes:keda.sh/v1alpha1:ScaledObject"):
        pushed, floor = items(node.inputs, "spec.triggers")
        host, port = text(pushed, "metadata.scalerAddress").split(":")
        assert (host in hosts, int(port)) == (True, process("controller").ports["scaler"].number)
        assert text(floor, "metadata.serverAddress") == "http://prometheus-operated.monitoring.svc:9090"


def test_rollouts_heed_the_budgets_that_are_recorded(clusters: tuple[Capture, ...]) -> None:
    """The controller asks the Prometheus that the scalers ask; without it availability alone would freeze a rollout."""
    deployments = serving(clusters).of("kubernetes:apps/v1:Deployment")
    (node,) = (one for one in deployments if one.name == "penstock-controller")
    env = items(node.inputs, "spec.template.spec.containers.0.env")
    (told,) = (one for one in env if text(one, "name") == "PENSTOCK_BUDGETS_URL")
    assert text(told, "value") == "http://prometheus-operated.monitoring.svc:9090"


def test_every_spread_selects_its_own_pods(clusters: tuple[Capture, ...]) -> None:
    """A pod spreads against pods of its own workload; a selector that matches nothing would spread nothing."""
    seen = 0
    for name, labels, spec in pods(clusters):
        for constraint in items(spec, "topologySpreadConstraints"):
            selected = mapping(constraint, "labelSelector.matchLabels")
            assert selected, name
            assert selected.items() <= mapping({"it": labels}, "it").items(), name
            seen += 1
    assert seen > 3


def test_monitors_scrape_a_port_that_is_there(by_label: dict[str, Capture], clusters: tuple[Capture, ...]) -> None:
    """Each pod monitor's port is a named port of the containers that it selects."""
    named = {
        text(labels, "app~name"): {text(port, "name") for port in items(spec, "containers.0.ports")}
        for labels, spec in ((_short(labels), spec) for _, labels, spec in pods(clusters))
    }
    for node in by_label[PLATFORM].graph.of("kubernetes:monitoring.coreos.com/v1:PodMonitor"):
        if text(node.inputs, "metadata.namespace") != "penstock":
            continue  # of an operator: test_rendered.py knows its pods
        selected = str(mapping(node.inputs, "spec.selector.matchLabels")["app.kubernetes.io/name"])
        assert text(node.inputs, "spec.podMetricsEndpoints.0.port") in named[selected]
        assert text(node.inputs, "spec.podMetricsEndpoints.0.port") != "gate"


def _short(labels: Json) -> Json:
    return {"app~name": mapping({"it": labels}, "it").get("app.kubernetes.io/name")}


def test_a_refused_image_is_refused(by_label: dict[str, Capture]) -> None:
    """The binding of the image policy denies; a warning would let the image run."""
    binding = one(by_label, PLATFORM, "ValidatingAdmissionPolicyBinding")
    assert items(binding.inputs, "spec.validationActions") == ["Deny"]


def test_kept_answers_never_stand_in_the_way_of_limits(by_label: dict[str, Capture]) -> None:
    """ADR 0063: answers lie in a store of their own with its own token, and neither store evicts what it was given."""
    versions = {node.name: node for node in by_label[EAST].graph.of("aws:secretsmanager/secretVersion:SecretVersion")}
    groups = {node.urn: node for node in by_label[EAST].graph.of("aws:elasticache/replicationGroup:ReplicationGroup")}
    told = [text(versions[f"{store}-url"].inputs, "secretString") for store in ("limits", "answers")]
    assert len({urlsplit(url).hostname for url in told}) == len(groups) == 2
    assert {urlsplit(url).scheme for url in told} == {"rediss"}
    assert len({text(versions[f"{store}-password"].inputs, "secretString") for store in ("limits", "answers")}) == 2
    for node in by_label[EAST].graph.of("aws:elasticache/parameterGroup:ParameterGroup"):
        assert [text(one, "value") for one in items(node.inputs, "parameters")] == ["noeviction"]
    assert {text(node.inputs, "parameterGroupName") for node in groups.values()} == {
        text(node.outputs, "name") for node in by_label[EAST].graph.of("aws:elasticache/parameterGroup:ParameterGroup")
    }


def test_the_page_names_what_there_is() -> None:
    """Each make target and each folder or file that the README names is there."""
    page = (ROOT / "infra/README.md").read_text(encoding="utf-8")
    targets = "".join((ROOT / name).read_text(encoding="utf-8") for name in ("infra/infra.mk", "Makefile"))
    for target in set(re.findall(r"`make ([a-z-]+)`", page)):
        assert re.search(rf"^{target}:", targets, re.MULTILINE), target
    for path in set(re.findall(r"`((?:environments|projects|catalogue|review|docs|policy|capture)/[\w./-]*)`", page)):
        assert "ENV" in path or (ROOT / "infra" / path).exists(), path
