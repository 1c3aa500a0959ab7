"""The account-wide stack: what must exist once, before any region."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.catalogue import charts
from infra.components.audit import Audit
from infra.components.boundary import Boundary
from infra.components.keys import MULTI_REGION, Keyring, ReplicaKeyring
from infra.components.publisher import ReleasePipeline
from infra.components.registry import Registry, RegistryTemplate
from infra.components.site import Component, Site
from infra.config.kinds import LINKED_ROLES, DataClass, Purpose
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
    """Boundary, keys with replicas, linked roles, the record, repositories, the release pipeline, the DNS zone."""
    environment = fleet.environment
    home = Site(environment=environment, region=environment.primary)
    providers = {name: aws_provider(Site(environment=environment, region=name)) for name in environment.regions}
    at_home = under(providers[home.region])
    boundary = Boundary("boundary", home, opts=at_home)
    keys = _keys(fleet, home, providers)
    Audit("audit", home, keys.of(home.region, Purpose.AUDIT), opts=at_home)
    _registries(fleet, home, keys, providers, boundary)
    LinkedRoles("linked-roles", home, opts=at_home)
    if environment.publisher:
        ReleasePipeline(
            "release",
            home,
            environment.publisher,
            keys.of(home.region, Purpose.SIGNING),
            opts=_after(at_home, boundary),
        )
    shared = Shared("shared", home, opts=at_home)
    GlobalExports(
        key_arns=known_later(
            {region: {str(purpose): arn for purpose, arn in arns.items()} for region, arns in keys.by_region.items()}
        ),
        zone_id=shared.zone.zone_id,
        name_servers=shared.zone.name_servers,
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
    ours = {image.repository for image in fleet.environment.images.values()}
    repositories = (*sorted(ours), *charts.repositories(tuple(fleet.environment.charts)))
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


def _after(options: pulumi.ResourceOptions, *resources: pulumi.Resource) -> pulumi.ResourceOptions:
    return pulumi.ResourceOptions.merge(options, pulumi.ResourceOptions(depends_on=list(resources)))


class LinkedRoles(Component):
    """The service-linked roles that key policies name: in a fresh account a policy that names them is refused.

    AWS makes them at the first use of their service, so that a used account has some: `account_has` names those.
    """

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("LinkedRoles", name, site, opts)
        for service in (one for one in LINKED_ROLES if one not in site.environment.account_has):
            aws.iam.ServiceLinkedRole(
                service.split(".", maxsplit=1)[0], aws_service_name=service, tags=site.tags(), opts=self.stateful()
            )
        self.register_outputs({})


class Shared(Component):
    """The public zone, and the record that proves the shared domain: every region's certificate rests on it.

    The proof of a domain is the same for all certificates of an account, so one record here serves all regions,
    and no region takes it away when it goes. https://docs.aws.amazon.com/acm/latest/userguide/dns-validation.html
    """

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Shared", name, site, opts)
        environment = site.environment
        self.zone = aws.route53.Zone(
            "public",
            name=environment.domain,
            comment=f"Penstock {environment.name}",
            tags=site.tags(DataClass.PUBLIC),
            opts=self.stateful(),
        )
        self._prove(environment.domain)
        self.register_outputs({})

    def _prove(self, domain: str) -> None:
        certificate = aws.acm.Certificate(
            "domain",
            domain_name=domain,
            validation_method="DNS",
            key_algorithm="EC_prime256v1",
            tags=self.site.tags(DataClass.PUBLIC),
            opts=self.child(),
        )
        option = certificate.domain_validation_options.apply(lambda options: options[0])
        aws.route53.Record(
            "domain-proof",
            zone_id=self.zone.zone_id,
            name=option.apply(lambda found: found.resource_record_name or ""),
            type=aws.route53.RecordType.CNAME,
            records=[option.apply(lambda found: found.resource_record_value or "")],
            ttl=300,
            opts=self.child(),
        )
