"""One way or more to break each invariant of what runs in the clusters."""

from tests.infra.edits import EAST_PLATFORM, EAST_SERVING, Breach, drop, plant, put

GATEWAY, BASE = "penstock-gateway", "penstock-chat-8b-v3-l40s-base"
SPOT, SLICED, GROUP = (
    "penstock-chat-8b-v3-l40s-spot",
    "penstock-embed-small-v2-a100-mig",
    "penstock-chat-405b-v1-h100-block",
)
POD = "spec/template/spec"
BOX = f"{POD}/containers/0"
WORKER_ON_SPOT_ONLY = ("penstock-chat-8b-v3-l40s-base", "penstock-chat-8b-v3-l40s-burst")
BAD_KUBECONFIG = '{"users": [{"name": "x", "user": {"token": "abc"}}]}'
TAGGED = "111122223333.dkr.ecr.us-east-1.amazonaws.com/penstock/gateway:latest"
FOREIGN = "registry.example.com/penstock/gateway@sha256:" + "1" * 64


def serving(rule: str, kind: str, name: str, path: str, value: object) -> Breach:
    """Spoil one input in the east's serving stack."""
    return Breach(rule=rule, stack=EAST_SERVING, spoil=put(kind, name, path, value), where=name)


def platform(rule: str, kind: str, name: str, path: str, value: object) -> Breach:
    """Spoil one input in the east's platform stack."""
    return Breach(rule=rule, stack=EAST_PLATFORM, spoil=put(kind, name, path, value))


KUBERNETES = (
    Breach(
        rule="namespaces-closed",
        stack=EAST_PLATFORM,
        spoil=drop("NetworkPolicy", "penstock-deny-all"),
        where="penstock",
    ),
    platform("namespaces-closed", "NetworkPolicy", "penstock-deny-all", "spec/policyTypes", ["Ingress"]),
    serving(
        "network-policies-known",
        "NetworkPolicy",
        "penstock-gateway-from-8080",
        "spec|podSelector|matchLabels|app.kubernetes.io/name",
        "gatewai",
    ),
    serving("network-policies-narrow", "NetworkPolicy", "penstock-gateway-from-8080", "spec/ingress/0/ports", []),
    serving(
        "network-policies-narrow",
        "NetworkPolicy",
        "penstock-gateway-from-8080",
        "spec/ingress/0/from",
        [{"namespaceSelector": {}}],
    ),
    platform("pod-security", "Namespace", "penstock", "metadata|labels|pod-security.kubernetes.io/enforce", "baseline"),
    platform(
        "pod-security", "Namespace", "monitoring", "metadata|labels|pod-security.kubernetes.io/enforce", "privileged"
    ),
    serving("containers-safe", "StatefulSet", GATEWAY, f"{BOX}/securityContext/readOnlyRootFilesystem", False),
    serving("containers-safe", "StatefulSet", GATEWAY, f"{BOX}/securityContext/capabilities", {"drop": []}),
    serving("containers-safe", "Deployment", BASE, f"{POD}/initContainers/0/securityContext", {}),
    serving("host-untouched", "StatefulSet", GATEWAY, f"{POD}/hostNetwork", True),
    serving("host-untouched", "Deployment", BASE, f"{POD}/volumes/0", {"name": "x", "hostPath": {"path": "/"}}),
    serving("memory-bounded", "Deployment", BASE, f"{BOX}/resources/limits/memory", "64Gi"),
    serving("memory-bounded", "StatefulSet", GATEWAY, f"{BOX}/resources", {}),
    serving("probes-real", "StatefulSet", GATEWAY, f"{BOX}/readinessProbe/httpGet/path", "/health"),
    serving("probes-real", "Deployment", BASE, f"{BOX}/startupProbe", None),
    serving("probes-real", "Deployment", BASE, f"{BOX}/livenessProbe/httpGet/port", "engin"),
    serving("drain-fits", "Deployment", BASE, f"{POD}/terminationGracePeriodSeconds", 30),
    serving("drain-fits", "StatefulSet", GATEWAY, f"{BOX}/lifecycle", None),
    serving("images-by-digest", "StatefulSet", GATEWAY, f"{BOX}/image", TAGGED),
    serving("images-by-digest", "StatefulSet", GATEWAY, f"{BOX}/image", FOREIGN),
    Breach(rule="admission-images", stack=EAST_PLATFORM, spoil=drop("ValidatingAdmissionPolicyBinding")),
    platform("admission-images", "ClusterImagePolicy", "signed-by-release", "spec/mode", "warn"),
    Breach(rule="budget-per-workload", stack=EAST_SERVING, spoil=drop("PodDisruptionBudget", GATEWAY), where=GATEWAY),
    serving("budget-per-workload", "PodDisruptionBudget", GATEWAY, "spec/maxUnavailable", 0),
    serving(
        "zones-spread", "StatefulSet", GATEWAY, f"{POD}/topologySpreadConstraints/0/whenUnsatisfiable", "ScheduleAnyway"
    ),
    serving("zones-spread", "StatefulSet", GATEWAY, f"{POD}/topologySpreadConstraints/1/topologyKey", "x"),
    serving("zones-spread", "StatefulSet", GATEWAY, f"{POD}/topologySpreadConstraints/0/nodeTaintsPolicy", None),
    serving("zones-spread", "Deployment", BASE, f"{POD}/topologySpreadConstraints/0/matchLabelKeys", None),
    serving("accounts-own", "StatefulSet", GATEWAY, f"{POD}/serviceAccountName", "default"),
    serving("accounts-own", "StatefulSet", GATEWAY, f"{POD}/automountServiceAccountToken", True),
    serving("no-secret-literals", "StatefulSet", GATEWAY, f"{BOX}/env/0", {"name": "DB_PASSWORD", "value": "hunter2"}),
    serving("no-secret-literals", "StatefulSet", GATEWAY, f"{BOX}/env/0", {"name": "X", "value": "aB3" * 14}),
    Breach(
        rule="no-secret-literals", stack=EAST_SERVING, spoil=plant("kubernetes:core/v1:Secret", metadata={"name": "x"})
    ),
    Breach(rule="secret-sources", stack=EAST_SERVING, spoil=drop("ExternalSecret", GATEWAY), where=GATEWAY),
    Breach(rule="mutual-tls", stack=EAST_SERVING, spoil=drop("Certificate", "penstock-worker-tls")),
    serving("mutual-tls", "Certificate", "penstock-worker-tls", "spec/duration", "2160h"),
    serving("mutual-tls", "Certificate", "penstock-worker-tls", "spec/usages", ["server auth"]),
    serving("mutual-tls", "Certificate", "penstock-worker-tls", "spec/uris", ["spiffe://penstock/gateway"]),
    Breach(rule="mutual-tls", stack=EAST_SERVING, spoil=drop("Certificate", "penstock-operator-tls")),
    serving("mutual-tls", "StatefulSet", GATEWAY, f"{POD}/volumes", []),
    serving("mutual-tls", "StatefulSet", GATEWAY, f"{BOX}/env/0", {"name": "PENSTOCK_TLS", "value": "off"}),
    platform("charts-pinned", "Release", "keda", "version", "2.18.0"),
    platform("charts-pinned", "Release", "keda", "chart", "oci://registry.example.com/charts/keda"),
    platform("namespaces-exist", "Release", "keda", "namespace", "default"),
    serving("namespaces-exist", "StatefulSet", GATEWAY, "metadata/namespace", "monitoring"),
)

