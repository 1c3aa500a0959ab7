"""What the region hears from AWS: interruptions for Karpenter, alarms for people, both encrypted."""

import json

import pulumi
import pulumi_aws as aws

from infra.components.alarms import AlarmTopic
from infra.components.iam import Statement, document
from infra.components.site import Component, Site
from infra.config.model import Region

INTERRUPTIONS = {
    "spot-interruption": ("aws.ec2", "EC2 Spot Instance Interruption Warning"),
    "rebalance": ("aws.ec2", "EC2 Instance Rebalance Recommendation"),
    "state-change": ("aws.ec2", "EC2 Instance State-change Notification"),
    "health": ("aws.health", "AWS Health Event"),
    "reservation": ("aws.ec2", "Capacity Block Reservation Expiration Warning"),
}
WATCHDOG_S = 900
"""Alertmanager repeats its sign of life every five minutes."""


class Signals(Component):
    """The alarm topic, the interruption queue and the rules that feed both."""

    def __init__(
        self,
        name: str,
        site: Site,
        region: Region,
        key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Signals", name, site, opts)
        self.topic = AlarmTopic("alarms", site, key_arn, opts=self.child()).topic
        self.watchdog = self._watchdog(key_arn)
        self.queue_name = site.named("interruptions")
        self.queue = self._queue(key_arn)
        for label, (source, detail) in INTERRUPTIONS.items():
            self._rule(label, source, detail)
        self._alarms(region)
        self.register_outputs({})

    def _watchdog(self, key_arn: pulumi.Input[str]) -> aws.sns.Topic:
        """The topic that nobody reads: its silence is the alarm, since alerting that is dead tells of nothing."""
        topic = aws.sns.Topic(
            "watchdog",
            name=self.site.named("watchdog"),
            kms_master_key_id=key_arn,
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.cloudwatch.MetricAlarm(
            "AlertingSilent",
            name=self.site.named("AlertingSilent"),
            namespace="AWS/SNS",
            metric_name="NumberOfMessagesPublished",
            dimensions={"TopicName": self.site.named("watchdog")},
            statistic="Sum",
            comparison_operator="LessThanThreshold",
            threshold=1,
            period=WATCHDOG_S,
            evaluation_periods=1,
            treat_missing_data="breaching",
            alarm_actions=[self.topic.arn],
            ok_actions=[self.topic.arn],
            tags=self.site.tags(),
            opts=self.child(),
        )
        return topic

    def _queue(self, key_arn: pulumi.Input[str]) -> aws.sqs.Queue:
        queue = aws.sqs.Queue(
            "interruptions",
            name=self.queue_name,
            kms_master_key_id=key_arn,
            message_retention_seconds=300,
            tags=self.site.tags(),
            opts=self.child(),
        )
        send = Statement(
            sid="EventsSend",
            actions=("sqs:SendMessage",),
            resources=(queue.arn,),
            principals={"Service": "events.amazonaws.com"},
            conditions={"StringEquals": {"aws:SourceAccount": self.site.environment.account_id}},
        )
        plain = Statement(
            sid="DenyPlainHttp",
            effect="Deny",
            actions=("sqs:*",),
            resources=(queue.arn,),
            principals="*",
            conditions={"Bool": {"aws:SecureTransport": "false"}},
        )
        aws.sqs.QueuePolicy("interruptions", queue_url=queue.id, policy=document(send, plain), opts=self.child())
        return queue

    def _rule(self, label: str, source: str, detail: str) -> None:
        rule = aws.cloudwatch.EventRule(
            label,
            name=self.site.named(label),
            description=detail,
            event_pattern=json.dumps({"source": [source], "detail-type": [detail]}),
            tags=self.site.tags(),
            opts=self.child(),
        )
        person = label in ("reservation", "health")
        target = self.topic.arn if person else self.queue.arn
        aws.cloudwatch.EventTarget(label, rule=rule.name, arn=target, opts=self.child())
        if label == "health":
            aws.cloudwatch.EventTarget("health-nodes", rule=rule.name, arn=self.queue.arn, opts=self.child())

    def _alarms(self, region: Region) -> None:
        rule = {"RuleName": self.site.named("spot-interruption")}
        # each event is a datum of 1: only their sum says how many
        self._alarm("SpotReclaims", "AWS/Events.MatchedEvents", "Sum", rule, threshold=3, period=300)
        queue = {"QueueName": self.queue_name}
        age = "AWS/SQS.ApproximateAgeOfOldestMessage"
        self._alarm("InterruptionsUnread", age, "Maximum", queue, threshold=60, period=60)
        for pool in region.pools:
            if pool.reservation is not None:
                held = {"CapacityReservationId": pool.reservation.id}
                # The least of the hour: a machine that is exchanged leaves its place free for minutes, an idle one
                # for good; the average of an hour can't tell two that are exchanged from one that is idle.
                unused = "AWS/EC2CapacityReservations.AvailableInstanceCount"
                self._alarm(f"ReservationIdle-{pool.name}", unused, "Minimum", held, threshold=1, period=3600)

    def _alarm(
        self, label: str, metric: str, statistic: str, dimensions: dict[str, str], *, threshold: int, period: int
    ) -> None:
        namespace, _, name = metric.rpartition(".")
        aws.cloudwatch.MetricAlarm(
            label,
            name=self.site.named(label),
            namespace=namespace,
            metric_name=name,
            dimensions=dimensions,
            statistic=statistic,
            comparison_operator="GreaterThanOrEqualToThreshold",
            threshold=threshold,
            period=period,
            evaluation_periods=1,
            treat_missing_data="notBreaching",
            alarm_actions=[self.topic.arn],
            ok_actions=[self.topic.arn],
            tags=self.site.tags(),
            opts=self.child(),
        )
