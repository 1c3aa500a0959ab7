"""Settings: the only module that reads the environment.

Order: ``PENSTOCK_*`` variables, then ``$PENSTOCK_HOME/settings.yaml``, then the defaults below.
Each process cuts what it needs out of this into its rooms' own small config objects.
"""

import os
import re
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

import yaml
from pydantic import Field
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from penstock.worker.gate_config import DoorOrder

SECRET = ("database_url", "limits_url", "answers_url")
"""Settings that may hold a password."""
CALLERS_OWN = {"key", "url"}
"""What somebody says at one command: no setting of a platform, and nothing that its processes get."""
_CALLERS_NAMES = frozenset(f"PENSTOCK_{name.upper()}" for name in CALLERS_OWN)
CONTROLLER_PORT = 8079
"""Where a controller listens if it may choose."""


class Home:
    """Where everything of one platform lives: one folder."""

    def __init__(self, root: Path) -> None:
        """Take the folder; nothing is created here."""
        self.root = root
        self.settings_file = root / "settings.yaml"
        self.platform_key = root / "platform.key"
        self.signing = root / "signing"
        self.demo_key = root / "demo.key"
        self.admin_key = root / "admin.key"
        self.postgres = root / "postgres"
        self.artifacts = root / "artifacts"
        self.cache = root / "cache"
        self.run = root / "run"
        self.logs = root / "logs"
        self.spool = root / "spool"
        self.controller_address = self.run / "controller.addr"
        self.gateway_address = self.run / "gateway.addr"

    def worker_key(self, worker: str) -> Path:
        """Return where a worker of this machine finds its own secret."""
        return self.run / "workers" / f"{worker}.key"


class TenantNames(StrEnum):
    """How metrics call tenants."""

    NAMED = "named"
    HASHED = "hashed"
    OFF = "off"


class Settings(BaseSettings):
    """One platform's settings; every field is ``PENSTOCK_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", frozen=True, extra="ignore")

    home: Path = Path(".penstock")
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535, description="Gateway port; 0 takes a free one.")
    log_level: str = "info"
    zone: str = "local"

    database_url: str = ""
    """External Postgres; empty starts the embedded one."""
    artifact_store: str = ""
    """``s3://bucket/prefix``; empty means the folder in the home."""
    artifact_endpoint: str = ""
    """S3 endpoint where it is not AWS's."""
    controller_url: str = ""
    """Where workers and the CLI find the controller; empty reads the address file in the home."""
    worker_key_file: str = ""
    """Where a worker finds its own secret (`penstock worker-key`); empty looks in the home."""
    worker_addresses: str = ""
    """Networks and domains that workers may report addresses of (``10.0.0.0/8,workers.svc.cluster.local``), beside the
    address that a report comes from; empty where nothing between worker and controller changes that one."""
    controller_port: int = Field(default=0, ge=0, le=65535)
    """Where the controller listens; 0 takes 8079, or any free one where that is in use."""
    key: str = Field(default="", repr=False)
    """Whose key commands show to the controller; empty is the operators' of this home."""
    url: str = ""
    """Where commands find the controller; empty is that of this home."""

    models: str = "smollm2,minilm"
    """Demo models to serve, comma separated."""
    demo_cache: str = ""
    """Folder of converted demo models that several homes share; empty keeps them in this home."""
    compile_cache: str = ""
    """Folder of what engines compile that several homes share; empty keeps it in this home."""
    workers: int = Field(default=1, ge=0, le=64, description="Workers per demo model.")
    gateways: int = Field(default=1, ge=1, le=32)

    heartbeat_s: float = Field(default=1.0, gt=0)
    lease_s: float = Field(default=5.0, gt=0, description="A worker silent for so long leaves the table.")
    tick_s: float = Field(default=0.5, gt=0)
    drain_grace_s: float = Field(default=30.0, ge=0)
    node_cache_bytes: int = Field(default=20 << 30, gt=0)
    engine_zygote: str = "auto"
    """Fork engines from a pre-imported parent: ``auto`` (CPU only), ``on``, ``off``."""
    zygote_socket: str = ""
    """A pre-imported parent shared by several workers; empty means one per worker."""
    door_order: DoorOrder = DoorOrder.FAIR
    """Before each engine: ``fair``; ``fifo`` (same seats) or ``open`` (no admission at all) are for comparisons."""
    probe_every_s: float = Field(default=2.0, gt=0)
    probe_timeout_s: float = Field(default=10.0, gt=0)
    """An engine that does nothing for so long while it has work is replaced; one that computes gets six times as long,
    one that compiles thirty times."""

    max_body_bytes: int = Field(default=0, ge=0)
    """Of one request; 0 derives it from the largest context that is served: 16 bytes a token, 1 MiB at least."""
    max_held_bytes: int = Field(default=256 << 20, gt=0)
    """Of large requests that are being received or read, in one gateway; one tenant may fill a half of it."""
    read_processes: int = Field(default=2, ge=1, le=16)
    """Child processes of each gateway that read large requests, so that they hold up nobody's stream."""
    max_header_bytes: int = Field(default=32 << 10, gt=0)
    max_connections: int = Field(default=4096, gt=0)
    header_timeout_s: float = Field(default=10.0, gt=0)
    body_timeout_s: float = Field(default=30.0, gt=0)
    keep_alive_s: float = Field(default=75.0, gt=0)
    stream_heartbeat_s: float = Field(default=10.0, gt=0)
    stream_stall_s: float = Field(default=30.0, gt=0, description="A reader that takes nothing for so long is cut off.")
    stream_buffer_bytes: int = Field(default=256 << 10, gt=0)
    limits_url: str = ""
    """Redis or Valkey that all gateways share limits in; empty keeps them in the process (one gateway)."""
    limits_when_away: str = ""
    """What holds while that store is away, per limit: ``spend=share,tokens=open``. Silent are ``spend=closed`` and
    ``share`` for requests, tokens, concurrency and streams: each gateway gives its part."""
    answers_url: str = ""
    """Redis or Valkey for answers under idempotency keys, another one than the limits'; empty keeps them in the
    process, where one gateway's keys mean nothing to another."""
    answers_tenant_bytes: int = Field(default=64 << 20, gt=0, description="What a tenant's kept answers take at most.")
    answers_tenant_records: int = Field(default=50_000, gt=0)
    retry_budget_ratio: float = Field(default=0.1, ge=0, le=1)
    metrics_host: str = "127.0.0.1"
    metrics_port: int = Field(default=0, ge=0, le=65535)
    """Where gateways and controller show metrics: gateway n on ``port + n - 1``, then the controller; 0 free ones."""
    metrics_tenants: TenantNames = TenantNames.NAMED
    """Tenants in metrics: ``named``, ``hashed``, or ``off``."""
    metrics_most_tenants: int = Field(default=50, ge=0)
    """How many tenants metrics tell apart; all others are ``other``."""
    otlp_endpoint: str = ""
    """OpenTelemetry collector (HTTP); empty turns tracing off."""
    trace_ratio: float = Field(default=0.01, ge=0, le=1)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Put the home's settings file behind the environment."""
        del dotenv_settings, file_secret_settings
        home = env_settings().get("home") or init_settings().get("home") or cls.model_fields["home"].default
        file = YamlConfigSettingsSource(settings_cls, yaml_file=Path(str(home)) / "settings.yaml")
        return (init_settings, env_settings, file)

    @property
    def paths(self) -> Home:
        """The home's layout, absolute."""
        return Home(self.home.resolve())

    @property
    def compiled(self) -> Path:
        """Where engines keep what they compile, absolute."""
        return Path(self.compile_cache).resolve() if self.compile_cache else self.paths.cache / "compiled"

    @property
    def demo_models(self) -> tuple[str, ...]:
        """Names of the demo models to serve."""
        return tuple(name.strip() for name in self.models.split(",") if name.strip())


