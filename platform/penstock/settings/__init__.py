"""Settings: the only package that reads the environment.

Order: ``PENSTOCK_*`` variables, then ``$PENSTOCK_HOME/settings.yaml``, then defaults; unknown names are refused.
``processes`` declares each process's settings; this package joins them for `penstock up` and the command line.
Composition roots make small frozen config objects from them.
"""

import os
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

import yaml
from pydantic import Field

from penstock.domain.command_error import CommandError
from penstock.mounted.secret_file import HIDDEN, is_path
from penstock.settings.processes import (
    ControllerSettings,
    GatewaySettings,
    InitSettings,
    Port,
    RunnerSettings,
    WorkerSettings,
)
from penstock.settings.stores import PeerSettings
from penstock.settings.told import PREFIX, SettingKind, Tls, Told, named, read


class Settings(  # type: ignore[misc]  # pydantic's plugin writes each class a model_construct of its own
    GatewaySettings, RunnerSettings, ControllerSettings, WorkerSettings, InitSettings
):
    """All settings of one platform: those of each process, and of `penstock up` itself."""

    models: str = "smollm2,minilm"
    """Demo models to serve, comma separated."""
    demo_cache: str = ""
    """Folder of converted demo models that several homes share; empty keeps them in this home."""
    workers: int = Field(default=1, ge=0, le=64)
    """Workers per demo model."""
    start_within_s: float = Field(default=1800.0, gt=0)
    """Seconds that `penstock up` waits for workers that make progress; four minutes for workers that make none."""
    observe: bool = False
    """Run a Prometheus and an Alertmanager beside the platform."""
    prometheus_port: Port = 0
    """Port of that Prometheus, on loopback; 0 takes 9090, or any free one if that is in use."""
    alertmanager_port: Port = 0
    """Port of that Alertmanager, on loopback; 0 takes 9093, or any free one if that is in use."""
    scrape_s: float = Field(default=5.0, gt=0)
    """Seconds between two scrapes of that Prometheus, and between evaluations of its rules."""
    key: str = Field(default="", repr=False)
    """The API key that commands use; empty is the operators' of this home."""
    url: str = ""
    """The controller's address for commands; empty is that of this home."""
    prometheus_url: str = Field(default="", repr=False)
    """Address of a Prometheus that scrapes the platform, for commands; empty is the one of `penstock up --observe`."""

    @property
    def demo_models(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.models.split(",") if name.strip())


OWN = frozenset(PeerSettings.model_fields) - frozenset(Told.model_fields)
"""Settings of a process's own certificate, which other processes don't get."""
CALLERS_OWN = {"key", "url", "prometheus_url"}
"""Options of a single command, which are not passed to a platform's processes."""
_CALLERS_NAMES = frozenset(f"{PREFIX}{name.upper()}" for name in CALLERS_OWN)
CONTROLLER_PORT = 8079
"""The controller's default port."""
SECRET = named(SettingKind.SECRET, Settings)
"""Settings that may contain a password."""
_KEY_FILES = named(SettingKind.KEY_FILE, Settings)
_ENVIRONMENT = "the environment"
_OF_TOOLS = frozenset({"PENSTOCK_TF_MIRROR"})
"""Variables of the repository's own tools."""
_SERVICE_LINK = re.compile(r".*_(?:SERVICE_(?:HOST|PORT(?:_\w+)?)|PORT_\d+_(?:TCP|UDP)(?:_\w+)?)")
"""Variables that Kubernetes sets in every container for each Service of its namespace."""


_caller: dict[str, str] = {}
"""The options of the running command."""


@lru_cache(maxsize=1)
def load() -> Settings:
    """Read the settings of this process once; raise ``CommandError`` for an unknown name or an unreadable file."""
    found = Settings()
    _check_names(os.environ, found.paths.settings_file, Settings.model_fields)
    return found.model_copy(update=_caller)


def as_yaml(settings: Settings) -> str:
    """Return the settings as ``settings.yaml``; passwords, and secrets given in place of a path, are shown as ***."""
    shown = settings.model_dump(mode="json", exclude={"home", *CALLERS_OWN})
    hidden = {name: without_password(shown[name]) for name in SECRET}
    hidden |= {name: HIDDEN for name in _KEY_FILES if shown[name] and not is_path(Path(shown[name]))}
    return yaml.safe_dump({**shown, **hidden}, sort_keys=False)


def without_password(url: str) -> str:
    """Return an address with *** for a password before the host or in a parameter."""
    hidden = re.sub(r"(?<=//)([^/@:]*):[^/]*@", r"\1:***@", url)
    return re.sub(r"(?i)((?:password|passwd|pwd)=)[^&\s]*", r"\1***", hidden)


def environment(settings: Told) -> dict[str, str]:
    """Return the environment that gives a child process exactly these settings."""
    told = settings.model_dump(mode="json", exclude=CALLERS_OWN)
    ours = {f"{PREFIX}{name.upper()}": str(value) for name, value in told.items()}
    others = {name: value for name, value in os.environ.items() if name not in _CALLERS_NAMES}
    return {**others, **ours, "PENSTOCK_HOME": str(settings.paths.root)}


def environment_of_workers(settings: Told) -> dict[str, str]:
    """Return a child's environment for workers and engines: without the gateways' stores and keys.

    A certificate is one process's own: workers have theirs in the home, if the platform uses any.
    """
    kept = {name for kind in (SettingKind.SECRET, SettingKind.KEY_FILE) for name in named(kind, type(settings))}
    others = {name for name in OWN if name in type(settings).model_fields}
    told = environment(settings.model_copy(update=dict.fromkeys(kept | others, "")))
    return {**told, "PENSTOCK_TLS": Tls.ON} if getattr(settings, "tls_cert_file", "") else told


def choose_caller(key: str, url: str) -> None:
    """Use this key and address for the command; empty leaves the configured ones."""
    _caller.clear()
    _caller.update({name: value for name, value in (("key", key), ("url", url)) if value})
    load.cache_clear()


def given_devices() -> str:
    return os.environ.get("NVIDIA_VISIBLE_DEVICES", "")


def choose_home(home: str) -> None:
    os.environ["PENSTOCK_HOME"] = home
    load.cache_clear()


def _check_names(environment: Mapping[str, str], file: Path, known: Iterable[str]) -> None:
    """Raise ``CommandError`` for a variable, or a key of the settings file, without a setting.

    An operator would believe it to be in force.
    """
    names = sorted(known)
    variables = {f"{PREFIX}{name.upper()}" for name in names}
    for found in sorted(environment):
        if found.upper().startswith(PREFIX) and found.upper() not in variables | _OF_TOOLS:
            raise _refused(found, _ENVIRONMENT, sorted(variables))
    for key in read(file):
        if key not in names:
            raise _refused(key, str(file), names)


def _refused(found: str, where: str, names: list[str]) -> CommandError:
    if _SERVICE_LINK.fullmatch(found):
        return CommandError(
            f"{found} is no setting: Kubernetes made it for a Service named penstock….",
            do="Set enableServiceLinks: false in the pod.",
        )
    near = get_close_matches(found if where != _ENVIRONMENT else found.upper(), names, n=1, cutoff=0.5)
    meant = f"Did you mean {near[0]}?" if near else "`penstock contract` lists all settings."
    return CommandError(f"There is no setting {found} (in {where}).", do=f"{meant} Correct the name, or remove it.")
