"""One way to have a bucket: encrypted with a named key, versioned, private, TLS only. The key has no default."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document
from infra.components.site import Component, Site
from infra.config.kinds import DataClass, Purpose
from infra.config.model import Environment

ABORT_MULTIPART_DAYS = 7
SEGMENTS = "platform"
"""The folder of the audit bucket for the platform's own record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSpec:
    """What differs between buckets. `lock_days` makes it write-once; `grants` are added to the TLS denials.

    `key_arn` is `None` for one case alone: load balancers can't write to a bucket under a customer key.
    """

    part: str
    key_arn: pulumi.Input[str] | None
    data_class: DataClass
    noncurrent_days: int
    lock_days: int = 0
    expire_days: int = 0
    grants: tuple[Statement, ...] = ()


def bucket_name(site: Site, part: str) -> str:
    """A bucket's name, known before it exists, so that stacks need no cycle to refer to each other's."""
    environment = site.environment
    return f"{environment.organization}-{environment.name}-{environment.account_id}-{part}-{site.region}"


def payloads(environment: Environment, region: str) -> str:
    """The ARN of the bucket of sealed requests and results, the one in which objects are deleted."""
    return f"arn:aws:s3:::{bucket_name(Site(environment=environment, region=region), Purpose.PAYLOADS)}"


def audit(environment: Environment) -> str:
    """The name of the write-once bucket, of which there is one for all regions."""
    return bucket_name(Site(environment=environment, region=environment.primary), "audit")


def audit_segments(environment: Environment, region: str) -> str:
    """The ARN of a region's segments of the platform's audit chain."""
    return f"arn:aws:s3:::{audit(environment)}/{SEGMENTS}/{region}/*"


class Bucket(Component):
    """A bucket with every safety it needs. `id` waits for the whole set."""

    def __init__(self, name: str, site: Site, spec: BucketSpec, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Bucket", name, site, opts)
        self.spec = spec
        self.label = f"{spec.part}-{site.region}"
        self.name = bucket_name(site, spec.part)
        self.bucket = aws.s3.Bucket(
            self.label,
            bucket=self.name,
            object_lock_enabled=bool(spec.lock_days) or None,
            force_destroy=not (site.environment.keep or spec.lock_days),
            tags=site.tags(spec.data_class),
            opts=self.stateful(record=bool(spec.lock_days)),
        )
        self.arn = self.bucket.arn
        self._private()
        self._encrypted()
        versioning = self._versioned()
        self._aged(versioning)
        self.policy = self._tls_only()
        self.register_outputs({})

    def _private(self) -> None:
        aws.s3.BucketPublicAccessBlock(
            self.label,
            bucket=self.bucket.id,
            block_public_acls=True,
            block_public_policy=True,
            ignore_public_acls=True,
            restrict_public_buckets=True,
            opts=self.child(),
        )
        aws.s3.BucketOwnershipControls(
            self.label,
            bucket=self.bucket.id,
            rule=aws.s3.BucketOwnershipControlsRuleArgs(object_ownership="BucketOwnerEnforced"),
            opts=self.child(),
        )

    def _encrypted(self) -> None:
        by_default = aws.s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
            sse_algorithm="aws:kms" if self.spec.key_arn is not None else "AES256", kms_master_key_id=self.spec.key_arn
        )
        aws.s3.BucketServerSideEncryptionConfiguration(
            self.label,
            bucket=self.bucket.id,
            rules=[
                aws.s3.BucketServerSideEncryptionConfigurationRuleArgs(
                    apply_server_side_encryption_by_default=by_default,
                    bucket_key_enabled=self.spec.key_arn is not None or None,
                )
            ],
            opts=self.child(),
        )

    def _versioned(self) -> aws.s3.BucketVersioning:
        versioning = aws.s3.BucketVersioning(
            self.label,
            bucket=self.bucket.id,
            versioning_configuration=aws.s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
            opts=self.child(),
        )
        if self.spec.lock_days:
            retention = aws.s3.BucketObjectLockConfigurationRuleDefaultRetentionArgs(
                mode="COMPLIANCE", days=self.spec.lock_days
            )
            aws.s3.BucketObjectLockConfiguration(
                self.label,
                bucket=self.bucket.id,
                rule=aws.s3.BucketObjectLockConfigurationRuleArgs(default_retention=retention),
                opts=self.child(versioning),
            )
        return versioning

    def _aged(self, versioning: aws.s3.BucketVersioning) -> None:
        expiration = (
            aws.s3.BucketLifecycleConfigurationRuleExpirationArgs(days=self.spec.expire_days)
            if self.spec.expire_days
            else None
        )
        rule = aws.s3.BucketLifecycleConfigurationRuleArgs(
            id="age",
            status="Enabled",
            filter=aws.s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
            expiration=expiration,
            abort_incomplete_multipart_upload=aws.s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
                days_after_initiation=ABORT_MULTIPART_DAYS
            ),
            noncurrent_version_expiration=aws.s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
                noncurrent_days=self.spec.noncurrent_days
            ),
        )
        aws.s3.BucketLifecycleConfiguration(
            self.label, bucket=self.bucket.id, rules=[rule], opts=self.child(versioning)
        )

    def _tls_only(self) -> aws.s3.BucketPolicy:
        both = (self.bucket.arn, pulumi.Output.concat(self.bucket.arn, "/*"))
        deny_plain = Statement(
            sid="DenyPlainHttp",
            effect="Deny",
            actions=("s3:*",),
            resources=both,
            principals="*",
            conditions={"Bool": {"aws:SecureTransport": "false"}},
        )
        deny_old = Statement(
            sid="DenyOldTls",
            effect="Deny",
            actions=("s3:*",),
            resources=both,
            principals="*",
            conditions={"NumericLessThan": {"s3:TlsVersion": "1.2"}},
        )
        policy = document(deny_plain, deny_old, *self.spec.grants)
        return aws.s3.BucketPolicy(self.label, bucket=self.bucket.id, policy=policy, opts=self.child())
