"""One way or more to break each invariant of what AWS and Kubernetes refuse, or do otherwise."""

from tests.infra.edits import EAST_PLATFORM, EAST_REGION, EAST_SERVING, Breach, drop, put, rewrite

GATEWAY = "penstock-gateway"


def east(stack: str, rule: str, kind: str, name: str, path: str, value: object) -> Breach:
    return Breach(rule=rule, stack=stack, spoil=put(kind, name, path, value), where=name)


SEMANTICS = (
    east(EAST_SERVING, "certificates-renewed", "Certificate", "penstock-worker-tls", "spec/renewBefore", "24h"),
    east(EAST_SERVING, "certificates-renewed", "Certificate", "penstock-worker-tls", "spec/renewBefore", None),
    east(EAST_SERVING, "secrets-follow", "ExternalSecret", GATEWAY, "spec/refreshInterval", "0"),
    east(EAST_SERVING, "secrets-follow", "ExternalSecret", GATEWAY, "spec/refreshInterval", "1h1m"),
    east(EAST_PLATFORM, "volumes-bind", "StorageClass", "encrypted", "volumeBindingMode", "Immediate"),
    east(EAST_PLATFORM, "volumes-bind", "StorageClass", "encrypted", "parameters/encrypted", "false"),
    east(
        EAST_SERVING,
        "volumes-kept",
        "StatefulSet",
        GATEWAY,
        "spec/persistentVolumeClaimRetentionPolicy/whenScaled",
        "Delete",
    ),
    east(
        EAST_SERVING,
        "volumes-kept",
        "StatefulSet",
        GATEWAY,
        "spec/volumeClaimTemplates/0/spec/accessModes",
        ["ReadWriteMany"],
    ),
    east(
        EAST_SERVING,
        "volumes-kept",
        "PersistentVolumeClaim",
        "penstock-admin-key",
        "spec/accessModes",
        ["ReadOnlyMany"],
    ),
    east(EAST_SERVING, "jobs-end", "Job", "penstock-init", "spec/template/spec/restartPolicy", "Always"),
    east(EAST_PLATFORM, "burst-drains", "NodePool", "l40s-spot", "spec/template/spec/terminationGracePeriod", "5m"),
    east(
        EAST_PLATFORM,
        "burst-drains",
        "NodePool",
        "l40s-spot",
        "spec/disruption/consolidationPolicy",
        "WhenEmptyOrUnderutilized",
    ),
    east(
        EAST_PLATFORM, "scrapes-fit", "PodMonitor", "penstock-worker", "spec/podMetricsEndpoints/0/scrapeTimeout", "20s"
    ),
    east(
        EAST_PLATFORM,
        "image-rules-reach",
        "ValidatingAdmissionPolicyBinding",
        "images-by-digest",
        "spec/matchResources/namespaceSelector/matchLabels",
        {"name": "penstock"},
    ),
    east(
        EAST_PLATFORM,
        "image-rules-reach",
        "Namespace",
        "penstock",
        "metadata|labels|policy.sigstore.dev/include",
        "enabled",
    ),
    east(EAST_REGION, "names-resolve", "Vpc", "us-east-1", "enableDnsHostnames", False),
    east(EAST_REGION, "targets-drain", "TargetGroup", "gateway", "targetType", "instance"),
    east(EAST_REGION, "targets-drain", "TargetGroup", "gateway", "healthCheck/timeout", 5),
    east(EAST_REGION, "targets-drain", "TargetGroup", "gateway", "deregistrationDelay", 30),
    east(EAST_REGION, "nodes-admitted", "AccessEntry", "nodes", "type", "STANDARD"),
    Breach(rule="nodes-admitted", stack=EAST_REGION, spoil=drop("AccessEntry", "nodes")),
    Breach(
        rule="releases-kept",
        stack="global",
        spoil=rewrite("LifecyclePolicy", "penstock-worker", "policy", "untagged", "any"),
        where="penstock-worker",
    ),
)
