"""One class per process with exactly the settings that it reads (mypy checks that)."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.domain.fleet.worker import ON_DEMAND, POOL, SPOT
from penstock.settings import forms
from penstock.settings.deferred import DeferredSettings
from penstock.settings.pipeline import DrainSettings, PipelineSettings
from penstock.settings.stores import (
    ArtifactSettings,
    AuditSettings,
    DatabaseSettings,
    KeySettings,
    LimitsSettings,
    MetricsSettings,
    PeerSettings,
    SealingSettings,
    with_files,
)
from penstock.settings.told import File, Folder, KeyFile, Secret, Told
from penstock.worker.engines.device import Device

ENDING_S = 15.0
"""Seconds after a worker's grace period to leave the table and end its engine."""
Port = Annotated[int, Field(ge=0, le=65535)]


class ListeningSettings(Told):
    """The address on which a process listens."""

    host: str = "127.0.0.1"
    """The address that the process listens at."""


class ReachedSettings(ListeningSettings):
    """The address by which others reach a process."""

    advertise: str = ""
    """The host name or IP address that other processes reach this one by, such as the pod's IP; empty means ``host``.
    If that is all addresses, the controller takes the address that a worker's reports come from."""


class GatewaySettings(ListeningSettings, PipelineSettings, DeferredSettings):
    """A gateway's settings."""

    port: Port = 8080
    """Port of the public HTTP listener; 0 takes a free one."""
    grpc_port: Port = 0
    """Port of the public gRPC listener (Open Inference Protocol); 0 takes ``port`` + 1, or any free one if that is in
    use."""
    answers_url: Annotated[Secret, AfterValidator(forms.redis)] = ""
    """Redis or Valkey for answers under idempotency keys, another one than the limits'. Empty keeps them in the
    gateway's memory: they are lost at a restart and not shared between gateways."""
    answers_password_file: KeyFile = ""
    """File with the password of the answers' store, read at each new connection."""
    answers_ca_file: File = ""
    """The authority of the answers' store, PEM; empty takes the machine's authorities."""
    answers_tenant_bytes: int = Field(default=64 << 20, gt=0)
    """The most bytes of one tenant's kept answers."""
    answers_tenant_records: int = Field(default=50_000, gt=0)
    """The most answers kept for one tenant."""
    max_body_bytes: int = Field(default=0, ge=0)
    """The most bytes of one request's body; 0 derives it from the largest context served: 16 bytes a token, at least
    1 MiB."""
    max_held_bytes: int = Field(default=256 << 20, gt=0)
    """The most bytes of large requests that one gateway receives or parses at a time; one tenant may use half."""
    max_header_bytes: int = Field(default=32 << 10, gt=0)
    """The most bytes of one request's headers."""
    max_connections: int = Field(default=4096, gt=0)
    """The most client connections of one gateway."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds that a request's headers may take to arrive."""
    body_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds that a request's body may take to arrive."""
    keep_alive_s: float = Field(default=75.0, gt=0)
    """Seconds that a connection may be idle; set it longer than the load balancer's."""
    stream_buffer_bytes: int = Field(default=256 << 10, gt=0)
    """The most bytes buffered for one slow reader."""
    cors_origins: Annotated[str, AfterValidator(forms.origins)] = ""
    """Origins whose pages may use this gateway from a browser, as ``https://a.example,https://b.example:8443``, or
    ``*`` for any; empty for none. A page's readers can read its key: give it one of its own, with a plan. Cookies and
    other credentials of the browser are never allowed."""

    @property
    def answers_address(self) -> str:
        return with_files(self.answers_url, password_file=self.answers_password_file, ssl_ca_certs=self.answers_ca_file)


class RunnerSettings(PipelineSettings, DeferredSettings):
    """A jobs runner, which has no listener but the private one."""


class FleetKind(StrEnum):
    """The kind of the workers' host."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


class ControllerSettings(
    ReachedSettings,
    MetricsSettings,
    DrainSettings,
    DatabaseSettings,
    KeySettings,
    SealingSettings,
    LimitsSettings,
    AuditSettings,
    PeerSettings,
):
    """A controller's settings."""

    controller_port: Port = 0
    """Port of the controller for operators and workers; 0 takes 8079, or any free one if that is in use."""
    worker_addresses: str = ""
    """Networks and domains that workers may report addresses of (``10.0.0.0/8,workers.svc.cluster.local``), beside the
    address that a report comes from; empty if nothing between worker and controller changes that address."""
    lease_s: float = Field(default=5.0, gt=0)
    """Seconds without a heartbeat after which a worker is silent; after twice as many it leaves the routing table,
    after three times as many it is replaced."""
    tick_s: float = Field(default=0.5, gt=0)
    """Seconds between two ticks of the controller."""
    budgets_url: Secret = ""
    """A Prometheus that records the promises: its error budgets count for rollouts, too. Empty is the one of
    `penstock up --observe`; without any, only availability by the ledger counts."""
    fleet: FleetKind = FleetKind.LOCAL
    """Where workers run: ``local``, on this machine; ``kubernetes``, in the cluster that this controller is in."""
    pool_bytes: int = Field(default=0, ge=0)
    """Memory of this machine for engines: weights, KV cache and adapters' slots of all workers that are awake. More may
    be deployed than fits: unused versions sleep. 0 turns that off; with ``fleet=kubernetes`` it does nothing."""
    scale_file: str = ""
    """File with bounds of scaling by version (``scale:``, see how-it-decides/scaling): its versions get as many workers
    as their requests ask for, and so do gateways with bounds of their own. Empty scales nothing."""
    scaler_port: Port = 0
    """Port at which KEDA asks the leading controller for replicas; 0 opens none. Only with ``fleet=kubernetes``."""
    pools_file: str = ""
    """File with the pools that the infrastructure ships, as JSON: nodes for workers in a cluster, and pod templates."""
    kubeconfig: str = ""
    """A kubeconfig file; empty means the cluster that this pod is in."""

    @property
    def pooled_bytes(self) -> int:
        """Return the pool's bytes, 0 in a cluster, which places its pods itself."""
        return self.pool_bytes if self.fleet is FleetKind.LOCAL else 0