_caller: dict[str, str] = {}
"""What was said at the command that runs."""


@lru_cache(maxsize=1)
def load() -> Settings:
    """Read the settings of this process once."""
    return Settings().model_copy(update=_caller)


def as_yaml(settings: Settings) -> str:
    """Return the settings as a file for ``$PENSTOCK_HOME/settings.yaml``; a password in an address is shown as ***."""
    shown = settings.model_dump(mode="json", exclude={"home", *CALLERS_OWN})
    return yaml.safe_dump({**shown, **{name: without_password(shown[name]) for name in SECRET}}, sort_keys=False)


def without_password(url: str) -> str:
    """Return an address with *** for its password, wherever one may stand: before the host, or as a parameter."""
    hidden = re.sub(r"(?<=//)([^/@:]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"(?i)((?:password|passwd|pwd)=)[^&\s]*", r"\1***", hidden)


def environment(settings: Settings) -> dict[str, str]:
    """Return the environment for a child process that shall run with exactly these settings."""
    told = settings.model_dump(mode="json", exclude=CALLERS_OWN)
    ours = {f"PENSTOCK_{name.upper()}": str(value) for name, value in told.items()}
    others = {name: value for name, value in os.environ.items() if name not in _CALLERS_NAMES}
    return {**others, **ours, "PENSTOCK_HOME": str(settings.paths.root)}


def environment_of_workers(settings: Settings) -> dict[str, str]:
    """Return the same for workers and engines: the stores behind the gateways are no business of theirs."""
    return environment(settings.model_copy(update=dict.fromkeys(SECRET, "")))


def choose_caller(key: str, url: str) -> None:
    """Let this command show this key at this address; empty leaves what the settings say."""
    _caller.clear()
    _caller.update({name: value for name, value in (("key", key), ("url", url)) if value})
    load.cache_clear()


def choose_home(home: str) -> None:
    """Make this the home of this process and its children, as if the environment had said so."""
    os.environ["PENSTOCK_HOME"] = home
    load.cache_clear()
