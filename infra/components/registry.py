"""Container repositories: immutable tags, scanned, encrypted, replicated to every region with the same rules."""

import json
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, role, trusts_plainly
from infra.components.site import Component, Site
from infra.config.kinds import DataClass

UNTAGGED_DAYS = 14


def lifecycle() -> str:
    """Untagged layers go after two weeks; tagged images stay, since a digest in config may name any of them."""
    selection = {
        "tagStatus": "untagged",
        "countType": "sinceImagePushed",
        "countUnit": "days",
        "countNumber": UNTAGGED_DAYS,
    }
    rule = {"rulePriority": 1, "description": "drop untagged", "selection": selection, "action": {"type": "expire"}}
    return json.dumps({"rules": [rule]})


class Registry(Component):
    """The originals in the primary region and their replication to the others."""

    def __init__(
        self,
        name: str,
        site: Site,
        repositories: tuple[str, ...],
        key_arns: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Registry", name, site, opts)
        for repository in repositories:
            self._repository(repository, key_arns[site.region])
        others = [region for region in key_arns if region != site.region]
        if others:
            self._replicated(others)
        self._scanned()
        self.register_outputs({})

    def _repository(self, repository: str, key_arn: pulumi.Input[str]) -> None:
        label = repository.replace("/", "-")
        made = aws.ecr.Repository(
            label,
            name=repository,
            image_tag_mutability="IMMUTABLE",
            image_scanning_configuration=aws.ecr.RepositoryImageScanningConfigurationArgs(scan_on_push=True),
            encryption_configurations=[
                aws.ecr.RepositoryEncryptionConfigurationArgs(encryption_type="KMS", kms_key=key_arn)
            ],
            force_delete=not self.site.environment.keep,
            tags=self.site.tags(),
            opts=self.stateful(),
        )
        aws.ecr.LifecyclePolicy(label, repository=made.name, policy=lifecycle(), opts=self.child())

    def _replicated(self, others: list[str]) -> None:
        account = self.site.environment.account_id
        rule = aws.ecr.ReplicationConfigurationReplicationConfigurationRuleArgs(
            destinations=[
                aws.ecr.ReplicationConfigurationReplicationConfigurationRuleDestinationArgs(
                    region=region, registry_id=account
                )
                for region in others
            ]
        )
        aws.ecr.ReplicationConfiguration(
            "everywhere",
            replication_configuration=aws.ecr.ReplicationConfigurationReplicationConfigurationArgs(rules=[rule]),
            opts=self.child(),
        )

    def _scanned(self) -> None:
        everything = aws.ecr.RegistryScanningConfigurationRuleRepositoryFilterArgs(filter="*", filter_type="WILDCARD")
        aws.ecr.RegistryScanningConfiguration(
            "continuous",
            scan_type="ENHANCED",
            rules=[
                aws.ecr.RegistryScanningConfigurationRuleArgs(
                    scan_frequency="CONTINUOUS_SCAN", repository_filters=[everything]
                )
            ],
            opts=self.child(),
        )


class RegistryTemplate(Component):
    """What a replica becomes in another region: without it ECR would create mutable, AES-encrypted repositories."""

    def __init__(
        self, name: str, site: Site, key_arn: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("RegistryTemplate", name, site, opts)
        aws.ecr.RepositoryCreationTemplate(
            f"replicas-{site.region}",
            prefix="ROOT",
            applied_fors=["REPLICATION"],
            description="Replicas keep the rules of their originals",
            image_tag_mutability="IMMUTABLE",
            encryption_configurations=[
                aws.ecr.RepositoryCreationTemplateEncryptionConfigurationArgs(encryption_type="KMS", kms_key=key_arn)
            ],
            lifecycle_policy=lifecycle(),
            resource_tags=site.tags(DataClass.INTERNAL),
            custom_role_arn=self._role(key_arn).arn,
            opts=self.child(),
        )
        self.register_outputs({})

    def _role(self, key_arn: pulumi.Input[str]) -> aws.iam.Role:
        """What ECR does as this role when an image arrives: make the repository, seal it, take the image in."""
        replicas = Statement(
            sid="CreateReplicas",
            actions=("ecr:CreateRepository", "ecr:ReplicateImage", "ecr:TagResource"),
            resources=(self.site.arn("ecr", "repository/*"),),
        )
        seal = Statement(
            sid="SealReplicas",
            actions=("kms:CreateGrant", "kms:RetireGrant", "kms:DescribeKey"),
            resources=(key_arn,),
        )
        return role(self, "registry-replicas", trusts_plainly("ecr.amazonaws.com"), policy=document(replicas, seal))
