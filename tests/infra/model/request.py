"""A client's request: name, firewall, listener, rule, target group, Service, pod, and the answers that stay open."""

from collections.abc import Iterator
from fnmatch import fnmatch

from infra.contract import process
from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, number, text
from tests.infra.model.reach import ANYWHERE, Peer, Way, allowed
from tests.infra.model.world import AbsentError, World, main, opened, told, when
from tests.infra.seam import PROCESSES

READS_BODY = {
    "AWSManagedRulesAmazonIpReputationList": set[str](),
    "AWSManagedRulesCommonRuleSet": {
        "NoUserAgent_HEADER",
        "SizeRestrictions_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
    },
    "AWSManagedRulesKnownBadInputsRuleSet": {"JavaDeserializationRCE_BODY", "Log4JRCE_BODY", "ReactJSRCE_BODY"},
}
"""Managed groups, and their rules that would block a prompt for its words, or a program without a name.

https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
"""
FIRST_VISIT, FLOOD = 300, 10_000
"""Requests in five minutes of a reader of the documentation without a key, and of somebody who must be stopped."""
LONGEST_OUT_S = 60
"""A region that is lost leaves the name within a minute."""
MOST_IDLE_S = 4000
"""https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html"""
PRIVATE = ("/", "/v1", "/metrics", "/healthz", "/readyz", "/internal/x", "/admin", "/v3/x")


def request(world: World) -> Iterator[str]:
    balancer, listener = world.the("LoadBalancer"), world.the("Listener")
    yield from names(world, balancer, listener)
    yield from firewall(world, balancer)
    yield from way_in(world, balancer, listener)
    yield from listening(world, listener)
    yield from targets(world)


def names(world: World, balancer: Node, listener: Node) -> Iterator[str]:
    """The region's own name and its part of the shared one, each with the certificate for it."""
    domain = world.fleet.environment.domain
    own = f"{world.region}.{domain}"
    mine = [one for one in records(world, domain) if text(one.inputs, "setIdentifier") == world.region]
    if not records(world, own) or not mine:
        raise AbsentError(f"a record of {own} or of {domain} in {world.region}")
    for record in (*records(world, own), *mine):
        if world.maker(text(record.inputs, "aliases.0.name"), "LoadBalancer") is not balancer:
            yield f"{record.name} leads elsewhere"
    if text(mine[0].inputs, "latencyRoutingPolicies.0.region") != world.region:
        yield f"{mine[0].name} answers clients of another region"
    yield from checked(world, world.maker(text(mine[0].inputs, "healthCheckId"), "HealthCheck"), own, listener)
    certificate = world.maker(text(listener.inputs, "certificateArn"), "Certificate")
    proof = [one for one in world.at(listener, "certificateArn") if one.type.endswith(":CertificateValidation")]
    covered = {text(certificate.inputs, "domainName"), *items(certificate.inputs, "subjectAlternativeNames")}
    yield from when(
        (not proof, "the listener does not wait for its certificate's proof"),
        (not {domain, own} <= covered, f"the certificate names {sorted(map(str, covered))}"),
    )


def checked(world: World, check: Node, own: str, listener: Node) -> Iterator[str]:
    """What Route 53 asks of a region, at its own name, as its load balancer answers it."""
    asked = {key: text(check.inputs, key) for key in ("fqdn", "type", "port")}
    answered = {"fqdn": own, "type": text(listener.inputs, "protocol"), "port": text(listener.inputs, "port")}
    page = text(check.inputs, "resourcePath")
    lost_s = number(check.inputs, "failureThreshold") * number(check.inputs, "requestInterval")
    known = page == process("gateway").probes["region"].path
    yield from when(
        (asked != answered, f"{check.name} asks {asked}, where the region does not answer"),
        (not known or not forwarded(world, page), f"{check.name} asks for {page}: the load balancer answers itself"),
        (check.inputs.get("enableSni") is not True, f"{check.name} names no host: no certificate fits"),
        (not 0 < lost_s <= LONGEST_OUT_S, f"{check.name} leaves a lost region in the name for {lost_s:g} s"),
    )


def records(world: World, name: str) -> list[Node]:
    return [one for one in world.of("Record") if text(one.inputs, "name") == name and text(one.inputs, "type") == "A"]


