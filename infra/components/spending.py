"""Money is a signal too: a budget with warnings before the ceiling, and a watch for days unlike the others."""

import json

import pulumi
import pulumi_aws as aws

from infra.components.site import Component, Site
from infra.config.model import Environment

WARNINGS_PERCENT = (50, 80, 95)
ODD_DAY_USD = "500"


def monthly_ceiling(environment: Environment) -> int:
    """The sum of all stacks' budgets over all regions."""
    budgets = environment.budgets
    per_region = budgets.region_usd + budgets.platform_usd + budgets.serving_usd
    return budgets.global_usd + budgets.mesh_usd + per_region * len(environment.regions)


class Spending(Component):
    """Budget and anomaly watch of one environment, by its tag."""

    def __init__(
        self, name: str, site: Site, topic_arn: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("Spending", name, site, opts)
        environment = site.environment
        aws.budgets.Budget(
            "monthly",
            name=f"{environment.organization}-{environment.name}-monthly",
            budget_type="COST",
            time_unit="MONTHLY",
            limit_amount=str(monthly_ceiling(environment)),
            limit_unit="USD",
            cost_filters=[
                aws.budgets.BudgetCostFilterArgs(name="TagKeyValue", values=[f"user:environment${environment.name}"])
            ],
            notifications=[self._warning(percent, topic_arn) for percent in WARNINGS_PERCENT],
            tags=site.tags(),
            opts=self.child(),
        )
        if environment.anomaly_watch:
            self._anomalies(topic_arn)
        self.register_outputs({})

    def _warning(self, percent: int, topic_arn: pulumi.Input[str]) -> aws.budgets.BudgetNotificationArgs:
        return aws.budgets.BudgetNotificationArgs(
            comparison_operator="GREATER_THAN",
            notification_type="FORECASTED" if percent == WARNINGS_PERCENT[-1] else "ACTUAL",
            threshold=percent,
            threshold_type="PERCENTAGE",
            subscriber_email_addresses=[self.site.environment.alert_email],
            subscriber_sns_topic_arns=[topic_arn],
        )

    def _anomalies(self, topic_arn: pulumi.Input[str]) -> None:
        environment = self.site.environment
        only_ours = {"Tags": {"Key": "environment", "Values": [environment.name], "MatchOptions": ["EQUALS"]}}
        monitor = aws.costexplorer.AnomalyMonitor(
            "odd-days",
            name=f"{environment.organization}-{environment.name}-odd-days",
            monitor_type="CUSTOM",
            monitor_specification=json.dumps(only_ours),
            tags=self.site.tags(),
            opts=self.child(),
        )
        size = aws.costexplorer.AnomalySubscriptionThresholdExpressionDimensionArgs(
            key="ANOMALY_TOTAL_IMPACT_ABSOLUTE", match_options=["GREATER_THAN_OR_EQUAL"], values=[ODD_DAY_USD]
        )
        aws.costexplorer.AnomalySubscription(
            "odd-days",
            name=f"{environment.organization}-{environment.name}-odd-days",
            frequency="IMMEDIATE",
            monitor_arn_lists=[monitor.arn],
            subscribers=[aws.costexplorer.AnomalySubscriptionSubscriberArgs(type="SNS", address=topic_arn)],
            threshold_expression=aws.costexplorer.AnomalySubscriptionThresholdExpressionArgs(dimension=size),
            tags=self.site.tags(),
            opts=self.child(),
        )
