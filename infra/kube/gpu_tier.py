"""Workers: one Deployment per (model version, pool), or one LeaderWorkerSet where a replica spans nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from infra.components.labels import GPU_TAINT, POOL, SCALER
from infra.components.site import Site
from infra.config.pools import Model, Placement, Pool
from infra.kube import pods
from infra.kube.control_tier import (
    KILL_MARGIN_S,
    UNLISTED_S,
    controller_url,
    shared_environment,
    tls_mount,
    tls_volume,
)
from infra.kube.gpu import CACHE_MARKER, CACHE_VOLUME
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.scaling import Scaled, scaled_object, worker_triggers
from infra.kube.sizing import request
from infra.kube.workloads import AGENT_PORT, ENGINE_PORT, Ports, account, disruption_budget, labels_of

START_S = 1800
"""Fetch, verify, load, compile, warm: a large model on a cold node takes many minutes, and is not hung."""

SHORT_DIGEST = 12
CACHE_PATH = "/cache"
CACHE_RATIO_BYTES = 400 << 30
SHARED_MEMORY = "16Gi"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A model on a pool. `carried` is the capacity of the placements before this one, in replicas."""

    site: Site
    model: Model
    pool: Pool
    placement: Placement
    carried: int
    artifact_bucket: object

    @property
    def name(self) -> str:
        """One DNS label for model, version and pool."""
        return f"{self.model.slug}-{self.pool.name}"

    @property
    def version(self) -> str:
        """The version as the platform names it: name, and the start of the manifest's digest."""
        digest = self.model.digest.removeprefix("sha256:")
        return f"{self.model.name}@{digest[:SHORT_DIGEST]}"

    @property
    def labels(self) -> dict[str, str]:
        """What selects these pods and no other's."""
        return labels_of("worker", **{"penstock.io/model": self.model.slug, POOL: self.pool.name})

    @property
    def spans_nodes(self) -> bool:
        """Whether one replica needs more than one machine."""
        return self.model.nodes > 1


def replicas(site: Site, pools: Mapping[str, Pool], artifact_bucket: object) -> Iterator[Replica]:
    """Every (model, pool) of the region, in the order in which load fills them."""
    for model in site.environment.models:
        carried = 0
        for placement in model.placements:
            if placement.pool in pools:
                yield Replica(
                    site=site,
                    model=model,
                    pool=pools[placement.pool],
                    placement=placement,
                    carried=carried,
                    artifact_bucket=artifact_bucket,
                )
                carried += placement.max_replicas


def shared_manifests() -> Iterator[Manifest]:
    """What all workers share: an account, and a headless service, for the routing table names pods themselves."""
    yield account("worker")
    yield Ports(workload="worker", ports={"agent": AGENT_PORT, "engine": ENGINE_PORT}, headless=True).service()


def manifests(replica: Replica, server: object) -> Iterator[Manifest]:
    """The pods of one placement, their budget and their scaler."""
    yield _leader_worker_set(replica) if replica.spans_nodes else _deployment(replica)
    yield disruption_budget(replica.name, replica.labels)
    if not replica.spans_nodes:
        yield _scaler(replica, server)


def _scaler(replica: Replica, server: object) -> Manifest:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": replica.name}
    triggers = worker_triggers(replica.version, replica.model.name, carried=replica.carried)
    scaled = Scaled(
        name=replica.name,
        target=target,
        min_replicas=replica.placement.min_replicas,
        max_replicas=replica.placement.max_replicas,
        triggers=triggers,
        cooldown_s=900,
    )
    return scaled_object(scaled, server)


def _deployment(replica: Replica) -> Manifest:
    labels = replica.labels
    spec = {  # no number of replicas: the scaler owns it, and a rollout must not set it back
        "revisionHistoryLimit": 3,
        "progressDeadlineSeconds": START_S + 600,
        "selector": {"matchLabels": labels},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"metadata": {"labels": labels}, "spec": _pod(replica)},
    }
    return Manifest(
        api_version="apps/v1",
        kind="Deployment",
        name=replica.name,
        namespace=SERVING,
        labels=labels,
        annotations=pods.NOT_AWAITED,  # a cold node fetches and compiles for longer than an update waits
        body={"spec": spec},
    )


