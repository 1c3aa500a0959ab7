"""Databases, faces, alarms, money and the hygiene of the graph itself."""

import re
from collections.abc import Iterator

from infra.config.kinds import StackKind
from infra.config.rules import HEALTH_METRICS_REGION, MIN_BACKUP_DAYS
from infra.graph.nodes import Node
from infra.graph.sdk import resource_class
from infra.graph.values import UNKNOWN, items, number, parsed, text, texts
from infra.policy.invariant import Book, Breach
from infra.policy.view import View

book = Book()

STATEFUL = (
    "aws:s3/bucket:Bucket",
    "aws:kms/key:Key",
    "aws:kms/replicaKey:ReplicaKey",
    "aws:rds/cluster:Cluster",
    "aws:rds/clusterInstance:ClusterInstance",
    "aws:elasticache/replicationGroup:ReplicationGroup",
    "aws:ecr/repository:Repository",
    "aws:eks/cluster:Cluster",
    "aws:route53/zone:Zone",
    "aws:secretsmanager/secret:Secret",
    "aws:cloudtrail/trail:Trail",
    "aws:ec2/vpc:Vpc",
)
TAGS = ("owner", "environment", "region", "cost-centre", "data-class")
MIN_INSTANCES = 2
MIN_WARNINGS = 3
HTTPS = 443
EVENTS = (
    "EC2 Spot Instance Interruption Warning",
    "EC2 Instance Rebalance Recommendation",
    "EC2 Instance State-change Notification",
    "AWS Health Event",
    "Capacity Block Reservation Expiration Warning",
)
"""Types of events as AWS writes them; a pattern matches nothing but the whole text.
https://docs.aws.amazon.com/eventbridge/latest/ref/events-ref-ec2.html and Karpenter's own list of what it hears:
https://karpenter.sh/docs/concepts/disruption/#interruption"""

ALARM = "aws:cloudwatch/metricAlarm:MetricAlarm"
HEADLESS = "spec.clusterIP"
UNRESOLVED = "Calling __str__ on an Output"


@book.rule("database-spread", "Aurora runs two instances or more in different zones", StackKind.REGION)
def database_spread(view: View) -> Iterator[Breach]:
    found = list(view.of("aws:rds/clusterInstance:ClusterInstance"))
    zones = {urn for node in found for urn in node.references.get("availabilityZone", ())}
    if len(found) < MIN_INSTANCES or len(zones) < MIN_INSTANCES:
        yield (found[0] if found else None), "run at least two instances in different zones"


@book.rule(
    "database-safe", "Aurora forces TLS, knows IAM, keeps 35 days and can't be deleted by a slip", StackKind.REGION
)
def database_safe(view: View) -> Iterator[Breach]:
    wanted = ("storageEncrypted", "iamDatabaseAuthenticationEnabled", "deletionProtection")
    for node in view.of("aws:rds/cluster:Cluster"):
        if (
            any(node.inputs.get(key) is not True for key in wanted)
            or number(node.inputs, "backupRetentionPeriod") < MIN_BACKUP_DAYS
        ):
            yield node, f"set {', '.join(wanted)} and backupRetentionPeriod 35"
        if text(node.inputs, "globalClusterIdentifier"):
            yield node, "take it out of the global database: each region writes its own"
    for node in view.of("aws:rds/clusterParameterGroup:ClusterParameterGroup"):
        forced = {text(item, "name"): text(item, "value") for item in items(node.inputs, "parameters")}
        if forced.get("rds.force_ssl") != "1":
            yield node, "set rds.force_ssl to 1"


@book.rule("cache-safe", "Valkey fails over between zones and speaks TLS with a token alone", StackKind.REGION)
def cache_safe(view: View) -> Iterator[Breach]:
    wanted = ("automaticFailoverEnabled", "multiAzEnabled", "transitEncryptionEnabled", "atRestEncryptionEnabled")
    for node in view.of("aws:elasticache/replicationGroup:ReplicationGroup"):
        strict = text(node.inputs, "transitEncryptionMode") == "required" and bool(text(node.inputs, "authToken"))
        if not strict or any(node.inputs.get(key) is not True for key in wanted):
            yield node, f"set {', '.join(wanted)}, transitEncryptionMode required and a token"
        if number(node.inputs, "numCacheClusters") < MIN_INSTANCES:
            yield node, "keep two nodes or more: one has nothing to fail over to"


@book.rule("state-protected", "Nothing that holds state can be deleted by an update")
def state_protected(view: View) -> Iterator[Breach]:
    for node in view.of(*STATEFUL):
        if not node.options.protect:
            yield node, "set protect"


