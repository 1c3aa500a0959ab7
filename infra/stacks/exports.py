"""What one stack promises the next, as types: publishing and reading go through the same class.

This is the only reader of stack references, so a consumer can't ask for an output that no producer declares.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pulumi

from infra.config.kinds import StackKind
from infra.graph.sdk import camel


@dataclass(frozen=True, slots=True, kw_only=True)
class Exports:
    """The shared half: names are the fields' own, in the engine's spelling."""

    def publish(self) -> None:
        """Export every field of the running stack."""
        for field in dataclasses.fields(self):
            pulumi.export(camel(field.name), getattr(self, field.name))

    @classmethod
    def read(cls, kind: StackKind, stack: str) -> Self:
        """The exports of another stack. The engine fails the update if one is missing."""
        name = f"{pulumi.get_organization()}/{project_name(kind)}/{stack}"
        reference = pulumi.StackReference(f"{kind}-{stack}", stack_name=name)
        return cls(**{field.name: reference.require_output(camel(field.name)) for field in dataclasses.fields(cls)})


def project_name(kind: StackKind) -> str:
    """The Pulumi project of a stack kind."""
    return f"penstock-{kind}"


ArnsByRegion = Mapping[str, Mapping[str, str]]


def known_later(value: object) -> pulumi.Output[Any]:
    """A structure with outputs anywhere inside as one output of the plain structure."""
    return pulumi.Output.from_input(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalExports(Exports):
    """What every region needs from the account: keys by region and purpose, the record, the DNS zone."""

    key_arns: pulumi.Output[ArnsByRegion]
    zone_id: pulumi.Input[str]
    name_servers: pulumi.Input[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionExports(Exports):
    """What the cluster's inside and the mesh need from a region."""

    vpc_id: pulumi.Input[str]
    cluster_name: pulumi.Input[str]
    cluster_endpoint: pulumi.Input[str]
    cluster_authority: pulumi.Input[str]
    cluster_security_group_id: pulumi.Input[str]
    node_profile: pulumi.Input[str]
    private_subnets: pulumi.Output[Mapping[str, str]]
    nodes_key_arn: pulumi.Input[str]
    logs_key_arn: pulumi.Input[str]
    interruption_queue: pulumi.Input[str]
    target_group_arn: pulumi.Input[str]
    balancer_arn: pulumi.Input[str]
    balancer_name: pulumi.Input[str]
    balancer_zone_id: pulumi.Input[str]
    artifact_bucket: pulumi.Input[str]
    artifact_bucket_arn: pulumi.Input[str]
    payload_bucket: pulumi.Input[str]
    alarm_topic_arn: pulumi.Input[str]
    watchdog_topic_arn: pulumi.Input[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformExports(Exports):
    """What the workloads need from the cluster's equipment: names that exist once it is installed."""

    serving_namespace: pulumi.Input[str]
    monitoring_namespace: pulumi.Input[str]
    issuer: pulumi.Input[str]
    secret_store: pulumi.Input[str]
    prometheus_url: pulumi.Input[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingExports(Exports):
    """What a person or a later stack may want to know of what runs."""

    gateway_service: pulumi.Input[str]
    pools: pulumi.Input[list[str]]
