"""Penstock itself in one region: gateway, jobs runner, and controller, which makes workers in the shipped pools."""

import pulumi

from infra.components.site import Site
from infra.config.kinds import StackKind
from infra.config.model import Fleet
from infra.kube import control_tier, first_start, scaling, secrets, trust, workloads
from infra.kube import fleet as workers
from infra.kube.observability import PROMETHEUS_URL
from infra.stacks.exports import PlatformExports, RegionExports, ServingExports
from infra.stacks.platform import Equipment
from infra.stacks.providers import kubernetes_provider, under

WORKLOADS = ("gateway", "controller", "runner", "worker")
OPERATOR = "operator"
"""Whoever uses the command line: its certificate is no pod's. Nor is KEDA's, which is the operator's in another
namespace."""


def program(fleet: Fleet, region_name: str) -> None:
    """The workloads of one region."""
    site, region = Site(environment=fleet.environment, region=region_name), fleet.region(region_name)
    stack = f"{fleet.environment.name}.{region_name}"
    below = RegionExports.read(StackKind.REGION, stack)
    equipped = PlatformExports.read(StackKind.PLATFORM, stack)
    options = under(kubernetes_provider(site, below))
    server = equipped.prometheus_url
    hosts = {"controller": (scaling.HOST,)}
    certificates = [
        trust.workload_certificate(workload, equipped.issuer, *hosts.get(workload, ()))
        for workload in (*WORKLOADS, OPERATOR, scaling.KEDA)
    ]
    shared = [*workloads.priorities(), *workloads.network_policies(region.cidr), *certificates]
    shared += secrets.external_secrets(site, equipped.secret_store)
    base = Equipment("shared", site, shared, opts=options)
    after = pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=[base]))
    first = Equipment("first-start", site, first_start.manifests(site), opts=after)
    after = pulumi.ResourceOptions.merge(after, pulumi.ResourceOptions(depends_on=[base, first]))
    stores = (control_tier.artifact_store(below.artifact_bucket), control_tier.payload_store(below.payload_bucket))
    gateway = control_tier.gateway(site, server, stores, below.target_group_arn)
    Equipment("gateway", site, gateway, opts=after)
    Equipment("runner", site, control_tier.runner(site, stores), opts=after)
    pools = workers.pools_file(site, region, below.artifact_bucket, server)
    shipped = Equipment("pools", site, workers.manifests(pools), opts=after)
    Equipment("workers", site, workers.shared(), opts=after)
    after = pulumi.ResourceOptions.merge(after, pulumi.ResourceOptions(depends_on=[shipped]))
    controller = control_tier.controller(site, workers.PATH, workers.pools_digest(pools), PROMETHEUS_URL)
    Equipment("controller", site, controller, opts=after)
    ServingExports(gateway_service="gateway", pools=[pool.name for pool in region.pools if pool.gpu]).publish()
