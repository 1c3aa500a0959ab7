"""What each process of Penstock needs, read from `contract.json`, which the platform makes from its own code.

A variable that no process reads, or a value that it would not take, ends the program here and not a pod's start.
Nothing here knows Kubernetes or AWS.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from infra.graph.values import Json, dig, items, mapping, number, text

FILE = Path(__file__).with_name("contract.json")
PREFIX = "PENSTOCK_"
EDITION = 1
"""The edition that this program reads: the platform counts on where a reader of the last one would go wrong."""
_ANEW = "make it anew with the platform whose images are deployed: `penstock contract > infra/contract.json`"


class ContractError(ValueError):
    """A process is told what it does not read, or is not told what it needs; or the file itself can't be relied on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One variable: its type, its bounds, and whether it is a secret."""

    name: str
    type: str
    kind: str
    bounds: Mapping[str, float]
    choices: tuple[str, ...]

    def fault(self, value: str) -> str:
        """Say what is wrong with a value; empty if the process takes it."""
        if self.choices and value not in self.choices:
            return f"is {value!r}, not one of {', '.join(self.choices)}"
        if self.type not in ("integer", "number"):
            return ""
        try:
            found = int(value) if self.type == "integer" else float(value)
        except ValueError:
            return f"is {value!r}, no {self.type}"
        low, high = self.bounds.get("minimum", found), self.bounds.get("maximum", found)
        outside = not low <= found <= high or found <= self.bounds.get("exclusiveMinimum", found - 1)
        return f"is {value}, out of bounds" if outside else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """A port that the process listens on, the variable that sets it, and its clients."""

    name: str
    setting: str
    number: int
    callers: tuple[str, ...]
    paths: tuple[str, ...] = ()
    """What comes in from outside, as patterns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A page that answers yes or no, on one of the ports by name."""

    port: str
    path: str
    within_s: float
    start_within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that the process writes to. `setting` is empty if its place is fixed."""

    name: str
    setting: str
    path: str
    size_bytes: int
    life: str
    """What it must outlive: the `process` needs it no longer than it runs, a `replica` finds it again elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretFile:
    """A secret that is read from a file; an exchangeable one may have another beside it, named `.previous`."""

    name: str
    setting: str
    exchangeable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The certificate that a process shows to the others: its role, and the variables of its three files."""

    role: str
    certificate: str
    key: str
    authorities: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """What the process may do to one kind of object of its cluster, in its own namespace."""

    group: str
    resource: str
    verbs: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process: everything that starting it takes."""

    name: str
    command: tuple[str, ...]
    settings: Mapping[str, Setting]
    needed: tuple[str, ...]
    ports: Mapping[str, Port]
    probes: Mapping[str, Probe]
    metrics: tuple[str, str]
    folders: tuple[Folder, ...]
    secrets: tuple[SecretFile, ...]
    certificate: Certificate | None
    calls: Mapping[str, str]
    roles: Mapping[str, str]
    rights: tuple[Right, ...]
    beyond_s: float
    scaler: Json = None
    """The spec of its ScaledObject, with placeholders."""

    def setting(self, name: str) -> Setting:
        """The setting of that name. Raises `ContractError` if the process reads no such variable."""
        if name not in self.settings:
            raise ContractError(f"{self.name} reads no {name}: `penstock contract` lists what it reads")
        return self.settings[name]

    def judge(self, told: Sequence[Mapping[str, object]]) -> None:
        """Raise `ContractError` unless these variables are all known, well formed, secret if they must be, and
        enough.
        """
        names = [str(item["name"]) for item in told]
        for item in told:
            if str(item["name"]).startswith(PREFIX):
                self._judge_one(self.setting(str(item["name"])), item.get("value"))
        missing = sorted({*self.needed} - {*names})
        twice = sorted({name for name in names if names.count(name) > 1})
        if missing or twice:
            raise ContractError(f"{self.name} is not told {missing}, and {twice} more than once")

    def _judge_one(self, setting: Setting, value: object) -> None:
        if setting.kind == "secret" and value is not None and not is_bare(value):
            raise ContractError(f"{setting.name} of {self.name} may hold a password: refer to a secret")
        fault = setting.fault(value) if isinstance(value, str) else ""
        if fault:
            raise ContractError(f"{setting.name} of {self.name} {fault}")


