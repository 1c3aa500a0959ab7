"""One region's cluster, equipped: namespaces, operators, nodes on demand, trust, secrets, image rules, monitors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pulumi

from infra.components.site import Component, Site
from infra.config.kinds import Scaler, StackKind
from infra.config.model import Fleet, Region
from infra.config.zones import pool_zones
from infra.kube import gpu, images, karpenter, observability, secrets, trust
from infra.kube.manifest import Manifest, apply
from infra.kube.namespaces import GPU, SERVING, Namespaces
from infra.kube.observability import Sources
from infra.kube.operators import MONITORING, Operators
from infra.kube.pods import digest_reference
from infra.kube.values.common import ClusterFacts
from infra.kube.values.monitoring import GRAFANA_SECRET
from infra.stacks.exports import PlatformExports, RegionExports
from infra.stacks.providers import kubernetes_provider, under


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """The region's config and what its AWS half exports."""

    site: Site
    region: Region
    below: RegionExports


class Equipment(Component):
    """Objects that belong together and wait for the same operator."""

    def __init__(
        self,
        name: str,
        site: Site,
        manifests: Iterable[Manifest],
        *,
        after: Iterable[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Equipment", name, site, opts)
        waited = tuple(after)
        for manifest in manifests:
            apply(self, manifest, *waited)
        self.register_outputs({})


def program(fleet: Fleet, region_name: str, sources: Sources = observability.SHIPPED) -> None:
    """Everything in a cluster that is not Penstock itself."""
    site = Site(environment=fleet.environment, region=region_name)
    below = RegionExports.read(StackKind.REGION, f"{fleet.environment.name}.{region_name}")
    cluster = _Cluster(site=site, region=fleet.region(region_name), below=below)
    options = under(kubernetes_provider(site, below))
    namespaces = Namespaces("namespaces", site, cluster.region.cidr, opts=options)
    Equipment("storage", site, _storage(below), opts=options)
    facts = ClusterFacts(
        site=site,
        name=below.cluster_name,
        vpc_id=below.vpc_id,
        alarm_topic_arn=below.alarm_topic_arn,
        watchdog_topic_arn=below.watchdog_topic_arn,
        vpc_cidr=cluster.region.cidr,
        interruption_queue=below.interruption_queue,
        pools=cluster.region.pools,
    )
    first = [name for name in site.environment.charts if name != MONITORING]
    operators = Operators("operators", site, facts, namespaces.made, first, opts=options)
    kept = _secrets(cluster, namespaces.made, operators.releases, options)
    watched = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[kept]))
    watching = Operators("monitoring", site, facts, namespaces.made, [MONITORING], opts=watched)
    _equip(cluster, namespaces.made, {**operators.releases, **watching.releases}, sources, options)
    PlatformExports(
        serving_namespace=SERVING,
        monitoring_namespace=observability.MONITORING,
        issuer=trust.ISSUER,
        secret_store=secrets.STORE,
        prometheus_url=observability.PROMETHEUS_URL,
    ).publish()


def _secrets(
    cluster: _Cluster,
    namespaces: Mapping[str, pulumi.Resource],
    releases: Mapping[str, pulumi.Resource],
    options: pulumi.ResourceOptions,
) -> Equipment:
    """The store, and the one secret that a chart waits for: Grafana does not start without its account."""
    wanted = [
        secrets.store(cluster.site),
        secrets.grafana_administrator(cluster.site, observability.MONITORING, GRAFANA_SECRET),
    ]
    after = [releases["external-secrets"], namespaces[observability.MONITORING]]
    return Equipment("secrets", cluster.site, wanted, after=after, opts=options)


def _equip(
    cluster: _Cluster,
    namespaces: Mapping[str, pulumi.Resource],
    releases: Mapping[str, pulumi.Resource],
    sources: Sources,
    options: pulumi.ResourceOptions,
) -> None:
    site, worker = cluster.site, cluster.site.environment.images["worker"]
    image = digest_reference(site.registry, worker.repository, worker.digest)
    cache = gpu.weight_cache(image, cluster.region.pools)
    Equipment("mig", site, [gpu.mig_layouts(cluster.region.pools)], after=[namespaces[GPU]], opts=options)
    Equipment("weights", site, cache, after=namespaces.values(), opts=options)
    Equipment("burst", site, _burst(cluster), after=[releases["karpenter"]], opts=options)
    Equipment("trust", site, trust.authority(), after=[releases["cert-manager"]], opts=options)
    Equipment("admission", site, images.admission(site), opts=options)
    Equipment("signatures", site, [*images.signatures(site)], after=[releases["policy-controller"]], opts=options)
    monitors = [
        *observability.rules(sources),
        *observability.dashboards(sources),
        *observability.pod_monitors(),
        *observability.operator_monitors(),
    ]
    Equipment("monitors", site, monitors, after=[releases["kube-prometheus-stack"], namespaces[SERVING]], opts=options)


def _storage(below: RegionExports) -> Iterable[Manifest]:
    yield Manifest(
        api_version="storage.k8s.io/v1",
        kind="StorageClass",
        name="encrypted",
        body={
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowVolumeExpansion": True,
            "parameters": {"type": "gp3", "encrypted": "true", "kmsKeyId": below.nodes_key_arn},
        },
    )


def _burst(cluster: _Cluster) -> Iterable[Manifest]:
    for pool in cluster.region.pools:
        if pool.scaler is Scaler.KARPENTER:
            facts = karpenter.NodeFacts(
                node_profile=cluster.below.node_profile,
                subnets=cluster.below.private_subnets,
                zone_ids=pool_zones(cluster.region, pool),
                security_group_id=cluster.below.cluster_security_group_id,
                disk_key_arn=cluster.below.nodes_key_arn,
            )
            yield from karpenter.manifests(cluster.site, pool, facts)
