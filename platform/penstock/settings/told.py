"""The settings of every process, the kinds of settings, and the layout of the home folder.

A setting is a field, and its docstring is its one line of meaning. A ``SettingKind`` marks a setting that may contain a
password, or is the path of a required file or of a writable folder.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from penstock.domain.command_error import CommandError
from penstock.formats.documents import DocumentRefused, yaml_of
from penstock.settings import forms

PREFIX = "PENSTOCK_"


class Home:
    """The layout of the home folder; nothing is created here."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.settings_file = root / "settings.yaml"
        self.platform_key = root / "platform.key"
        self.signing = root / "signing"
        self.demo_key = root / "demo.key"
        self.admin_key = root / "admin.key"
        self.postgres = root / "postgres"
        self.artifacts = root / "artifacts"
        self.cache = root / "cache"
        self.tls = root / "tls"
        self.run = root / "run"
        self.logs = root / "logs"
        self.spool = root / "spool"
        self.records = root / "records"
        self.payloads = root / "payloads"
        self.audit = root / "audit"
        self.decisions = root / "decisions" / "decisions.jsonl"
        self.observe = root / "observe"
        self.controller_address = self.run / "controller.addr"
        self.gateway_address = self.run / "gateway.addr"
        self.gateway_grpc_address = self.run / "gateway.grpc.addr"
        self.prometheus_address = self.run / "prometheus.addr"
        self.alertmanager_address = self.run / "alertmanager.addr"

    def worker_key(self, worker: str) -> Path:
        return self.run / "workers" / f"{worker}.key"


class SettingKind(StrEnum):
    SECRET = "secret"
    """May hold a password: shown as ***, and never in a process's arguments or logs."""
    KEY_FILE = "key file"
    """The path of a file that is read, and that others must not read."""
    FILE = "file"
    """The path of a file that is read."""
    FOLDER = "folder"
    """The path of a folder that is written to."""


Secret = Annotated[str, SettingKind.SECRET]
KeyFile = Annotated[str, SettingKind.KEY_FILE]
File = Annotated[str, SettingKind.FILE]
Folder = Annotated[str, SettingKind.FOLDER]


class Tls(StrEnum):
    """Mutual TLS between the processes of a platform."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


def read(file: Path) -> dict[str, Any]:
    """Return a file's settings by name; none if there is no file. Raises ``CommandError``."""
    do = "Write one `name: value` a line; `penstock config` prints such a file."
    try:
        found = yaml_of(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise CommandError(f"{file} can't be read: {error.strerror}.", do=do) from error
    except DocumentRefused as error:
        raise CommandError(f"{file} can't be read: {error}.", do=do) from error
    if not isinstance(found, dict | None) or not all(isinstance(name, str) for name in found or ()):
        raise CommandError(f"{file} holds no settings by name.", do=do)
    return found or {}


class Told(BaseSettings):
    """The settings of every process; each field is ``PENSTOCK_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore", protected_namespaces=())

    home: Annotated[Path, SettingKind.FOLDER] = Path(".penstock")
    """The data folder of the platform on this machine."""
    log_level: Annotated[str, AfterValidator(forms.level)] = "info"
    """The least level that is logged: ``debug``, ``info``, ``warning`` or ``error``."""
    region: str = "local"
    """The region's name in logs."""
    zone: str = "local"
    """The fault domain of this process: gateways avoid all workers of a lost zone together."""

    tls: Tls = Tls.AUTO
    """Mutual TLS between processes, and verified stores: ``on`` (with the home's certificates if no others are named),
    ``off``, or ``auto``: on if certificates are named, or if keys are mounted as files."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Add the home's settings file as a source after the environment."""
        del dotenv_settings, file_secret_settings
        home = env_settings().get("home") or init_settings().get("home") or cls.model_fields["home"].default
        file = InitSettingsSource(settings_cls, init_kwargs=read(Path(str(home)) / "settings.yaml"))
        return (init_settings, env_settings, file)

    @property
    def paths(self) -> Home:
        return Home(self.home.resolve())


def named(kind: SettingKind, settings: type[Told]) -> tuple[str, ...]:
    return tuple(name for name, field in settings.model_fields.items() if kind in field.metadata)
