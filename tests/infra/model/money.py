"""Who pays: tag to budget and drill, and bytes to the other region."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from infra.components.keys import MULTI_REGION
from infra.estimate.report import estimate
from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, number, parsed, text
from tests.infra.access.evaluate import Actor, Call, decide
from tests.infra.model.signals import topics
from tests.infra.model.world import AbsentError, World, when

BILLED = (
    "NodeGroup",
    "rds/cluster:Cluster",
    "ClusterInstance",
    "ReplicationGroup",
    "NatGateway",
    "LoadBalancer",
    "Bucket",
    "VpcEndpoint",
)
PLAIN = {"aws:securetransport": ("false",), "s3:tlsversion": ("1.3",)}
OLD = {"aws:securetransport": ("true",), "s3:tlsversion": ("1.1",)}


def money(world: World) -> Iterator[str]:
    """The budget's filter meets tags that everything carries, also what scalers start; people hear of it in time."""
    budget = next(iter(world.everywhere("Budget")), None)
    if budget is None:
        raise AbsentError("a budget")
    if world.region != world.fleet.environment.primary:
        filters = items(budget.inputs, "costFilters")
        yield from (f"no bill of this region has {one}" for one in filters if not filtered(world, one))
        return
    told = items(budget.inputs, "notifications")
    levels = [number(one, "threshold") for one in told]
    ways = {(text(one, "comparisonOperator"), text(one, "thresholdType")) for one in told}
    kind = tuple(text(budget.inputs, key) for key in ("timeUnit", "budgetType", "limitUnit"))
    filters = items(budget.inputs, "costFilters")
    yield from when(
        (len(filters) != 1 or not filtered(world, filters[0]), f"no bill has {filters}: the budget stays at 0"),
        (kind != ("MONTHLY", "COST", "USD"), f"the budget is of {kind}"),
        (spent(world) >= float(text(budget.inputs, "limitAmount")), "the budget is below what is kept"),
        (len(told) < 3 or any(low >= high for low, high in pairwise(levels)), "warnings come in no order"),
        (not 0 < max(levels, default=0) <= 100, "the last warning comes after the money is gone"),
        (ways != {("GREATER_THAN", "PERCENTAGE")}, "a warning means another thing"),
        (not all(reader(world, one) for one in told), "a warning reaches nobody"),
    )
    yield from odd_days(world)


def spent(world: World) -> float:
    """What all stacks together keep in a month."""
    plans = [(one, world.fleet.region(one.region) if one.region else None) for one in world.captures]
    return sum(estimate(world.fleet.environment, one.kind, one.graph, plan).usd for one, plan in plans)


def reader(world: World, told: Json) -> bool:
    return bool(set(items(told, "subscriberSnsTopicArns")) & set(topics(world)))


def filtered(world: World, one: Json) -> bool:
    """Whether a budget's filter finds bills: `user:`, the key, `$` and the value of a tag that all carry."""
    parts = [str(value).partition("$") for value in items(one, "values")]
    tags = [(key.removeprefix("user:"), value) for key, _, value in parts if key.startswith("user:")]
    whole = text(one, "name") == "TagKeyValue" and len(tags) == len(parts) > 0
    return whole and all(carried(world, key, value) for key, value in tags)


def odd_days(world: World) -> Iterator[str]:
    if not world.fleet.environment.anomaly_watch:
        return
    monitor, watch = world.the("AnomalyMonitor"), world.the("AnomalySubscription")
    told = mapping(parsed(monitor.inputs.get("monitorSpecification")), "Tags")
    sees = [carried(world, str(told.get("Key")), str(one)) for one in items(told, "Values")]
    kinds = {text(one, "type"): text(one, "address") for one in items(watch.inputs, "subscribers")}
    bound = float(text(watch.inputs, "thresholdExpression.dimension.values.0") or 0)
    # docs.aws.amazon.com, CreateAnomalySubscription: IMMEDIATE takes SNS alone, and a summary takes e-mail alone.
    at_once = text(watch.inputs, "frequency") == "IMMEDIATE" and set(kinds) == {"SNS"}
    yield from when(
        (not sees or not all(sees), "the watch for odd days sees no bill"),
        (monitor.outputs["arn"] not in items(watch.inputs, "monitorArnLists"), "the watch for odd days tells nobody"),
        (not at_once or kinds["SNS"] not in topics(world), "AWS refuses that frequency, or nobody reads it"),
        (not 10 <= bound <= 5000, "an odd day is every day, or none"),
    )


