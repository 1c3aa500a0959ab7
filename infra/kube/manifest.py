"""From a manifest as data to a registered resource: typed classes for built-in kinds, custom resources for the rest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pulumi
import pulumi_kubernetes as kubernetes

from infra.components.site import Component

BUILT_IN: dict[tuple[str, str], Callable[..., pulumi.Resource]] = {
    ("v1", "Namespace"): kubernetes.core.v1.Namespace,
    ("v1", "ServiceAccount"): kubernetes.core.v1.ServiceAccount,
    ("v1", "Service"): kubernetes.core.v1.Service,
    ("v1", "ConfigMap"): kubernetes.core.v1.ConfigMap,
    ("v1", "PersistentVolume"): kubernetes.core.v1.PersistentVolume,
    ("v1", "PersistentVolumeClaim"): kubernetes.core.v1.PersistentVolumeClaim,
    ("v1", "ResourceQuota"): kubernetes.core.v1.ResourceQuota,
    ("apps/v1", "Deployment"): kubernetes.apps.v1.Deployment,
    ("apps/v1", "StatefulSet"): kubernetes.apps.v1.StatefulSet,
    ("batch/v1", "Job"): kubernetes.batch.v1.Job,
    ("apps/v1", "DaemonSet"): kubernetes.apps.v1.DaemonSet,
    ("policy/v1", "PodDisruptionBudget"): kubernetes.policy.v1.PodDisruptionBudget,
    ("networking.k8s.io/v1", "NetworkPolicy"): kubernetes.networking.v1.NetworkPolicy,
    ("scheduling.k8s.io/v1", "PriorityClass"): kubernetes.scheduling.v1.PriorityClass,
    ("storage.k8s.io/v1", "StorageClass"): kubernetes.storage.v1.StorageClass,
    ("rbac.authorization.k8s.io/v1", "Role"): kubernetes.rbac.v1.Role,
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): kubernetes.rbac.v1.RoleBinding,
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
    ): kubernetes.admissionregistration.v1.ValidatingAdmissionPolicy,
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
    ): kubernetes.admissionregistration.v1.ValidatingAdmissionPolicyBinding,
}

_SNAKE = {
    "stringData": "string_data",
    "globalDefault": "global_default",
    "preemptionPolicy": "preemption_policy",
    "volumeBindingMode": "volume_binding_mode",
    "allowVolumeExpansion": "allow_volume_expansion",
    "automountServiceAccountToken": "automount_service_account_token",
    "roleRef": "role_ref",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One Kubernetes object. `body` is everything beside apiVersion, kind and metadata, in the API's spelling."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, object] = field(default_factory=dict)

    def metadata(self) -> dict[str, object]:
        """The object's metadata; every object names its manager."""
        found: dict[str, object] = {
            "name": self.name,
            "labels": {"app.kubernetes.io/managed-by": "penstock-infra", **self.labels},
        }
        if self.namespace:
            found["namespace"] = self.namespace
        if self.annotations:
            found["annotations"] = dict(self.annotations)
        return found


def apply(owner: Component, manifest: Manifest, *after: pulumi.Resource) -> pulumi.Resource:
    """Register the object under its owner."""
    label = "-".join(part for part in (manifest.namespace, manifest.name) if part)
    known = BUILT_IN.get((manifest.api_version, manifest.kind))
    if known is not None:
        body = {_SNAKE.get(key, key): value for key, value in manifest.body.items()}
        return known(label, metadata=manifest.metadata(), opts=owner.child(*after), **body)
    return kubernetes.apiextensions.CustomResource(
        label,
        api_version=manifest.api_version,
        kind=manifest.kind,
        metadata=manifest.metadata(),
        spec=manifest.body.get("spec"),
        opts=owner.child(*after),
    )
