"""One name for all regions: the nearest healthy one answers.

A region is sick if no worker of any alias could answer. That is noticed after two probes of ten seconds; what
resolvers remember of it lasts up to a minute more. Where all regions are sick, Route 53 answers as if none were.
"""

import pulumi
import pulumi_aws as aws

from infra.components.site import Component, Site
from infra.config.kinds import DataClass
from infra.contract import process

PROBE_S = 10
FAILURES = 2


class RegionRoute(Component):
    """A region's own name, its health as seen from outside, and its latency record under the shared name."""

    def __init__(
        self,
        name: str,
        site: Site,
        *,
        zone_id: pulumi.Input[str],
        balancer_name: pulumi.Input[str],
        balancer_zone_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("RegionRoute", name, site, opts)
        domain = site.environment.domain
        host = f"{site.region}.{domain}"
        alias = aws.route53.RecordAliasArgs(name=balancer_name, zone_id=balancer_zone_id, evaluate_target_health=True)
        aws.route53.Record(
            f"own-{site.region}",
            zone_id=zone_id,
            name=host,
            type=aws.route53.RecordType.A,
            aliases=[alias],
            opts=self.child(),
        )
        self.health = aws.route53.HealthCheck(
            site.region,
            type="HTTPS",
            fqdn=host,
            port=443,
            resource_path=process("gateway").probes["region"].path,
            request_interval=PROBE_S,
            failure_threshold=FAILURES,
            measure_latency=True,
            enable_sni=True,
            tags=site.tags(DataClass.PUBLIC, Name=host),
            opts=self.child(),
        )
        aws.route53.Record(
            f"shared-{site.region}",
            zone_id=zone_id,
            name=domain,
            type=aws.route53.RecordType.A,
            aliases=[alias],
            set_identifier=site.region,
            health_check_id=self.health.id,
            latency_routing_policies=[aws.route53.RecordLatencyRoutingPolicyArgs(region=site.region)],
            opts=self.child(),
        )
        self.register_outputs({})
