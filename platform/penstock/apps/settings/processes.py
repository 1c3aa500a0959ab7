"""One declaration per process: all that it is told, and nothing that it does not read (mypy sees to that)."""

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
"""What a worker needs beside its grace: to leave the table, and to end its engine."""
Port = Annotated[int, Field(ge=0, le=65535)]


class ListeningSettings(Told):
    """Where a process listens."""

    host: str = "127.0.0.1"
    """The address that the process listens at."""


class ReachedSettings(ListeningSettings):
    """What others reach a process by."""

    advertise: str = ""
    """The host name or IP address that others reach this process by, such as the pod's IP; empty means ``host``. Where
    that is all addresses, the controller takes a worker to be where its reports come from."""


class DrainSettings(Told):
    """How a process ends."""

    drain_grace_s: float = Field(default=30.0, ge=0)
    """How long running answers may take to their end after SIGTERM."""


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
    """All that a gateway is told."""

    port: Port = 8080
    """Where clients come in; 0 takes a free port."""
    grpc_port: Port = 0
    """Where clients of the Open Inference Protocol come in over gRPC; 0 takes the one behind ``port``, or any free one
    where that is in use."""
    gateways: int = Field(default=1, ge=1, le=32)
    """How many gateways there are: `penstock up` starts so many, and each gives its part while the limits' store is
    away."""
    limits_when_away: str = ""
    """What holds while that store is away, per limit: ``spend=share,tokens=open``. Silent are ``spend=closed`` and
    ``share`` for requests, tokens, concurrency and streams: each gateway gives its part."""
    answers_url: Annotated[Secret, AfterValidator(forms.redis)] = ""
    """Redis or Valkey for answers under idempotency keys, another one than the limits'; empty keeps them in the
    process, where one gateway's keys mean nothing to another."""
    answers_password_file: KeyFile = ""
    """The password for it, read at each new connection."""
    answers_ca_file: File = ""
    """The authority that its certificate must be of, PEM; empty takes the machine's own."""
    answers_tenant_bytes: int = Field(default=64 << 20, gt=0)
    """What a tenant's kept answers take at most."""
    answers_tenant_records: int = Field(default=50_000, gt=0)
    """How many answers are kept for a tenant at most."""
    max_body_bytes: int = Field(default=0, ge=0)
    """Of one request; 0 derives it from the largest context that is served: 16 bytes a token, 1 MiB at least."""
    max_held_bytes: int = Field(default=256 << 20, gt=0)
    """Of large requests that are being received or read, in one gateway; one tenant may fill a half of it."""
    read_processes: int = Field(default=2, ge=1, le=16)
    """Child processes of each gateway that read large requests, so that they hold up nobody's stream."""
    max_header_bytes: int = Field(default=32 << 10, gt=0)
    """Of one request's head."""
    max_connections: int = Field(default=4096, gt=0)
    """How many connections of clients there may be."""
    header_timeout_s: float = Field(default=10.0, gt=0)
    """How long a request's head may take to arrive."""
    body_timeout_s: float = Field(default=30.0, gt=0)
    """How long a request's body may take to arrive."""
    keep_alive_s: float = Field(default=75.0, gt=0)
    """How long a connection may stay without a request; longer than the load balancer's."""
    stream_heartbeat_s: float = Field(default=20.0, gt=0)
    """How often a silent stream shows that it lives. Above the tiers' queue timeouts: whom one refuses hears a 503."""
    stream_stall_s: float = Field(default=30.0, gt=0)
    """A reader that takes nothing for so long is cut off."""
    stream_buffer_bytes: int = Field(default=256 << 10, gt=0)
    """What waits in the gateway for one slow reader at most."""
    hold_requests: int = Field(default=256, ge=0)
    """How many requests wait in each gateway for one version that sleeps; one tenant has half of the places."""
    hold_tokens: int = Field(default=1_000_000, ge=0)
    """How many tokens they may be together, prompts and expected answers."""
    hold_s: float = Field(default=60.0, ge=0)
    """How long a request waits for a version to wake at most, within its deadline."""
    retry_budget_ratio: float = Field(default=0.1, ge=0, le=1)
    """How many attempts may be repetitions."""
    records_bytes: int = Field(default=256 << 20, ge=1 << 20)
    """What records of ended requests take in this home at most, for `penstock explain`."""
    records_days: float = Field(default=7.0, gt=0)
    """How old a record may become."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector (HTTP); empty turns tracing off."""
    trace_ratio: float = Field(default=0.01, ge=0, le=1)
    """How many requests are traced whose callers don't say."""

    @property
    def answers_address(self) -> str:
        """Return the address of the answers' store with where its files are found; empty where there is none."""
        return with_files(self.answers_url, password_file=self.answers_password_file, ssl_ca_certs=self.answers_ca_file)


