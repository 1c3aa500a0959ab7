"""The write-once record: a bucket that can't be shortened, and a trail of every call in every region."""

import pulumi
import pulumi_aws as aws

from infra.components.bucket import Bucket, BucketSpec, bucket_name
from infra.components.iam import Statement
from infra.components.site import Component, Site
from infra.config.kinds import DataClass


class Audit(Component):
    """The audit bucket under Object Lock in compliance mode, and the trail that fills it."""

    def __init__(
        self, name: str, site: Site, key_arn: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Audit", name, site, opts)
        days = site.environment.retention.audit_days
        self.trail_name = site.named("audit")
        spec = BucketSpec(
            part="audit",
            key_arn=key_arn,
            data_class=DataClass.RESTRICTED,
            noncurrent_days=days,
            lock_days=days,
            grants=self._trail_grants(),
        )
        self.store = Bucket("audit", site, spec, opts=self.child())
        self._trail(key_arn)
        self.register_outputs({})

    def _trail_grants(self) -> tuple[Statement, ...]:
        bucket = f"arn:aws:s3:::{bucket_name(self.site, 'audit')}"
        source = {"aws:SourceArn": self.site.arn("cloudtrail", f"trail/{self.trail_name}")}
        principal = {"Service": "cloudtrail.amazonaws.com"}
        return (
            Statement(
                sid="TrailReadsAcl",
                actions=("s3:GetBucketAcl",),
                resources=(bucket,),
                principals=principal,
                conditions={"StringEquals": source},
            ),
            Statement(
                sid="TrailWrites",
                actions=("s3:PutObject",),
                resources=(f"{bucket}/cloudtrail/AWSLogs/{self.site.environment.account_id}/*",),
                principals=principal,
                conditions={"StringEquals": source},
            ),
        )

    def _trail(self, key_arn: pulumi.Input[str]) -> None:
        management = aws.cloudtrail.TrailAdvancedEventSelectorFieldSelectorArgs(
            field="eventCategory", equals=["Management"]
        )
        data = aws.cloudtrail.TrailAdvancedEventSelectorFieldSelectorArgs(field="eventCategory", equals=["Data"])
        objects = aws.cloudtrail.TrailAdvancedEventSelectorFieldSelectorArgs(
            field="resources.type", equals=["AWS::S3::Object"]
        )
        writes = aws.cloudtrail.TrailAdvancedEventSelectorFieldSelectorArgs(field="readOnly", equals=["false"])
        elsewhere = aws.cloudtrail.TrailAdvancedEventSelectorFieldSelectorArgs(
            field="resources.ARN", not_starts_withs=[f"arn:aws:s3:::{self.store.name}/"]
        )  # the trail's own deliveries would each be an event to deliver
        aws.cloudtrail.Trail(
            "audit",
            name=self.trail_name,
            s3_bucket_name=self.store.bucket.id,
            s3_key_prefix="cloudtrail",
            kms_key_id=key_arn,
            is_multi_region_trail=True,
            include_global_service_events=True,
            enable_log_file_validation=True,
            advanced_event_selectors=[
                aws.cloudtrail.TrailAdvancedEventSelectorArgs(name="management", field_selectors=[management]),
                aws.cloudtrail.TrailAdvancedEventSelectorArgs(
                    name="object writes", field_selectors=[data, objects, writes, elsewhere]
                ),
            ],
            tags=self.site.tags(DataClass.RESTRICTED),
            opts=self.guarded(self.store.policy),
        )
