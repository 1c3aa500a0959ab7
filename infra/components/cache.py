"""Valkey of one region: one store for shared limits, another for kept answers, so that no flood of these closes those.

Losing the first loses counters, losing the second makes repeated requests run again: neither is replicated abroad.
Neither evicts: a meter that is gone opens a limit, and answers give way by the platform's own quotas (ADR 0052).
"""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.network import Standing
from infra.components.site import Component, Site
from infra.config.kinds import DataClass
from infra.config.model import Cache as CacheSize

PORT = 6379


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """How large it is, the key that it is sealed with, and the token that lets in."""

    size: CacheSize
    key_arn: pulumi.Input[str]
    token: pulumi.Output[str]


class Cache(Component):
    """A replication group over zones with failover, TLS required and a token."""

    def __init__(
        self,
        name: str,
        site: Site,
        network: Standing,
        spec: CacheSpec,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Cache", name, site, opts)
        self.store, size = name, spec.size
        subnets = aws.elasticache.SubnetGroup(
            name,
            name=site.named(name),
            description="Valkey in the data tier",
            subnet_ids=[subnet.id for subnet in network.data.values()],
            tags=site.tags(),
            opts=self.child(),
        )
        self.group = aws.elasticache.ReplicationGroup(
            name,
            replication_group_id=f"{site.environment.organization}-{site.environment.name}-{name}",
            description=f"Penstock's {name}",
            engine="valkey",
            engine_version=size.engine_version,
            node_type=size.node_type,
            num_cache_clusters=size.replicas + 1,
            parameter_group_name=self._parameters(size).name,
            automatic_failover_enabled=True,
            multi_az_enabled=True,
            at_rest_encryption_enabled=True,
            kms_key_id=spec.key_arn,
            transit_encryption_enabled=True,
            transit_encryption_mode="required",
            auth_token=spec.token,
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

    def _parameters(self, size: CacheSize) -> aws.elasticache.ParameterGroup:
        return aws.elasticache.ParameterGroup(
            self.store,
            name=self.site.named(self.store),
            family=f"valkey{size.engine_version.split('.', maxsplit=1)[0]}",
            description="Nothing is evicted",
            parameters=[aws.elasticache.ParameterGroupParameterArgs(name="maxmemory-policy", value="noeviction")],
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _security_group(self, network: Standing) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            self.store,
            name_prefix=f"{self.site.named(self.store)}-",
            description="Valkey from the nodes",
            vpc_id=network.vpc.id,
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            self.store,
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
