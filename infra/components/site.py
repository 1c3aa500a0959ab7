"""Where a component stands: how its resources are named, tagged and addressed. No resource is made here."""

from dataclasses import dataclass

import pulumi

from infra.config.kinds import DataClass
from infra.config.model import Environment


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """An environment in a region. Names carry both, so that two regions of one account never collide."""

    environment: Environment
    region: str
    cluster: str = ""
    """The EKS cluster that is there already, if there is one."""

    def named(self, part: str) -> str:
        """A physical name that is unique in the account: organisation, environment, part, region."""
        return f"{self.environment.organization}-{self.environment.name}-{part}-{self.region}"

    @property
    def cluster_name(self) -> str:
        """The EKS cluster's name, fixed ahead of it so that policies can name it."""
        return self.cluster or self.named("serving")

    def tags(self, data_class: DataClass = DataClass.INTERNAL, **extra: str) -> dict[str, str]:
        """The five tags that every taggable resource carries, and any more it needs."""
        return {
            "owner": self.environment.owner,
            "environment": self.environment.name,
            "region": self.region,
            "cost-centre": self.environment.cost_centre,
            "data-class": data_class.value,
            **extra,
        }

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a named resource in this region and account."""
        return f"arn:aws:{service}:{self.region}:{self.environment.account_id}:{resource}"

    def global_arn(self, service: str, resource: str) -> str:
        """The ARN of something in this account that has no region, such as a role."""
        return f"arn:aws:{service}::{self.environment.account_id}:{resource}"

    @property
    def boundary_arn(self) -> str:
        """The permissions boundary of every role, made by the global stack under a fixed name."""
        return self.global_arn("iam", f"policy/{self.environment.organization}-{self.environment.name}-boundary")

    @property
    def registry(self) -> str:
        """The account's own container registry in this region."""
        return f"{self.environment.account_id}.dkr.ecr.{self.region}.amazonaws.com"


class Component(pulumi.ComponentResource):
    """The root of every component: its type token, its site, and options for its children."""

    def __init__(self, kind: str, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"penstock:infra:{kind}", name, None, opts)
        self.site = site
        self._after = _waited(opts)

    def child(self, *depends_on: pulumi.Resource, ignore_changes: list[str] | None = None) -> pulumi.ResourceOptions:
        """Options of a child that may be replaced freely."""
        after = [*self._after, *depends_on]
        return pulumi.ResourceOptions(parent=self, depends_on=after, ignore_changes=ignore_changes)

    def guarded(self, *depends_on: pulumi.Resource) -> pulumi.ResourceOptions:
        """Options of a child that `pulumi destroy` and a rename both stop at, as long as the environment is kept."""
        return pulumi.ResourceOptions.merge(
            self.child(*depends_on), pulumi.ResourceOptions(protect=self.site.environment.keep)
        )

    def stateful(self, *depends_on: pulumi.Resource, record: bool = False) -> pulumi.ResourceOptions:
        """Options of a child that holds data: guarded, and kept in AWS; a record outlives its environment, too."""
        kept = pulumi.ResourceOptions(retain_on_delete=self.site.environment.keep or record)
        return pulumi.ResourceOptions.merge(self.guarded(*depends_on), kept)


def _waited(opts: pulumi.ResourceOptions | None) -> list[pulumi.Resource]:
    """What the component waits for. The engine knows no such wait of a component, so its children must state it."""
    given = opts.depends_on if opts else None
    return [item for item in given if isinstance(item, pulumi.Resource)] if isinstance(given, (list, tuple)) else []
