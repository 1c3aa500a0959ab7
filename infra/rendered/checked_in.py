"""The checked-in facts: one file for each chart, with the version, source, date and values that they were read from."""

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).with_name("facts")
REGISTRY = "REGISTRY"
"""Stands for an environment's own registry."""
OF = ("prod", "platform-us-east-1")
"""The environment and stack whose values are rendered; other regions and dev differ in names and in parts left out."""
OLDEST_DAYS = 90
RENDERED = {"templates", "crds", "values.yaml"}


def path_of(chart: str) -> Path:
    return FOLDER / f"{chart}.yaml"


@cache
def facts() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of every chart."""
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}


def digest(values: object) -> str:
    """Return the digest of a chart's values: JSON with sorted keys."""
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def content_digest(folder: Path) -> str:
    """Return the digest of what a chart renders: templates, kinds and values, its subcharts' too.

    Packing changes other files, so that a repository and its archive have the same digest.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and RENDERED & {path.name, *path.parts})
    found = [(path.relative_to(folder).as_posix(), hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]
    return digest(found)


def changed(chart: str, version: str, content: str) -> str:
    """Return why a chart may not be rendered: it is another one than this version was; empty if it may."""
    read = facts().get(chart, {}).get("read", {})
    if read.get("version") != version or read.get("content", content) == content:
        return ""
    return f"{chart} {version} has other content than on {read['date']}: ask its publisher, and raise the pin"


def stale(chart: str, version: str, values: object, today: date) -> str:
    """Return why the facts of a chart say nothing of these values any more; empty if they do."""
    known = facts().get(chart)
    if known is None:
        return f"{chart} was never rendered"
    read = known["read"]
    if read["version"] != version:
        return f"{chart} is pinned at {version}, and {read['version']} was rendered"
    if read["values"] != digest(values):
        return f"{chart} was rendered with other values"
    age = (today - date.fromisoformat(read["date"])).days
    return f"{chart} was rendered {age} days ago" if age > OLDEST_DAYS else ""
