"""Faults on purpose: a zone cut off, spot machines reclaimed. Each drill stops itself when clients start to suffer."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, here, role, trusts
from infra.components.site import Component, Site
from infra.config.kinds import Capacity, DataClass
from infra.config.model import Region

ZONE_LOSS = "PT10M"
SPOT_NOTICE = "PT2M"
SUFFERING_5XX_PER_MINUTE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillTargets:
    """What a region's drills watch, tell and write to."""

    balancer_arn: pulumi.Input[str]
    topic_arn: pulumi.Input[str]
    logs_key_arn: pulumi.Input[str]


def _delivers_logs(site: Site) -> Statement:
    """An experiment that logs to CloudWatch sets the delivery up itself, as its role."""
    actions = ("CreateLogDelivery", "PutResourcePolicy", "DescribeResourcePolicies", "DescribeLogGroups")
    return Statement(
        sid="DeliverLogs",
        actions=tuple(f"logs:{action}" for action in actions),
        everywhere="log deliveries and resource policies belong to the account, not to a group",
        conditions=here(site),
    )


class Drills(Component):
    """FIS templates of one region, their role, their log and the alarm that ends them."""

    def __init__(
        self, name: str, site: Site, region: Region, below: DrillTargets, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Drills", name, site, opts)
        managed = (
            "service-role/AWSFaultInjectionSimulatorEC2Access",
            "service-role/AWSFaultInjectionSimulatorNetworkAccess",
        )
        trust = trusts("fis.amazonaws.com", site)
        self.actor = role(self, "drills", trust, managed=managed, policy=document(_delivers_logs(site)))
        self.stop = self._suffering(below.balancer_arn, below.topic_arn)
        self.log = self._log(below.logs_key_arn)
        for zone in region.zone_ids:
            self._zone_loss(zone)
        for pool in region.pools:
            if pool.capacity is Capacity.SPOT:
                self._spot_reclaim(pool.name)
        self.register_outputs({})

    def _suffering(self, balancer_arn: pulumi.Input[str], topic_arn: pulumi.Input[str]) -> aws.cloudwatch.MetricAlarm:
        dimension = pulumi.Output.from_input(balancer_arn).apply(lambda arn: arn.split(":loadbalancer/")[-1])
        return aws.cloudwatch.MetricAlarm(
            f"ClientsSuffer-{self.site.region}",
            name=self.site.named("ClientsSuffer"),
            namespace="AWS/ApplicationELB",
            metric_name="HTTPCode_ELB_5XX_Count",
            dimensions={"LoadBalancer": dimension},
            statistic="Sum",
            comparison_operator="GreaterThanOrEqualToThreshold",
            threshold=SUFFERING_5XX_PER_MINUTE,
            period=60,
            evaluation_periods=1,
            treat_missing_data="notBreaching",
            alarm_actions=[topic_arn],
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _log(self, logs_key_arn: pulumi.Input[str]) -> aws.cloudwatch.LogGroup:
        return aws.cloudwatch.LogGroup(
            f"drills-{self.site.region}",
            name=f"/penstock/{self.site.environment.name}/drills/{self.site.region}",
            retention_in_days=self.site.environment.retention.log_days,
            kms_key_id=logs_key_arn,
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _zone_loss(self, zone: str) -> None:
        action = aws.fis.ExperimentTemplateActionArgs(
            name="cut-off",
            action_id="aws:network:disrupt-connectivity",
            parameters=[
                aws.fis.ExperimentTemplateActionParameterArgs(key="duration", value=ZONE_LOSS),
                aws.fis.ExperimentTemplateActionParameterArgs(key="scope", value="all"),
            ],
            target=aws.fis.ExperimentTemplateActionTargetArgs(key="Subnets", value="zone"),
        )
        target = aws.fis.ExperimentTemplateTargetArgs(
            name="zone", resource_type="aws:ec2:subnet", selection_mode="ALL", resource_tags=self._ours("zone", zone)
        )
        self._template(f"zone-loss-{zone}", f"Cut {zone} off for ten minutes", action, target)

    def _spot_reclaim(self, pool: str) -> None:
        action = aws.fis.ExperimentTemplateActionArgs(
            name="reclaim",
            action_id="aws:ec2:send-spot-instance-interruptions",
            parameters=[
                aws.fis.ExperimentTemplateActionParameterArgs(key="durationBeforeInterruption", value=SPOT_NOTICE)
            ],
            target=aws.fis.ExperimentTemplateActionTargetArgs(key="SpotInstances", value="machines"),
        )
        target = aws.fis.ExperimentTemplateTargetArgs(
            name="machines",
            resource_type="aws:ec2:spot-instance",
            selection_mode="PERCENT(50)",
            resource_tags=self._ours("pool", pool),
            filters=[aws.fis.ExperimentTemplateTargetFilterArgs(path="State.Name", values=["running"])],
        )
        self._template(f"spot-reclaim-{pool}-{self.site.region}", f"Reclaim half of {pool}", action, target)

    def _ours(self, key: str, value: str) -> list[aws.fis.ExperimentTemplateTargetResourceTagArgs]:
        wanted = {"environment": self.site.environment.name, key: value}
        return [aws.fis.ExperimentTemplateTargetResourceTagArgs(key=name, value=tag) for name, tag in wanted.items()]

    def _template(
        self,
        label: str,
        description: str,
        action: aws.fis.ExperimentTemplateActionArgs,
        target: aws.fis.ExperimentTemplateTargetArgs,
    ) -> None:
        sink = aws.fis.ExperimentTemplateLogConfigurationCloudwatchLogsConfigurationArgs(
            log_group_arn=pulumi.Output.concat(self.log.arn, ":*")
        )
        aws.fis.ExperimentTemplate(
            label,
            description=description,
            role_arn=self.actor.arn,
            actions=[action],
            targets=[target],
            stop_conditions=[
                aws.fis.ExperimentTemplateStopConditionArgs(source="aws:cloudwatch:alarm", value=self.stop.arn)
            ],
            log_configuration=aws.fis.ExperimentTemplateLogConfigurationArgs(
                log_schema_version=2, cloudwatch_logs_configuration=sink
            ),
            tags=self.site.tags(DataClass.INTERNAL, Name=label),
            opts=self.child(),
        )