class FleetKind(StrEnum):
    """Who runs the workers."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


class ControllerSettings(
    ReachedSettings, MetricsSettings, DrainSettings, DatabaseSettings, KeySettings, LimitsSettings, PeerSettings
):
    """All that a controller is told."""

    controller_port: Port = 0
    """Where operators and workers come in; 0 takes 8079, or any free one where that is in use."""
    worker_addresses: str = ""
    """Networks and domains that workers may report addresses of (``10.0.0.0/8,workers.svc.cluster.local``), beside the
    address that a report comes from; empty where nothing between worker and controller changes that one."""
    lease_s: float = Field(default=5.0, gt=0)
    """A worker silent for so long leaves the table."""
    tick_s: float = Field(default=0.5, gt=0)
    """How often the controller looks at everything."""
    budgets_url: Secret = ""
    """A Prometheus that records the promises: its error budgets count for rollouts, too; empty is the one of
    `penstock up --observe`, and where there is none, availability by the ledger alone counts."""
    fleet: FleetKind = FleetKind.LOCAL
    """Who runs the workers: ``local``, this machine; ``kubernetes``, the cluster that this controller is in."""
    pool_bytes: int = Field(default=0, ge=0)
    """Memory of this machine for engines: weights, KV cache and adapters' slots of all workers that are awake. More may
    be deployed than fits: who is not used sleeps. 0 turns that off; with ``fleet=kubernetes`` it does nothing."""
    pools_file: str = ""
    """The pools that the infrastructure ships, as JSON: where workers may run in a cluster, and what their pods are."""
    kubeconfig: str = ""
    """Where the cluster is; empty means the one that this pod is in."""

    @property
    def pooled_bytes(self) -> int:
        """Return the pool's bytes where there is one: a cluster places its pods itself."""
        return self.pool_bytes if self.fleet is FleetKind.LOCAL else 0


class ControllerAddress(Told):
    """Where the controller is."""

    controller_url: str = ""
    """Where workers and the command line find the controller; empty reads the address file in the home."""


class WorkerSettings(ReachedSettings, DrainSettings, ArtifactSettings, ControllerAddress, PeerSettings):
    """All that a worker is told; its version and name are arguments."""

    worker_port: Port = 0
    """Where gateways reach the engine's gate; 0 takes a free port."""
    status_port: Port = 0
    """Where the agent shows health and metrics, on the same address; 0 takes a free port."""
    worker_key_file: KeyFile = ""
    """The worker's own secret (`penstock worker-key`); empty looks in the home."""
    signing_key_file: File = ""
    """The public key that versions must be signed with; empty means ``signing/public.pem`` in the home."""
    node_cache: Folder = ""
    """Folder of verified copies of versions, which workers of one machine share; empty keeps it in the home."""
    node_cache_bytes: int = Field(default=20 << 30, gt=0)
    """How much of that folder versions may take; the oldest go first."""
    compile_cache: Folder = ""
    """Folder of what engines compile, which several homes may share; empty keeps it in this home."""
    heartbeat_s: float = Field(default=1.0, gt=0)
    """How often a worker reports; one that sleeps, or has a pool, four times a second at least."""
    pool_bytes: int = Field(default=0, ge=0)
    """The memory of the pool that the engines of this machine share; 0 where there is none."""
    probe_every_s: float = Field(default=2.0, gt=0)
    """How often a worker asks its engine."""
    probe_timeout_s: float = Field(default=10.0, gt=0)
    """An engine that does nothing for so long while it has work is replaced; one that computes gets six times as long,
    one that compiles thirty times."""
    device: Device = Device.AUTO
    """Where the engine runs: ``cuda``, ``cpu``, or ``auto``, the GPU that is there; a GPU that was given and is not
    there is an error."""
    notice_s: float = Field(default=0.0, ge=0)
    """How long before it is taken away the machine is told (spot: 120); a drain takes no longer. 0 where it is not."""
    engine_zygote: str = "auto"
    """Fork engines from a pre-imported parent: ``auto`` (CPU only), ``on``, ``off``."""
    zygote_socket: str = ""
    """A pre-imported parent shared by several workers; empty means one per worker."""
    door_order: QueueOrder = QueueOrder.FAIR
    """Before each engine: ``fair``; ``fifo`` (same slots) or ``open`` (no admission at all) are for comparisons."""

    @property
    def grace_s(self) -> float:
        """How long a drain may take: the grace, or what of the notice is left after the engine's own end."""
        return min(self.drain_grace_s, max(0.0, self.notice_s - ENDING_S)) if self.notice_s else self.drain_grace_s

    @property
    def copies(self) -> Path:
        """Where verified copies of versions lie, absolute."""
        return Path(self.node_cache).resolve() if self.node_cache else self.paths.cache

    @property
    def compiled(self) -> Path:
        """Where engines keep what they compile, absolute."""
        return Path(self.compile_cache).resolve() if self.compile_cache else self.paths.cache / "compiled"


class InitSettings(DatabaseSettings, KeySettings):
    """All that the first start of a platform is told."""

    gateway_database_password_file: KeyFile = ""
    """The password that the role of gateways gets, ``penstock_gateway``; empty leaves all roles as they are."""
    controller_database_password_file: KeyFile = ""
    """The password that the role of controllers gets, ``penstock_controller``."""
    admin_key_file: str = ""
    """Where the first operator's API key is written to; empty means ``admin.key`` in the home."""
