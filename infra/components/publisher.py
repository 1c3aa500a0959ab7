"""The release pipeline fills the registry: known by its OpenID Connect token, it pushes and signs; no person does."""

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, role
from infra.components.site import Component, Site
from infra.config.model import Publisher

AUDIENCE = "sts.amazonaws.com"
PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
"""What `docker push`, `crane copy` and `helm push` call. Nothing is ever deleted: tags are immutable."""


class ReleasePipeline(Component):
    """The issuer as an identity provider of the account, and the role of its subjects."""

    def __init__(
        self,
        name: str,
        site: Site,
        publisher: Publisher,
        signing_key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ReleasePipeline", name, site, opts)
        provider = aws.iam.OpenIdConnectProvider(
            "release",
            url=f"https://{publisher.issuer}",
            client_id_lists=[AUDIENCE],
            tags=site.tags(),
            opts=self.child(),
        )
        rights = document(*_rights(site, signing_key_arn))
        self.role = role(self, "publisher", _trust(provider, publisher), policy=rights)
        self.register_outputs({})


def _trust(provider: aws.iam.OpenIdConnectProvider, publisher: Publisher) -> pulumi.Output[str]:
    claims = {f"{publisher.issuer}:aud": AUDIENCE, f"{publisher.issuer}:sub": list(publisher.subjects)}
    return document(
        Statement(
            sid="PipelineOfThisSubject",
            actions=("sts:AssumeRoleWithWebIdentity",),
            principals={"Federated": provider.arn},
            conditions={"StringEquals": claims},
        )
    )


def _rights(site: Site, signing_key_arn: pulumi.Input[str]) -> tuple[Statement, ...]:
    repositories = tuple(site.arn("ecr", f"repository/{folder}/*") for folder in ("penstock", "charts", "mirror"))
    in_region: dict[str, dict[str, object]] = {"StringEquals": {"aws:RequestedRegion": site.region}}
    return (
        Statement(sid="Push", actions=PUSH, resources=repositories),
        Statement(
            sid="EnterRegistry",
            actions=("ecr:GetAuthorizationToken",),
            everywhere="the token is for the whole registry",
            conditions=in_region,
        ),
        Statement(
            sid="SignImages",
            actions=("kms:Sign", "kms:GetPublicKey", "kms:DescribeKey"),
            resources=(signing_key_arn,),
        ),
    )