@book.rule("tagged", "Everything that can carry tags says whose it is, where, for whom and how sensitive")
def tagged(view: View) -> Iterator[Breach]:
    for node in view.aws():
        cls = resource_class(node.type) if not node.type.startswith("aws:index") else None
        prop = "resourceTags" if node.type.endswith(":RepositoryCreationTemplate") else "tags"
        if cls is not None and isinstance(getattr(cls, _snake(prop), None), property):
            lacking = [key for key in TAGS if not items(node.inputs.get(prop), key)]
            if lacking:
                yield node, f"add the tags {', '.join(lacking)}"


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


@book.rule("money-watched", "There is a budget with warnings and a watch for odd days", StackKind.MESH)
def money_watched(view: View) -> Iterator[Breach]:
    budgets = list(view.of("aws:budgets/budget:Budget"))
    if not budgets or not any(len(items(node.inputs, "notifications")) >= MIN_WARNINGS for node in budgets):
        yield None, "add a monthly budget with three warnings"
    if not list(view.of("aws:costexplorer/anomalySubscription:AnomalySubscription")):
        yield None, "add an anomaly subscription"


@book.rule(
    "interruptions-heard", "Spot reclaims and ending reservations are heard by machine and person", StackKind.REGION
)
def interruptions_heard(view: View) -> Iterator[Breach]:
    patterns = [parsed(node.inputs.get("eventPattern")) for node in view.of("aws:cloudwatch/eventRule:EventRule")]
    heard = [str(detail) for pattern in patterns for detail in items(pattern, "detail-type")]
    for detail in EVENTS:
        if detail not in heard:
            yield None, f"add an event rule for {detail}"
    rules = {node.urn for node in view.of("aws:cloudwatch/eventRule:EventRule")}
    targeted = {
        urn for node in view.of("aws:cloudwatch/eventTarget:EventTarget") for urn in node.references.get("rule", ())
    }
    if rules - targeted:
        yield None, "give every event rule a target"


@book.rule("regions-routed", "Every region answers under the shared name while it is healthy", StackKind.MESH)
def regions_routed(view: View) -> Iterator[Breach]:
    domain = view.fleet.environment.domain
    shared = {
        text(node.inputs, "setIdentifier"): node
        for node in view.of("aws:route53/record:Record")
        if text(node.inputs, "name") == domain
    }
    for region in view.fleet.environment.regions:
        node = shared.get(region)
        if node is None:
            yield None, f"add a latency record of {domain} for {region}"
        elif not text(node.inputs, "healthCheckId") or not items(node.inputs, "latencyRoutingPolicies"):
            yield node, "give the record a latency policy and a health check"


@book.rule("region-out-pages", "A person hears when DNS takes a region out", StackKind.MESH)
def region_out_pages(view: View) -> Iterator[Breach]:
    watched = {urn for node in view.of(ALARM) for urn in node.references.get("dimensions", ())}
    for check in view.of("aws:route53/healthCheck:HealthCheck"):
        if check.urn not in watched:
            yield check, "add an alarm on the health check"


@book.rule("alarms-arrive", "Every alarm tells a topic of its own region")
def alarms_arrive(view: View) -> Iterator[Breach]:
    for node in view.of(ALARM):
        actions = [str(action) for action in items(node.inputs, "alarmActions")]
        local = [action for action in actions if action == UNKNOWN or f":sns:{node.region}:" in action]
        if not local or len(local) != len(actions):
            yield node, f"set alarmActions to a topic in {node.region}"


@book.rule(
    "alb-behind-waf", "Every load balancer stands behind a firewall that logs without credentials", StackKind.MESH
)
def alb_behind_waf(view: View) -> Iterator[Breach]:
    guarded = [node.region for node in view.of("aws:wafv2/webAclAssociation:WebAclAssociation")]
    for region in view.fleet.environment.regions:
        if region not in guarded:
            yield None, f"associate a web ACL with the load balancer of {region}"
    for node in view.of("aws:wafv2/webAclLoggingConfiguration:WebAclLoggingConfiguration"):
        redacted = {value for _, value in texts(node.inputs.get("redactedFields"))}
        if not {"authorization", "x-api-key"} <= redacted:
            yield node, "redact both headers that may carry a key: authorization and x-api-key"


