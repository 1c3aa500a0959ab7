"""The permissions boundary of every role: whatever a role's own policy says, these it can never do."""

import pulumi
import pulumi_aws as aws

from infra.components.bucket import payloads
from infra.components.iam import Statement, document
from infra.components.site import Component, Site

FORBIDDEN = (
    "iam:CreateUser",
    "iam:CreateAccessKey",
    "iam:DeleteRolePermissionsBoundary",
    "iam:PutRolePermissionsBoundary",
    "organizations:LeaveOrganization",
    "cloudtrail:StopLogging",
    "cloudtrail:DeleteTrail",
    "kms:ScheduleKeyDeletion",
    "kms:DisableKey",
    "s3:BypassGovernanceRetention",
    "s3:PutBucketObjectLockConfiguration",
    "ec2:PurchaseCapacityBlock",
    "ec2:PurchaseReservedInstancesOffering",
)
"""Nobody's machine buys capacity, makes users, switches the record off or takes the boundary away."""

REGIONAL = (
    "ec2",
    "eks",
    "s3",
    "ecr",
    "kms",
    "sqs",
    "logs",
    "autoscaling",
    "secretsmanager",
    "elasticloadbalancing",
    "rds-db",
)


class Boundary(Component):
    """The boundary as one managed policy under a fixed name, so that every stack can name it beforehand."""

    def __init__(self, name: str, site: Site, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Boundary", name, site, opts)
        environment = site.environment
        policy = document(
            Statement(
                sid="NeverEver", effect="Deny", actions=FORBIDDEN, everywhere="a denial is meant to reach everything"
            ),
            Statement(
                sid="OnlyInOurRegions",
                effect="Deny",
                actions=tuple(f"{service}:*" for service in REGIONAL),
                everywhere="a denial is meant to reach everything",
                conditions={
                    "StringNotEquals": {"aws:RequestedRegion": list(environment.regions)},
                    "Bool": {"aws:ViaAWSService": "false"},
                },
            ),
            Statement(
                sid="CeilingOfEverythingElse",
                actions=tuple(f"{service}:{verb}*" for service, verbs in CEILING.items() for verb in verbs),
                everywhere="a boundary grants nothing by itself; each role's own policy names its resources",
                conditions={"StringEquals": {"aws:PrincipalAccount": environment.account_id}},
            ),
            Statement(
                sid="PayloadsEnd",
                actions=("s3:DeleteObject",),
                resources=tuple(f"{payloads(environment, region)}/*" for region in environment.regions),
            ),
        )
        self.policy = aws.iam.Policy(
            "boundary",
            name=f"{environment.organization}-{environment.name}-boundary",
            description="The ceiling of every Penstock role",
            policy=policy,
            tags=site.tags(),
            opts=self.guarded(),
        )
        self.register_outputs({})


_READ = ("Describe", "Get", "List")
CEILING: dict[str, tuple[str, ...]] = {
    "arc-zonal-shift": ("Get",),
    "autoscaling": ("Describe", "SetDesired", "TerminateInstance"),
    "cloudwatch": ("Get", "List", "Put", "Describe"),
    "ec2": (
        *_READ,
        "Assign",
        "Unassign",
        "Attach",
        "Detach",
        "Create",
        "Delete",
        "Modify",
        "Run",
        "Terminate",
        "Authorize",
        "Revoke",
        "Replace",
        "Send",
        "Stop",
        "Start",
    ),
    "ecr": (
        "BatchGet",
        "BatchCheck",
        "Get",
        "Describe",
        "Create",
        "Tag",
        "Replicate",
        "PutImage",
        "InitiateLayerUpload",
        "UploadLayerPart",
        "CompleteLayerUpload",
    ),
    "eks": ("Describe", "List", "AccessKubernetesApi"),
    "eks-auth": ("AssumeRole",),
    "elasticloadbalancing": (
        "Describe",
        "Register",
        "Deregister",
        "Create",
        "Delete",
        "Modify",
        "Set",
        "Add",
        "Remove",
    ),
    "fis": ("Inject",),
    "iam": ("Get", "List", "Pass", "CreateServiceLinkedRole"),
    "kms": (
        "Encrypt",
        "Decrypt",
        "ReEncrypt",
        "GenerateDataKey",
        "CreateGrant",
        "RetireGrant",
        "Describe",
        "GetPublicKey",
        "Sign",
    ),
    "logs": ("Create", "Put", "Describe"),
    "pricing": ("GetProducts",),
    "rds": ("Describe",),
    "s3": ("Get", "List", "Put", "AbortMultipartUpload", "Replicate", "Initiate", "ObjectOwnerOverride"),
    "secretsmanager": ("GetSecretValue", "DescribeSecret", "ListSecret"),
    "sns": ("Publish",),
    "sqs": ("ReceiveMessage", "DeleteMessage", "GetQueue"),
    "ssm": ("GetParameter", "Update", "Describe", "List", "Put"),
    "ssmmessages": ("Create", "Open"),
    "ec2messages": ("Acknowledge", "Delete", "Fail", "Get", "Send"),
    "tag": ("GetResources",),
}
"""What any role may at most do, by service and verb. A service that is not listed is out of reach."""
