"""What the two scalers do in AWS: Karpenter makes machines, Cluster Autoscaler resizes groups."""

from infra.components.iam import Statement, here
from infra.components.rights.granted import Granted
from infra.components.site import Site

NODE_POOL = "karpenter.sh/nodepool"


def karpenter(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """It launches machines under its tags, ends those alone, and hears of interruptions."""
    return (*_launch(site), *_tag_and_end(site), *_boot(site, granted), *_look(site, granted))


def _launch(site: Site) -> tuple[Statement, ...]:
    used = ("subnet", "security-group", "launch-template", "capacity-reservation", "spot-instances-request")
    public = tuple(f"arn:aws:ec2:{site.region}::{kind}/*" for kind in ("image", "snapshot"))
    created = ("fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request")
    launch = ("ec2:RunInstances", "ec2:CreateFleet")
    return (
        Statement(
            sid="LaunchFrom",
            actions=launch,
            resources=(*public, *(site.arn("ec2", f"{kind}/*") for kind in used)),
        ),
        Statement(
            sid="LaunchTagged",
            actions=(*launch, "ec2:CreateLaunchTemplate", "ec2:CreateTags"),
            resources=tuple(site.arn("ec2", f"{kind}/*") for kind in created),
            conditions={
                "StringEquals": {f"aws:RequestTag/kubernetes.io/cluster/{site.cluster_name}": "owned"},
                "StringLike": {f"aws:RequestTag/{NODE_POOL}": "*"},
            },
        ),
    )


def _tag_and_end(site: Site) -> tuple[Statement, ...]:
    owned = {f"aws:ResourceTag/kubernetes.io/cluster/{site.cluster_name}": "owned"}
    pooled = {f"aws:ResourceTag/{NODE_POOL}": "*"}
    instances = site.arn("ec2", "instance/*")
    return (
        Statement(
            sid="NameLaunched",  # the claim is known only once the machine stands
            actions=("ec2:CreateTags",),
            resources=(instances,),
            conditions={
                "StringEquals": owned,
                "StringLike": pooled,
                "ForAllValues:StringEquals": {
                    "aws:TagKeys": ["eks:eks-cluster-name", "karpenter.sh/nodeclaim", "Name"]
                },
            },
        ),
        Statement(
            sid="EndOwned",
            actions=("ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"),
            resources=(instances, site.arn("ec2", "launch-template/*")),
            conditions={"StringEquals": owned, "StringLike": pooled},
        ),
    )


def _boot(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """Encrypted disks: EC2 asks for the key in Karpenter's name, and attaches it by a grant."""
    through = {"kms:ViaService": f"ec2.{site.region}.amazonaws.com"}
    use = ("Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo")
    return (
        Statement(
            sid="OpenDisks",
            actions=tuple(f"kms:{action}" for action in use),
            resources=(granted.nodes_key_arn,),
            conditions={"StringEquals": through},
        ),
        Statement(
            sid="GrantDisks",
            actions=("kms:CreateGrant",),
            resources=(granted.nodes_key_arn,),
            conditions={"StringEquals": through, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
        Statement(
            sid="GiveNodeRole",
            actions=("iam:PassRole",),
            resources=(granted.node_role_arn,),
            conditions={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
    )


def _look(site: Site, granted: Granted) -> tuple[Statement, ...]:
    return (
        Statement(
            sid="HearZonalShift",
            actions=("arc-zonal-shift:GetManagedResource",),
            everywhere="the resource is named by a condition of the service's own",
            conditions={
                "StringEquals": {"arc-zonal-shift:ResourceIdentifier": site.arn("eks", f"cluster/{site.cluster_name}")}
            },
        ),
        Statement(
            sid="LookAround",
            actions=tuple(f"ec2:Describe{what}" for what in _READS),
            everywhere="EC2 describes take no resource",
            conditions=here(site),
        ),
        Statement(
            sid="FindImages",
            actions=("ssm:GetParameter",),
            resources=(f"arn:aws:ssm:{site.region}::parameter/aws/service/*",),
        ),
        Statement(
            sid="ReadProfiles",
            actions=("iam:GetInstanceProfile",),
            resources=(site.global_arn("iam", "instance-profile/*"),),
        ),
        Statement(
            sid="ListProfiles",
            actions=("iam:ListInstanceProfiles",),
            everywhere="a list takes no resource, and IAM has no region",
            conditions={"StringEquals": {"aws:PrincipalAccount": site.environment.account_id}},
        ),
        Statement(
            sid="AskPrices",
            actions=("pricing:GetProducts",),
            everywhere="the price list has no resources and lives in one region",
            conditions={"StringEquals": {"aws:RequestedRegion": "us-east-1"}},
        ),
        Statement(
            sid="HearInterruptions",
            actions=("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:GetQueueAttributes"),
            resources=(granted.interruption_queue_arn,),
        ),
        Statement(sid="OpenMessages", actions=("kms:Decrypt",), resources=(granted.messages_key_arn,)),
        Statement(
            sid="ReadCluster",
            actions=("eks:DescribeCluster",),
            resources=(site.arn("eks", f"cluster/{site.cluster_name}"),),
        ),
    )


_READS = (
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


def cluster_autoscaler(site: Site) -> tuple[Statement, ...]:
    """It looks at every group and resizes those that carry the cluster's tag."""
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
