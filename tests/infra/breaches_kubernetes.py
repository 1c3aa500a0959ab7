"""One way or more to break each invariant of what runs in the clusters."""

from tests.infra.edits import EAST_PLATFORM, EAST_SERVING, POOLS, Breach, drop, plant, put, shipped

GATEWAY, CONTROLLER = "penstock-gateway", "penstock-controller"
BASE, SLICED = "l40s", "a100-40-3g-20gb"
POD = "spec/template/spec"
BOX = f"{POD}/containers/0"
SHIPPED, SHIPPED_BOX = "template/spec", "template/spec/containers/0"
BAD_KUBECONFIG = '{"users": [{"name": "x", "user": {"token": "abc"}}]}'
BEHAVIOUR = "spec/advanced/horizontalPodAutoscalerConfig/behavior"
TAGGED = "111122223333.dkr.ecr.us-east-1.amazonaws.com/penstock/gateway:latest"
FOREIGN = "registry.example.com/penstock/gateway@sha256:" + "1" * 64


def serving(rule: str, kind: str, name: str, path: str, value: object) -> Breach:
    """Spoil one input in the east's serving stack."""
    return Breach(rule=rule, stack=EAST_SERVING, spoil=put(kind, name, path, value), where=name)


def of_device(rule: str, device: str, path: str, value: object) -> Breach:
    """Spoil one value of what the east's serving stack ships of a device."""
    return Breach(rule=rule, stack=EAST_SERVING, spoil=shipped(device, path, value), where=POOLS)


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
    of_device("containers-safe", BASE, f"{SHIPPED}/initContainers/0/securityContext", {}),
    serving("host-untouched", "StatefulSet", GATEWAY, f"{POD}/hostNetwork", True),
    of_device("host-untouched", BASE, f"{SHIPPED}/volumes/0", {"name": "x", "hostPath": {"path": "/"}}),
    of_device("memory-bounded", BASE, "sizes/0/resources/limits/memory", "64Gi"),
    serving("memory-bounded", "StatefulSet", GATEWAY, f"{BOX}/resources", {}),
    serving("probes-real", "StatefulSet", GATEWAY, f"{BOX}/readinessProbe/httpGet/path", "/health"),
    of_device("probes-real", BASE, f"{SHIPPED_BOX}/startupProbe", None),
    of_device("probes-real", BASE, f"{SHIPPED_BOX}/livenessProbe/httpGet/port", "engin"),
    of_device("drain-fits", BASE, f"{SHIPPED}/terminationGracePeriodSeconds", 30),
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
    of_device("zones-spread", BASE, f"{SHIPPED}/topologySpreadConstraints/0/matchLabelKeys", None),
    serving("accounts-own", "StatefulSet", GATEWAY, f"{POD}/serviceAccountName", "default"),
    serving("accounts-own", "StatefulSet", GATEWAY, f"{POD}/automountServiceAccountToken", True),
    serving("accounts-own", "Deployment", CONTROLLER, f"{POD}/automountServiceAccountToken", False),
    of_device("accounts-own", BASE, f"{SHIPPED}/automountServiceAccountToken", True),
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
    serving("budgets-heeded", "Deployment", CONTROLLER, f"{BOX}/env", []),
    serving(
        "budgets-heeded",
        "Deployment",
        CONTROLLER,
        f"{BOX}/env",
        [{"name": "PENSTOCK_BUDGETS_URL", "value": "http://prometheus.elsewhere.svc:9090"}],
    ),
    platform("charts-pinned", "Release", "keda", "version", "2.18.0"),
    platform("charts-pinned", "Release", "keda", "chart", "oci://registry.example.com/charts/keda"),
    platform("namespaces-exist", "Release", "keda", "namespace", "default"),
    serving("namespaces-exist", "StatefulSet", GATEWAY, "metadata/namespace", "monitoring"),
)

