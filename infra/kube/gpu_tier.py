"""Workers: one Deployment per (model version, pool), or one LeaderWorkerSet where a replica spans nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pulumi

from infra.components.labels import GPU_TAINT, POOL, SCALER
from infra.components.site import Site
from infra.config.kinds import Capacity
from infra.config.pools import Model, Placement, Pool
from infra.contract import process
from infra.kube import pods
from infra.kube.control_tier import UNLISTED_S, artifact_store, controller_url
from infra.kube.gpu import CACHE_MARKER, CACHE_VOLUME
from infra.kube.manifest import Manifest
from infra.kube.namespaces import SERVING
from infra.kube.processes import KEY_MAKER, KEYS, MADE_AT_START, Claim, Run, file_of, files_of, secret_volume
from infra.kube.scaling import Scaled, scaled_object, worker_triggers
from infra.kube.sizing import request
from infra.kube.workloads import account, disruption_budget, labels_of, service

START_S = 1800
"""Fetch, verify, load, compile, warm: a large model on a cold node is ready only after many minutes."""

SHORT_DIGEST = 12
CACHE_PATH = "/cache"
CACHE_RATIO_BYTES = 400 << 30
CLAIM = Claim(name=CACHE_VOLUME, path=CACHE_PATH)
SPOT_NOTICE_S = 120
"""How long AWS tells before it takes a spot machine: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"""

SPOT_PAUSE_S = 1
"""Of a notice nothing is given away: gateways learn of a worker's end from the routing table, not from endpoints."""

_MAKE_KEY = f'umask 077; exec penstock worker-key "$0" "$1" > {KEYS}/{MADE_AT_START}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A model on a pool. `carried` is the capacity of the placements before this one, in replicas."""

    site: Site
    model: Model
    pool: Pool
    placement: Placement
    carried: int
    artifact_bucket: pulumi.Input[str]

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
    def on_spot(self) -> bool:
        """Whether its machine may be taken away at short notice."""
        return self.pool.capacity is Capacity.SPOT

    @property
    def drain_s(self) -> int:
        """How long its running answers may take to their end."""
        whole = self.site.environment.worker_drain_s
        return min(whole, SPOT_NOTICE_S) if self.on_spot else whole

    @property
    def pause_s(self) -> int:
        """How long it answers on before it is told to drain."""
        return SPOT_PAUSE_S if self.on_spot else UNLISTED_S

    @property
    def run(self) -> Run:
        """The process as the contract has it, with its copies and what it compiles on the node's NVMe."""
        return Run(
            process=process("worker"),
            site=self.site,
            claims={"versions": CLAIM, "compiled": CLAIM},
            arguments={"VERSION": self.version, "WORKER": "$(POD_NAME)"},
        )

    @property
    def spans_nodes(self) -> bool:
        """Whether one replica needs more than one machine."""
        return self.model.nodes > 1


def replicas(site: Site, pools: Mapping[str, Pool], artifact_bucket: pulumi.Input[str]) -> Iterator[Replica]:
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
    yield service(process("worker"), "gate", "status", headless=True)


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
        "terminationGracePeriodSeconds": replica.pause_s + replica.run.grace_s(replica.drain_s),
        "topologySpreadConstraints": [] if one_zone else pods.spread(replica.labels, hosts=False),
        "initContainers": [_cache_check(replica), _key_maker(replica)],
        "containers": [_worker(replica)],
        "volumes": [
            *replica.run.volumes(),
            secret_volume(KEY_MAKER, files_of(KEY_MAKER)),
        ],
    }


def _image(replica: Replica) -> str:
    image = replica.site.environment.images["worker"]
    return pods.digest_reference(replica.site.registry, image.repository, image.digest)


def _cache_check(replica: Replica) -> dict[str, object]:
    """Weights on a root disk would load thirty times slower without a word; better not to start."""
    check = pods.container("cache-check", _image(replica), cpu="10m", memory="32Mi")
    mount = {"name": CACHE_VOLUME, "mountPath": CACHE_PATH, "readOnly": True}
    return check | {"command": ["test", "-f", f"{CACHE_PATH}/{CACHE_MARKER}"], "volumeMounts": [mount]}


def _key_maker(replica: Replica) -> dict[str, object]:
    """Makes this pod's own secret and ends: the platform's key is never where an engine runs."""
    (key,) = (secret for secret in process("init").secrets if secret.name == "platform-key")
    maker = pods.container(KEY_MAKER, _image(replica), cpu="100m", memory="256Mi")
    mounts = (
        {"name": KEY_MAKER, "mountPath": file_of(key).removesuffix(f"/{key.name}"), "readOnly": True},
        {"name": "keys", "mountPath": KEYS},
    )
    return maker | {
        "command": ["sh", "-c", _MAKE_KEY, "$(POD_NAME)", replica.version],
        "env": [pods.from_field("POD_NAME", "metadata.name"), pods.plain(key.setting, file_of(key))],
        "volumeMounts": [dict(mount) for mount in mounts],
    }


def _worker(replica: Replica) -> dict[str, object]:
    asked = request(replica.model, replica.pool)
    devices = {key.replace("/", "__"): value for key, value in asked.devices.items()}
    main = pods.container("worker", _image(replica), cpu=asked.cpu, memory=asked.memory, **devices)
    notice = [pods.plain("PENSTOCK_NOTICE_S", str(SPOT_NOTICE_S))] if replica.on_spot else []
    main = replica.run.container(
        main,
        pods.from_field("POD_NAME", "metadata.name"),
        pods.plain("PENSTOCK_CONTROLLER_URL", controller_url()),
        artifact_store(replica.artifact_bucket),
        pods.plain("PENSTOCK_NODE_CACHE_BYTES", str(CACHE_RATIO_BYTES)),
        pods.plain("PENSTOCK_DRAIN_GRACE_S", str(replica.drain_s)),
        pods.plain("PENSTOCK_DEVICE", "cuda"),
        *notice,
    )
    return main | {"lifecycle": pods.pause_before_stop(replica.pause_s)}
