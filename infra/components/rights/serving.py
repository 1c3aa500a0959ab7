"""The rights in AWS of Penstock's own processes: callers of the artifact store read versions, callers of the payload
store keep sealed requests and results there, callers of KMS wrap tenants' keys, the controller ships the audit chain.

Databases and stores are entered with passwords, so a process that calls nothing else has no rights here at all.
"""

import pulumi

from infra.components.iam import Statement
from infra.components.rights.granted import Granted
from infra.components.site import Site


def reads_artifacts(granted: Granted) -> tuple[Statement, ...]:
    """It lists versions, reads their files, and opens what S3 keeps sealed."""
    objects = pulumi.Output.concat(granted.artifact_bucket_arn, "/*")
    return (
        Statement(sid="ListArtifacts", actions=("s3:ListBucket",), resources=(granted.artifact_bucket_arn,)),
        Statement(sid="ReadArtifacts", actions=("s3:GetObject", "s3:GetObjectVersion"), resources=(objects,)),
        Statement(sid="OpenArtifacts", actions=("kms:Decrypt",), resources=(granted.artifact_key_arn,)),
    )


def keeps_payloads(granted: Granted) -> tuple[Statement, ...]:
    """It writes, reads, lists and deletes sealed payloads."""
    objects = pulumi.Output.concat(granted.payload_bucket_arn, "/*")
    acts = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
    return (
        Statement(sid="ListPayloads", actions=("s3:ListBucket",), resources=(granted.payload_bucket_arn,)),
        Statement(sid="KeepPayloads", actions=acts, resources=(objects,)),
        Statement(
            sid="SealPayloads", actions=("kms:GenerateDataKey", "kms:Decrypt"), resources=(granted.payload_key_arn,)
        ),
    )


def wraps_keys(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """It wraps tenants' keys and opens them: each for a tenant and a purpose that it tells, and of its region alone."""
    told = {"kms:EncryptionContext:region": site.region, "kms:EncryptionContext:purpose": ["content", "webhooks"]}
    named = {"Null": {"kms:EncryptionContext:tenant": "false"}}
    key = (granted.sealing_key_arn,)
    return (
        Statement(
            sid="WrapTenantKeys",
            actions=("kms:Encrypt", "kms:Decrypt"),
            resources=key,
            conditions={"StringEquals": told, **named},
        ),
        Statement(sid="NameSealingKey", actions=("kms:DescribeKey",), resources=key),
    )


def ships_audit(granted: Granted) -> tuple[Statement, ...]:
    """It puts signed segments under its region's folder of the audit bucket, locked, and reads and deletes nothing."""
    return (
        Statement(
            sid="LockSegments",
            actions=("s3:PutObject", "s3:PutObjectRetention"),
            resources=(granted.audit_segments_arn,),
            conditions={"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}},
        ),
        Statement(sid="SealSegments", actions=("kms:GenerateDataKey",), resources=(granted.audit_key_arn,)),
        Statement(sid="SignHeads", actions=("kms:Sign", "kms:GetPublicKey"), resources=(granted.chain_key_arn,)),
    )
