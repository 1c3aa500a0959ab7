"""What ties the regions together: one name, artifacts both ways, firewalls, drills, money. Built last, gone first."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.alarms import AlarmTopic
from infra.components.drills import Drills, DrillTargets
from infra.components.keys import Keyring
from infra.components.replication import Replication, Side
from infra.components.routing import RegionRoute
from infra.components.site import Component, Site
from infra.components.spending import Spending
from infra.components.waf import Waf
from infra.config.kinds import Purpose, StackKind
from infra.config.model import Fleet
from infra.config.rules import HEALTH_METRICS_REGION
from infra.stacks.exports import GlobalExports, RegionExports
from infra.stacks.providers import aws_provider, under


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """One region as the mesh sees it."""

    site: Site
    below: RegionExports
    options: pulumi.ResourceOptions


def program(fleet: Fleet) -> None:
    """Routes, replication, firewalls, drills and budgets over all regions."""
    shared = GlobalExports.read(StackKind.GLOBAL, fleet.environment.name)
    members = {name: _member(fleet, name) for name in fleet.environment.regions}
    sides = {name: _side(member, shared) for name, member in members.items()}
    checks = {}
    for name, member in members.items():
        others = tuple(side for region, side in sides.items() if region != name)
        if others:
            Replication(f"replication-{name}", member.site, sides[name], others, opts=member.options)
        checks[name] = _member_edge(fleet, member, shared)
    watch = _watch(fleet, members)
    HealthAlarms("health", watch.site, checks, watch.topic_arn, opts=watch.options)
    Spending("spending", watch.site, watch.topic_arn, opts=watch.options)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """The region of the alarms that AWS publishes in one region only, and their topic."""

    site: Site
    topic_arn: pulumi.Input[str]
    options: pulumi.ResourceOptions


def _watch(fleet: Fleet, members: dict[str, _Member]) -> _Watch:
    """The region of the health metrics: a member if we serve from it, else a provider and a topic for it."""
    member = members.get(HEALTH_METRICS_REGION)
    if member:
        return _Watch(site=member.site, topic_arn=member.below.alarm_topic_arn, options=member.options)
    site = Site(environment=fleet.environment, region=HEALTH_METRICS_REGION)
    options = under(aws_provider(site))
    keys = Keyring("health-keys", site, (Purpose.MESSAGES,), opts=options)
    topic = AlarmTopic("health", site, keys.arns[Purpose.MESSAGES], opts=options).topic
    return _Watch(site=site, topic_arn=topic.arn, options=options)


def _member(fleet: Fleet, name: str) -> _Member:
    site = Site(environment=fleet.environment, region=name)
    below = RegionExports.read(StackKind.REGION, f"{fleet.environment.name}.{name}")
    return _Member(site=site, below=below, options=under(aws_provider(site)))


def _side(member: _Member, shared: GlobalExports) -> Side:
    region = member.site.region
    key = shared.key_arns.apply(lambda arns: arns[region][Purpose.ARTIFACTS.value])
    return Side(
        region=region,
        bucket=member.below.artifact_bucket,
        bucket_arn=member.below.artifact_bucket_arn,
        key_arn=key,
    )


def _member_edge(fleet: Fleet, member: _Member, shared: GlobalExports) -> aws.route53.HealthCheck:
    site, below = member.site, member.below
    Waf(
        f"waf-{site.region}",
        site,
        balancer_arn=below.balancer_arn,
        logs_key_arn=below.logs_key_arn,
        opts=member.options,
    )
    Drills(
        f"drills-{site.region}",
        site,
        fleet.region(site.region),
        DrillTargets(balancer_arn=below.balancer_arn, topic_arn=below.alarm_topic_arn, logs_key_arn=below.logs_key_arn),
        opts=member.options,
    )
    route = RegionRoute(
        f"route-{site.region}",
        site,
        zone_id=shared.zone_id,
        balancer_name=below.balancer_name,
        balancer_zone_id=below.balancer_zone_id,
        opts=member.options,
    )
    return route.health


class HealthAlarms(Component):
    """A page when DNS takes a region out. Route 53's metrics live in one region only."""

    def __init__(
        self,
        name: str,
        site: Site,
        checks: dict[str, aws.route53.HealthCheck],
        topic_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("HealthAlarms", name, site, opts)
        for region, check in checks.items():
            aws.cloudwatch.MetricAlarm(
                f"RegionOut-{region}",
                name=site.named(f"RegionOut-{region}"),
                namespace="AWS/Route53",
                metric_name="HealthCheckStatus",
                dimensions={"HealthCheckId": check.id},
                statistic="Minimum",
                comparison_operator="LessThanThreshold",
                threshold=1,
                period=60,
                evaluation_periods=1,
                treat_missing_data="breaching",
                alarm_actions=[topic_arn],
                ok_actions=[topic_arn],
                tags=site.tags(),
                opts=self.child(),
            )
        self.register_outputs({})