def _leader_worker_set(replica: Replica) -> Manifest:
    """One group is one replica: it starts together, and a lost pod restarts all of it, for half an engine is none."""
    template = {"metadata": {"labels": replica.labels}, "spec": _pod(replica)}
    return Manifest(
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
        name=replica.name,
        namespace=SERVING,
        labels=replica.labels,
        annotations=pods.NOT_AWAITED,
        body={
            "spec": {
                "replicas": replica.placement.min_replicas,
                "startupPolicy": "LeaderCreated",
                "rolloutStrategy": {
                    "type": "RollingUpdate",
                    "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0},
                },
                "leaderWorkerTemplate": {
                    "size": replica.model.nodes,
                    "restartPolicy": "RecreateGroupOnPodRestart",
                    "leaderTemplate": template,
                    "workerTemplate": template,
                },
            }
        },
    )


def _pod(replica: Replica) -> dict[str, object]:
    drain_s = replica.site.environment.worker_drain_s
    # A group on one reserved block lies in one zone by purchase; everything else must not.
    one_zone = replica.pool.reservation is not None
    return {
        "serviceAccountName": "worker",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "priorityClassName": "penstock-worker",
        "nodeSelector": {POOL: replica.pool.name, SCALER: replica.pool.scaler.value},
        "tolerations": [{"key": GPU_TAINT, "operator": "Equal", "value": "present", "effect": "NoSchedule"}],
        "securityContext": dict(pods.SAFE_POD),
        "terminationGracePeriodSeconds": UNLISTED_S + drain_s + KILL_MARGIN_S,
        "topologySpreadConstraints": [] if one_zone else pods.spread(replica.labels, hosts=False),
        "initContainers": [_cache_check(replica)],
        "containers": [_worker(replica, drain_s)],
        "volumes": [
            dict(pods.SCRATCH),
            {"name": "cache", "persistentVolumeClaim": {"claimName": CACHE_VOLUME}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
            tls_volume("worker"),
        ],
    }


def _image(replica: Replica) -> str:
    image = replica.site.environment.images["worker"]
    return pods.digest_reference(replica.site.registry, image.repository, image.digest)


def _cache_check(replica: Replica) -> dict[str, object]:
    """Weights on a root disk would load thirty times slower without a word; better not to start."""
    check = pods.container("cache-check", _image(replica), cpu="10m", memory="32Mi")
    mount = {"name": "cache", "mountPath": CACHE_PATH, "readOnly": True}
    return check | {"command": ["test", "-f", f"{CACHE_PATH}/{CACHE_MARKER}"], "volumeMounts": [mount]}


def _worker(replica: Replica, drain_s: int) -> dict[str, object]:
    asked = request(replica.model, replica.pool)
    devices = {key.replace("/", "__"): value for key, value in asked.devices.items()}
    main = pods.container("worker", _image(replica), cpu=asked.cpu, memory=asked.memory, **devices)
    main |= pods.probes("agent", start_s=START_S)
    return main | {
        "args": ["worker", replica.version, "--id", "$(POD_NAME)"],
        "env": [
            *shared_environment(replica.site),
            pods.plain("PENSTOCK_PORT", str(AGENT_PORT)),
            pods.plain("PENSTOCK_CONTROLLER_URL", controller_url()),
            pods.plain("PENSTOCK_ARTIFACT_BUCKET", replica.artifact_bucket),
            pods.plain("PENSTOCK_ARTIFACT_STORE", "s3://$(PENSTOCK_ARTIFACT_BUCKET)/models"),
            pods.plain("PENSTOCK_NODE_CACHE_BYTES", str(CACHE_RATIO_BYTES)),
            pods.plain("PENSTOCK_DRAIN_GRACE_S", str(drain_s)),
            pods.from_field("POD_IP", "status.podIP"),
        ],
        "ports": [{"name": "agent", "containerPort": AGENT_PORT}, {"name": "engine", "containerPort": ENGINE_PORT}],
        "lifecycle": pods.pause_before_stop(UNLISTED_S),
        "volumeMounts": [
            dict(pods.SCRATCH_MOUNT),
            {"name": "cache", "mountPath": CACHE_PATH},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - NCCL's shared memory, in the pod's own volume
            tls_mount(),
        ],
    }
