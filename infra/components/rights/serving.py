"""The rights in AWS of Penstock's own processes: callers of the artifact store read versions, and no process does
more.

Databases and stores are entered with passwords, so a process that calls nothing else has no rights here at all.
"""

import pulumi

from infra.components.iam import Statement
from infra.components.rights.granted import Granted


def reads_artifacts(granted: Granted) -> tuple[Statement, ...]:
    """It lists versions, reads their files, and opens what S3 keeps sealed."""
    objects = pulumi.Output.concat(granted.artifact_bucket_arn, "/*")
    return (
        Statement(sid="ListArtifacts", actions=("s3:ListBucket",), resources=(granted.artifact_bucket_arn,)),
        Statement(sid="ReadArtifacts", actions=("s3:GetObject", "s3:GetObjectVersion"), resources=(objects,)),
        Statement(sid="OpenArtifacts", actions=("kms:Decrypt",), resources=(granted.artifact_key_arn,)),
    )