def firewall(world: World, balancer: Node) -> Iterator[str]:
    """What the firewall does with a prompt about attacks, with a customer at full speed, and with a flood."""
    bound = [one for one in world.of("WebAclAssociation") if text(one.inputs, "resourceArn") == balancer.outputs["arn"]]
    if not bound:
        raise AbsentError("a firewall before the load balancer")
    acl = world.maker(text(bound[0].inputs, "webAclArn"), "WebAcl")
    rules = items(acl.inputs, "rules")
    groups = {text(one, "statement.managedRuleGroupStatement.name"): one for one in rules}
    yield from when(
        ("allow" not in mapping(acl.inputs, "defaultAction"), "the firewall refuses all that no rule names"),
        (len({number(one, "priority") for one in rules}) != len(rules), "two rules of the firewall have one priority"),
    )
    for name, counted in READS_BODY.items():
        rule = groups.get(name)
        given = items(rule, "statement.managedRuleGroupStatement.ruleActionOverrides")
        soft = {text(one, "name") for one in given if "count" in mapping(one, "actionToUse")}
        yield from when(
            (rule is None or "none" not in mapping(rule, "overrideAction"), f"{name} guards nothing"),
            (
                soft != counted,
                f"{name} blocks prompts by {sorted(counted - soft)}, or lets pass {sorted(soft - counted)}",
            ),
        )
    yield from flood(rules)


def flood(rules: list[Json]) -> Iterator[str]:
    """The bound by address is for callers without a credential."""
    bound = next((one for one in rules if mapping(one, "statement.rateBasedStatement")), None)
    rate = mapping(bound, "statement.rateBasedStatement")
    scope = text(rate, "scopeDownStatement.notStatement.statement.labelMatchStatement.key")
    marks = [
        one for one in rules if scope and scope in str(one) and number(one, "priority") < number(bound, "priority")
    ]
    named = {text(one, HEADER) for mark in marks for one in items(mark, "statement.orStatement.statements")}
    counts = all("count" in mapping(one, "action") for one in marks)
    kind = text(rate, "aggregateKeyType")
    yield from when(
        (named != {"authorization", "x-api-key"} or not counts, f"the firewall bounds a company, knowing only {named}"),
        (not FIRST_VISIT <= number(rate, "limit") <= FLOOD or kind != "IP", "the bound stops readers, or no flood"),
        (number(bound, "action.block.customResponse.responseCode") != 429, "nobody is told to come back"),
    )


HEADER = "sizeConstraintStatement.fieldToMatch.singleHeader.name"


def way_in(world: World, balancer: Node, listener: Node) -> Iterator[str]:
    """From the internet to the load balancer, and from there to the nodes."""
    port, own = number(world.the("TargetGroup").inputs, "port"), items(balancer.inputs, "securityGroups")
    nodes = [text(one.outputs, "vpcConfig.clusterSecurityGroupId") for one in world.of("eks/cluster:Cluster")]
    idle = number(balancer.inputs, "idleTimeout")
    public = (balancer.inputs.get("internal"), text(balancer.inputs, "loadBalancerType")) == (False, "application")
    kept_s = process_s(world, "PENSTOCK_KEEP_ALIVE_S")
    yield from when(
        (not public, "the load balancer has no address on the internet, or reads no path"),
        (not 2 * process_s(world, "PENSTOCK_STREAM_HEARTBEAT_S") < idle <= MOST_IDLE_S, "silent streams are cut"),
        (idle < world.fleet.environment.worker_drain_s, "a whole answer that takes as long as a drain allows is cut"),
        # docs.aws.amazon.com, load-balancer-troubleshooting, HTTP 502: the target's keep-alive is the shorter one.
        (kept_s <= idle, f"gateways end idle connections after {kept_s:g} s: the next request there is a 502"),
        (not opened(world, "Ingress", own, number(listener.inputs, "port"), ANYWHERE), "no client comes in"),
        (not opened(world, "Egress", own, port, world.plan.cidr), "the load balancer may not go to the gateways"),
        (not opened(world, "Ingress", nodes, port, *map(str, own)), "the nodes do not let the load balancer in"),
    )


def process_s(world: World, setting: str) -> float:
    """What the gateway is told of a duration, or its own default."""
    chosen = world.selected({"app.kubernetes.io/name": "gateway"}, "penstock")
    given = told(main(chosen[0][1])).get(setting) if chosen else ""
    known = {text(one, "name"): number(one, "default") for one in items(PROCESSES["gateway"], "settings")}
    return float(given or known[setting])


def forwarded(world: World, path: str) -> Node | None:
    """The target group that a request for a path comes to, by the rules in their order."""
    for rule in sorted(world.of("ListenerRule"), key=lambda one: number(one.inputs, "priority")):
        conditions = items(rule.inputs, "conditions")
        patterns = [str(one) for one in items(rule.inputs, "conditions.0.pathPattern.values")]
        if len(conditions) == 1 and any(fnmatch(path, one) for one in patterns):
            action = next(iter(items(rule.inputs, "actions")), None)
            return (
                world.maker(text(action, "targetGroupArn"), "TargetGroup")
                if text(action, "type") == "forward"
                else None
            )
    return None


