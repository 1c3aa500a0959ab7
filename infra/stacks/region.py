"""One region's AWS half: network, stores, cluster, pools, ALB. It needs no other region to serve or to start."""

from dataclasses import dataclass, replace

import pulumi
import pulumi_aws as aws

from infra.components.addons import Addons, AddonSpec, ContainerLogs
from infra.components.addresses import Plan
from infra.components.bucket import Bucket, BucketSpec, audit_segments
from infra.components.bucket import payloads as arn_of_payloads
from infra.components.cache import PORT as CACHE_PORT
from infra.components.cache import Cache, CacheSpec
from infra.components.cluster import Cluster, ClusterSpec, ExistingCluster, Joined
from infra.components.database import Database, DatabaseSpec
from infra.components.endpoints import Endpoints
from infra.components.found import look
from infra.components.keys import Keyring
from infra.components.load_balancer import GATEWAY_PORT, LoadBalancer
from infra.components.network import ExistingNetwork, Network, Standing
from infra.components.pools import NodePool, PoolSpec
from infra.components.publisher import ModelPublisher
from infra.components.rights.granted import Granted
from infra.components.secrets_manager import SecretsManager
from infra.components.signals import Signals
from infra.components.site import Site
from infra.components.workloads import PodIdentities, PodRoles, addon_identities, identities
from infra.config.existing import judge_found
from infra.config.kinds import DataClass, Purpose, Scaler, StackKind
from infra.config.model import Fleet, Region
from infra.config.problems import ConfigRefusedError
from infra.config.zones import pool_zones
from infra.stacks.exports import GlobalExports, RegionExports, known_later
from infra.stacks.providers import aws_provider, under

