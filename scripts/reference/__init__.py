"""The pages of ``docs/reference`` that are written from the code; ``python -m scripts.reference`` writes them anew."""

from collections.abc import Callable
from pathlib import Path

from scripts.reference import cli, errors, events, fields, headers, metrics, settings

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/reference"
PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings.page,
    "cli.md": cli.page,
    "headers.md": headers.page,
    "fields.md": fields.page,
    "errors.md": errors.page,
    "metrics.md": metrics.page,
    "events.md": events.page,
}