def listening(world: World, listener: Node) -> Iterator[str]:
    """Public paths come to the gateways and all others end at the load balancer."""
    rules, group = world.of("ListenerRule"), world.the("TargetGroup")
    for pattern in process("gateway").ports["public"].paths:
        if forwarded(world, pattern.replace("*", "a/b")) is not group:
            yield f"the load balancer answers {pattern} itself"
    yield from (f"clients reach {path}" for path in PRIVATE if forwarded(world, path))
    most = max((len(items(one.inputs, "conditions.0.pathPattern.values")) for one in rules), default=0)
    yield from when(
        (text(listener.inputs, "defaultActions.0.type") != "fixed-response", "clients reach every path"),
        (most > 5, "a rule has more than five values: AWS refuses it"),
        (len({number(one.inputs, "priority") for one in rules}) != len(rules), "two rules have one priority"),
        (not all(listener in world.at(one, "listenerArn") for one in rules), "a rule is another listener's"),
    )


def targets(world: World) -> Iterator[str]:
    """The target group, who registers in it, and how long a gateway is kept while it ends."""
    group, drain_s = world.the("TargetGroup"), world.fleet.environment.gateway.drain_s
    check, ready = mapping(group.inputs, "healthCheck"), process("gateway").probes["ready"].path
    spoken = {text(check, "protocol"), text(group.inputs, "protocol"), text(group.inputs, "protocolVersion") or "HTTP1"}
    patience = [number(check, f"{one}Threshold") for one in ("healthy", "unhealthy")]
    page = text(check, "path") if text(check, "port") == "traffic-port" else "another port"
    yield from when(
        (page != ready, f"the load balancer asks {page}, which says nothing of readiness"),
        (spoken != {"HTTP", "HTTP1"} or text(check, "matcher") not in ("", "200"), f"gateways do not speak {spoken}"),
        (not 0 < number(check, "timeout") < number(check, "interval") <= 10, "AWS refuses the probe, or asks rarely"),
        (not 2 <= min(patience) <= max(patience) <= 5, "one lost probe takes a gateway out, or a dead one stays"),
        (not drain_s <= number(group.inputs, "deregistrationDelay") <= 3600, "streams of a draining gateway are cut"),
        (text(group.inputs, "vpcId") != world.the("Vpc").outputs["id"], "the targets are in another network"),
    )
    yield from registered(world, group)


def registered(world: World, group: Node) -> Iterator[str]:
    """From the target group through binding and Service to pods that listen there."""
    binding = world.the("TargetGroupBinding")
    space, name = text(binding.inputs, "metadata.namespace"), text(binding.inputs, "spec.serviceRef.name")
    service = world.the("Service", f"{space}-{name}")
    ports = [one for one in items(service.inputs, "spec.ports") if one_of(one, binding)]
    chosen = world.selected(mapping(service.inputs, "spec.selector"), space)
    if not ports or not chosen or text(binding.inputs, "spec.targetGroupARN") != group.outputs["arn"]:
        raise AbsentError("pods behind the target group: binding, Service and selector do not meet")
    if {text(group.inputs, "targetType"), text(binding.inputs, "spec.targetType")} != {"ip"}:
        yield "pods can't be registered by address"
    port = int(number(group.inputs, "port"))
    called = Peer(namespace=space, name="gateway")
    way = Way(caller=Peer(address=outside(world)), called=called, port=port, protocol="TCP")
    for node, spec in chosen:
        named = {text(one, "name"): number(one, "containerPort") for one in items(main(spec), "ports")}
        listens = named.get(text(ports[0], "targetPort")) == port and told(main(spec)).get("PENSTOCK_HOST") == "0.0.0.0"
        yield from when(
            (not listens, f"{node.name} does not listen where the target group calls"),
            (not allowed(world.of("NetworkPolicy"), way), f"a network policy keeps clients from {node.name}"),
        )


def one_of(port: Json, binding: Node) -> bool:
    wanted = text(binding.inputs, "spec.serviceRef.port")
    return wanted in (text(port, "port"), text(port, "name"))


def outside(world: World) -> str:
    """An address of the public subnets, as the load balancer has it."""
    return f"{text(world.the('Vpc').inputs, 'cidrBlock').rsplit('.', 2)[0]}.192.7"
