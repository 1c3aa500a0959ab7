"""The nouns of the contract: one process and its needs."""

from dataclasses import dataclass
from enum import StrEnum

from penstock.apps.settings import Told


class Life(StrEnum):
    """The lifetime of a folder's content."""

    PROCESS = "process"
    """It may begin empty at each start."""
    REPLICA = "replica"
    """It must outlive the process, and the pod: what it holds is nowhere else."""
    MACHINE = "machine"
    """All processes of the machine share it; what is lost is fetched or made again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that the process listens at: ``setting`` is the field that fixes it, ``number`` its value in a fleet."""

    name: str
    setting: str
    number: int
    callers: tuple[str, ...]
    """Who may reach it: processes of the contract, or ``clients``, ``operators``, ``probes``, ``metrics``."""
    meaning: str
    paths: tuple[str, ...] = ()
    """What may be asked for from outside, as patterns: a proxy before the port passes these on, and no others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe: 200 is yes, 503 not now. No answer within ``within_s`` is a no."""

    port: str
    path: str
    meaning: str
    within_s: float = 2.0
    start_within_s: float = 0.0
    """How long after its start the process may take to the first yes; 0 where that is no fault however long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that must be writable for the process's user; everything else may be read-only."""

    name: str
    setting: str
    """The field or variable that names it, empty where ``path`` is fixed."""
    path: str
    size_bytes: int
    size_setting: str = ""
    """The field that bounds it, where one does."""
    life: Life
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A file that is mounted for the process; ``.previous`` beside it is valid too, during an exchange."""

    setting: str
    name: str
    """What it is called wherever secrets are kept: the same name is the same secret for all processes."""
    reread: str
    """When a change is seen."""
    exchangeable: bool
    """Whether there may be a ``.previous``."""
    meaning: str
    optional: bool = False
    """Whether there are places without it."""


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
    """As whom it comes in there (``<TO>_USER``), where the server has roles and the process has one of its own."""
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
    """The devices of the process."""

    kind: str = "none"
    variables: tuple[tuple[str, str], ...] = ()
    """Variables of others that it reads, and what they mean to it."""
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    name: str
    about: str
    command: tuple[str, ...]
    arguments: tuple[tuple[str, str], ...] = ()
    """What stands for ``{NAME}`` in the command."""
    settings: type[Told]
    needed: tuple[str, ...]
    """Fields that must be given wherever the process is not a child of `penstock up`."""
    ports: tuple[Port, ...] = ()
    probes: tuple[tuple[str, Probe], ...] = ()
    metrics: tuple[str, str] = ("", "")
    """Port and path of its metrics."""
    folders: tuple[Folder, ...]
    secrets: tuple[Secret, ...] = ()
    certificate: Certificate | None = None
    calls: tuple[Called, ...] = ()
    rights: tuple[Right, ...] = ()
    """All that it needs of a cluster's API, where ``fleet`` says that a cluster runs the workers."""
    devices: Devices = Devices()
    ending: Ending
    replicas: str
    """How many there may be at a time."""