def carried(world: World, key: str, value: str) -> bool:
    """Whether all that is billed has the tag: machines, disks, databases, stores, and what Karpenter starts."""
    machines = [mapping(node.inputs, "spec.tags") for node in world.of("EC2NodeClass")]
    for node in world.of("LaunchTemplate"):
        told = {text(one, "resourceType"): mapping(one, "tags") for one in items(node.inputs, "tagSpecifications")}
        machines += [told.get(kind, {}) for kind in ("instance", "volume")]
    return all(
        one.get(key) == value for one in (*machines, *(mapping(one.inputs, "tags") for one in world.of(*BILLED)))
    )


def drills(world: World) -> Iterator[str]:
    """Each drill finds its target by tags that machines carry, and stops by an alarm of its region."""
    found = {node.name: node for node in world.of("ExperimentTemplate")}
    wanted = {f"zone-loss-{zone}" for zone in world.plan.zone_ids}
    wanted |= {f"spot-reclaim-{pool.name}-{world.region}" for pool in world.plan.pools if pool.capacity == "spot"}
    yield from (f"nobody tries {name}" for name in sorted(wanted - set(found)))
    metric = "HTTPCode_ELB_5XX_Count"
    stops = {one.outputs["arn"] for one in world.of("MetricAlarm") if text(one.inputs, "metricName") == metric}
    for node in found.values():
        ended = {text(one, "value") for one in items(node.inputs, "stopConditions")}
        targets = {text(one, "name"): one for one in items(node.inputs, "targets")}
        aims = [targets.get(text(one, "target.value")) for one in items(node.inputs, "actions")]
        yield from when(
            (not ended or ended - stops, f"{node.name} goes on while clients suffer"),
            (not aims or not all(aim and hit(world, aim) for aim in aims), f"{node.name} finds no target"),
            (not world.at(node, "roleArn"), f"{node.name} has no role"),
        )


def hit(world: World, target: Json) -> bool:
    """Whether something carries all tags of a drill's target."""
    wanted = {text(one, "key"): text(one, "value") for one in items(target, "resourceTags")}
    kind, part = text(target, "resourceType"), text(target, "selectionMode")
    carriers: list[Mapping[str, Json]] = [wanted]
    if kind == "aws:ec2:subnet":
        carriers = [mapping(node.inputs, "tags") for node in world.of("Subnet")]
    elif kind == "aws:ec2:spot-instance":
        carriers = spot_tags(world)
    return part in ("ALL", "PERCENT(50)") and any(wanted.items() <= one.items() for one in carriers)


def spot_tags(world: World) -> list[Mapping[str, Json]]:
    """The tags of machines that Karpenter buys on spot."""
    spot = [node for node in world.of("NodePool") if "spot" in str(node.inputs["spec"]["template"]["spec"])]  # type: ignore[index,call-overload]
    classes = {text(node.inputs, "spec.template.spec.nodeClassRef.name") for node in spot}
    held = [one for one in world.of("EC2NodeClass") if text(one.inputs, "metadata.name") in classes]
    return [mapping(one.inputs, "spec.tags") for one in held]


