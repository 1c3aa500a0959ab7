"""Who may do what in AWS from inside the cluster: one role per service account, through Pod Identity alone.

A row here is the whole story of a pod's rights; a service account without a row has none.
"""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, here, role
from infra.components.site import Component, Site

SERVING = "penstock"
AUTOSCALING = "autoscaling"
EDGE = "edge-system"
SECRETS = "external-secrets"
IMAGES = "image-policy"
STORAGE = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The things a pod's rights may name."""

    artifact_bucket_arn: pulumi.Input[str]
    artifact_key_arn: pulumi.Input[str]
    payload_key_arn: pulumi.Input[str]
    data_key_arn: pulumi.Input[str]
    nodes_key_arn: pulumi.Input[str]
    audit_bucket_arn: pulumi.Input[str]
    audit_key_arn: pulumi.Input[str]
    database_resource_id: pulumi.Input[str]
    interruption_queue_arn: pulumi.Input[str]
    target_group_arn: pulumi.Input[str]
    node_role_arn: pulumi.Input[str]
    messages_key_arn: pulumi.Input[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A service account and its statements."""

    namespace: str
    account: str
    statements: tuple[Statement, ...]


def identities(site: Site, reach: Reach) -> tuple[Identity, ...]:
    """Every pod identity of a region."""
    return (
        Identity(
            namespace=SERVING, account="gateway", statements=(_payloads(reach), _database(site, reach, "gateway"))
        ),
        Identity(namespace=SERVING, account="controller", statements=_controller(site, reach)),
        Identity(namespace=SERVING, account="worker", statements=_reads_artifacts(reach)),
        Identity(namespace=AUTOSCALING, account="karpenter", statements=_karpenter(site, reach)),
        Identity(namespace=AUTOSCALING, account="cluster-autoscaler", statements=_cluster_autoscaler(site)),
        Identity(namespace=EDGE, account="aws-load-balancer-controller", statements=_targets(site, reach)),
        Identity(namespace=SECRETS, account="external-secrets", statements=_secrets(site, reach)),
        Identity(namespace=IMAGES, account="policy-controller", statements=_signatures(site)),
        Identity(namespace=STORAGE, account="ebs-csi-controller-sa", statements=_volumes(site, reach)),
    )


def _reads_artifacts(reach: Reach) -> tuple[Statement, ...]:
    objects = pulumi.Output.concat(reach.artifact_bucket_arn, "/*")
    return (
        Statement(sid="ListArtifacts", actions=("s3:ListBucket",), resources=(reach.artifact_bucket_arn,)),
        Statement(sid="ReadArtifacts", actions=("s3:GetObject", "s3:GetObjectVersion"), resources=(objects,)),
        Statement(sid="OpenArtifacts", actions=("kms:Decrypt",), resources=(reach.artifact_key_arn,)),
    )


def _controller(site: Site, reach: Reach) -> tuple[Statement, ...]:
    objects = pulumi.Output.concat(reach.artifact_bucket_arn, "/*")
    records = pulumi.Output.concat(reach.audit_bucket_arn, f"/platform/{site.region}/*")
    return (
        *_reads_artifacts(reach),
        Statement(sid="WriteArtifacts", actions=("s3:PutObject", "s3:AbortMultipartUpload"), resources=(objects,)),
        Statement(sid="SealArtifacts", actions=("kms:GenerateDataKey",), resources=(reach.artifact_key_arn,)),
        Statement(sid="AppendAudit", actions=("s3:PutObject",), resources=(records,)),
        Statement(sid="SealAudit", actions=("kms:GenerateDataKey",), resources=(reach.audit_key_arn,)),
        _payloads(reach),
        _database(site, reach, "controller"),
    )


def _payloads(reach: Reach) -> Statement:
    actions = ("kms:GenerateDataKey", "kms:Decrypt")
    return Statement(sid="EnvelopePayloads", actions=actions, resources=(reach.payload_key_arn,))


def _database(site: Site, reach: Reach, user: str) -> Statement:
    resource = pulumi.Output.concat(site.arn("rds-db", "dbuser:"), reach.database_resource_id, f"/penstock_{user}")
    return Statement(sid="ConnectDatabase", actions=("rds-db:connect",), resources=(resource,))


def _owned(site: Site) -> dict[str, dict[str, object]]:
    return {"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{site.cluster_name}": "owned"}}


def _karpenter(site: Site, reach: Reach) -> tuple[Statement, ...]:
    ec2 = "instance volume network-interface launch-template fleet spot-instances-request".split()
    created = tuple(site.arn("ec2", f"{kind}/*") for kind in ec2)
    used = tuple(
        site.arn("ec2", f"{kind}/*") for kind in ("subnet", "security-group", "launch-template", "capacity-reservation")
    )
    image = f"arn:aws:ec2:{site.region}::image/*"
    asked = {"StringEquals": {f"aws:RequestTag/kubernetes.io/cluster/{site.cluster_name}": "owned"}}
    describe = (
        *(f"ec2:Describe{what}" for what in _KARPENTER_READS),
        "ssm:GetParameter",
    )
    return (
        Statement(sid="LaunchFrom", actions=("ec2:RunInstances", "ec2:CreateFleet"), resources=(*used, image)),
        Statement(
            sid="LaunchTagged",
            actions=("ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:CreateTags"),
            resources=created,
            conditions=asked,
        ),
        Statement(
            sid="EndOwned",
            actions=("ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"),
            resources=(site.arn("ec2", "instance/*"), site.arn("ec2", "launch-template/*")),
            conditions=_owned(site),
        ),
        Statement(
            sid="LookAround", actions=describe, everywhere="EC2 describes take no resource", conditions=here(site)
        ),
        Statement(
            sid="AskPrices",
            actions=("pricing:GetProducts",),
            everywhere="the price list has no resources and lives in one region",
            conditions={"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
        ),
        Statement(
            sid="GiveNodeRole",
            actions=("iam:PassRole",),
            resources=(reach.node_role_arn,),
            conditions={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
        Statement(
            sid="HearInterruptions",
            actions=("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueUrl"),
            resources=(reach.interruption_queue_arn,),
        ),
        Statement(sid="OpenMessages", actions=("kms:Decrypt",), resources=(reach.messages_key_arn,)),
        Statement(
            sid="ReadCluster",
            actions=("eks:DescribeCluster",),
            resources=(site.arn("eks", f"cluster/{site.cluster_name}"),),
        ),
    )


_KARPENTER_READS = (
    "AvailabilityZones",
    "CapacityReservations",
    "Images",
    "Instances",
    "InstanceStatus",
    "InstanceTypeOfferings",
    "InstanceTypes",
    "LaunchTemplates",
    "SecurityGroups",
    "SpotPriceHistory",
    "Subnets",
)


def _cluster_autoscaler(site: Site) -> tuple[Statement, ...]:
    groups = (site.arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/eks-*"),)
    reads = (
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeLaunchConfigurations",
        "autoscaling:DescribeScalingActivities",
        "autoscaling:DescribeTags",
        "autoscaling:DescribeWarmPool",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:GetInstanceTypesFromInstanceRequirements",
    )
    return (
        Statement(sid="LookAround", actions=reads, everywhere="describes take no resource", conditions=here(site)),
        Statement(
            sid="ResizeOwned",
            actions=("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"),
            resources=groups,
            conditions={"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{site.cluster_name}": "owned"}},
        ),
        Statement(
            sid="ReadNodeGroups",
            actions=("eks:DescribeNodegroup",),
            resources=(site.arn("eks", f"nodegroup/{site.cluster_name}/*/*"),),
        ),
    )


def _targets(site: Site, reach: Reach) -> tuple[Statement, ...]:
    reads = (
        "elasticloadbalancing:DescribeTargetGroups",
        "elasticloadbalancing:DescribeTargetHealth",
        "elasticloadbalancing:DescribeLoadBalancers",
        "ec2:DescribeAvailabilityZones",
        "ec2:DescribeVpcs",
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
    )
    writes = ("elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets")
    return (
        Statement(sid="LookAround", actions=reads, everywhere="describes take no resource", conditions=here(site)),
        Statement(sid="MoveTargets", actions=writes, resources=(reach.target_group_arn,)),
    )


def _secrets(site: Site, reach: Reach) -> tuple[Statement, ...]:
    ours = site.arn("secretsmanager", f"secret:penstock/{site.environment.name}/*")
    return (
        Statement(
            sid="ReadSecrets",
            actions=("secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"),
            resources=(ours,),
        ),
        Statement(sid="OpenSecrets", actions=("kms:Decrypt",), resources=(reach.data_key_arn,)),
    )


def _signatures(site: Site) -> tuple[Statement, ...]:
    repositories = (site.arn("ecr", "repository/penstock/*"),)
    return (
        Statement(
            sid="ReadSignatures",
            actions=("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:DescribeImages"),
            resources=repositories,
        ),
        Statement(
            sid="EnterRegistry",
            actions=("ecr:GetAuthorizationToken",),
            everywhere="the token is for the whole registry",
            conditions=here(site),
        ),
        Statement(
            sid="ReadSigningKey",
            actions=("kms:GetPublicKey", "kms:DescribeKey"),
            resources=(site.arn("kms", "key/*"),),
            conditions={"ForAnyValue:StringEquals": {"kms:ResourceAliases": list(site.environment.signers)}},
        ),
    )


def _volumes(site: Site, reach: Reach) -> tuple[Statement, ...]:
    volumes, instances = site.arn("ec2", "volume/*"), site.arn("ec2", "instance/*")
    tag = "ebs.csi.aws.com/cluster"
    asked = {"StringEquals": {f"aws:RequestTag/{tag}": "true"}}
    owned = {"StringEquals": {f"aws:ResourceTag/{tag}": "true"}}
    reads = ("AvailabilityZones", "Instances", "Volumes", "VolumesModifications", "Tags")
    return (
        Statement(
            sid="CreateTagged", actions=("ec2:CreateVolume", "ec2:CreateTags"), resources=(volumes,), conditions=asked
        ),
        Statement(
            sid="UseOwned",
            actions=("ec2:AttachVolume", "ec2:DetachVolume", "ec2:ModifyVolume", "ec2:DeleteVolume"),
            resources=(volumes,),
            conditions=owned,
        ),
        Statement(
            sid="AttachToNodes",
            actions=("ec2:AttachVolume", "ec2:DetachVolume"),
            resources=(instances,),
            conditions={"StringEquals": {f"aws:ResourceTag/kubernetes.io/cluster/{site.cluster_name}": "owned"}},
        ),
        Statement(
            sid="LookAround",
            actions=tuple(f"ec2:Describe{what}" for what in reads),
            everywhere="EC2 describes take no resource",
            conditions=here(site),
        ),
        Statement(
            sid="EncryptVolumes",
            actions=("kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext", "kms:DescribeKey"),
            resources=(reach.nodes_key_arn,),
        ),
        Statement(
            sid="GrantDisks",
            actions=("kms:CreateGrant",),
            resources=(reach.nodes_key_arn,),
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    )


class PodIdentities(Component):
    """A role and an association per identity, trusted by EKS for this cluster's account alone."""

    def __init__(
        self,
        name: str,
        site: Site,
        cluster_name: pulumi.Input[str],
        wanted: tuple[Identity, ...],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("PodIdentities", name, site, opts)
        for identity in wanted:
            made = role(self, f"pod-{identity.account}", self._trust(), policy=document(*identity.statements))
            aws.eks.PodIdentityAssociation(
                f"{identity.namespace}-{identity.account}",
                cluster_name=cluster_name,
                namespace=identity.namespace,
                service_account=identity.account,
                role_arn=made.arn,
                tags=site.tags(),
                opts=self.child(),
            )
        self.register_outputs({})

    def _trust(self) -> pulumi.Output[str]:
        cluster = self.site.arn("eks", f"cluster/{self.site.cluster_name}")
        return document(
            Statement(
                sid="PodsOfThisCluster",
                actions=("sts:AssumeRole", "sts:TagSession"),
                principals={"Service": "pods.eks.amazonaws.com"},
                conditions={
                    "StringEquals": {"aws:SourceAccount": self.site.environment.account_id},
                    "ArnEquals": {"aws:SourceArn": cluster},
                },
            )
        )
