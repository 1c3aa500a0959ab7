"""Private endpoints of AWS: weights and images never travel through the NAT, and a lost NAT stops no node."""

import pulumi
import pulumi_aws as aws

from infra.components.bucket import audit_segments, payloads
from infra.components.iam import Statement, document
from infra.components.network import Network
from infra.components.site import Component, Site

INTERFACES = (
    "autoscaling",
    "ec2",
    "ecr.api",
    "ecr.dkr",
    "eks",
    "eks-auth",
    "elasticloadbalancing",
    "kms",
    "logs",
    "secretsmanager",
    "sqs",
    "sts",
)


class Endpoints(Component):
    """The S3 gateway on every private route table, and interface endpoints in every zone.

    For a network of ours alone: both change the way of every workload there, and the policy shuts strange buckets.
    """

    def __init__(self, name: str, site: Site, network: Network, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Endpoints", name, site, opts)
        self._gateway(network)
        group = self._group(network)
        for service in INTERFACES:
            aws.ec2.VpcEndpoint(
                service,
                vpc_id=network.vpc.id,
                service_name=f"com.amazonaws.{site.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=network.private_ids(),
                security_group_ids=[group.id],
                tags=site.tags(),
                opts=self.child(),
            )
        self.register_outputs({})

    def _gateway(self, network: Network) -> None:
        aws.ec2.VpcEndpoint(
            "s3",
            vpc_id=network.vpc.id,
            service_name=f"com.amazonaws.{self.site.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=network.private_tables,
            policy=self._s3_policy(),
            tags=self.site.tags(),
            opts=self.child(),
        )

    def _group(self, network: Network) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            "endpoints",
            name_prefix=f"{self.site.named('endpoints')}-",
            description="TLS from inside the network to the interface endpoints",
            vpc_id=network.vpc.id,
            tags=self.site.tags(),
            opts=self.child(),
        )
        aws.vpc.SecurityGroupIngressRule(
            "endpoints-tls",
            security_group_id=group.id,
            description="TLS from the network",
            cidr_ipv4=network.plan.cidr,
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            tags=self.site.tags(),
            opts=self.child(),
        )
        return group

    def _s3_policy(self) -> pulumi.Output[str]:
        """Our own buckets, and AWS's bucket of container layers; nothing can be carried off to a stranger's bucket.

        Objects are deleted in two of them: payloads of jobs, and Pulumi's locks, by whoever works from a host here.
        """
        environment = self.site.environment
        own = f"arn:aws:s3:::{environment.organization}-{environment.name}-{environment.account_id}-*"
        layers = f"arn:aws:s3:::prod-{self.site.region}-starport-layer-bucket/*"
        read_write = (
            "s3:GetObject",
            "s3:GetObjectVersion",
            "s3:GetBucketLocation",
            "s3:ListBucket",
            "s3:ListMultipartUploadParts",
            "s3:PutObject",
            "s3:AbortMultipartUpload",
        )
        return document(
            Statement(sid="OurBuckets", actions=read_write, resources=(own, f"{own}/*"), principals="*"),
            Statement(
                sid="StateLocks",
                actions=("s3:DeleteObject",),
                resources=(f"arn:aws:s3:::{environment.state_bucket}/.pulumi/*",),
                principals="*",
            ),
            Statement(
                sid="PayloadsEnd",
                actions=("s3:DeleteObject",),
                resources=(f"{payloads(environment, self.site.region)}/*",),
                principals="*",
            ),
            Statement(
                sid="SegmentsAreLocked",
                actions=("s3:PutObjectRetention",),
                resources=(audit_segments(environment, self.site.region),),
                principals="*",
                conditions={"StringEquals": {"s3:object-lock-mode": "COMPLIANCE"}},
            ),
            Statement(sid="ContainerLayers", actions=("s3:GetObject",), resources=(layers,), principals="*"),
        )
