"""Who hears: alarm to emitter and person, event to queue, the cluster's alerts to a topic."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

from infra.config.rules_pools import PAID_AHEAD
from infra.graph.nodes import Node
from infra.graph.values import Json, items, mapping, number, parsed, text
from tests.infra.model.world import World, when

Series = tuple[tuple[float, ...], ...]
STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "Sum": sum,
    "Maximum": max,
    "Minimum": min,
    "Average": fmean,
    "SampleCount": len,
}
COMPARED = {
    "GreaterThanOrEqualToThreshold": float.__ge__,
    "GreaterThanThreshold": float.__gt__,
    "LessThanThreshold": float.__lt__,
    "LessThanOrEqualToThreshold": float.__le__,
}


SILENT: Series = ((),)


def each(minutes: int, *data: float) -> Series:
    """Minutes of which the first alone has data."""
    return (data, *SILENT * (minutes - 1))


EMITTED: dict[tuple[str, str], tuple[str, list[Series], list[Series]]] = {
    # silence for an hour; Alertmanager's sign of life
    ("AWS/SNS", "NumberOfMessagesPublished"): ("TopicName", [SILENT * 60], [each(5, 1) * 12]),
    # a notice of two minutes that nobody reads; notices that are read
    ("AWS/SQS", "ApproximateAgeOfOldestMessage"): (
        "QueueName",
        [((0,), (60,), (120,), (180,))],
        [((1,), (20,), (5,)) * 20, SILENT * 60],
    ),
    # each event is a datum of 1: ten in two minutes; one in an hour
    ("AWS/Events", "MatchedEvents"): ("RuleName", [each(1, *[1] * 5) * 2 + SILENT * 58], [each(60, 1), SILENT * 60]),
    # every five minutes: one idle for two hours; two that are exchanged; all used
    ("AWS/EC2CapacityReservations", "AvailableInstanceCount"): (
        "CapacityReservationId",
        [each(5, 1) * 24],
        [(each(5, 2) * 6 + each(5, 0) * 6) * 2, each(5, 0) * 24, SILENT * 120],
    ),
    # each answer is a datum of 1
    ("AWS/ApplicationELB", "HTTPCode_ELB_5XX_Count"): (
        "LoadBalancer",
        [each(1, *[1] * 1000) * 5],
        [each(5, 1), SILENT * 5],
    ),
    ("AWS/Route53", "HealthCheckStatus"): (
        "HealthCheckId",
        [each(1, 1) + each(1, 0) * 5, SILENT * 6],
        [each(1, 1) * 6],
    ),
}
"""What each service tells of a dimension, a group of data a minute: series that people must hear of within their
length, and others. From each service's page of metrics."""
NAMED_BY = {"TopicName": "Topic", "QueueName": "Queue", "RuleName": "EventRule", "HealthCheckId": "HealthCheck"}
EVENTS = {
    "EC2 Spot Instance Interruption Warning": "aws.ec2",
    "EC2 Instance Rebalance Recommendation": "aws.ec2",
    "EC2 Instance State-change Notification": "aws.ec2",
    "AWS Health Event": "aws.health",
    "Capacity Block Reservation Expiration Warning": "aws.ec2",
}
"""docs.aws.amazon.com/eventbridge/latest/ref/events-ref-ec2.html, and karpenter.sh/docs/concepts/disruption: Karpenter
reads the first four; the last two are for people."""
NEEDED = ("SpotReclaims", "InterruptionsUnread", "AlertingSilent", "ClientsSuffer")


def alarms(world: World) -> Iterator[str]:
    """Each alarm reads what something of ours emits, can fire, and ends at a person."""
    found = world.of("MetricAlarm")
    for node in found:
        yield from (f"alarm {node.name}: {fault}" for fault in heard(world, node))
    names = {node.name.split("-")[0] for node in found}
    yield from (f"nobody is told of {name}" for name in NEEDED if name not in names)
    watched = {str(one) for node in found for one in mapping(node.inputs, "dimensions").values()}
    paid = [pool for pool in world.plan.pools if pool.capacity in PAID_AHEAD and pool.reservation]
    yield from (f"{pool.name}: paid capacity may stand idle" for pool in paid if pool.reservation.id not in watched)  # type: ignore[union-attr]
    if world.region == world.fleet.environment.primary:
        checks = world.everywhere("HealthCheck")
        yield from (f"{one.name} leaves the name unheard" for one in checks if one.outputs["id"] not in watched)


def heard(world: World, node: Node) -> Iterator[str]:
    emitter, metric = text(node.inputs, "namespace"), text(node.inputs, "metricName")
    if (emitter, metric) not in EMITTED:
        yield f"AWS emits no {metric} in {emitter}"
        return
    dimension, loud, calm = EMITTED[emitter, metric]
    value = text(node.inputs, f"dimensions.{dimension}")
    reached = [arn for way in ("alarmActions", "okActions") for arn in items(node.inputs, way)]
    lost = [arn for arn in reached if arn not in topics(world) or f":{node.region}:" not in str(arn)]
    yield from when(
        (not emits(world, dimension, value), f"nothing of ours is the {dimension} {value or 'of it'}"),
        (not all(fires(node, one) for one in loud), "is silent, or too late"),
        (any(fires(node, one) for one in calm), "fires when all is well"),
        (lost or not items(node.inputs, "alarmActions"), f"tells {lost or 'nobody'}, which nobody reads"),
    )


