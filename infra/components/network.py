"""The region's network: three tiers over three zones, a NAT per zone, flow logs, and no default anything."""

import pulumi
import pulumi_aws as aws

from infra.components.addresses import Plan
from infra.components.iam import Statement, document, role, trusts
from infra.components.site import Component, Site
from infra.config.existing import Existing
from infra.config.kinds import DataClass, Tier

ANYWHERE = "0.0.0.0/0"


class Standing(Component):
    """A VPC with its subnets by tier and zone id: what all others stand in, whoever made it."""

    def __init__(self, name: str, site: Site, plan: Plan, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Network", name, site, opts)
        self.plan = plan
        self.vpc: aws.ec2.Vpc
        self.public: dict[str, aws.ec2.Subnet]
        self.private: dict[str, aws.ec2.Subnet]
        self.data: dict[str, aws.ec2.Subnet]

    def private_ids(self, zones: tuple[str, ...] = ()) -> list[pulumi.Input[str]]:
        """The private subnets of these zones, or of all."""
        return [self.private[zone].id for zone in zones or self.plan.zone_ids]


class ExistingNetwork(Standing):
    """A network of others: read, never changed. Its routes, flow logs and default groups are theirs."""

    def __init__(
        self,
        name: str,
        site: Site,
        plan: Plan,
        existing: Existing,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, site, plan, opts)
        self.vpc = aws.ec2.Vpc.get(site.region, existing.vpc_id, opts=self.child())
        self.public, self.private, self.data = (
            {
                zone: aws.ec2.Subnet.get(f"{tier}-{zone}", found, opts=self.child())
                for zone, found in existing.of(tier).items()
            }
            for tier in (Tier.PUBLIC, Tier.PRIVATE, Tier.DATA)
        )
        self.register_outputs({})


class Network(Standing):
    """VPC, subnets by tier and zone id, routes. Zones are ids: names mean other places in other accounts."""

    def __init__(
        self,
        name: str,
        site: Site,
        plan: Plan,
        logs_key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(name, site, plan, opts)
        self.vpc = aws.ec2.Vpc(
            site.region,
            cidr_block=plan.cidr,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=site.tags(Name=site.named("vpc")),
            opts=self.guarded(),
        )
        aws.ec2.DefaultSecurityGroup(
            site.region, vpc_id=self.vpc.id, ingress=[], egress=[], tags=site.tags(), opts=self.child()
        )
        self.public = self._tier("public", plan.public())
        self.private = self._tier("private", plan.private())
        self.data = self._tier("data", plan.data())
        self.private_tables: list[pulumi.Input[str]] = [table.id for table in self._routed().values()]
        self._logged(logs_key_arn)
        self.register_outputs({})

    def _tier(self, tier: str, blocks: dict[str, str]) -> dict[str, aws.ec2.Subnet]:
        return {
            zone: aws.ec2.Subnet(
                f"{tier}-{zone}",
                vpc_id=self.vpc.id,
                cidr_block=block,
                availability_zone_id=zone,
                map_public_ip_on_launch=False,
                tags=self.site.tags(Name=self.site.named(f"{tier}-{zone}"), tier=tier, zone=zone),
                opts=self.child(),
            )
            for zone, block in blocks.items()
        }

    def _routed(self) -> dict[str, aws.ec2.RouteTable]:
        gateway = aws.ec2.InternetGateway(
            self.site.region, vpc_id=self.vpc.id, tags=self.site.tags(), opts=self.child()
        )
        public = self._table("public")
        self._route("public", public, gateway_id=gateway.id)
        data = self._table("data")
        private = {}
        for zone in self.plan.zone_ids:
            self._attach(f"public-{zone}", self.public[zone], public)
            self._attach(f"data-{zone}", self.data[zone], data)
            private[zone] = self._table(f"private-{zone}")
            self._attach(f"private-{zone}", self.private[zone], private[zone])
            self._route(f"private-{zone}", private[zone], nat_gateway_id=self._nat(zone, gateway).id)
        return private

    def _nat(self, zone: str, gateway: aws.ec2.InternetGateway) -> aws.ec2.NatGateway:
        address = aws.ec2.Eip(f"nat-{zone}", domain="vpc", tags=self.site.tags(), opts=self.child(gateway))
        return aws.ec2.NatGateway(
            zone,
            subnet_id=self.public[zone].id,
            allocation_id=address.id,
            tags=self.site.tags(zone=zone),
            opts=self.child(gateway),
        )

    def _table(self, name: str) -> aws.ec2.RouteTable:
        tags = self.site.tags(Name=self.site.named(name))
        return aws.ec2.RouteTable(name, vpc_id=self.vpc.id, tags=tags, opts=self.child())

    def _route(
        self,
        name: str,
        table: aws.ec2.RouteTable,
        *,
        gateway_id: pulumi.Input[str] | None = None,
        nat_gateway_id: pulumi.Input[str] | None = None,
    ) -> None:
        aws.ec2.Route(
            name,
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway_id,
            nat_gateway_id=nat_gateway_id,
            opts=self.child(),
        )

    def _attach(self, name: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> None:
        aws.ec2.RouteTableAssociation(name, subnet_id=subnet.id, route_table_id=table.id, opts=self.child())

    def _logged(self, logs_key_arn: pulumi.Input[str]) -> None:
        group_name = f"/penstock/{self.site.environment.name}/flow/{self.site.region}"
        group = aws.cloudwatch.LogGroup(
            "flow",
            name=group_name,
            retention_in_days=self.site.environment.retention.log_days,
            kms_key_id=logs_key_arn,
            tags=self.site.tags(DataClass.CONFIDENTIAL),
            opts=self.child(),
        )
        writes = Statement(
            sid="WriteFlowLogs",
            actions=("logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"),
            resources=(self.site.arn("logs", f"log-group:{group_name}:*"),),
        )
        writer = role(self, "flow-logs", trusts("vpc-flow-logs.amazonaws.com", self.site), policy=document(writes))
        aws.ec2.FlowLog(
            "all",
            vpc_id=self.vpc.id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=writer.arn,
            max_aggregation_interval=60,
            tags=self.site.tags(DataClass.CONFIDENTIAL),
            opts=self.child(),
        )