REGIONAL_KEYS = (
    Purpose.LOGS,
    Purpose.CLUSTER,
    Purpose.NODES,
    Purpose.MESSAGES,
    Purpose.PAYLOADS,
    Purpose.SEALING,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Region:
    """What every part of the region stands on."""

    fleet: Fleet
    region: Region
    site: Site
    options: pulumi.ResourceOptions
    shared: GlobalExports
    keys: Keyring
    network: Standing

    def key(self, purpose: Purpose) -> pulumi.Output[str]:
        """The region's key of a purpose, its own or the account's replica."""
        if purpose in self.keys.arns:
            return self.keys.arns[purpose]
        return self.shared.key_arns.apply(lambda arns: arns[self.site.region][purpose.value])


def program(fleet: Fleet, region_name: str) -> None:
    """Everything of one region that AWS runs."""
    base = _region(fleet, region_name)
    artifacts, payloads = _artifacts(base), _payloads(base)
    _database(base)
    _stores_and_secrets(base)
    signals = Signals("signals", base.site, base.region, base.key(Purpose.MESSAGES), opts=base.options)
    balancer = LoadBalancer("load-balancer", base.site, base.network, base.shared.zone_id, opts=base.options)
    cluster = _cluster(base)
    _open_gateways(cluster, balancer)
    granted = _granted(base, artifacts, signals, balancer, cluster)
    _identities(base, cluster, granted)
    ModelPublisher("models", base.site, granted, opts=base.options)
    _publish(base, cluster, (artifacts, payloads), signals, balancer)


def _region(fleet: Fleet, region_name: str) -> _Region:
    region = fleet.region(region_name)
    site = Site(environment=fleet.environment, region=region_name, cluster=region.cluster)
    provider = aws_provider(site)
    options = under(provider)
    plan = Plan(cidr=region.cidr, zone_ids=region.zone_ids)
    network = _existing(fleet, site, plan, provider)
    drivers = (region.existing.volumes_role,) if region.existing and region.cluster else ()
    keys = Keyring("keys", site, REGIONAL_KEYS, drivers, opts=options)
    if network is None:
        network = Network("network", site, plan, keys.arns[Purpose.LOGS], opts=options)
        Endpoints("endpoints", site, network, opts=options)
    shared = GlobalExports.read(StackKind.GLOBAL, fleet.environment.name)
    return _Region(fleet=fleet, region=region, site=site, options=options, shared=shared, keys=keys, network=network)


def _existing(fleet: Fleet, site: Site, plan: Plan, provider: pulumi.ProviderResource) -> Standing | None:
    """The network that is there already. Raises `ConfigRefusedError` before anything is made, if it does not fit."""
    existing = fleet.region(site.region).existing
    if existing is None:
        return None
    found, untold = look(fleet, site.region, existing, provider)
    pins = fleet.environment.kubernetes
    place = (site.region, fleet.environment.name, plan.cidr)
    problems = untold + judge_found(place, existing, found, (pins.version, pins.addons))
    if problems:
        raise ConfigRefusedError(problems)
    return ExistingNetwork("network", site, plan, existing, opts=under(provider))


def _artifacts(base: _Region) -> Bucket:
    spec = BucketSpec(
        part="artifacts",
        key_arn=base.key(Purpose.ARTIFACTS),
        data_class=DataClass.CONFIDENTIAL,
        noncurrent_days=base.fleet.environment.retention.artifact_noncurrent_days,
    )
    return Bucket("artifacts", base.site, spec, opts=base.options)


def _payloads(base: _Region) -> Bucket:
    """Sealed requests and results of jobs; a deleted one goes after a day, the shortest that S3 knows."""
    key = base.key(Purpose.PAYLOADS)
    spec = BucketSpec(part=Purpose.PAYLOADS, key_arn=key, data_class=DataClass.RESTRICTED, noncurrent_days=1)
    return Bucket("payloads", base.site, spec, opts=base.options)


def _database(base: _Region) -> None:
    password = pulumi.Config("penstock").require_secret("databasePassword")
    spec = DatabaseSpec(key_arn=base.key(Purpose.DATA), owner_password=password)
    Database("database", base.site, base.network, spec, opts=base.options)


def _stores_and_secrets(base: _Region) -> None:
    config, key, environment = pulumi.Config("penstock"), base.key(Purpose.DATA), base.site.environment
    composed = {}
    for name, size in {"limits": environment.cache, "answers": environment.answers}.items():
        token = config.require_secret(f"{name}Token")
        spec = CacheSpec(size=size, key_arn=key, token=token)
        store = Cache(name, base.site, base.network, spec, opts=base.options)
        composed[f"{name}-password"] = token
        composed[f"{name}-url"] = pulumi.Output.concat("rediss://", store.endpoint, f":{CACHE_PORT}/0")
    SecretsManager("secrets-manager", base.site, key_arn=key, composed=composed, opts=base.options)


def _cluster(base: _Region) -> Joined:
    """The cluster with its pools; its add-ons only if it is ours."""
    if base.region.cluster:
        cluster = ExistingCluster("cluster", base.site, base.network, opts=base.options)
        _pools(base, cluster, ())
        return cluster
    spec = ClusterSpec(secrets_key_arn=base.key(Purpose.CLUSTER), logs_key_arn=base.key(Purpose.LOGS))
    made = Cluster("cluster", base.site, base.network, spec, opts=base.options)
    brought = addon_identities(base.site, base.key(Purpose.NODES))
    roles = PodRoles("addon-roles", base.site, brought, opts=base.options)
    wanted = AddonSpec(early=True, identities=brought, arns=roles.arns)
    early = Addons("early", base.site, made, wanted, opts=base.options)
    pools = _pools(base, made, tuple(early.made))
    logs = ContainerLogs("container-logs", base.site, base.key(Purpose.LOGS), opts=base.options)
    standing = (*(group for pool in pools if pool.pool.role == "system" for group in pool.groups), *logs.groups)
    Addons("late", base.site, made, replace(wanted, early=False, after=standing), opts=base.options)
    return made


def _pools(base: _Region, cluster: Joined, after: tuple[pulumi.Resource, ...]) -> list[NodePool]:
    return [
        NodePool(
            pool.name,
            base.site,
            cluster,
            PoolSpec(
                pool=pool,
                zone_ids=pool_zones(base.region, pool),
                disk_key_arn=base.key(Purpose.NODES),
                after=after,
            ),
            opts=base.options,
        )
        for pool in base.region.pools
        if pool.scaler is Scaler.ASG
    ]


def _open_gateways(cluster: Joined, balancer: LoadBalancer) -> None:
    """The load balancer reaches the gateways' port on the nodes, and no other port."""
    aws.vpc.SecurityGroupIngressRule(
        "gateways-from-alb",
        security_group_id=cluster.cluster.vpc_config.apply(lambda config: config.cluster_security_group_id or ""),
        referenced_security_group_id=balancer.security_group.id,
        description="Gateways from the load balancer",
        ip_protocol="tcp",
        from_port=GATEWAY_PORT,
        to_port=GATEWAY_PORT,
        tags=cluster.site.tags(),
        opts=cluster.child(),
    )


def _granted(base: _Region, artifacts: Bucket, signals: Signals, balancer: LoadBalancer, cluster: Joined) -> Granted:
    return Granted(
        artifact_bucket_arn=artifacts.arn,
        artifact_key_arn=base.key(Purpose.ARTIFACTS),
        payload_bucket_arn=arn_of_payloads(base.site.environment, base.site.region),
        payload_key_arn=base.key(Purpose.PAYLOADS),
        sealing_key_arn=base.key(Purpose.SEALING),
        model_signing_key_arn=base.key(Purpose.MODELS),
        audit_segments_arn=audit_segments(base.site.environment, base.site.region),
        audit_key_arn=base.shared.key_arns.apply(lambda arns: arns[base.site.environment.primary][Purpose.AUDIT]),
        chain_key_arn=base.key(Purpose.CHAIN),
        data_key_arn=base.key(Purpose.DATA),
        nodes_key_arn=base.key(Purpose.NODES),
        messages_key_arn=base.key(Purpose.MESSAGES),
        interruption_queue_arn=signals.queue.arn,
        target_group_arn=balancer.target_group.arn,
        node_role_arn=cluster.node_role.arn,
        alarm_topic_arn=signals.topic.arn,
        watchdog_topic_arn=signals.watchdog.arn,
    )


def _identities(base: _Region, cluster: Joined, granted: Granted) -> None:
    wanted = identities(base.site, granted)
    roles = PodRoles("pod-roles", base.site, wanted, opts=base.options)
    PodIdentities("identities", base.site, cluster.cluster.name, wanted, roles.arns, opts=base.options)


def _publish(
    base: _Region, cluster: Joined, buckets: tuple[Bucket, Bucket], signals: Signals, balancer: LoadBalancer
) -> None:
    artifacts, payloads = buckets
    profile = aws.iam.InstanceProfile(
        "node",
        name=base.site.named("node"),
        role=cluster.node_role.name,
        tags=base.site.tags(),
        opts=cluster.child(),
    )
    RegionExports(
        vpc_id=base.network.vpc.id,
        cluster_name=cluster.cluster.name,
        cluster_endpoint=cluster.cluster.endpoint,
        cluster_authority=cluster.cluster.certificate_authority.apply(lambda authority: authority.data or ""),
        cluster_security_group_id=cluster.cluster.vpc_config.apply(
            lambda config: config.cluster_security_group_id or ""
        ),
        node_profile=profile.name,
        private_subnets=known_later({zone: subnet.id for zone, subnet in base.network.private.items()}),
        nodes_key_arn=base.key(Purpose.NODES),
        logs_key_arn=base.key(Purpose.LOGS),
        interruption_queue=signals.queue.name,
        target_group_arn=balancer.target_group.arn,
        balancer_arn=balancer.alb.arn,
        balancer_name=balancer.alb.dns_name,
        balancer_zone_id=balancer.alb.zone_id,
        artifact_bucket=artifacts.bucket.id,
        artifact_bucket_arn=artifacts.arn,
        payload_bucket=payloads.bucket.id,
        alarm_topic_arn=signals.topic.arn,
        watchdog_topic_arn=signals.watchdog.arn,
    ).publish()
