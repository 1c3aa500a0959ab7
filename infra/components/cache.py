"""Valkey of one region: shared limits only. Losing it loses counters, never data, so it is not replicated abroad."""

import pulumi
import pulumi_aws as aws

from infra.components.network import Network
from infra.components.site import Component, Site
from infra.config.kinds import DataClass

PORT = 6379


class Cache(Component):
    """A replication group over zones with failover, TLS required and a token."""

    def __init__(
        self,
        name: str,
        site: Site,
        network: Network,
        *,
        key_arn: pulumi.Input[str],
        token: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Cache", name, site, opts)
        spec = site.environment.cache
        subnets = aws.elasticache.SubnetGroup(
            "limits",
            name=site.named("limits"),
            description="Valkey in the data tier",
            subnet_ids=[subnet.id for subnet in network.data.values()],
            tags=site.tags(),
            opts=self.child(),
        )
        self.group = aws.elasticache.ReplicationGroup(
            "limits",
            replication_group_id=f"{site.environment.organization}-{site.environment.name}-limits",
            description="Shared limits",
            engine="valkey",
            engine_version=spec.engine_version,
            node_type=spec.node_type,
            num_cache_clusters=spec.replicas + 1,
            automatic_failover_enabled=True,
            multi_az_enabled=True,
            at_rest_encryption_enabled=True,
            kms_key_id=key_arn,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            auth_token=token,
            auth_token_update_strategy="ROTATE",
            subnet_group_name=subnets.name,
            security_group_ids=[self._security_group(network).id],
            port=PORT,
            snapshot_retention_limit=1,
            auto_minor_version_upgrade=True,
            maintenance_window="sun:09:30-sun:10:30",
            tags=site.tags(DataClass.CONFIDENTIAL),
            opts=self.stateful(),
        )
        self.endpoint = self.group.primary_endpoint_address
        self.register_outputs({})

    def _security_group(self, network: Network) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            "limits",
            name_prefix=f"{self.site.named('limits')}-",
            description="Valkey from the nodes",
            vpc_id=network.vpc.id,
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            "limits",
            security_group_id=group.id,
            description="Valkey from the private tier",
            cidr_ipv4=network.plan.cidr,
            ip_protocol="tcp",
            from_port=PORT,
            to_port=PORT,
            tags=self.site.tags(),
            opts=self.child(),
        )
        return group
