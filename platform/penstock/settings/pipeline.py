"""The settings of the request pipeline, which gateways and jobs runners run alike."""

from pydantic import Field

from penstock.settings.stores import (
    ArtifactSettings,
    DatabaseSettings,
    KeySettings,
    LimitsSettings,
    MetricsSettings,
    PeerSettings,
    SealingSettings,
)
from penstock.settings.told import Told


class DrainSettings(Told):
    """The grace period of a process's drain."""

    drain_grace_s: float = Field(default=30.0, ge=0)
    """Seconds that running answers may take to finish after SIGTERM."""


class PipelineSettings(
    MetricsSettings,
    DrainSettings,
    DatabaseSettings,
    KeySettings,
    SealingSettings,
    ArtifactSettings,
    LimitsSettings,
    PeerSettings,
):
    """How requests are held, dispatched and recorded."""

    gateways: int = Field(default=1, ge=1, le=32)
    """Number of gateways. `penstock up` starts them; each gives its part of the limits while their store is away."""
    gateway_name: str = ""
    """Name of this gateway in its reports of demand, the same after a restart; empty is host and process.
    `penstock up` names its gateways."""
    limits_when_away: str = ""
    """Policy of each limit while the limits' store is away: ``closed``, ``share`` (each gateway gives its part) or
    ``open``, as ``spend=share,tokens=open``. By default ``closed`` for spend and ``share`` for all others."""
    read_processes: int = Field(default=2, ge=1, le=16)
    """Child processes of each gateway that parse large requests, so that streams don't wait for them."""
    stream_heartbeat_s: float = Field(default=20.0, gt=0)
    """Seconds between comments on a silent stream. Above the tiers' queue timeouts, so that a refusal can still be a
    503."""
    stream_stall_s: float = Field(default=30.0, gt=0)
    """Seconds after which a client that reads nothing is cut off."""
    hold_requests: int = Field(default=256, ge=0)
    """The most requests that each gateway holds for one version; one tenant may have half of them."""
    hold_tokens: int = Field(default=1_000_000, ge=0)
    """The most tokens of held requests of one version, prompts and expected answers."""
    hold_s: float = Field(default=60.0, ge=0)
    """The most seconds that a request waits for a worker to wake or start again, within its deadline."""
    retry_budget_ratio: float = Field(default=0.1, ge=0, le=1)
    """The part of attempts that may be retries."""
    records_bytes: int = Field(default=256 << 20, ge=1 << 20)
    """The most bytes of records of ended requests in this home, for `penstock explain`."""
    records_days: float = Field(default=7.0, gt=0)
    """Days that a record is kept."""
    otlp_endpoint: str = ""
    """Address of an OpenTelemetry collector (HTTP); empty turns tracing off."""
    trace_ratio: float = Field(default=0.01, ge=0, le=1)
    """The part of requests that is traced if the caller's ``traceparent`` does not say."""
