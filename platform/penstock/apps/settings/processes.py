"""One declaration per process: exactly the settings that it reads (mypy checks that)."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from penstock.apps.settings import forms
from penstock.apps.settings.peers import PeerSettings
from penstock.apps.settings.stores import (
    ArtifactSettings,
    DatabaseSettings,
    KeySettings,
    LimitsSettings,
    MetricsSettings,
    with_files,
)
from penstock.apps.settings.told import File, Folder, KeyFile, Secret, Told
from penstock.worker.engines.device import Device
from penstock.worker.gate_config import QueueOrder

ENDING_S = 15.0
"""The time beside a worker's grace, to leave the table and end its engine."""
Port = Annotated[int, Field(ge=0, le=65535)]


class ListeningSettings(Told):
    """The address to listen at."""

    host: str = "127.0.0.1"
    """The address that the process listens at."""


class ReachedSettings(ListeningSettings):
    """The address that others reach the process by."""

    advertise: str = ""
    """The host name or IP address that others reach this process by, such as the pod's IP; empty means ``host``. If
    that is all addresses, the controller uses the source address of a worker's reports."""


class DrainSettings(Told):
    """The end of a process."""

    drain_grace_s: float = Field(default=30.0, ge=0)
    """Longest time for running answers to end after SIGTERM."""


class GatewaySettings(
    ListeningSettings,
    MetricsSettings,
    DrainSettings,
    DatabaseSettings,
    KeySettings,
    ArtifactSettings,
    LimitsSettings,
    PeerSettings,
):
    """A gateway's settings."""

    port: Port = 8080
    """Port for clients; 0 takes a free one."""
    grpc_port: Port = 0
    """Port for clients of the Open Inference Protocol over gRPC; 0 takes the one after ``port``, or any free one if
    that is in use."""
    gateways: int = Field(default=1, ge=1, le=32)
    """Number of gateways: `penstock up` starts them, and each grants its part while the limits' store is away."""
    limits_when_away: str = ""
    """The rule for each limit while that store is away: ``spend=share,tokens=open``. Defaults are ``spend=closed`` and
    ``share`` for requests, tokens, concurrency and streams: each gateway grants its part."""
    answers_url: Annotated[Secret, AfterValidator(forms.redis)] = ""
    """Redis or Valkey for answers under idempotency keys, another one than the limits'; empty keeps them in the
    process, and other gateways don't know them."""
    answers_password_file: KeyFile = ""
    """The password for it, read at each new connection."""
    answers_ca_file: File = ""
    """The authority of its certificate, PEM; empty uses the machine's own."""
    answers_tenant_bytes: int = Field(default=64 << 20, gt=0)
    """Most bytes of a tenant's kept answers."""
    answers_tenant_records: int = Field(default=50_000, gt=0)
    """Most kept answers of a tenant."""
    max_body_bytes: int = Field(default=0, ge=0)
    """Most bytes of a request's body; 0 derives it from the largest served context: 16 a token, at least 1 MiB."""
    max_held_bytes: int = Field(default=256 << 20, gt=0)
    """Most bytes of large requests that one gateway receives or reads at a time; one tenant may use half of it."""
    read_processes: int = Field(default=2, ge=1, le=16)
    """Child processes of each gateway that read large requests, so that these delay no stream."""
    max_header_bytes: int = Field(default=32 << 10, gt=0)
    """Most bytes of a request's head."""
    max_connections: int = Field(default=4096, gt=0)
    """Most connections of clients."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """Longest time for a request's head to arrive."""
    body_timeout_s: float = Field(default=30.0, gt=0)
    """Longest time for a request's body to arrive."""
    keep_alive_s: float = Field(default=75.0, gt=0)
    """Longest time of a connection without a request; set it longer than the load balancer's."""
    stream_heartbeat_s: float = Field(default=20.0, gt=0)
    """Interval of heartbeats on a silent stream; above the tiers' queue timeouts, so that a timeout is still a 503."""
    stream_stall_s: float = Field(default=30.0, gt=0)
    """Time after which a reader that takes nothing is disconnected."""
    stream_buffer_bytes: int = Field(default=256 << 10, gt=0)
    """Most bytes that the gateway buffers for one slow reader."""
    hold_requests: int = Field(default=256, ge=0)
    """Most requests that each gateway holds for one sleeping version; one tenant may use half of the places."""
    hold_tokens: int = Field(default=1_000_000, ge=0)
    """Most tokens of held requests together, prompts and expected answers."""
    hold_s: float = Field(default=60.0, ge=0)
    """Longest time that a request is held for a version to wake, within its deadline."""
    retry_budget_ratio: float = Field(default=0.1, ge=0, le=1)
    """Largest share of attempts that are retries."""
    records_bytes: int = Field(default=256 << 20, ge=1 << 20)
    """Most bytes of the records of ended requests in this home, for `penstock explain`."""
    records_days: float = Field(default=7.0, gt=0)
    """Longest time that a record is kept."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector (HTTP); empty turns tracing off."""
    trace_ratio: float = Field(default=0.01, ge=0, le=1)
    """Share of requests that are traced if their callers don't ask for it."""

    @property
    def answers_address(self) -> str:
        """Return the address of the answers' store with its files; empty without one."""
        return with_files(self.answers_url, password_file=self.answers_password_file, ssl_ca_certs=self.answers_ca_file)


