"""What Prometheus is told: the rules of the promises, and the alerts on causes that ship with the platform."""

from pathlib import Path

import yaml

from penstock.apps import slos
from penstock.apps.shipped import shipped
from penstock.domain.command_error import CommandError
from penstock.domain.serving.spec import SpecRefused
from penstock.slo import alertmanager as configuration
from penstock.slo import rules, windows
from penstock.slo.alertmanager import Receivers
from penstock.slo.indicators import Unmeasurable
from penstock.slo.windows import Windows

_HEAD = "# Made from the promises in slo/specs and slo/windows.yaml; a change belongs there.\n"
_PREFIX = "penstock-"


def known_windows() -> Windows:
    """Return the platform's own windows."""
    path = shipped("slo_windows.yaml", "slo/windows.yaml")
    try:
        return windows.parse(yaml.safe_load(path.read_bytes()), path.name)
    except (yaml.YAMLError, SpecRefused) as error:
        raise CommandError(f"The windows can't be read: {error}.", do=f"Correct {path}.") from error


def files() -> dict[str, str]:
    """Return each rule file's text by its name, or raise ``CommandError`` saying which promise can't be measured."""
    try:
        made = rules.files(slos.load(), known_windows())
    except Unmeasurable as error:
        raise CommandError(f"A promise can't be watched: {error}.", do="Correct the file in slo/specs.") from error
    return {f"{_PREFIX}{file.name}": _HEAD + _text(file.plain()) for file in made} | _causes()


def alertmanager(receivers: Receivers) -> str:
    """Return the text of a configuration for Alertmanager."""
    return _text(configuration.plain(receivers))


def write(folder: Path) -> list[Path]:
    """Write all rule files into a folder, in place of those of an earlier time, and return them."""
    texts = files()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{_PREFIX}*.yaml"):
        old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in sorted(texts)]


def _causes() -> dict[str, str]:
    folder = shipped("slo_alerts", "slo/alerts")
    return {f"{_PREFIX}{path.name}": path.read_text() for path in sorted(folder.glob("*.yaml"))}


def _text(plain: dict[str, object]) -> str:
    return yaml.dump(plain, Dumper=_Dumper, sort_keys=False, width=1000, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as they read."""


def _as_it_reads(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _as_it_reads)