def fires(node: Node, series: Series) -> bool:
    """Whether CloudWatch raises the alarm: some whole periods on end breach the threshold.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html
    """
    minutes, missing = int(number(node.inputs, "period")) // 60, text(node.inputs, "treatMissingData")
    statistic = STATISTICS[text(node.inputs, "statistic")]
    compared = COMPARED[text(node.inputs, "comparisonOperator")]
    periods = [sum(series[at : at + minutes], ()) for at in range(0, len(series) - minutes + 1, minutes)]
    breach = [
        compared(float(statistic(data)), number(node.inputs, "threshold")) if data else missing == "breaching"
        for data in periods
    ]
    count = int(number(node.inputs, "evaluationPeriods"))
    return any(all(breach[at : at + count]) for at in range(len(breach) - count + 1))


def emits(world: World, dimension: str, value: str) -> bool:
    if dimension == "CapacityReservationId":
        return value in [pool.reservation.id for pool in world.plan.pools if pool.reservation]
    if dimension == "LoadBalancer":
        return value in [text(one.outputs, "arn").partition("loadbalancer/")[2] for one in world.of("LoadBalancer")]
    every = world.everywhere(NAMED_BY[dimension])
    return bool(value) and any(value in (text(one.inputs, "name"), one.outputs.get("id")) for one in every)


def topics(world: World) -> dict[Json, Node]:
    """The topics that a person reads, by ARN."""
    read = {text(node.inputs, "topic") for node in world.everywhere("TopicSubscription")}
    return {node.outputs["arn"]: node for node in world.everywhere("Topic") if node.outputs["arn"] in read}


def people(world: World) -> Iterator[str]:
    """A person reads the topic, and the cluster's alerts come there; the sign of life goes where it is missed."""
    wanted = world.fleet.environment.alert_email
    readers = [(text(one.inputs, "protocol"), text(one.inputs, "endpoint")) for one in world.of("TopicSubscription")]
    config = mapping(world.the("Release", "kube-prometheus-stack").inputs, "values.alertmanager.config")
    receivers = {text(one, "name"): text(one, "sns_configs.0.topic_arn") for one in items(config, "receivers")}
    alive = next((one for one in items(config, "route.routes") if "Watchdog" in str(items(one, "matchers"))), None)
    deaf = [
        one
        for one in items(config, "route.routes")
        if not receivers.get(text(one, "receiver")) and list(items(one, "matchers")) != ['severity = "info"']
    ]
    silent = world.the("MetricAlarm", "AlertingSilent")
    name = text(silent.inputs, "dimensions.TopicName")
    kept = [one.outputs["arn"] for one in world.of("Topic") if text(one.inputs, "name") == name]
    every_s = 60 * int(text(alive, "repeat_interval").removesuffix("m") or 0)
    yield from when(
        (readers != [("email", wanted)], f"alarms go to {readers}, not to {wanted}"),
        (receivers.get(text(config, "route.receiver")) not in topics(world), "alerts of the cluster reach nobody"),
        (deaf, f"alerts of {[items(one, 'matchers') for one in deaf]} reach nobody"),
        (receivers.get(text(alive, "receiver")) not in kept, "the sign of life goes elsewhere than it is missed"),
        (not 0 < 2 * every_s < number(silent.inputs, "period"), "the sign of life is missed between two of them"),
    )


def selected(world: World) -> Iterator[str]:
    """Prometheus loads our rules and monitors: they carry the label that it selects."""
    spec = mapping(world.the("Release", "kube-prometheus-stack").inputs, "values.prometheus.prometheusSpec")
    for kind, selector in (
        ("PrometheusRule", "rule"),
        ("ServiceMonitor", "serviceMonitor"),
        ("PodMonitor", "podMonitor"),
    ):
        wanted = mapping(spec, f"{selector}Selector.matchLabels")
        for node in world.of(kind):
            if not wanted.items() <= mapping(node.inputs, "metadata.labels").items():
                yield f"{node.name}: Prometheus loads only what carries {dict(wanted)}"


def events(world: World) -> Iterator[str]:
    """What AWS announces comes to Karpenter's queue and to people."""
    queue, read = world.the("Queue"), {node.urn for node in topics(world).values()}
    got: dict[str, set[str]] = {kind: set() for kind in EVENTS}
    for rule in world.of("EventRule"):
        pattern = parsed(rule.inputs.get("eventPattern"))
        aims = [one for one in world.of("EventTarget") if rule in world.at(one, "rule")]
        for kind in map(str, items(pattern, "detail-type")):
            if items(pattern, "source") != [EVENTS.get(kind)] or text(rule.inputs, "state") == "DISABLED":
                yield f"{rule.name}: AWS sends no {kind}, or nobody listens"
            got.setdefault(kind, set()).update(node.urn for one in aims for node in world.at(one, "arn"))
    kinds = list(EVENTS)
    yield from (f"Karpenter does not hear of {kind}" for kind in kinds[:4] if queue.urn not in got[kind])
    yield from (f"nobody hears of {kind}" for kind in kinds[3:] if not got[kind] & read)
    if not 60 <= number(queue.inputs, "messageRetentionSeconds") <= 3600:
        yield "a notice is lost, or heeded when its machine is long gone"
    release = world.the("Release", "karpenter")
    if text(release.inputs, "values.settings.interruptionQueue") != text(queue.inputs, "name"):
        yield "Karpenter reads another queue"
