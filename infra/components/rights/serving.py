"""What Penstock's own processes do in AWS: read versions, keep them, seal payloads, and their database."""

import pulumi

from infra.components.iam import Statement
from infra.components.rights.granted import Granted
from infra.components.site import Site


def gateway(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """It counts tokens with the version's own tokenizer, and seals what it keeps of callers."""
    return (*_reads_artifacts(granted), _payloads(granted), _database(site, granted, "gateway"))


def controller(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """It accepts versions into the store and writes the platform's own record."""
    objects = pulumi.Output.concat(granted.artifact_bucket_arn, "/*")
    records = pulumi.Output.concat(granted.audit_bucket_arn, f"/platform/{site.region}/*")
    return (
        *_reads_artifacts(granted),
        Statement(sid="WriteArtifacts", actions=("s3:PutObject", "s3:AbortMultipartUpload"), resources=(objects,)),
        Statement(sid="SealArtifacts", actions=("kms:GenerateDataKey",), resources=(granted.artifact_key_arn,)),
        Statement(sid="AppendAudit", actions=("s3:PutObject",), resources=(records,)),
        Statement(sid="SealAudit", actions=("kms:GenerateDataKey",), resources=(granted.audit_key_arn,)),
        _payloads(granted),
        _database(site, granted, "controller"),
    )


def worker(granted: Granted) -> tuple[Statement, ...]:
    """It reads versions and nothing else."""
    return _reads_artifacts(granted)


def _reads_artifacts(granted: Granted) -> tuple[Statement, ...]:
    objects = pulumi.Output.concat(granted.artifact_bucket_arn, "/*")
    return (
        Statement(sid="ListArtifacts", actions=("s3:ListBucket",), resources=(granted.artifact_bucket_arn,)),
        Statement(sid="ReadArtifacts", actions=("s3:GetObject", "s3:GetObjectVersion"), resources=(objects,)),
        Statement(sid="OpenArtifacts", actions=("kms:Decrypt",), resources=(granted.artifact_key_arn,)),
    )


def _payloads(granted: Granted) -> Statement:
    actions = ("kms:GenerateDataKey", "kms:Decrypt")
    return Statement(sid="EnvelopePayloads", actions=actions, resources=(granted.payload_key_arn,))


def _database(site: Site, granted: Granted, user: str) -> Statement:
    resource = pulumi.Output.concat(site.arn("rds-db", "dbuser:"), granted.database_resource_id, f"/penstock_{user}")
    return Statement(sid="ConnectDatabase", actions=("rds-db:connect",), resources=(resource,))
