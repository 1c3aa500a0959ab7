"""A worker's pod on a device, whole but for what only the controller knows: version, names, labels, resources.

The open places are spelled as the controller fills them (`penstock.connectors.kubernetes.pools.FILLED`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from infra.catalogue.instances import instances
from infra.components.labels import GPU, GPU_TAINT, GPU_TAINT_VALUE
from infra.components.site import Site
from infra.contract import process
from infra.kube import pods
from infra.kube.control_tier import artifact_store, controller_url
from infra.kube.gpu import CACHE_MARKER, CACHE_VOLUME, CAPACITY_FILE
from infra.kube.processes import KEY_MAKER, KEYS, MADE_AT_START, Claim, Run, file_of, files_of, secret_volume
from infra.kube.sizing import Device
from infra.kube.workloads import labels_of

VERSION, WORKER, NAME, MODEL, DIGEST = "{VERSION}", "{WORKER}", "{NAME}", "{MODEL}", "{DIGEST}"
WORKLOAD = "penstock.io/workload"
"""The label by which the controller tells a version's pods from all others."""

CACHE_PATH = "/cache"
CACHE_SHARE = 0.6
"""Of a node's instance store, for versions. Compiled kernels, logs and pods' volumes share the disk, and kubelet evicts
at 10 % free (kubelet's default `nodefs.available`)."""
CLAIM = Claim(name=CACHE_VOLUME, path=CACHE_PATH)
SPOT_NOTICE_S = 120
"""How long AWS tells before it takes a spot machine: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html"""

PAUSE_S = 1
"""How long a worker answers on before it drains. Gateways learn of its end from the routing table, not from endpoints,
and of a spot machine's notice nothing is given away."""

TOLERATION = {"key": GPU_TAINT, "operator": "Equal", "value": GPU_TAINT_VALUE, "effect": "NoSchedule"}

_MAKE_KEY = f'umask 077; exec penstock worker-key "$0" "$1" > {KEYS}/{MADE_AT_START}'


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPod:
    """The pod of every version's workers on one device, on whatever machine."""

    site: Site
    device: Device
    artifact_bucket: pulumi.Input[str]

    @property
    def labels(self) -> dict[str, str]:
        """What people and monitors find it by; the controller adds what selects it."""
        return labels_of("worker", **{"penstock.io/model": MODEL, "penstock.io/digest": DIGEST})

    @property
    def drain_s(self) -> int:
        """How long its running answers may take to their end, if its machine may be had for as long."""
        return self.site.environment.worker_drain_s

    @property
    def cache_bytes(self) -> int:
        """How much of the smallest instance store that it may get its versions may take."""
        names = [name for pool in self.device.pools for name in pool.instance_types]
        smallest_gb = min(instances()[name].nvme_gb for name in names)
        return int(CACHE_SHARE * smallest_gb * 1_000_000_000)

    @property
    def run(self) -> Run:
        """The process as the contract has it, with its copies and what it compiles on the node's NVMe."""
        return Run(
            process=process("worker"),
            site=self.site,
            claims={"versions": CLAIM, "compiled": CLAIM},
            arguments={"VERSION": VERSION, "WORKER": WORKER},
        )

    def template(self) -> dict[str, object]:
        """The pod, as a Deployment's template has it."""
        return {"metadata": {"labels": self.labels}, "spec": self._spec()}

    def _spec(self) -> dict[str, object]:
        # Nodes of one reserved block lie in one zone by purchase; everything else must not.
        one_zone = any(pool.reservation is not None for pool in self.device.pools)
        return {
            "serviceAccountName": "worker",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": "penstock-worker",
            "nodeSelector": {GPU: self.device.gpu},
            "tolerations": [dict(TOLERATION)],
            "securityContext": dict(pods.SAFE_POD),
            "terminationGracePeriodSeconds": PAUSE_S + self.run.grace_s(self.drain_s),
            "topologySpreadConstraints": [] if one_zone else pods.spread({WORKLOAD: NAME}, hosts=False),
            "initContainers": [self._cache_check(), self._key_maker()],
            "containers": [self._worker()],
            "volumes": [*self.run.volumes(), secret_volume(KEY_MAKER, files_of(KEY_MAKER))],
        }

    @property
    def _image(self) -> str:
        image = self.site.environment.images["worker"]
        return pods.digest_reference(self.site.registry, image.repository, image.digest)

    def _cache_check(self) -> dict[str, object]:
        """Weights on a root disk would load thirty times slower without a word; better not to start."""
        check = pods.container("cache-check", self._image, cpu="10m", memory="32Mi")
        mount = {"name": CACHE_VOLUME, "mountPath": CACHE_PATH, "readOnly": True}
        return check | {"command": ["test", "-f", f"{CACHE_PATH}/{CACHE_MARKER}"], "volumeMounts": [mount]}

    def _key_maker(self) -> dict[str, object]:
        """Makes this pod's own secret and ends: the platform's key is never where an engine runs."""
        (key,) = (secret for secret in process("init").secrets if secret.name == "platform-key")
        maker = pods.container(KEY_MAKER, self._image, cpu="100m", memory="256Mi")
        mounts: tuple[Mapping[str, object], ...] = (
            {"name": KEY_MAKER, "mountPath": file_of(key).removesuffix(f"/{key.name}"), "readOnly": True},
            {"name": "keys", "mountPath": KEYS},
        )
        return maker | {
            "command": ["sh", "-c", _MAKE_KEY, WORKER, VERSION],
            "env": [pods.from_field("POD_NAME", "metadata.name"), pods.plain(key.setting, file_of(key))],
            "volumeMounts": [dict(mount) for mount in mounts],
        }

    def _worker(self) -> dict[str, object]:
        """The engine's container; what it asks of a node depends on the version, and comes with the device's sizes."""
        main = self.run.container(
            pods.bare("worker", self._image),
            pods.from_field("POD_NAME", "metadata.name"),
            pods.plain("PENSTOCK_CONTROLLER_URL", controller_url()),
            artifact_store(self.artifact_bucket),
            pods.plain("PENSTOCK_NODE_CACHE_BYTES", str(self.cache_bytes)),
            pods.plain("PENSTOCK_DRAIN_GRACE_S", str(self.drain_s)),
            pods.plain("PENSTOCK_DEVICE", "cuda"),
            pods.plain("PENSTOCK_NOTICE_S", str(SPOT_NOTICE_S)),
            pods.plain("PENSTOCK_CAPACITY_FILE", f"{CACHE_PATH}/{CAPACITY_FILE}"),
        )
        return main | {"lifecycle": pods.pause_before_stop(PAUSE_S)}
