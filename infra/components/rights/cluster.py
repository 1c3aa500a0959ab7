"""What the cluster's add-ons and operators do in AWS, beside scaling."""

import pulumi

from infra.components.iam import Statement, here
from infra.components.rights.granted import Granted
from infra.components.site import Site


def pod_network(site: Site) -> tuple[Statement, ...]:
    """The VPC CNI gives every pod an address of its own; without it no node becomes ready.

    AWS's managed policy does the same on every network interface of every region; this one stays in its region.
    """
    interfaces, instances = site.arn("ec2", "network-interface/*"), site.arn("ec2", "instance/*")
    around = (site.arn("ec2", "subnet/*"), site.arn("ec2", "security-group/*"))
    changes = (
        *(f"ec2:{verb}PrivateIpAddresses" for verb in ("Assign", "Unassign")),
        *(f"ec2:{verb}NetworkInterface" for verb in ("Create", "Attach", "Detach", "Delete")),
        "ec2:ModifyNetworkInterfaceAttribute",
    )
    reads = ("Instances", "InstanceTypes", "NetworkInterfaces", "SecurityGroups", "Subnets", "Tags")
    return (
        Statement(sid="MoveInterfaces", actions=changes, resources=(interfaces, instances, *around)),
        Statement(sid="TagInterfaces", actions=("ec2:CreateTags",), resources=(interfaces,)),
        Statement(
            sid="LookAround",
            actions=tuple(f"ec2:Describe{what}" for what in reads),
            everywhere="EC2 describes take no resource",
            conditions=here(site),
        ),
    )


def volumes(site: Site, nodes_key_arn: pulumi.Input[str]) -> tuple[Statement, ...]:
    """The EBS driver makes and moves the volumes that it tagged itself."""
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
            resources=(nodes_key_arn,),
        ),
        Statement(
            sid="GrantDisks",
            actions=("kms:CreateGrant",),
            resources=(nodes_key_arn,),
            conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    )


def targets(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """Pods in and out of one target group; everything else of a load balancer is Pulumi's."""
    reads = (
        "elasticloadbalancing:DescribeTargetGroups",
        "elasticloadbalancing:DescribeTargetHealth",
        "elasticloadbalancing:DescribeLoadBalancers",
        "ec2:DescribeAvailabilityZones",
        "ec2:DescribeVpcs",
        "ec2:DescribeInstances",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSecurityGroups",
    )
    writes = ("elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets")
    return (
        Statement(sid="LookAround", actions=reads, everywhere="describes take no resource", conditions=here(site)),
        Statement(sid="MoveTargets", actions=writes, resources=(granted.target_group_arn,)),
    )


def secrets(site: Site, granted: Granted) -> tuple[Statement, ...]:
    """External Secrets reads the environment's secrets and writes none."""
    ours = site.arn("secretsmanager", f"secret:penstock/{site.environment.name}/*")
    return (
        Statement(
            sid="ReadSecrets",
            actions=("secretsmanager:GetSecretValue", "secretsmanager:DescribeSecret"),
            resources=(ours,),
        ),
        Statement(sid="OpenSecrets", actions=("kms:Decrypt",), resources=(granted.data_key_arn,)),
    )


def signatures(site: Site) -> tuple[Statement, ...]:
    """The admission controller reads signatures and the public half of the signing key."""
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
            conditions={"ForAnyValue:StringEquals": {"kms:ResourceAliases": [site.environment.signing_alias]}},
        ),
    )


def alerts(granted: Granted) -> tuple[Statement, ...]:
    """Alertmanager tells the region's alarm topic, and the topic of its sign of life."""
    seal = ("kms:GenerateDataKey", "kms:Decrypt")
    return (
        Statement(
            sid="TellPeople", actions=("sns:Publish",), resources=(granted.alarm_topic_arn, granted.watchdog_topic_arn)
        ),
        Statement(sid="SealMessages", actions=seal, resources=(granted.messages_key_arn,)),
    )


def pod_logs(site: Site) -> tuple[Statement, ...]:
    """The log agent writes its own groups, which are made beforehand with our key and retention."""
    group = site.arn("logs", f"log-group:{container_logs(site)}/*")
    return (
        Statement(
            sid="WriteLogs",
            actions=("logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams"),
            resources=(group,),
        ),
        Statement(
            sid="LookAround",
            actions=("logs:DescribeLogGroups", "ec2:DescribeVolumes", "ec2:DescribeTags"),
            everywhere="describes take no resource",
            conditions=here(site),
        ),
    )


def container_logs(site: Site) -> str:
    """Where the add-on writes: its name is AWS's."""
    return f"/aws/containerinsights/{site.cluster_name}"
