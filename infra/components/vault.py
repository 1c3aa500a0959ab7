"""The region's secrets in Secrets Manager: names and keys are ours, values come from people or from secret config."""

import pulumi
import pulumi_aws as aws

from infra.components.site import Component, Site
from infra.config.kinds import DataClass

NAMES = ("database-url", "cache-url", "api-key-pepper", "webhook-signing", "grafana-admin")
RECOVERY_DAYS = 30


def secret_path(site: Site, name: str) -> str:
    """Where a secret lies; what the external-secrets objects in the cluster refer to."""
    return f"penstock/{site.environment.name}/{name}"


class Vault(Component):
    """One secret per name. Only the cache's URL is composed here; the others are written once by an operator."""

    def __init__(
        self,
        name: str,
        site: Site,
        *,
        key_arn: pulumi.Input[str],
        cache_url: pulumi.Output[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Vault", name, site, opts)
        for secret_name in NAMES:
            secret = aws.secretsmanager.Secret(
                secret_name,
                name=secret_path(site, secret_name),
                kms_key_id=key_arn,
                recovery_window_in_days=RECOVERY_DAYS,
                tags=site.tags(DataClass.RESTRICTED),
                opts=self.stateful(),
            )
            if secret_name == "cache-url":
                aws.secretsmanager.SecretVersion(
                    secret_name, secret_id=secret.id, secret_string=cache_url, opts=self.child()
                )
        self.register_outputs({})