@book.rule("alb-tls", "The load balancer speaks TLS 1.2 or better on 443 and nothing else", StackKind.REGION)
def alb_tls(view: View) -> Iterator[Breach]:
    for node in view.of("aws:lb/listener:Listener"):
        modern = text(node.inputs, "sslPolicy").startswith("ELBSecurityPolicy-TLS13-1-2")
        if text(node.inputs, "protocol") != "HTTPS" or number(node.inputs, "port") != HTTPS or not modern:
            yield node, "listen on 443 with HTTPS and a TLS13-1-2 policy"


@book.rule("drills-stop", "Every drill ends by itself when clients suffer, and leaves a log", StackKind.MESH)
def drills_stop(view: View) -> Iterator[Breach]:
    for node in view.of("aws:fis/experimentTemplate:ExperimentTemplate"):
        stops = [text(item, "source") for item in items(node.inputs, "stopConditions")]
        if stops != ["aws:cloudwatch:alarm"] or not items(node.inputs, "logConfiguration"):
            yield node, "add a stop condition on an alarm and a log"


@book.rule("drills-cover", "There is a zone-loss drill per zone and a reclaim drill per spot pool", StackKind.MESH)
def drills_cover(view: View) -> Iterator[Breach]:
    named = {node.name for node in view.of("aws:fis/experimentTemplate:ExperimentTemplate")}
    for region in view.fleet.regions:
        wanted = {f"zone-loss-{zone}" for zone in region.zone_ids}
        wanted |= {f"spot-reclaim-{pool.name}-{region.name}" for pool in region.pools if pool.capacity == "spot"}
        for name in sorted(wanted - named):
            yield None, f"add the drill {name}"


@book.rule("explicit-provider", "Every resource names its provider, and stands in the stack's regions")
def explicit_provider(view: View) -> Iterator[Breach]:
    regions = {view.region_name} if view.region_name else set(view.fleet.environment.regions)
    if view.kind is StackKind.MESH:
        regions.add(HEALTH_METRICS_REGION)
    for node in view.graph.resources():
        if not node.provider or "default" in node.provider.rsplit("::", maxsplit=2)[-2]:
            yield node, "pass the stack's provider"
        if node.type.startswith("aws:") and node.region not in regions:
            yield node, f"is in {node.region or 'no region'}; use one of {sorted(regions)}"


@book.rule("inputs-resolved", "No input is the text of an unresolved output, and none is null inside", as_written=True)
def inputs_resolved(view: View) -> Iterator[Breach]:
    for node in view.graph.nodes:
        broken = [
            path for path, value in texts(node.inputs) if UNRESOLVED in value or (value == "None" and path != HEADLESS)
        ]
        if broken:
            yield node, f"resolve {', '.join(broken)} with apply or concat"


@book.rule(
    "inputs-spelled",
    "AWS inputs are spelled as the engine has them: no snake_case key slips through",
    as_written=True,
)
def inputs_spelled(view: View) -> Iterator[Breach]:
    for node in view.aws():
        wrong = sorted(_snakes(node))
        if wrong:
            yield node, f"spell {', '.join(wrong)} in the SDK's classes"


FREE_KEYS = ("tags", "dimensions", "resourceTags", "labels", "parameters")


def _snakes(node: Node) -> set[str]:
    found = set()
    for path, _ in texts(node.inputs):
        steps = path.split(".")
        if steps[0] not in FREE_KEYS and "tags" not in steps:
            found |= {step for step in steps if "_" in step}
    return found


@book.rule("references-whole", "No required reference came out empty", as_written=True)
def references_whole(view: View) -> Iterator[Breach]:
    for node in view.aws():
        empty = [path for path, value in texts(node.inputs) if not value and not path.endswith("prefix")]
        if empty and UNKNOWN not in empty:
            yield node, f"{', '.join(empty)} is empty: the output it comes from does not exist"


@book.rule(
    "budgets-heeded",
    "The controller asks the Prometheus that scales, so that rollouts heed every error budget",
    StackKind.SERVING,
)
def budgets_heeded(view: View) -> Iterator[Breach]:
    triggers = [one for node in view.objects("ScaledObject") for one in items(node.inputs, "spec.triggers")]
    asked = {text(one, "metadata.serverAddress") for one in triggers} - {UNKNOWN, ""}
    for node in view.objects("Deployment"):
        if text(node.inputs, "metadata.name") != "controller":
            continue
        env = items(node.inputs, "spec.template.spec.containers.0.env")
        told = {text(one, "value") for one in env if text(one, "name") == "PENSTOCK_BUDGETS_URL"}
        if not told or (asked and told != asked):
            yield (
                node,
                f"tell it PENSTOCK_BUDGETS_URL, {' or '.join(sorted(asked)) or 'the Prometheus of the platform'}",
            )