PLACEMENT = (
    serving("scaled-number-free", "StatefulSet", GATEWAY, "spec/replicas", 3),
    serving("scaled-number-free", "Deployment", BASE, "spec/replicas", 3),
    serving("late-starters", "Deployment", BASE, "metadata|annotations", {}),
    serving("late-starters", "StatefulSet", GATEWAY, "metadata|annotations", {}),
    serving("pods-schedulable", "Deployment", BASE, f"{BOX}/resources/requests/memory", "900Gi"),
    serving("pods-schedulable", "Deployment", BASE, f"{POD}/tolerations", []),
    serving("pods-schedulable", "Deployment", BASE, f"{POD}/nodeSelector", {"penstock.io/pool": "nowhere"}),
    serving(
        "pods-schedulable",
        "Deployment",
        SLICED,
        "spec|template|spec|containers|0|resources|requests|nvidia.com/mig-7g.40gb",
        "1",
    ),
    serving("slices-alone", "Deployment", SLICED, f"{BOX}/resources/requests", {"nvidia.com/mig-3g.20gb": "2"}),
    Breach(
        rule="floor-not-spot",
        stack=EAST_SERVING,
        spoil=lambda graph: drop("Deployment", WORKER_ON_SPOT_ONLY[1])(
            drop("Deployment", WORKER_ON_SPOT_ONLY[0])(graph)
        ),
    ),
    serving("scalers-aim", "ScaledObject", BASE, "spec/scaleTargetRef/name", "gone"),
    serving("scalers-aim", "ScaledObject", BASE, "spec/maxReplicaCount", 13),
    serving("scalers-aim", "ScaledObject", BASE, "spec/minReplicaCount", 20),
    serving(
        "scalers-calm",
        "ScaledObject",
        BASE,
        "spec/advanced/horizontalPodAutoscalerConfig/behavior/scaleDown/stabilizationWindowSeconds",
        0,
    ),
    serving("scalers-calm", "ScaledObject", BASE, "spec/triggers/0/type", "cpu"),
    Breach(rule="deployments-scaled", stack=EAST_SERVING, spoil=drop("ScaledObject", SPOT), where=SPOT),
    Breach(rule="burst-pools", stack=EAST_PLATFORM, spoil=drop("NodePool", "l40s-burst")),
    platform("burst-pools", "NodePool", "l40s-burst", "spec/limits/nodes", 800),
    platform("burst-pools", "NodePool", "l40s-burst", "spec|template|metadata|labels|penstock.io/scaler", "asg"),
    platform(
        "burst-spot-diverse",
        "NodePool",
        "l40s-spot",
        "spec/template/spec/requirements/0/values",
        ["g6e.xlarge", "g6e.2xlarge"],
    ),
    platform("burst-machines", "EC2NodeClass", "l40s-spot", "spec/metadataOptions/httpTokens", "optional"),
    platform("burst-machines", "EC2NodeClass", "l40s-spot", "spec/blockDeviceMappings/0/ebs/encrypted", False),
    platform("burst-zones", "EC2NodeClass", "l40s-spot", "spec/subnetSelectorTerms", [{"id": "subnet-1"}]),
    platform(
        "mig-layouts",
        "ConfigMap",
        "gpu-operator-penstock-mig-layouts",
        "data|config.yaml",
        "mig-configs: {penstock-a100-mig: [{mig-devices: {3g.20gb: 3}}]}",
    ),
    platform("mig-layouts", "ConfigMap", "gpu-operator-penstock-mig-layouts", "data|config.yaml", "mig-configs: {}"),
    platform("kubeconfig-clean", "kubernetes", "kubernetes-us-east-1", "kubeconfig", BAD_KUBECONFIG),
)
