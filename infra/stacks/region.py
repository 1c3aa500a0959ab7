"""One region's AWS half: network, stores, cluster, pools, front door. It needs no other region to serve or to start."""

from dataclasses import dataclass, replace

import pulumi
import pulumi_aws as aws

from infra.components.addons import Addons, AddonSpec, ContainerLogs
from infra.components.addresses import Plan
from infra.components.bucket import Bucket, BucketSpec
from infra.components.cache import PORT as CACHE_PORT
from infra.components.cache import Cache
from infra.components.cluster import Cluster, ClusterSpec
from infra.components.database import Database, DatabaseSpec
from infra.components.endpoints import Endpoints
from infra.components.front import GATEWAY_PORT, Front
from infra.components.keys import Keyring
from infra.components.network import Network
from infra.components.pools import NodePool, PoolSpec
from infra.components.rights.reach import Reach
from infra.components.signals import Signals
from infra.components.site import Site
from infra.components.vault import Vault
from infra.components.workloads import PodIdentities, PodRoles, addon_identities, identities
from infra.config.kinds import DataClass, Purpose, Scaler, StackKind
from infra.config.model import Fleet, Region
from infra.config.zones import pool_zones
from infra.stacks.exports import GlobalExports, RegionExports, known_later
from infra.stacks.providers import aws_provider, under

REGIONAL_KEYS = (Purpose.LOGS, Purpose.CLUSTER, Purpose.NODES, Purpose.MESSAGES)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ground:
    """What every part of the region stands on."""

    fleet: Fleet
    region: Region
    site: Site
    options: pulumi.ResourceOptions
    shared: GlobalExports
    keys: Keyring
    network: Network

    def key(self, purpose: Purpose) -> pulumi.Output[str]:
        """The region's key of a purpose, its own or the account's replica."""
        if purpose in self.keys.arns:
            return self.keys.arns[purpose]
        return self.shared.key_arns.apply(lambda arns: arns[self.site.region][purpose.value])


def program(fleet: Fleet, region_name: str) -> None:
    """Everything of one region that AWS runs."""
    ground = _ground(fleet, region_name)
    artifacts = _artifacts(ground)
    database = _database(ground)
    _cache_and_vault(ground)
    signals = Signals("signals", ground.site, ground.region, ground.key(Purpose.MESSAGES), opts=ground.options)
    front = Front("front", ground.site, ground.network, ground.shared.zone_id, opts=ground.options)
    cluster = _cluster(ground)
    _open_gateways(cluster, front)
    _identities(ground, cluster, _reach(ground, artifacts, database, signals, front, cluster))
    _publish(ground, cluster, artifacts, signals, front)


def _ground(fleet: Fleet, region_name: str) -> _Ground:
    site = Site(environment=fleet.environment, region=region_name)
    region = fleet.region(region_name)
    options = under(aws_provider(site))
    keys = Keyring("keys", site, REGIONAL_KEYS, opts=options)
    plan = Plan(cidr=region.cidr, zone_ids=region.zone_ids)
    network = Network("network", site, plan, keys.arns[Purpose.LOGS], opts=options)
    Endpoints("endpoints", site, network, opts=options)
    shared = GlobalExports.read(StackKind.GLOBAL, fleet.environment.name)
    return _Ground(fleet=fleet, region=region, site=site, options=options, shared=shared, keys=keys, network=network)


def _artifacts(ground: _Ground) -> Bucket:
    spec = BucketSpec(
        part="artifacts",
        key_arn=ground.key(Purpose.ARTIFACTS),
        data_class=DataClass.CONFIDENTIAL,
        noncurrent_days=ground.fleet.environment.retention.artifact_noncurrent_days,
    )
    return Bucket("artifacts", ground.site, spec, opts=ground.options)


def _database(ground: _Ground) -> Database:
    password = pulumi.Config("penstock").require_secret("databasePassword")
    spec = DatabaseSpec(key_arn=ground.key(Purpose.DATA), owner_password=password)
    return Database("database", ground.site, ground.network, spec, opts=ground.options)


def _cache_and_vault(ground: _Ground) -> None:
    token, key = pulumi.Config("penstock").require_secret("cacheToken"), ground.key(Purpose.DATA)
    cache = Cache("cache", ground.site, ground.network, key_arn=key, token=token, opts=ground.options)
    composed = {"limits-password": token, "answers-password": token}
    composed |= {
        f"{name}-url": pulumi.Output.concat("rediss://", cache.endpoint, f":{CACHE_PORT}/{number}")
        for number, name in enumerate(("limits", "answers"))
    }
    Vault("vault", ground.site, key_arn=key, composed=composed, opts=ground.options)


