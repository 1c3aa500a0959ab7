"""The region's secrets in Secrets Manager: names and keys are ours, values come from people or from secret config."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.components.site import Component, Site
from infra.config.kinds import DataClass

WRITTEN = (
    "database-url",
    "database-password",
    "gateway-database-password",
    "controller-database-password",
    "runner-database-password",
    "database-ca",
    "grafana-admin",
    "platform-key",
    "api-key-pepper",
    "signing-public-key",
)
"""What an operator writes once; `infra/README.md` says in which form."""

COMPOSED = ("limits-url", "limits-password", "answers-url", "answers-password")
RECOVERY_DAYS = 30


def secret_path(site: Site, name: str) -> str:
    """Where a secret lies; what the external-secrets objects in the cluster refer to."""
    return f"penstock/{site.environment.name}/{name}"


class SecretsManager(Component):
    """One secret per name; `composed` gives those that are known here."""

    def __init__(
        self,
        name: str,
        site: Site,
        *,
        key_arn: pulumi.Input[str],
        composed: Mapping[str, pulumi.Output[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("SecretsManager", name, site, opts)
        for secret_name in (*WRITTEN, *COMPOSED):
            secret = aws.secretsmanager.Secret(
                secret_name,
                name=secret_path(site, secret_name),
                kms_key_id=key_arn,
                recovery_window_in_days=RECOVERY_DAYS if site.environment.keep else 0,
                tags=site.tags(DataClass.RESTRICTED),
                opts=self.stateful(),
            )
            if secret_name in COMPOSED:
                value = composed[secret_name]
                aws.secretsmanager.SecretVersion(
                    secret_name, secret_id=secret.id, secret_string=value, opts=self.child()
                )
        self.register_outputs({})
