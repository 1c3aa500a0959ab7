"""Kinds of objects that the controller handles, their API paths, and the rights that it needs.

`RIGHTS` is complete: the contract contains it, and the infrastructure builds the controller's Role from it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectKind:
    group: str
    version: str
    name: str
    plural: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str, name: str = "") -> str:
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


POD = ObjectKind(group="", version="v1", name="Pod", plural="pods")
DEPLOYMENT = ObjectKind(group="apps", version="v1", name="Deployment", plural="deployments")
BUDGET = ObjectKind(group="policy", version="v1", name="PodDisruptionBudget", plural="poddisruptionbudgets")
SCALER = ObjectKind(group="keda.sh", version="v1alpha1", name="ScaledObject", plural="scaledobjects")

RIGHTS: dict[ObjectKind, tuple[str, ...]] = {
    POD: ("list", "watch", "patch", "delete"),
    DEPLOYMENT: ("list", "watch", "create", "patch", "delete"),
    BUDGET: ("create", "patch", "delete"),
    SCALER: ("create", "patch", "delete"),
}
"""Verbs by kind. Server-side apply is a patch, and a create if nothing exists yet."""
