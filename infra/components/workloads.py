"""The rights in AWS of pods inside the cluster: one role per service account, through Pod Identity alone.

A row here is the whole story of a pod's rights; a service account without a row has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.components.iam import Statement, document, role
from infra.components.rights import cluster, scaling, serving
from infra.components.rights.granted import Granted
from infra.components.site import Component, Site
from infra.contract import processes

SERVING = "penstock"
AUTOSCALING = "autoscaling"
KUBE_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A service account and its statements. An add-on's own account gets its role from the add-on, at its creation."""

    namespace: str
    account: str
    statements: tuple[Statement, ...]
    addon: str = ""


def addon_identities(site: Site, nodes_key_arn: pulumi.Input[str]) -> tuple[Identity, ...]:
    """What the EKS add-ons need before the first node stands."""
    return (
        Identity(namespace=KUBE_SYSTEM, account="aws-node", statements=cluster.pod_network(site), addon="vpc-cni"),
        Identity(
            namespace=KUBE_SYSTEM,
            account="ebs-csi-controller-sa",
            statements=cluster.volumes(site, nodes_key_arn),
            addon="aws-ebs-csi-driver",
        ),
        Identity(
            namespace="amazon-cloudwatch",
            account="cloudwatch-agent",
            statements=cluster.pod_logs(site),
            addon="amazon-cloudwatch-observability",
        ),
    )


def identities(site: Site, granted: Granted) -> tuple[Identity, ...]:
    """Every other pod identity of a region. Of our processes those have one that call a bucket or KMS."""
    rights = {
        "artifacts": serving.reads_artifacts(granted),
        "payloads": serving.keeps_payloads(granted),
        "keys": serving.wraps_keys(site, granted),
        "audit": serving.ships_audit(granted),
    }
    ours = {
        (SERVING, name): tuple(one for store in rights if store in process.calls for one in rights[store])
        for name, process in processes().items()
    }
    found = {
        **{account: statements for account, statements in ours.items() if statements},
        (AUTOSCALING, "karpenter"): scaling.karpenter(site, granted),
        (AUTOSCALING, "cluster-autoscaler"): scaling.cluster_autoscaler(site),
        ("edge-system", "aws-load-balancer-controller"): cluster.targets(site, granted),
        ("external-secrets", "external-secrets"): cluster.secrets(site, granted),
        ("image-policy", "policy-controller"): cluster.signatures(site),
        ("monitoring", "alertmanager"): cluster.alerts(granted),
    }
    return tuple(
        Identity(namespace=namespace, account=account, statements=statements)
        for (namespace, account), statements in found.items()
    )


class PodRoles(Component):
    """A role per identity, trusted by EKS for this cluster's pods alone. `arns` is keyed by service account."""

    def __init__(
        self, name: str, site: Site, wanted: tuple[Identity, ...], opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("PodRoles", name, site, opts)
        self.arns = {identity.account: self._role(identity).arn for identity in wanted}
        self.register_outputs({})

    def _role(self, identity: Identity) -> aws.iam.Role:
        return role(self, f"pod-{identity.account}", self._trust(), policy=document(*identity.statements))

    def _trust(self) -> pulumi.Output[str]:
        cluster_arn = self.site.arn("eks", f"cluster/{self.site.cluster_name}")
        return document(
            Statement(
                sid="PodsOfThisCluster",
                actions=("sts:AssumeRole", "sts:TagSession"),
                principals={"Service": "pods.eks.amazonaws.com"},
                conditions={
                    "StringEquals": {"aws:SourceAccount": self.site.environment.account_id},
                    "ArnEquals": {"aws:SourceArn": cluster_arn},
                },
            )
        )


class PodIdentities(Component):
    """An association per identity: from then on the account's pods act as the role."""

    def __init__(
        self,
        name: str,
        site: Site,
        cluster_name: pulumi.Input[str],
        wanted: tuple[Identity, ...],
        arns: Mapping[str, pulumi.Input[str]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("PodIdentities", name, site, opts)
        for identity in wanted:
            aws.eks.PodIdentityAssociation(
                f"{identity.namespace}-{identity.account}",
                cluster_name=cluster_name,
                namespace=identity.namespace,
                service_account=identity.account,
                role_arn=arns[identity.account],
                tags=site.tags(),
                opts=self.child(),
            )
        self.register_outputs({})
