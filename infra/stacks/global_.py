"""The account-wide stack: what must exist once, before any region."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.audit import Audit
from infra.components.boundary import Boundary
from infra.components.database import ENGINE
from infra.components.keys import MULTI_REGION, Keyring, ReplicaKeyring
from infra.components.registry import MIRRORED, Registry, RegistryTemplate
from infra.components.site import Component, Site
from infra.config.kinds import DataClass, Purpose
from infra.config.model import Fleet
from infra.stacks.exports import GlobalExports, known_later
from infra.stacks.providers import aws_provider, under


@dataclass(frozen=True, slots=True, kw_only=True)
class _Keys:
    """Key ARNs by region and purpose."""

    by_region: dict[str, dict[Purpose, pulumi.Output[str]]]

    def of(self, region: str, purpose: Purpose) -> pulumi.Output[str]:
        return self.by_region[region][purpose]


def program(fleet: Fleet) -> None:
    """Boundary, keys with replicas, the record, repositories, the global database, the DNS zone."""
    environment = fleet.environment
    home = Site(environment=environment, region=environment.primary)
    providers = {name: aws_provider(Site(environment=environment, region=name)) for name in environment.regions}
    at_home = under(providers[home.region])
    boundary = Boundary("boundary", home, opts=at_home)
    keys = _keys(fleet, home, providers)
    audit = Audit("audit", home, keys.of(home.region, Purpose.AUDIT), opts=at_home)
    _registries(fleet, home, keys, providers, boundary)
    shared = Shared("shared", home, opts=at_home)
    GlobalExports(
        key_arns=known_later(
            {region: {str(purpose): arn for purpose, arn in arns.items()} for region, arns in keys.by_region.items()}
        ),
        audit_bucket_arn=audit.store.arn,
        audit_key_arn=keys.of(home.region, Purpose.AUDIT),
        global_database_id=shared.database.id,
        zone_id=shared.zone.zone_id,
    ).publish()


def _keys(fleet: Fleet, home: Site, providers: dict[str, aws.Provider]) -> _Keys:
    ring = Keyring("originals", home, (*MULTI_REGION, Purpose.AUDIT), opts=under(providers[home.region]))
    arns = {home.region: dict(ring.arns)}
    originals = {purpose: ring.keys[purpose] for purpose in MULTI_REGION}
    for name in fleet.environment.regions[1:]:
        site = Site(environment=fleet.environment, region=name)
        arns[name] = ReplicaKeyring(f"replicas-{name}", site, originals, opts=under(providers[name])).arns
    return _Keys(by_region=arns)


def _registries(fleet: Fleet, home: Site, keys: _Keys, providers: dict[str, aws.Provider], boundary: Boundary) -> None:
    repositories = tuple(sorted({image.repository for image in fleet.environment.images.values()} | set(MIRRORED)))
    key_arns = {name: keys.of(name, Purpose.REGISTRY) for name in fleet.environment.regions}
    templates = []
    for name in fleet.environment.regions[1:]:
        site = Site(environment=fleet.environment, region=name)
        options = pulumi.ResourceOptions.merge(under(providers[name]), pulumi.ResourceOptions(depends_on=[boundary]))
        templates.append(RegistryTemplate(f"registry-{name}", site, key_arns[name], opts=options))
    after = pulumi.ResourceOptions(depends_on=list(templates))
    Registry(
        "registry",
        home,
        repositories,
        key_arns,
        opts=pulumi.ResourceOptions.merge(under(providers[home.region]), after),
    )


class Shared(Component):
    """Two things without a region of their own: the global database's identity and the public zone."""

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Shared", name, site, opts)
        environment = site.environment
        self.database = aws.rds.GlobalCluster(
            "penstock",
            global_cluster_identifier=f"{environment.organization}-{environment.name}",
            engine=ENGINE,
            engine_version=environment.database.engine_version,
            storage_encrypted=True,
            deletion_protection=True,
            tags=site.tags(DataClass.RESTRICTED),
            opts=self.stateful(),
        )
        self.zone = aws.route53.Zone(
            "public",
            name=environment.domain,
            comment=f"Penstock {environment.name}",
            tags=site.tags(DataClass.PUBLIC),
            opts=self.stateful(),
        )
        self.register_outputs({})