class ControllerAddress(Told):
    """The controller's address."""

    controller_url: str = ""
    """Address of the controller for workers and the command line; empty reads the address file in the home."""


class WorkerSettings(ReachedSettings, DrainSettings, ArtifactSettings, ControllerAddress, PeerSettings):
    """A worker's settings; its version and name are arguments."""

    worker_port: Port = 0
    """Port of the engine's gate, for gateways; 0 takes a free one."""
    status_port: Port = 0
    """Port of the agent's health and metrics, on the same address; 0 takes a free one."""
    worker_key_file: KeyFile = ""
    """The worker's own secret (`penstock worker-key`); empty looks in the home."""
    signing_key_file: File = ""
    """The public key that versions must be signed with; empty means ``signing/public.pem`` in the home."""
    node_cache: Folder = ""
    """Folder of verified copies of versions, which workers of one machine share; empty keeps it in the home."""
    node_cache_bytes: int = Field(default=20 << 30, gt=0)
    """The most bytes of versions in that folder; the least recently used go first."""
    compile_cache: Folder = ""
    """Folder of compiled kernels, which several homes may share; empty keeps it in this home."""
    heartbeat_s: float = Field(default=1.0, gt=0)
    """Seconds between heartbeats; at most a quarter of a second for a worker that sleeps or has a pool."""
    pool_bytes: int = Field(default=0, ge=0)
    """Memory of the pool that this machine's engines share; 0 without one."""
    probe_every_s: float = Field(default=2.0, gt=0)
    """Seconds between the agent's probes of its engine."""
    probe_timeout_s: float = Field(default=10.0, gt=0)
    """Seconds without progress after which an engine with work is replaced; six times as long for one that computes,
    thirty times for one that compiles."""
    device: Device = Device.AUTO
    """Device of the engine: ``cuda``, ``cpu``, or ``auto``: the GPU if there is one. A GPU that was given to the
    container and is missing is an error."""
    notice_s: float = Field(default=0.0, ge=0)
    """Seconds between the notice and the end of this machine (spot: 120); a drain takes no longer. 0 if there is no
    notice."""
    capacity_file: str = ""
    """A file in which the node says how it was bought: only ``spot`` has the notice then. Empty: the notice counts."""
    node_pool: Annotated[str, Field(pattern=f"^({POOL})?$")] = ""
    """A name of this machine's pool for plans that confine batch work (`batch_pools`), beside how it was bought: what
    its file says, or else ``spot`` with a notice and ``on-demand`` without one."""
    engine_zygote: str = "auto"
    """Fork engines from a pre-imported parent: ``auto`` (CPU only), ``on``, ``off``."""
    zygote_socket: str = ""
    """A pre-imported parent shared by several workers; empty means one per worker."""

    @property
    def announced_s(self) -> float:
        """The seconds from a reclaim notice to this machine's end; 0 if the node's file says that it is not spot."""
        return self.notice_s if self._bought in ("", SPOT) else 0.0

    @property
    def pools(self) -> tuple[str, ...]:
        bought = self._bought or (SPOT if self.notice_s else ON_DEMAND)
        return (bought, self.node_pool) if self.node_pool else (bought,)

    @property
    def _bought(self) -> str:
        """What the node's file says; empty if it says nothing."""
        try:
            return Path(self.capacity_file).read_text().strip() if self.capacity_file else ""
        except OSError:
            return ""

    @property
    def grace_s(self) -> float:
        """The longest drain: the grace period, or the notice period less the engine's own end."""
        notice_s = self.announced_s
        return min(self.drain_grace_s, max(0.0, notice_s - ENDING_S)) if notice_s else self.drain_grace_s

    @property
    def copies(self) -> Path:
        return Path(self.node_cache).resolve() if self.node_cache else self.paths.cache

    @property
    def compiled(self) -> Path:
        return Path(self.compile_cache).resolve() if self.compile_cache else self.paths.cache / "compiled"


class InitSettings(DatabaseSettings, KeySettings):
    """The settings of a platform's first start."""

    gateway_database_password_file: KeyFile = ""
    """The password of the gateways' role, ``penstock_gateway``; empty leaves all roles as they are."""
    controller_database_password_file: KeyFile = ""
    """The password of the controllers' role, ``penstock_controller``."""
    runner_database_password_file: KeyFile = ""
    """The password of the jobs runners' role, ``penstock_runner``; empty if no jobs run."""
    admin_key_file: str = ""
    """File that the first operator's API key is written to; empty means ``admin.key`` in the home."""