PLACEMENT = (
    serving("scaled-number-free", "StatefulSet", GATEWAY, "spec/replicas", 3),
    serving("late-starters", "StatefulSet", GATEWAY, "metadata|annotations", {}),
    of_device("pods-schedulable", BASE, "sizes/0/resources/requests/memory", "900Gi"),
    of_device("pods-schedulable", BASE, f"{SHIPPED}/tolerations", []),
    of_device("pods-schedulable", BASE, f"{SHIPPED}/tolerations/0/value", "true"),
    of_device("pods-schedulable", BASE, f"{SHIPPED}/tolerations/0/effect", "NoExecute"),
    of_device("pods-schedulable", BASE, f"{SHIPPED}/nodeSelector", {"penstock.io/gpu": "nowhere"}),
    of_device("pods-schedulable", SLICED, "sizes|0|resources|requests|nvidia.com/mig-7g.40gb", "1"),
    of_device("slices-alone", SLICED, "sizes/0/resources/requests", {"nvidia.com/mig-3g.20gb": "2"}),
    of_device("places-exist", BASE, "places/0/most", 36),
    of_device("places-exist", BASE, "places/1/scaler", "asg"),
    of_device("places-exist", BASE, f"{SHIPPED}/nodeSelector", {"penstock.io/pool": "l40s-burst"}),
    of_device("places-exist", SLICED, "places", []),
    Breach(rule="places-exist", stack=EAST_SERVING, spoil=drop("ConfigMap", POOLS)),
    serving("rights-exact", "Role", CONTROLLER, "rules/0/verbs", ["list", "watch"]),
    serving("rights-exact", "Role", CONTROLLER, "rules/0/resources", ["*"]),
    serving("rights-exact", "Role", CONTROLLER, "metadata/namespace", "autoscaling"),
    serving("rights-exact", "RoleBinding", CONTROLLER, "subjects/0/name", "worker"),
    Breach(rule="rights-exact", stack=EAST_SERVING, spoil=drop("Role", CONTROLLER)),
    Breach(rule="rights-exact", stack=EAST_SERVING, spoil=drop("RoleBinding", CONTROLLER)),
    Breach(
        rule="rights-exact",
        stack=EAST_SERVING,
        spoil=plant("kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", metadata={"name": "controller"}),
    ),
    serving("scalers-aim", "ScaledObject", GATEWAY, "spec/scaleTargetRef/name", "gone"),
    serving("scalers-aim", "ScaledObject", GATEWAY, "spec/maxReplicaCount", 1300),
    serving("scalers-aim", "ScaledObject", GATEWAY, "spec/minReplicaCount", 2000),
    serving("scalers-exact", "ScaledObject", GATEWAY, f"{BEHAVIOUR}/scaleUp/tolerance", "0.1"),
    serving("scalers-exact", "ScaledObject", GATEWAY, f"{BEHAVIOUR}/scaleDown/stabilizationWindowSeconds", 300),
    serving("scalers-exact", "ScaledObject", GATEWAY, f"{BEHAVIOUR}/scaleUp/policies/0/value", 1),
    serving("scalers-exact", "ScaledObject", GATEWAY, f"{BEHAVIOUR}/scaleDown/policies/0/type", "Percent"),
    serving("scalers-exact", "ScaledObject", GATEWAY, f"{BEHAVIOUR}/scaleDown", {}),
    serving("scalers-exact", "ScaledObject", GATEWAY, "spec/triggers/0/type", "cpu"),
    serving("scalers-exact", "ScaledObject", GATEWAY, "spec/triggers/0/metadata/enableTLS", "false"),
    serving("scalers-exact", "ScaledObject", GATEWAY, "spec/triggers/1/metricType", "Value"),
    serving("scalers-hold", "ScaledObject", GATEWAY, "spec/fallback", {}),
    serving("scalers-hold", "ScaledObject", GATEWAY, "spec/fallback/behavior", "static"),
    serving("scalers-hold", "ScaledObject", GATEWAY, "spec/fallback/replicas", 0),
    serving("scalers-hold", "ScaledObject", GATEWAY, "spec/triggers/1/metadata/query", "sum(x) or vector(0)"),
    serving("scalers-hold", "ScaledObject", GATEWAY, "spec/triggers/1/metadata/ignoreNullValues", "true"),
    serving("scalers-hold", "ScaledObject", GATEWAY, "spec/triggers/1/type", "cron"),
    Breach(rule="scaler-certified", stack=EAST_SERVING, spoil=drop("Certificate", "penstock-keda-tls")),
    Breach(rule="scaler-certified", stack=EAST_SERVING, spoil=drop("TriggerAuthentication")),
    serving("scaler-certified", "ScaledObject", GATEWAY, "spec/triggers/0/authenticationRef", {}),
    serving("scaler-reached", "Service", "penstock-controller-scaler", "spec/clusterIP", "10.100.0.9"),
    serving(
        "scaler-reached",
        "NetworkPolicy",
        "penstock-controller-from-8078",
        "spec|ingress|0|from|0|podSelector|matchLabels|app.kubernetes.io/name",
        "karpenter",
    ),
    Breach(rule="deployments-scaled", stack=EAST_SERVING, spoil=drop("ScaledObject", GATEWAY), where=GATEWAY),
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
