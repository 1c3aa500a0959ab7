"""The rule files for Prometheus: those of the SLOs, and the shipped alerts on causes."""

from pathlib import Path

from penstock.apps import slos
from penstock.domain.command_error import CommandError
from penstock.slo.files import promises
from penstock.slo.indicators import Unmeasurable

_PREFIX = "penstock-"


def files() -> dict[str, str]:
    """Return each rule file's text by name; ``CommandError`` for an SLO that can't be measured."""
    try:
        texts = promises(slos.load(), slos.windows())
    except Unmeasurable as error:
        raise CommandError(f"A promise can't be watched: {error}.", do="Correct the file in slo/specs.") from error
    causes = sorted(slos.shipped("slo_alerts", "slo/alerts").glob("*.yaml"))
    texts |= {path.name: path.read_text() for path in causes}
    return {f"{_PREFIX}{name}": text for name, text in texts.items()}


def write(folder: Path) -> list[Path]:
    texts = files()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"{_PREFIX}*.yaml"):
        old.unlink()
    for name, text in texts.items():
        (folder / name).write_text(text)
    return [folder / name for name in sorted(texts)]
