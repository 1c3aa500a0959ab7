"""Artifacts flow both ways: what one region's registry accepts, every region can load within fifteen minutes."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, role, trusts
from infra.components.site import Component, Site

DEADLINE_MINUTES = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One region's artifact bucket."""

    region: str
    bucket: pulumi.Input[str]
    bucket_arn: pulumi.Input[str]
    key_arn: pulumi.Input[str]


class Replication(Component):
    """From one bucket to every other. Deletions are not replicated: a bad delete stays in one region."""

    def __init__(
        self, name: str, site: Site, source: Side, targets: tuple[Side, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Replication", name, site, opts)
        carrier = role(
            self, "replication", trusts("s3.amazonaws.com", site), policy=document(*_rights(source, targets))
        )
        aws.s3.BucketReplicationConfig(
            f"artifacts-{site.region}",
            bucket=source.bucket,
            role=carrier.arn,
            rules=[self._rule(priority, target) for priority, target in enumerate(targets)],
            opts=self.child(),
        )
        self.register_outputs({})

    def _rule(self, priority: int, target: Side) -> aws.s3.BucketReplicationConfigRuleArgs:
        encrypted = aws.s3.BucketReplicationConfigRuleSourceSelectionCriteriaSseKmsEncryptedObjectsArgs(
            status="Enabled"
        )
        return aws.s3.BucketReplicationConfigRuleArgs(
            id=f"to-{target.region}",
            priority=priority,
            status="Enabled",
            filter=aws.s3.BucketReplicationConfigRuleFilterArgs(prefix=""),
            delete_marker_replication=aws.s3.BucketReplicationConfigRuleDeleteMarkerReplicationArgs(status="Disabled"),
            source_selection_criteria=aws.s3.BucketReplicationConfigRuleSourceSelectionCriteriaArgs(
                sse_kms_encrypted_objects=encrypted
            ),
            destination=_destination(target),
        )


def _destination(target: Side) -> aws.s3.BucketReplicationConfigRuleDestinationArgs:
    in_time = aws.s3.BucketReplicationConfigRuleDestinationReplicationTimeTimeArgs(minutes=DEADLINE_MINUTES)
    threshold = aws.s3.BucketReplicationConfigRuleDestinationMetricsEventThresholdArgs(minutes=DEADLINE_MINUTES)
    return aws.s3.BucketReplicationConfigRuleDestinationArgs(
        bucket=target.bucket_arn,
        encryption_configuration=aws.s3.BucketReplicationConfigRuleDestinationEncryptionConfigurationArgs(
            replica_kms_key_id=target.key_arn
        ),
        replication_time=aws.s3.BucketReplicationConfigRuleDestinationReplicationTimeArgs(
            status="Enabled", time=in_time
        ),
        metrics=aws.s3.BucketReplicationConfigRuleDestinationMetricsArgs(status="Enabled", event_threshold=threshold),
    )


def _rights(source: Side, targets: tuple[Side, ...]) -> tuple[Statement, ...]:
    read = ("s3:GetObjectVersionForReplication", "s3:GetObjectVersionAcl", "s3:GetObjectVersionTagging")
    return (
        Statement(
            sid="ReadSource",
            actions=("s3:GetReplicationConfiguration", "s3:ListBucket"),
            resources=(source.bucket_arn,),
        ),
        Statement(sid="ReadVersions", actions=read, resources=(pulumi.Output.concat(source.bucket_arn, "/*"),)),
        Statement(
            sid="WriteReplicas",
            actions=("s3:ReplicateObject", "s3:ReplicateTags"),
            resources=tuple(pulumi.Output.concat(target.bucket_arn, "/*") for target in targets),
        ),
        Statement(
            sid="OpenSource",
            actions=("kms:Decrypt",),
            resources=(source.key_arn,),
            conditions=_through_s3(source.region),
        ),
        *(
            Statement(
                sid=f"SealReplica{index}",
                actions=("kms:Encrypt", "kms:GenerateDataKey"),
                resources=(target.key_arn,),
                conditions=_through_s3(target.region),
            )
            for index, target in enumerate(targets)
        ),
    )


def _through_s3(region: str) -> dict[str, dict[str, object]]:
    return {"StringEquals": {"kms:ViaService": f"s3.{region}.amazonaws.com"}}