def _cluster(ground: _Ground) -> Cluster:
    spec = ClusterSpec(secrets_key_arn=ground.key(Purpose.CLUSTER), logs_key_arn=ground.key(Purpose.LOGS))
    cluster = Cluster("cluster", ground.site, ground.network, spec, opts=ground.options)
    brought = addon_identities(ground.site, ground.key(Purpose.NODES))
    roles = PodRoles("addon-roles", ground.site, brought, opts=ground.options)
    wanted = AddonSpec(early=True, identities=brought, arns=roles.arns)
    early = Addons("early", ground.site, cluster, wanted, opts=ground.options)
    pools = [
        NodePool(
            pool.name,
            ground.site,
            cluster,
            PoolSpec(
                pool=pool,
                zone_ids=pool_zones(ground.region, pool),
                disk_key_arn=ground.key(Purpose.NODES),
                after=tuple(early.made),
            ),
            opts=ground.options,
        )
        for pool in ground.region.pools
        if pool.scaler is Scaler.ASG
    ]
    logs = ContainerLogs("container-logs", ground.site, ground.key(Purpose.LOGS), opts=ground.options)
    standing = (*(group for pool in pools if pool.pool.role == "system" for group in pool.groups), *logs.groups)
    Addons("late", ground.site, cluster, replace(wanted, early=False, after=standing), opts=ground.options)
    return cluster


def _open_gateways(cluster: Cluster, front: Front) -> None:
    """The load balancer reaches the gateways' port on the nodes, and no other port."""
    aws.vpc.SecurityGroupIngressRule(
        "gateways-from-front",
        security_group_id=cluster.cluster.vpc_config.apply(lambda config: config.cluster_security_group_id or ""),
        referenced_security_group_id=front.door.id,
        description="Gateways from the load balancer",
        ip_protocol="tcp",
        from_port=GATEWAY_PORT,
        to_port=GATEWAY_PORT,
        tags=cluster.site.tags(),
        opts=cluster.child(),
    )


def _reach(
    ground: _Ground, artifacts: Bucket, database: Database, signals: Signals, front: Front, cluster: Cluster
) -> Reach:
    return Reach(
        artifact_bucket_arn=artifacts.arn,
        artifact_key_arn=ground.key(Purpose.ARTIFACTS),
        payload_key_arn=ground.key(Purpose.PAYLOAD),
        data_key_arn=ground.key(Purpose.DATA),
        nodes_key_arn=ground.key(Purpose.NODES),
        messages_key_arn=ground.key(Purpose.MESSAGES),
        audit_bucket_arn=ground.shared.audit_bucket_arn,
        audit_key_arn=ground.shared.audit_key_arn,
        database_resource_id=database.cluster.cluster_resource_id,
        interruption_queue_arn=signals.queue.arn,
        target_group_arn=front.target_group.arn,
        node_role_arn=cluster.node_role.arn,
        alarm_topic_arn=signals.topic.arn,
    )


def _identities(ground: _Ground, cluster: Cluster, reach: Reach) -> None:
    wanted = identities(ground.site, reach)
    roles = PodRoles("pod-roles", ground.site, wanted, opts=ground.options)
    PodIdentities("identities", ground.site, cluster.cluster.name, wanted, roles.arns, opts=ground.options)


def _publish(ground: _Ground, cluster: Cluster, artifacts: Bucket, signals: Signals, front: Front) -> None:
    profile = aws.iam.InstanceProfile(
        "node",
        name=ground.site.named("node"),
        role=cluster.node_role.name,
        tags=ground.site.tags(),
        opts=cluster.child(),
    )
    RegionExports(
        vpc_id=ground.network.vpc.id,
        cluster_name=cluster.cluster.name,
        cluster_endpoint=cluster.cluster.endpoint,
        cluster_authority=cluster.cluster.certificate_authority.apply(lambda authority: authority.data or ""),
        cluster_security_group_id=cluster.cluster.vpc_config.apply(
            lambda config: config.cluster_security_group_id or ""
        ),
        node_profile=profile.name,
        private_subnets=known_later({zone: subnet.id for zone, subnet in ground.network.private.items()}),
        nodes_key_arn=ground.key(Purpose.NODES),
        logs_key_arn=ground.key(Purpose.LOGS),
        interruption_queue=signals.queue.name,
        target_group_arn=front.target_group.arn,
        balancer_arn=front.balancer.arn,
        balancer_name=front.balancer.dns_name,
        balancer_zone_id=front.balancer.zone_id,
        artifact_bucket=artifacts.bucket.id,
        artifact_bucket_arn=artifacts.arn,
        alarm_topic_arn=signals.topic.arn,
    ).publish()
