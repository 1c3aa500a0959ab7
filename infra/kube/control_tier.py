"""Gateway and controller: the CPU tier. The gateway drains streams, the controller hands its lock over."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from infra.components.labels import ROLE
from infra.components.site import Site
from infra.config.model import ContainerImage, Workload
from infra.kube import pods
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.scaling import Scaled, gateway_triggers, scaled_object
from infra.kube.workloads import (
    CONTROLLER_PORT,
    GATEWAY_PORT,
    METRICS_PORT,
    Ports,
    account,
    disruption_budget,
    labels_of,
)

UNLISTED_S = 15
"""Time between leaving the endpoints and SIGTERM: the load balancer needs it to hear that a pod is gone."""

KILL_MARGIN_S = 15
TLS_PATH = "/etc/penstock/tls"
HOME = "/tmp/penstock"  # noqa: S108 - the pod's own scratch volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """One CPU workload: its image, size, port and environment."""

    name: str
    image: str
    size: Workload
    port: int
    environment: tuple[Mapping[str, object], ...]
    annotations: Mapping[str, str] = field(default_factory=dict)


def tls_volume(workload: str) -> dict[str, object]:
    """The workload's certificate, as cert-manager keeps it."""
    return {"name": "tls", "secret": {"secretName": f"{workload}-tls", "defaultMode": 288}}


def tls_mount() -> dict[str, object]:
    """Where the certificate is read from."""
    return {"name": "tls", "mountPath": TLS_PATH, "readOnly": True}


def shared_environment(site: Site) -> tuple[Mapping[str, object], ...]:
    """What every process is told about where it runs."""
    return (
        pods.plain("PENSTOCK_HOST", "0.0.0.0"),  # noqa: S104 - inside a pod behind a NetworkPolicy
        pods.plain("PENSTOCK_METRICS_HOST", "0.0.0.0"),  # noqa: S104 - as above
        pods.plain("PENSTOCK_METRICS_PORT", str(METRICS_PORT)),
        pods.plain("PENSTOCK_HOME", HOME),
        pods.plain("AWS_REGION", site.region),
        pods.from_field("PENSTOCK_ZONE", "metadata.labels['topology.kubernetes.io/zone']"),
        pods.from_field("POD_NAME", "metadata.name"),
    )


def controller_url() -> str:
    """Where gateways and workers find the controller."""
    return f"http://controller.{SERVING}.svc:{CONTROLLER_PORT}"


def gateway(site: Site, server: object, target_group_arn: object) -> Iterator[Manifest]:
    """Everything of the gateway, registered with the region's load balancer by pod address."""
    size = site.environment.gateway
    environment = (
        *shared_environment(site),
        pods.plain("PENSTOCK_PORT", str(GATEWAY_PORT)),
        pods.plain("PENSTOCK_CONTROLLER_URL", controller_url()),
        pods.plain("PENSTOCK_DRAIN_GRACE_S", str(size.drain_s)),
        pods.from_secret("PENSTOCK_DATABASE_URL", "gateway", "database-url"),
        pods.plain("PENSTOCK_GATEWAYS", str(size.min_replicas)),
        pods.from_secret("PENSTOCK_LIMITS_URL", "gateway", "cache-url"),
        pods.plain("PENSTOCK_ANSWERS_URL", "$(PENSTOCK_LIMITS_URL)?db=1"),
    )
    image = _reference(site, site.environment.images["gateway"])
    deployed = Deployed(
        name="gateway",
        image=image,
        size=size,
        port=GATEWAY_PORT,
        environment=environment,
        annotations=pods.NOT_AWAITED,  # ready only with a routing table, which comes with the first model
    )
    yield from _workload(deployed)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "gateway"}
    scaled = Scaled(
        name="gateway",
        target=target,
        min_replicas=size.min_replicas,
        max_replicas=size.max_replicas,
        triggers=gateway_triggers(),
        cooldown_s=300,
    )
    yield scaled_object(scaled, server)
    yield Manifest(
        api_version="elbv2.k8s.aws/v1beta1",
        kind="TargetGroupBinding",
        name="gateway",
        namespace=SERVING,
        body={
            "spec": {
                "serviceRef": {"name": "gateway", "port": GATEWAY_PORT},
                "targetGroupARN": target_group_arn,
                "targetType": "ip",
            }
        },
    )


def controller(site: Site, artifact_bucket: object) -> Iterator[Manifest]:
    """Everything of the controller: two pods, one of which holds the database's lock and works."""
    size = site.environment.controller
    environment = (
        *shared_environment(site),
        pods.plain("PENSTOCK_CONTROLLER_PORT", str(CONTROLLER_PORT)),
        pods.plain("PENSTOCK_ARTIFACT_BUCKET", artifact_bucket),
        pods.plain("PENSTOCK_ARTIFACT_STORE", "s3://$(PENSTOCK_ARTIFACT_BUCKET)/models"),
        pods.from_secret("PENSTOCK_DATABASE_URL", "controller", "database-url"),
    )
    image = _reference(site, site.environment.images["controller"])
    yield from _workload(
        Deployed(name="controller", image=image, size=size, port=CONTROLLER_PORT, environment=environment)
    )


def _reference(site: Site, image: ContainerImage) -> str:
    return pods.digest_reference(site.registry, image.repository, image.digest)


def _workload(deployed: Deployed) -> Iterator[Manifest]:
    labels = labels_of(deployed.name)
    yield account(deployed.name)
    yield Manifest(
        api_version="apps/v1",
        kind="Deployment",
        name=deployed.name,
        namespace=SERVING,
        labels=labels,
        annotations=deployed.annotations,
        body={"spec": _deployment(deployed, labels)},
    )
    yield Ports(workload=deployed.name, ports={"http": deployed.port}).service()
    yield disruption_budget(deployed.name, labels)


def _deployment(deployed: Deployed, labels: Mapping[str, str]) -> dict[str, object]:
    size = deployed.size
    number = {} if size.max_replicas > size.min_replicas else {"replicas": size.min_replicas}
    return {
        **number,  # where a scaler owns it, a rollout must not set it back
        "revisionHistoryLimit": 5,
        "minReadySeconds": 10,
        "selector": {"matchLabels": dict(labels)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": dict(labels)}, "spec": _pod(deployed, labels)},
    }


def _pod(deployed: Deployed, labels: Mapping[str, str]) -> dict[str, object]:
    main = pods.container(deployed.name, deployed.image, cpu=deployed.size.cpu, memory=deployed.size.memory)
    main |= pods.probes("http", start_s=60)
    main |= {
        "args": [deployed.name],
        "env": list(deployed.environment),
        "ports": [
            {"name": "http", "containerPort": deployed.port},
            {"name": "metrics", "containerPort": METRICS_PORT},
        ],
        "lifecycle": pods.pause_before_stop(UNLISTED_S),
        "volumeMounts": [dict(pods.SCRATCH_MOUNT), tls_mount()],
    }
    return {
        "serviceAccountName": deployed.name,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": f"penstock-{deployed.name}",
        "nodeSelector": {ROLE: "cpu"},
        "securityContext": dict(pods.SAFE_POD),
        "terminationGracePeriodSeconds": UNLISTED_S + deployed.size.drain_s + KILL_MARGIN_S,
        "topologySpreadConstraints": pods.spread(labels, hosts=True),
        "containers": [main],
        "volumes": [dict(pods.SCRATCH), tls_volume(deployed.name)],
    }
