"""Those who publish: the release pipeline fills the registry, and a role of each region puts models into its store.

The pipeline is known by its OpenID Connect token. Models may also be pushed by the environment's administrators.
"""

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, role
from infra.components.rights.granted import Granted
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
    """The issuer as an identity provider of the account, if it is not there already, and the role of its subjects."""

    def __init__(
        self,
        name: str,
        site: Site,
        publisher: Publisher,
        signing_key_arn: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ReleasePipeline", name, site, opts)
        provider: pulumi.Input[str] = _provider_arn(site, publisher)
        if publisher.issuer not in site.environment.account_has:
            provider = aws.iam.OpenIdConnectProvider(
                "release",
                url=f"https://{publisher.issuer}",
                client_id_lists=[AUDIENCE],
                tags=site.tags(),
                opts=self.child(),
            ).arn
        rights = document(*_rights(site, signing_key_arn))
        self.role = role(self, "publisher", document(_pipeline(provider, publisher)), policy=rights)
        self.register_outputs({})


class ModelPublisher(Component):
    """The role that signs versions and puts them into a region's artifact store, and can do nothing else there."""

    def __init__(self, name: str, site: Site, granted: Granted, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ModelPublisher", name, site, opts)
        environment, publisher = site.environment, site.environment.publisher
        people = Statement(
            sid="Administrators",
            actions=("sts:AssumeRole",),
            principals={"AWS": list(environment.administrators)},
        )
        pipeline = [_pipeline(_provider_arn(site, publisher), publisher)] if publisher else []
        self.role = role(self, "model-publisher", document(people, *pipeline), policy=document(*_puts(granted)))
        self.register_outputs({})


def _provider_arn(site: Site, publisher: Publisher) -> str:
    return site.global_arn("iam", f"oidc-provider/{publisher.issuer}")


def _pipeline(provider: pulumi.Input[str], publisher: Publisher) -> Statement:
    claims = {f"{publisher.issuer}:aud": AUDIENCE, f"{publisher.issuer}:sub": list(publisher.subjects)}
    return Statement(
        sid="PipelineOfThisSubject",
        actions=("sts:AssumeRoleWithWebIdentity",),
        principals={"Federated": provider},
        conditions={"StringEquals": claims},
    )


def _puts(granted: Granted) -> tuple[Statement, ...]:
    """A push asks what is there (S3 says that an object is missing only to those who may list), and never deletes."""
    objects = pulumi.Output.concat(granted.artifact_bucket_arn, "/models/*")
    return (
        Statement(sid="ListModels", actions=("s3:ListBucket",), resources=(granted.artifact_bucket_arn,)),
        Statement(
            sid="PutModels",
            actions=("s3:GetObject", "s3:PutObject", "s3:AbortMultipartUpload"),
            resources=(objects,),
        ),
        Statement(
            sid="SealModels",
            actions=("kms:GenerateDataKey", "kms:Decrypt"),
            resources=(granted.artifact_key_arn,),
        ),
        Statement(
            sid="SignModels",
            actions=("kms:Sign", "kms:GetPublicKey"),
            resources=(granted.model_signing_key_arn,),
        ),
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