class FleetKind(StrEnum):
    """The host of the workers."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


class ControllerSettings(
    ReachedSettings, MetricsSettings, DrainSettings, DatabaseSettings, KeySettings, LimitsSettings, PeerSettings
):
    """A controller's settings."""

    controller_port: Port = 0
    """Port for operators and workers; 0 takes 8079, or any free one if that is in use."""
    worker_addresses: str = ""
    """Networks and domains that workers may report addresses of (``10.0.0.0/8,workers.svc.cluster.local``), beside the
    source address of a report; leave it empty if no proxy changes that one."""
    lease_s: float = Field(default=5.0, gt=0)
    """Time without a report after which a worker leaves the table."""
    tick_s: float = Field(default=0.5, gt=0)
    """Interval of the controller's ticks."""
    budgets_url: Secret = ""
    """A Prometheus that records the promises: its error budgets count for rollouts, too; empty is the one of
    `penstock up --observe`; without any only availability counts, by the ledger."""
    fleet: FleetKind = FleetKind.LOCAL
    """The host of the workers: ``local``, this machine; ``kubernetes``, this controller's cluster."""
    pool_bytes: int = Field(default=0, ge=0)
    """Memory of this machine for engines: weights, KV cache and adapters' slots of all workers that are awake. More may
    be deployed than fits: unused versions sleep. 0 turns that off; with ``fleet=kubernetes`` it has no effect."""
    pools_file: str = ""
    """The infrastructure's node pools and pod templates for workers, as JSON."""
    kubeconfig: str = ""
    """The kubeconfig of the cluster; empty means this pod's own cluster."""

    @property
    def pooled_bytes(self) -> int:
        """Return the pool's bytes, 0 in a cluster, which places its pods itself."""
        return self.pool_bytes if self.fleet is FleetKind.LOCAL else 0


class ControllerAddress(Told):
    """The controller's address."""

    controller_url: str = ""
    """The controller's address for workers and the command line; empty reads the address file in the home."""


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
    """Most bytes of versions in that folder; the oldest are removed first."""
    compile_cache: Folder = ""
    """Folder of compiled kernels, which several homes may share; empty keeps it in this home."""
    heartbeat_s: float = Field(default=1.0, gt=0)
    """Interval of a worker's reports; at most a quarter of a second if it sleeps or has a pool."""
    pool_bytes: int = Field(default=0, ge=0)
    """Memory of the pool that this machine's engines share; 0 without one."""
    probe_every_s: float = Field(default=2.0, gt=0)
    """Interval of a worker's probes of its engine."""
    probe_timeout_s: float = Field(default=10.0, gt=0)
    """Time without progress after which an engine with work is replaced; six times as long while it computes,
    thirty times while it compiles."""
    device: Device = Device.AUTO
    """The engine's device: ``cuda``, ``cpu``, or ``auto``, a GPU if there is one; an assigned GPU that is missing is an
    error."""
    notice_s: float = Field(default=0.0, ge=0)
    """Notice before the machine is taken away (spot: 120), which bounds a drain; 0 without notice."""
    engine_zygote: str = "auto"
    """Fork engines from a pre-imported parent: ``auto`` (CPU only), ``on``, ``off``."""
    zygote_socket: str = ""
    """A pre-imported parent shared by several workers; empty means one per worker."""
    door_order: QueueOrder = QueueOrder.FAIR
    """Before each engine: ``fair``; ``fifo`` (same slots) or ``open`` (no admission at all) are for comparisons."""

    @property
    def grace_s(self) -> float:
        """The longest drain: the grace, or what the notice leaves after the engine's own end."""
        return min(self.drain_grace_s, max(0.0, self.notice_s - ENDING_S)) if self.notice_s else self.drain_grace_s

    @property
    def copies(self) -> Path:
        """The folder of verified copies, absolute."""
        return Path(self.node_cache).resolve() if self.node_cache else self.paths.cache

    @property
    def compiled(self) -> Path:
        """The folder of compiled kernels, absolute."""
        return Path(self.compile_cache).resolve() if self.compile_cache else self.paths.cache / "compiled"


class InitSettings(DatabaseSettings, KeySettings):
    """The settings of a platform's first start."""

    gateway_database_password_file: KeyFile = ""
    """The password of the gateways' role, ``penstock_gateway``; empty leaves all roles as they are."""
    controller_database_password_file: KeyFile = ""
    """The password of the controllers' role, ``penstock_controller``."""
    admin_key_file: str = ""
    """File for the first operator's API key; empty means ``admin.key`` in the home."""
