"""The things that a pod's rights may name."""

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """ARNs of what a region has, and of what it uses of the account's."""

    artifact_bucket_arn: pulumi.Input[str]
    artifact_key_arn: pulumi.Input[str]
    payload_bucket_arn: pulumi.Input[str]
    payload_key_arn: pulumi.Input[str]
    sealing_key_arn: pulumi.Input[str]
    model_signing_key_arn: pulumi.Input[str]
    audit_segments_arn: str
    audit_key_arn: pulumi.Input[str]
    chain_key_arn: pulumi.Input[str]
    data_key_arn: pulumi.Input[str]
    nodes_key_arn: pulumi.Input[str]
    interruption_queue_arn: pulumi.Input[str]
    target_group_arn: pulumi.Input[str]
    node_role_arn: pulumi.Input[str]
    messages_key_arn: pulumi.Input[str]
    alarm_topic_arn: pulumi.Input[str]
    watchdog_topic_arn: pulumi.Input[str]
