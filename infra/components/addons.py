"""EKS add-ons, pinned: the network and the credentials of pods before any node, the others once nodes stand."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.cluster import Joined
from infra.components.rights.cluster import container_logs
from infra.components.site import Component, Site
from infra.components.workloads import Identity
from infra.config.kinds import DataClass

EARLY = ("vpc-cni", "kube-proxy", "eks-pod-identity-agent")
"""A node is not ready until these run, and a node group waits for ready nodes; so they come first."""

CNI_SETTINGS = {"WARM_IP_TARGET": "2", "MINIMUM_IP_TARGET": "4", "WARM_ENI_TARGET": "0"}
"""A GPU node runs a handful of pods; the default reserve of addresses would empty the subnet."""

SETTINGS: dict[str, dict[str, object]] = {
    "vpc-cni": {"env": CNI_SETTINGS, "enableNetworkPolicy": "true"},
    "coredns": {"replicaCount": 3, "tolerations": [], "nodeSelector": {"penstock.io/role": "system"}},
    "aws-ebs-csi-driver": {"controller": {"nodeSelector": {"penstock.io/role": "system"}}},
    "amazon-cloudwatch-observability": {
        "containerLogs": {"enabled": True},
        "agent": {"config": {"logs": {"metrics_collected": {}}}},
        "dcgmExporter": {"enabled": False},
        "neuronMonitor": {"enabled": False},
        "tolerations": [{"operator": "Exists"}],
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AddonSpec:
    """Which of the add-ons, the roles of the accounts that they bring, and what they wait for."""

    early: bool
    identities: tuple[Identity, ...]
    arns: Mapping[str, pulumi.Input[str]]
    after: tuple[pulumi.Resource, ...] = ()


class Addons(Component):
    """Some of the config's add-ons, each with the role of the account that it brings."""

    def __init__(
        self,
        name: str,
        site: Site,
        cluster: Joined,
        spec: AddonSpec,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("Addons", name, site, opts)
        self.spec = spec
        self.made = [
            self._addon(cluster, addon, version)
            for addon, version in site.environment.kubernetes.addons.items()
            if (addon in EARLY) == spec.early
        ]
        self.register_outputs({})

    def _addon(self, cluster: Joined, addon: str, version: str) -> aws.eks.Addon:
        settings = SETTINGS.get(addon)
        brought = [
            aws.eks.AddonPodIdentityAssociationArgs(
                service_account=identity.account, role_arn=self.spec.arns[identity.account]
            )
            for identity in self.spec.identities
            if identity.addon == addon
        ]
        return aws.eks.Addon(
            addon,
            cluster_name=cluster.cluster.name,
            addon_name=addon,
            addon_version=version,
            configuration_values=json.dumps(settings, sort_keys=True) if settings else None,
            pod_identity_associations=brought or None,
            resolve_conflicts_on_create="OVERWRITE",
            resolve_conflicts_on_update="PRESERVE",
            tags=self.site.tags(),
            opts=self.child(*self.spec.after),
        )


class ContainerLogs(Component):
    """The log agent's groups, made before it starts, so that pods' logs outlive their nodes under our key."""

    def __init__(
        self, name: str, site: Site, key_arn: pulumi.Input[str], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("ContainerLogs", name, site, opts)
        self.groups = tuple(
            aws.cloudwatch.LogGroup(
                f"containers-{part}",
                name=f"{container_logs(site)}/{part}",
                retention_in_days=site.environment.retention.log_days,
                kms_key_id=key_arn,
                tags=site.tags(DataClass.CONFIDENTIAL),
                opts=self.child(),
            )
            for part in ("application", "dataplane", "host", "performance")
        )
        self.register_outputs({})
