"""The control plane: private, logged, encrypted, entered by API entries alone, pinned and guarded."""

from collections.abc import Iterator

from infra.components.cluster import LOG_TYPES
from infra.config.kinds import StackKind
from infra.config.rules import SUPPORTED_KUBERNETES
from infra.graph.values import items, text
from infra.policy.invariant import Book, Breach
from infra.policy.view import View

book = Book()

CLUSTER = "aws:eks/cluster:Cluster"


@book.rule("endpoint-private", "The cluster's endpoint has no public face", StackKind.REGION)
def endpoint_private(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        config = "vpcConfig"
        public = items(node.inputs, f"{config}.endpointPublicAccess") != [False]
        if public or items(node.inputs, f"{config}.endpointPrivateAccess") != [True]:
            yield node, "set endpointPrivateAccess true and endpointPublicAccess false"


@book.rule("control-plane-logs", "The control plane writes all five logs", StackKind.REGION)
def control_plane_logs(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        if set(items(node.inputs, "enabledClusterLogTypes")) != set(LOG_TYPES):
            yield node, f"enable {', '.join(LOG_TYPES)}"


@book.rule("secrets-encrypted", "Kubernetes secrets are encrypted with a key of ours", StackKind.REGION)
def secrets_encrypted(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        key = text(node.inputs, "encryptionConfig.provider.keyArn")
        if not key or items(node.inputs, "encryptionConfig.resources") != ["secrets"]:
            yield node, "set encryptionConfig for secrets"


@book.rule("api-entries", "Access is by API entries, and the creator gets none by itself", StackKind.REGION)
def api_entries(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        config = "accessConfig"
        granted = items(node.inputs, f"{config}.bootstrapClusterCreatorAdminPermissions") != [False]
        if text(node.inputs, f"{config}.authenticationMode") != "API" or granted:
            yield node, "set authenticationMode API and bootstrapClusterCreatorAdminPermissions false"


@book.rule("addons-pinned", "Every add-on stands at the version of the config", StackKind.REGION)
def addons_pinned(view: View) -> Iterator[Breach]:
    wanted = view.fleet.environment.kubernetes.addons
    found = {text(node.inputs, "addonName"): node for node in view.of("aws:eks/addon:Addon")}
    for name, version in wanted.items():
        node = found.get(name)
        if node is None or text(node.inputs, "addonVersion") != version:
            yield node, f"pin {name} to {version}"
    for name in found.keys() - wanted.keys():
        yield found[name], "pin its version in kubernetes.addons"


@book.rule("version-supported", "The Kubernetes version is in standard support", StackKind.REGION)
def version_supported(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        if text(node.inputs, "version") not in SUPPORTED_KUBERNETES:
            yield node, f"use one of {', '.join(SUPPORTED_KUBERNETES)}"


@book.rule("cluster-guarded", "The cluster can't be deleted by a slip", StackKind.REGION)
def cluster_guarded(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        if node.inputs.get("deletionProtection") is not True or not node.options.protect:
            yield node, "set deletionProtection and protect"


@book.rule("no-auto-mode", "Auto Mode stays off: it can neither cut GPUs nor hold a warm pool", StackKind.REGION)
def no_auto_mode(view: View) -> Iterator[Breach]:
    for node in view.of(CLUSTER):
        if items(node.inputs, "computeConfig.enabled") == [True]:
            yield node, "remove computeConfig"
