"""The web firewall of a region's load balancer.

Prompts are text of any kind and length, so no rule that reads a body may block one: those only count. Callers with a
credential are bounded by their plans in the gateway, where one address may well be a whole company; the bound here is
for those without.
"""

import pulumi
import pulumi_aws as aws

from infra.components.site import Component, Site
from infra.config.kinds import DataClass

REQUESTS_PER_FIVE_MINUTES = 1000
MARK = "credentialed"
CREDENTIALS = ("authorization", "x-api-key")
GROUPS = {
    "AWSManagedRulesAmazonIpReputationList": (),
    "AWSManagedRulesKnownBadInputsRuleSet": ("JavaDeserializationRCE_BODY", "Log4JRCE_BODY", "ReactJSRCE_BODY"),
    "AWSManagedRulesCommonRuleSet": (
        "NoUserAgent_HEADER",
        "SizeRestrictions_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
        "CrossSiteScripting_BODY",
    ),
}
"""Managed groups, and the rules of theirs that only count: every one that reads a body, and the one against programs
that do not name themselves, as many a client of an interface does not.
https://docs.aws.amazon.com/waf/latest/developerguide/aws-managed-rule-groups-baseline.html
"""


class Waf(Component):
    """Firewall, its link to the load balancer, and its log without credentials."""

    def __init__(
        self,
        name: str,
        site: Site,
        *,
        balancer_arn: pulumi.Input[str],
        logs_key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Waf", name, site, opts)
        acl = aws.wafv2.WebAcl(
            site.region,
            name=site.named("alb"),
            scope="REGIONAL",
            default_action=aws.wafv2.WebAclDefaultActionArgs(allow=aws.wafv2.WebAclDefaultActionAllowArgs()),
            rules=[*self._managed(), _marked(), self._rate()],
            visibility_config=_visible("alb"),
            tags=site.tags(DataClass.PUBLIC),
            opts=self.child(),
        )
        aws.wafv2.WebAclAssociation(site.region, resource_arn=balancer_arn, web_acl_arn=acl.arn, opts=self.child())
        self._log(acl, logs_key_arn)
        self.register_outputs({})

    def _managed(self) -> list[aws.wafv2.WebAclRuleArgs]:
        return [self._group(priority, group, counted) for priority, (group, counted) in enumerate(GROUPS.items())]

    def _group(self, priority: int, group: str, counted: tuple[str, ...]) -> aws.wafv2.WebAclRuleArgs:
        count = aws.wafv2.WebAclRuleStatementManagedRuleGroupStatementRuleActionOverrideActionToUseArgs(
            count=aws.wafv2.WebAclRuleStatementManagedRuleGroupStatementRuleActionOverrideActionToUseCountArgs()
        )
        statement = aws.wafv2.WebAclRuleStatementManagedRuleGroupStatementArgs(
            vendor_name="AWS",
            name=group,
            rule_action_overrides=[
                aws.wafv2.WebAclRuleStatementManagedRuleGroupStatementRuleActionOverrideArgs(
                    name=rule, action_to_use=count
                )
                for rule in counted
            ],
        )
        return aws.wafv2.WebAclRuleArgs(
            name=group,
            priority=priority,
            override_action=aws.wafv2.WebAclRuleOverrideActionArgs(
                none=aws.wafv2.WebAclRuleOverrideActionNoneArgs(),  # type: ignore[no-untyped-call]
            ),
            statement=aws.wafv2.WebAclRuleStatementArgs(managed_rule_group_statement=statement),
            visibility_config=_visible_rule(group),
        )

    def _rate(self) -> aws.wafv2.WebAclRuleArgs:
        statement = aws.wafv2.WebAclRuleStatementRateBasedStatementArgs(
            limit=REQUESTS_PER_FIVE_MINUTES, aggregate_key_type="IP", scope_down_statement=_unmarked()
        )
        refusal = aws.wafv2.WebAclRuleActionBlockCustomResponseArgs(
            response_code=429,
            response_headers=[
                aws.wafv2.WebAclRuleActionBlockCustomResponseResponseHeaderArgs(name="retry-after", value="60")
            ],
        )
        return aws.wafv2.WebAclRuleArgs(
            name="flood",
            priority=len(GROUPS) + 1,
            action=aws.wafv2.WebAclRuleActionArgs(block=aws.wafv2.WebAclRuleActionBlockArgs(custom_response=refusal)),
            statement=aws.wafv2.WebAclRuleStatementArgs(rate_based_statement=statement),
            visibility_config=_visible_rule("flood"),
        )

    def _log(self, acl: aws.wafv2.WebAcl, logs_key_arn: pulumi.Input[str]) -> None:
        group = aws.cloudwatch.LogGroup(
            f"waf-{self.site.region}",
            name=f"aws-waf-logs-{self.site.named('alb')}",
            retention_in_days=self.site.environment.retention.log_days,
            kms_key_id=logs_key_arn,
            tags=self.site.tags(DataClass.CONFIDENTIAL),
            opts=self.child(),
        )
        redacted = [
            aws.wafv2.WebAclLoggingConfigurationRedactedFieldArgs(
                single_header=aws.wafv2.WebAclLoggingConfigurationRedactedFieldSingleHeaderArgs(name=header)
            )
            for header in CREDENTIALS
        ]
        aws.wafv2.WebAclLoggingConfiguration(
            self.site.region,
            resource_arn=acl.arn,
            log_destination_configs=[group.arn],
            redacted_fields=redacted,
            opts=self.child(),
        )


def _visible(metric: str) -> aws.wafv2.WebAclVisibilityConfigArgs:
    return aws.wafv2.WebAclVisibilityConfigArgs(
        cloudwatch_metrics_enabled=True, metric_name=metric, sampled_requests_enabled=False
    )


def _visible_rule(metric: str) -> aws.wafv2.WebAclRuleVisibilityConfigArgs:
    return aws.wafv2.WebAclRuleVisibilityConfigArgs(
        cloudwatch_metrics_enabled=True, metric_name=metric, sampled_requests_enabled=False
    )


def _marked() -> aws.wafv2.WebAclRuleArgs:
    """Marks requests that carry a credential, true or not: the gateway knows which, and bounds each by its plan."""
    return aws.wafv2.WebAclRuleArgs(
        name=MARK,
        priority=len(GROUPS),
        action=aws.wafv2.WebAclRuleActionArgs(count=aws.wafv2.WebAclRuleActionCountArgs()),
        rule_labels=[aws.wafv2.WebAclRuleRuleLabelArgs(name=MARK)],
        statement=aws.wafv2.WebAclRuleStatementArgs(
            or_statement=aws.wafv2.WebAclRuleStatementOrStatementArgs(
                statements=[_present(header) for header in CREDENTIALS]
            )
        ),
        visibility_config=_visible_rule(MARK),
    )


def _unmarked() -> aws.wafv2.WebAclRuleStatementRateBasedStatementScopeDownStatementArgs:
    scope = aws.wafv2.WebAclRuleStatementRateBasedStatementScopeDownStatementArgs
    label = aws.wafv2.WebAclRuleStatementRateBasedStatementScopeDownStatementLabelMatchStatementArgs(
        scope="LABEL", key=MARK
    )
    denied = aws.wafv2.WebAclRuleStatementRateBasedStatementScopeDownStatementNotStatementArgs(
        statement=scope(label_match_statement=label)
    )
    return scope(not_statement=denied)


def _present(header: str) -> aws.wafv2.WebAclRuleStatementArgs:
    """A header that is absent fits no size, so the statement is false for it."""
    named = aws.wafv2.WebAclRuleStatementSizeConstraintStatementFieldToMatchSingleHeaderArgs(name=header)
    plain = aws.wafv2.WebAclRuleStatementSizeConstraintStatementTextTransformationArgs(priority=0, type="NONE")
    return aws.wafv2.WebAclRuleStatementArgs(
        size_constraint_statement=aws.wafv2.WebAclRuleStatementSizeConstraintStatementArgs(
            comparison_operator="GE",
            size=1,
            field_to_match=aws.wafv2.WebAclRuleStatementSizeConstraintStatementFieldToMatchArgs(single_header=named),
            text_transformations=[plain],
        )
    )
