"""Where alarms go: one encrypted topic in a region, heard by the people on call."""

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document
from infra.components.site import Component, Site


class AlarmTopic(Component):
    """The topic, its allowed publishers, and its reader."""

    def __init__(
        self, name: str, site: Site, key_arn: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("AlarmTopic", name, site, opts)
        self.topic = topic = aws.sns.Topic(
            "alarms",
            name=self.site.named("alarms"),
            kms_master_key_id=key_arn,
            tags=self.site.tags(),
            opts=self.child(),
        )
        services = [f"{name}.amazonaws.com" for name in ("cloudwatch", "budgets", "costalerts")]
        publish = Statement(
            sid="AwsPublishes",
            actions=("sns:Publish",),
            resources=(topic.arn,),
            principals={"Service": services},
            conditions={"StringEquals": {"aws:SourceAccount": self.site.environment.account_id}},
        )
        # EventBridge sends no source that a condition could see, and refuses to deliver where one is asked for:
        # https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html
        events = Statement(
            sid="EventsPublish",
            actions=("sns:Publish",),
            resources=(topic.arn,),
            principals={"Service": "events.amazonaws.com"},
        )
        aws.sns.TopicPolicy("alarms", arn=topic.arn, policy=document(publish, events), opts=self.child())
        aws.sns.TopicSubscription(
            "oncall", topic=topic.arn, protocol="email", endpoint=self.site.environment.alert_email, opts=self.child()
        )
        self.register_outputs({})
