"""What Penstock's own processes do in AWS: read versions, keep them, seal payloads, reach their database."""

import pulumi

from infra.components.iam import Statement
from infra.components.rights.reach import Reach
from infra.components.site import Site


def gateway(site: Site, reach: Reach) -> tuple[Statement, ...]:
    """It counts tokens with the version's own tokenizer, and seals what it keeps of callers."""
    return (*_reads_artifacts(reach), _payloads(reach), _database(site, reach, "gateway"))


def controller(site: Site, reach: Reach) -> tuple[Statement, ...]:
    """It accepts versions into the store and writes the platform's own record."""
    objects = pulumi.Output.concat(reach.artifact_bucket_arn, "/*")
    records = pulumi.Output.concat(reach.audit_bucket_arn, f"/platform/{site.region}/*")
    return (
        *_reads_artifacts(reach),
        Statement(sid="WriteArtifacts", actions=("s3:PutObject", "s3:AbortMultipartUpload"), resources=(objects,)),
        Statement(sid="SealArtifacts", actions=("kms:GenerateDataKey",), resources=(reach.artifact_key_arn,)),
        Statement(sid="AppendAudit", actions=("s3:PutObject",), resources=(records,)),
        Statement(sid="SealAudit", actions=("kms:GenerateDataKey",), resources=(reach.audit_key_arn,)),
        _payloads(reach),
        _database(site, reach, "controller"),
    )


def worker(reach: Reach) -> tuple[Statement, ...]:
    """It reads versions and nothing else."""
    return _reads_artifacts(reach)


def _reads_artifacts(reach: Reach) -> tuple[Statement, ...]:
    objects = pulumi.Output.concat(reach.artifact_bucket_arn, "/*")
    return (
        Statement(sid="ListArtifacts", actions=("s3:ListBucket",), resources=(reach.artifact_bucket_arn,)),
        Statement(sid="ReadArtifacts", actions=("s3:GetObject", "s3:GetObjectVersion"), resources=(objects,)),
        Statement(sid="OpenArtifacts", actions=("kms:Decrypt",), resources=(reach.artifact_key_arn,)),
    )


def _payloads(reach: Reach) -> Statement:
    actions = ("kms:GenerateDataKey", "kms:Decrypt")
    return Statement(sid="EnvelopePayloads", actions=actions, resources=(reach.payload_key_arn,))


def _database(site: Site, reach: Reach, user: str) -> Statement:
    resource = pulumi.Output.concat(site.arn("rds-db", "dbuser:"), reach.database_resource_id, f"/penstock_{user}")
    return Statement(sid="ConnectDatabase", actions=("rds-db:connect",), resources=(resource,))
