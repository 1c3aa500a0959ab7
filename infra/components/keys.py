"""Customer managed keys, one per purpose, each rotated yearly and each open to exactly the services that need it."""

from collections.abc import Mapping
from dataclasses import replace

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document
from infra.components.site import Component, Site
from infra.config.kinds import LINKED_ROLES, DataClass, Purpose

ROTATION_DAYS = 365
DELETION_DAYS = 30
MULTI_REGION = (
    Purpose.ARTIFACTS,
    Purpose.DATA,
    Purpose.REGISTRY,
    Purpose.SIGNING,
    Purpose.MODELS,
    Purpose.CHAIN,
)
"""Purposes whose ciphertext or signatures travel between regions; their keys are originals with replicas."""
SIGNS = (Purpose.SIGNING, Purpose.MODELS, Purpose.CHAIN)

_USE = (
    "kms:Encrypt",
    "kms:Decrypt",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:DescribeKey",
)


def key_policy(purpose: Purpose, site: Site, drivers: tuple[str, ...] = ()) -> pulumi.Output[str]:
    """The account may delegate by IAM; named services may use the key under a condition; no one else may.

    `drivers` are roles of others that bring volumes to our pods: they may use the key of disks.
    """
    return document(
        Statement(
            sid="AccountAdministersKey",
            actions=("kms:*",),
            principals={"AWS": site.global_arn("iam", "root")},
            everywhere="in a key policy the only resource is the key itself",
        ),
        *_services(purpose, site),
        *(_disk_grants(list(drivers), "Driver") if drivers and purpose is Purpose.NODES else ()),
    )


def _services(purpose: Purpose, site: Site) -> tuple[Statement, ...]:
    account = site.environment.account_id
    by_source: Mapping[str, Mapping[str, object]] = {"StringEquals": {"aws:SourceAccount": account}}
    if purpose is Purpose.LOGS:
        context = f"arn:aws:logs:*:{account}:log-group:*"
        condition = {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": context}}
        return (_grant("LogsUseKey", f"logs.{site.region}.amazonaws.com", condition),)
    if purpose is Purpose.AUDIT:
        return _trail_grants(site)
    if purpose is Purpose.MESSAGES:
        services = ("cloudwatch", "sns", "budgets", "costalerts")
        return (
            *(_grant(f"{name.capitalize()}UsesKey", f"{name}.amazonaws.com", by_source) for name in services),
            _grant("EventsUsesKey", "events.amazonaws.com", {}),
        )
    if purpose is Purpose.NODES:
        return _node_grants(site)
    return ()


def _trail_grants(site: Site) -> tuple[Statement, ...]:
    """CloudTrail looks at its key before it uses it, and that look carries no encryption context."""
    account, trails = site.environment.account_id, f"arn:aws:cloudtrail:*:{site.environment.account_id}:trail/*"
    context = {"StringLike": {"kms:EncryptionContext:aws:cloudtrail:arn": trails}}
    source = {"ArnLike": {"aws:SourceArn": f"arn:aws:cloudtrail:*:{account}:trail/*"}}
    look = _grant("TrailDescribesKey", "cloudtrail.amazonaws.com", source)
    return (_grant("TrailUsesKey", "cloudtrail.amazonaws.com", context), replace(look, actions=("kms:DescribeKey",)))


def _node_grants(site: Site) -> tuple[Statement, ...]:
    """Encrypted disks are attached by service-linked roles, which have no right to a customer's key by themselves."""
    roles = [
        site.global_arn("iam", f"role/aws-service-role/{service}/{name}") for service, name in LINKED_ROLES.items()
    ]
    return _disk_grants(roles, "Scaling")


def _disk_grants(roles: list[str], users: str) -> tuple[Statement, ...]:
    """Whoever has machines and disks made with the key: EC2 attaches them by a grant of theirs."""
    principal = {"AWS": roles}
    whole = "in a key policy the only resource is the key itself"
    return (
        Statement(sid=f"{users}UsesKey", actions=_USE, principals=principal, everywhere=whole),
        Statement(
            sid=f"{users}GrantsKey",
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


def alias(purpose: Purpose, site: Site) -> str:
    """Signing keys have one name in all regions: what is signed in one is checked in all."""
    named = {
        Purpose.SIGNING: site.environment.signing_alias,
        Purpose.MODELS: site.environment.model_signing_alias,
        Purpose.CHAIN: site.environment.chain_signing_alias,
    }
    return named.get(purpose, f"alias/{site.named(purpose.value)}")


class Keyring(Component):
    """The single-region keys of one site. `arns` is keyed by purpose."""

    def __init__(
        self,
        name: str,
        site: Site,
        purposes: tuple[Purpose, ...],
        drivers: tuple[str, ...] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Keyring", name, site, opts)
        self._drivers = drivers
        self.keys = {purpose: self._key(purpose) for purpose in purposes}
        self.arns = {purpose: key.arn for purpose, key in self.keys.items()}
        self.register_outputs({})

    def _key(self, purpose: Purpose) -> aws.kms.Key:
        multi_region, signs = purpose in MULTI_REGION, purpose in SIGNS
        key = aws.kms.Key(
            f"{purpose}-{self.site.region}",
            description=f"Penstock {self.site.environment.name}: {purpose}",
            key_usage="SIGN_VERIFY" if signs else None,
            customer_master_key_spec="ECC_NIST_P256" if signs else None,
            enable_key_rotation=None if signs else True,  # KMS rotates symmetric keys alone
            rotation_period_in_days=None if signs else ROTATION_DAYS,
            deletion_window_in_days=DELETION_DAYS,
            multi_region=multi_region,
            policy=key_policy(purpose, self.site, self._drivers),
            tags=self.site.tags(DataClass.RESTRICTED, purpose=purpose.value),
            opts=self.stateful(record=purpose is Purpose.AUDIT),
        )
        aws.kms.Alias(
            f"{purpose}-{self.site.region}",
            name=alias(purpose, self.site),
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
            opts=self.stateful(record=purpose is Purpose.AUDIT),
        )
        aws.kms.Alias(
            f"{purpose}-{self.site.region}",
            name=alias(purpose, self.site),
            target_key_id=replica.key_id,
            opts=self.child(),
        )
        return replica.arn
