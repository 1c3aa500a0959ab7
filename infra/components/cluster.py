"""The EKS control plane: private, encrypted, every log on, access by API entries alone."""

from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import role, trusts_plainly
from infra.components.network import Standing
from infra.components.site import Component, Site
from infra.config.kinds import DataClass

LOG_TYPES = ("api", "audit", "authenticator", "controllerManager", "scheduler")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """The keys of a cluster."""

    secrets_key_arn: pulumi.Input[str]
    logs_key_arn: pulumi.Input[str]


class Joined(Component):
    """A cluster with what our nodes join it by: their role and its entry."""

    def __init__(self, name: str, site: Site, network: Standing, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("Cluster", name, site, opts)
        self.network = network
        self.cluster: aws.eks.Cluster

    def _join(self) -> None:
        self.node_role = self._node_role()
        self.node_entry = self._node_entry()

    def _node_role(self) -> aws.iam.Role:
        managed = ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonSSMManagedInstanceCore")
        return role(self, "node", trusts_plainly("ec2.amazonaws.com"), managed=managed)

    def _node_entry(self) -> aws.eks.AccessEntry:
        """Lets Karpenter's machines join; managed node groups bring an entry of their own for the same role."""
        return aws.eks.AccessEntry(
            "nodes",
            cluster_name=self.cluster.name,
            principal_arn=self.node_role.arn,
            type="EC2_LINUX",
            tags=self.site.tags(),
            opts=self.child(),
        )


class ExistingCluster(Joined):
    """A cluster of others: read, never changed. Add-ons, administrators, logs and upgrades are theirs."""

    def __init__(self, name: str, site: Site, network: Standing, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, site, network, opts)
        self.cluster = aws.eks.Cluster.get("serving", site.cluster, opts=self.child())
        for addon in site.environment.kubernetes.addons:
            aws.eks.Addon.get(addon, f"{site.cluster}:{addon}", opts=self.child())
        self._join()
        self.register_outputs({})


class Cluster(Joined):
    """One cluster in one region. Its endpoint is private: operators come through the allowed networks."""

    def __init__(
        self, name: str, site: Site, network: Standing, spec: ClusterSpec, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__(name, site, network, opts)
        logs = aws.cloudwatch.LogGroup(
            "control-plane",
            name=f"/aws/eks/{site.cluster_name}/cluster",
            retention_in_days=site.environment.retention.log_days,
            kms_key_id=spec.logs_key_arn,
            tags=site.tags(DataClass.CONFIDENTIAL),
            opts=self.child(),
        )
        self.operators = self._operators_group()
        self.cluster = self._control_plane(spec, logs)
        self._access()
        self._join()
        self.register_outputs({})

    def _operators_group(self) -> aws.ec2.SecurityGroup:
        group = aws.ec2.SecurityGroup(
            "operators",
            name_prefix=f"{self.site.named('operators')}-",
            description="The cluster endpoint from the allowed networks",
            vpc_id=self.network.vpc.id,
            tags=self.site.tags(),
            opts=self.child(),
        )
        for network in self.site.environment.allowed_networks:
            aws.vpc.SecurityGroupIngressRule(
                f"operators-{network}",
                security_group_id=group.id,
                description="Kubernetes API from an allowed network",
                cidr_ipv4=network,
                ip_protocol="tcp",
                from_port=443,
                to_port=443,
                tags=self.site.tags(),
                opts=self.child(),
            )
        return group

    def _control_plane(self, spec: ClusterSpec, logs: aws.cloudwatch.LogGroup) -> aws.eks.Cluster:
        site = self.site
        master = role(self, "cluster", trusts_plainly("eks.amazonaws.com"), managed=("AmazonEKSClusterPolicy",))
        return aws.eks.Cluster(
            "serving",
            name=site.cluster_name,
            version=site.environment.kubernetes.version,
            role_arn=master.arn,
            access_config=aws.eks.ClusterAccessConfigArgs(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            vpc_config=aws.eks.ClusterVpcConfigArgs(
                subnet_ids=self.network.private_ids(),
                security_group_ids=[self.operators.id],
                endpoint_private_access=True,
                endpoint_public_access=False,
            ),
            encryption_config=aws.eks.ClusterEncryptionConfigArgs(
                provider=aws.eks.ClusterEncryptionConfigProviderArgs(key_arn=spec.secrets_key_arn),
                resources=["secrets"],
            ),
            enabled_cluster_log_types=list(LOG_TYPES),
            bootstrap_self_managed_addons=False,
            upgrade_policy=aws.eks.ClusterUpgradePolicyArgs(support_type="STANDARD"),
            zonal_shift_config=aws.eks.ClusterZonalShiftConfigArgs(enabled=True),
            deletion_protection=site.environment.keep,
            tags=site.tags(DataClass.CONFIDENTIAL),
            opts=self.stateful(logs),
        )

    def _access(self) -> None:
        for index, administrator in enumerate(self.site.environment.administrators):
            entry = aws.eks.AccessEntry(
                f"administrator-{index}",
                cluster_name=self.cluster.name,
                principal_arn=administrator,
                type="STANDARD",
                tags=self.site.tags(),
                opts=self.child(),
            )
            aws.eks.AccessPolicyAssociation(
                f"administrator-{index}",
                cluster_name=self.cluster.name,
                principal_arn=administrator,
                policy_arn="arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy",
                access_scope=aws.eks.AccessPolicyAssociationAccessScopeArgs(type="cluster"),
                opts=self.child(entry),
            )
