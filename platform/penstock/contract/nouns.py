"""The types of the contract: one process and its needs."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.settings.told import Told


class Life(StrEnum):
    """The lifetime of a folder's content."""

    PROCESS = "process"
    """It may be empty at each start."""
    REPLICA = "replica"
    """It must outlive the process and the pod: its content exists nowhere else."""
    MACHINE = "machine"
    """All processes of the machine share it; lost content is fetched or computed again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that the process listens at: ``setting`` is the field that fixes it, ``number`` its value in a fleet."""

    name: str
    setting: str
    number: int
    callers: tuple[str, ...]
    """The permitted callers: processes of the contract, or ``clients``, ``operators``, ``probes``, ``metrics``,
    ``keda``.
    """
    meaning: str
    paths: tuple[str, ...] = ()
    """What may be asked for from outside, as patterns: a proxy before the port passes these on, and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe: 200 means yes, 503 not now. No answer within ``within_s`` means no."""

    port: str
    path: str
    meaning: str
    within_s: float = 2.0
    start_within_s: float = 0.0
    """Seconds from the start to the first yes; 0 if any time is normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that must be writable for the process's user; everything else may be read-only."""

    name: str
    setting: str
    """The setting or variable that names the folder, empty if ``path`` is fixed."""
    path: str
    size_bytes: int
    size_setting: str = ""
    """The setting that bounds the folder's size; empty without one."""
    life: Life
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A file that is mounted for the process; ``.previous`` beside it is valid too, during rotation."""

    setting: str
    name: str
    """The secret's name in a secrets store: the same name is the same secret for all processes."""
    reread: str
    """The time at which a change is noticed."""
    exchangeable: bool
    """Whether a ``.previous`` file is allowed."""
    meaning: str
    optional: bool = False
    """Whether some deployments have no such secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The process's own certificate for mutual TLS, with the URI ``spiffe://<trust domain>/<role>`` in it."""

    role: str
    cert_setting: str = "tls_cert_file"
    key_setting: str = "tls_key_file"
    ca_setting: str = "tls_ca_file"
    reread: str = "at each new connection, once a second at most"
    meaning: str = "What it shows at every connection to another process; ports of probes and metrics are plain."


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """An address that the process calls: its setting and port, of another process or of a server."""

    to: str
    setting: str
    port: str
    role: str = ""
    """The process's role at the server (``<TO>_USER``), if the server has roles and the process has its own."""
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The end of the process: ``grace_setting`` (or nothing) and ``beyond_s`` after SIGTERM, then it is killed."""

    grace_setting: str = ""
    beyond_s: float = 10.0
    signals: tuple[tuple[str, str], ...] = ()
    exits: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """A right of the process on one resource of the cluster's API, in its own namespace."""

    group: str
    resource: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Devices:
    kind: str = "none"
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of other programs that it reads, and their meaning to it."""
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    name: str
    about: str
    command: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...] = ()
    """Meaning of ``{NAME}`` in the command."""
    settings: type[Told]
    needed: tuple[str, ...]
    """Settings that are required unless the process is a child of `penstock up`."""
    ports: tuple[Port, ...] = ()
    probes: tuple[tuple[str, Probe], ...] = ()
    metrics: tuple[str, str] = ("", "")
    """Port and path of the metrics."""
    folders: tuple[Folder, ...]
    secrets: tuple[Secret, ...] = ()
    certificate: Certificate | None = None
    calls: tuple[Called, ...] = ()
    rights: tuple[Right, ...] = ()
    """All rights on a cluster's API, needed if ``fleet`` says that a cluster runs the workers."""
    devices: Devices = Devices()
    ending: Ending
    replicas: str
    """The permitted number of replicas."""