@cache
def processes() -> Mapping[str, Process]:
    """Every process by its name."""
    return read(FILE)


def read(file: Path) -> Mapping[str, Process]:
    """Every process of a contract. Raises `ContractError` if the file is of another edition, or was changed."""
    content = _checked(file)
    return MappingProxyType({name: _process(told) for name, told in mapping(content, "processes").items()})


def _checked(file: Path) -> Json:
    try:
        content: Json = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ContractError(f"{file.name} is no JSON: {_ANEW}") from error
    if dig(content, "edition") != EDITION:
        found = text(content, "edition") or "none"
        raise ContractError(f"{file.name} is of edition {found}, and edition {EDITION} is read here: {_ANEW}")
    if text(content, "digest") != _digest(dig(content, "processes")):
        raise ContractError(f"{file.name} is older than its digest, edited or half merged: {_ANEW}")
    return content


def _digest(processes: Json) -> str:
    """As the platform makes it: SHA-256 of the processes, keys sorted, without spaces."""
    plain = json.dumps(processes, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def is_bare(value: object) -> bool:
    """Whether this is the web address of a server and nothing more: whatever it may hold elsewhere, no password."""
    parts = urlsplit(value if isinstance(value, str) else "")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not ("@" in parts.netloc or parts.query)


def process(name: str) -> Process:
    """One process. Raises `KeyError` if there is none of that name."""
    return processes()[name]


def _process(told: Json) -> Process:
    settings = (_setting(one) for one in items(told, "settings"))
    ports = (_port(one) for one in items(told, "ports"))
    return Process(
        name=text(told, "name"),
        command=tuple(str(word) for word in items(told, "command")),
        settings={one.name: one for one in settings},
        needed=tuple(str(name) for name in items(told, "needed")),
        ports={one.name: one for one in ports},
        probes={name: _probe(one) for name, one in mapping(told, "probes").items()},
        metrics=(text(told, "metrics.port"), text(told, "metrics.path")),
        folders=tuple(_folder(one) for one in items(told, "folders")),
        secrets=tuple(_secret(one) for one in items(told, "secrets") if dig(one, "optional") is not True),
        certificate=_certificate(told) if text(told, "certificate.role") else None,
        calls={text(one, "to"): text(one, "port") for one in items(told, "calls")},
        roles={text(one, "to"): text(one, "role") for one in items(told, "calls") if text(one, "role")},
        rights=tuple(_right(one) for one in items(told, "rights")),
        beyond_s=number(told, "ending.beyond_s"),
        scaler=dig(told, "scaler"),
    )


def _setting(told: Json) -> Setting:
    bounds = ("minimum", "maximum", "exclusiveMinimum")
    return Setting(
        name=text(told, "name"),
        type=text(told, "type"),
        kind=text(told, "kind"),
        bounds={bound: number(told, bound) for bound in bounds if text(told, bound)},
        choices=tuple(str(choice) for choice in items(told, "enum")),
    )


def _port(told: Json) -> Port:
    return Port(
        name=text(told, "name"),
        setting=text(told, "setting"),
        number=int(number(told, "number")),
        callers=tuple(str(caller) for caller in items(told, "callers")),
        paths=tuple(str(path) for path in items(told, "paths")),
    )


def _probe(told: Json) -> Probe:
    return Probe(
        port=text(told, "port"),
        path=text(told, "path"),
        within_s=number(told, "within_s"),
        start_within_s=number(told, "start_within_s"),
    )


def _folder(told: Json) -> Folder:
    return Folder(
        name=text(told, "name"),
        setting=text(told, "setting"),
        path=text(told, "path"),
        size_bytes=int(number(told, "size_bytes")),
        life=text(told, "life"),
    )


def _certificate(told: Json) -> Certificate:
    return Certificate(
        role=text(told, "certificate.role"),
        certificate=text(told, "certificate.cert_setting"),
        key=text(told, "certificate.key_setting"),
        authorities=text(told, "certificate.ca_setting"),
    )


def _right(told: Json) -> Right:
    verbs = tuple(str(verb) for verb in items(told, "verbs"))
    return Right(group=text(told, "group"), resource=text(told, "resource"), verbs=verbs)


def _secret(told: Json) -> SecretFile:
    return SecretFile(
        name=text(told, "name"), setting=text(told, "setting"), exchangeable=dig(told, "exchangeable") is True
    )
