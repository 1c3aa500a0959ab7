"""Customer managed keys, one per purpose, each rotated yearly and each open to exactly the services that need it."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document
from infra.components.site import Component, Site
from infra.config.kinds import DataClass, Purpose

ROTATION_DAYS = 365
DELETION_DAYS = 30
MULTI_REGION = (Purpose.ARTIFACTS, Purpose.DATA, Purpose.PAYLOAD, Purpose.REGISTRY)
"""Purposes whose ciphertext travels between regions; their keys are originals with replicas."""

_USE = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:ReEncryptTo", "kms:GenerateDataKey", "kms:DescribeKey")


def key_policy(purpose: Purpose, site: Site) -> pulumi.Output[str]:
    """The account may delegate by IAM; named services may use the key under a condition; nobody else."""
    return document(
        Statement(
            sid="AccountAdministersKey",
            actions=("kms:*",),
            principals={"AWS": site.global_arn("iam", "root")},
            everywhere="in a key policy the only resource is the key itself",
        ),
        *_services(purpose, site),
    )


def _services(purpose: Purpose, site: Site) -> tuple[Statement, ...]:
    account = site.environment.account_id
    by_source: Mapping[str, Mapping[str, object]] = {"StringEquals": {"aws:SourceAccount": account}}
    if purpose is Purpose.LOGS:
        context = f"arn:aws:logs:*:{account}:log-group:*"
        condition = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": context}}
        return (_grant("LogsUseKey", f"logs.{site.region}.amazonaws.com", condition),)
    if purpose is Purpose.AUDIT:
        trail = {"StringLike": {"kms:EncryptionContext:aws:cloudtrail:arn": f"arn:aws:cloudtrail:*:{account}:trail/*"}}
        return (_grant("TrailUsesKey", "cloudtrail.amazonaws.com", trail),)
    if purpose is Purpose.MESSAGES:
        services = ("cloudwatch", "events", "sns", "budgets", "costalerts")
        return tuple(_grant(f"{name.capitalize()}UsesKey", f"{name}.amazonaws.com", by_source) for name in services)
    if purpose is Purpose.NODES:
        return _node_grants(site)
    return ()


def _node_grants(site: Site) -> tuple[Statement, ...]:
    """EC2 Auto Scaling boots encrypted disks through its service-linked role, which needs a grant of its own."""
    linked = "aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    principal = {"AWS": site.global_arn("iam", f"role/{linked}")}
    whole = "in a key policy the only resource is the key itself"
    return (
        Statement(sid="ScalingUsesKey", actions=_USE, principals=principal, everywhere=whole),
        Statement(
            sid="ScalingGrantsKey",
            actions=("kms:CreateGrant",),
            principals=principal,
            everywhere=whole,
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    )


def _grant(sid: str, service: str, conditions: Mapping[str, Mapping[str, object]]) -> Statement:
    return Statement(
        sid=sid,
        actions=_USE,
        principals={"Service": service},
        conditions=conditions,
        everywhere="in a key policy the only resource is the key itself",
    )


class Keyring(Component):
    """The single-region keys of one site. `arns` is keyed by purpose."""

    def __init__(
        self, name: str, site: Site, purposes: tuple[Purpose, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Keyring", name, site, opts)
        self.keys = {purpose: self._key(purpose) for purpose in purposes}
        self.arns = {purpose: key.arn for purpose, key in self.keys.items()}
        self.register_outputs({})

    def _key(self, purpose: Purpose) -> aws.kms.Key:
        multi_region = purpose in MULTI_REGION
        key = aws.kms.Key(
            f"{purpose}-{self.site.region}",
            description=f"Penstock {self.site.environment.name}: {purpose}",
            enable_key_rotation=True,
            rotation_period_in_days=ROTATION_DAYS,
            deletion_window_in_days=DELETION_DAYS,
            multi_region=multi_region,
            policy=key_policy(purpose, self.site),
            tags=self.site.tags(DataClass.RESTRICTED, purpose=purpose.value),
            opts=self.stateful(),
        )
        aws.kms.Alias(
            f"{purpose}-{self.site.region}",
            name=f"alias/{self.site.named(purpose.value)}",
            target_key_id=key.id,
            opts=self.child(),
        )
        return key


class ReplicaKeyring(Component):
    """Replicas of the multi-region originals in another region: same key material, own policy and alias."""

    def __init__(
        self,
        name: str,
        site: Site,
        originals: Mapping[Purpose, aws.kms.Key],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ReplicaKeyring", name, site, opts)
        self.arns = {purpose: self._replica(purpose, key) for purpose, key in originals.items()}
        self.register_outputs({})

    def _replica(self, purpose: Purpose, original: aws.kms.Key) -> pulumi.Output[str]:
        replica = aws.kms.ReplicaKey(
            f"{purpose}-{self.site.region}",
            description=f"Penstock {self.site.environment.name}: {purpose}, replica",
            primary_key_arn=original.arn,
            deletion_window_in_days=DELETION_DAYS,
            policy=key_policy(purpose, self.site),
            tags=self.site.tags(DataClass.RESTRICTED, purpose=purpose.value),
            opts=self.stateful(),
        )
        aws.kms.Alias(
            f"{purpose}-{self.site.region}",
            name=f"alias/{self.site.named(purpose.value)}",
            target_key_id=replica.key_id,
            opts=self.child(),
        )
        return replica.arn