def stores(world: World) -> Iterator[str]:
    """No bucket is read over a plain or an old connection, whoever asks; what is pushed here arrives elsewhere."""
    everything = {"Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}
    root = Actor(arn=f"arn:aws:iam::{world.fleet.environment.account_id}:role/x", identity=(everything,))
    for node in world.of("Bucket"):
        held = next((one for one in world.of("BucketPolicy") if node in world.at(one, "bucket")), None)
        document = parsed(held.inputs.get("policy")) if held else None
        name = f"arn:aws:s3:::{text(node.inputs, 'bucket')}"
        calls = [
            Call(action="s3:GetObject", resource=f"{name}{end}", context=given, resource_policy=document)  # type: ignore[arg-type]
            for end in ("", "/models/x")
            for given in (PLAIN, OLD)
        ]
        if any(decide(root, call).allowed for call in calls):
            yield f"{node.name} is read over a plain or old connection"
    yield from copied(world)


def copied(world: World) -> Iterator[str]:
    others = [one for one in world.fleet.environment.regions if one != world.region]
    store = text(world.the("Bucket", f"artifacts-{world.region}").inputs, "bucket")
    configs = [one for one in world.of("BucketReplicationConfig") if text(one.inputs, "bucket") == store]
    rules = [rule for one in configs for rule in items(one.inputs, "rules")]
    for other in others:
        if not any(arrives(rule, other) for rule in rules):
            yield f"a version does not arrive in {other}"
    ages = [one for one in world.of("BucketLifecycleConfiguration") if one.name.startswith("artifacts-")]
    if any(mapping(rule, "expiration") for one in ages for rule in items(one.inputs, "rules")):
        yield "versions that are served are deleted by their age"


def arrives(rule: Json, region: str) -> bool:
    """S3 leaves out what is encrypted under KMS, which all is, unless a rule says otherwise.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/replication-config-for-kms-objects.html
    """
    parts = ("status", "destination.replicationTime.status", "sourceSelectionCriteria.sseKmsEncryptedObjects.status")
    return (
        {text(rule, part) for part in parts} == {"Enabled"}
        and "models/x".startswith(text(rule, "filter.prefix"))
        and text(rule, "deleteMarkerReplication.status") == "Disabled"
        and text(rule, "destination.bucket").endswith(f"-{region}")
        and f":{region}:" in text(rule, "destination.encryptionConfiguration.replicaKmsKeyId")
    )


def travelling(world: World) -> Iterator[str]:
    """Keys and images of what crosses regions are in each; the record's key is nobody else's."""
    others = set(world.fleet.environment.regions) - {world.fleet.environment.primary}
    for key in world.everywhere("kms/key:Key"):
        twins = [one for one in world.everywhere("ReplicaKey") if key.urn in one.references.get("primaryKeyArn", ())]
        travels = text(key.inputs, "tags.purpose") in [one.value for one in MULTI_REGION]
        if travels and (key.inputs.get("multiRegion") is not True or others - {one.region for one in twins}):
            yield f"{key.name} does not decrypt in {sorted(others)}"
    rules = [
        rule
        for one in world.everywhere("ReplicationConfiguration")
        for rule in items(one.inputs, "replicationConfiguration.rules")
    ]
    there = {text(one, "region") for rule in rules for one in items(rule, "destinations")}
    there &= {one.region for one in world.everywhere("RepositoryCreationTemplate")}
    named = tuple(text(one, "filter") for rule in rules for one in items(rule, "repositoryFilters"))
    lost = [one.name for one in world.everywhere("ecr/repository:Repository") if not _copied(one, named)]
    yield from when((others - there, "images do not arrive"), (others and lost, f"{lost} are filtered out of the copy"))
    yield from kept(world)
    uses = [urn for one in sealed(world) for urn in one.references.get("rules", ())]
    own = [urn for one in sealed(world) if one.name.startswith("audit-") for urn in one.references.get("rules", ())]
    if not own or any("::audit-" not in urn or uses.count(urn) > 1 for urn in own):
        yield "whoever reads artifacts reads the record"


def _copied(node: Node, named: tuple[str, ...]) -> bool:
    return not named or text(node.inputs, "name").startswith(named)


def sealed(world: World) -> list[Node]:
    return world.everywhere("BucketServerSideEncryptionConfiguration")


def kept(world: World) -> Iterator[str]:
    """No image goes by its age that a release may name by digest; the trail leaves its own deliveries out."""
    for node in world.everywhere("LifecyclePolicy", "RepositoryCreationTemplate"):
        told = parsed(node.inputs.get("policy") or node.inputs.get("lifecyclePolicy"))
        # docs.aws.amazon.com/AmazonECR/latest/userguide/lifecycle_policy_parameters.html: any takes what pods name.
        if {text(rule, "selection.tagStatus") for rule in items(told, "rules")} != {"untagged"}:
            yield f"{node.name}: a release is deleted by its age"
    for trail in world.everywhere("Trail"):
        (bucket,) = [one for one in world.everywhere("Bucket") if one.name.startswith("audit-")]
        name = text(bucket.inputs, "bucket")
        fields = [
            field for one in items(trail.inputs, "advancedEventSelectors") for field in items(one, "fieldSelectors")
        ]
        left = [str(one) for field in fields for one in items(field, "notStartsWiths")]
        if left != [f"arn:aws:s3:::{name}/"] or text(trail.inputs, "s3BucketName") != name:
            yield "the trail records its own deliveries, or writes elsewhere"
