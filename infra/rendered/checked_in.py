"""The checked-in facts: one file for each chart, with the version, source, date and values that they were read from."""

import hashlib
import json
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from infra.config.model import Environment

FOLDER = Path(__file__).with_name("facts")
REGISTRY = "REGISTRY"
"""Stands for an environment's own registry."""
OF = ("prod", "platform-us-east-1")
"""The environment and stack whose values are rendered; other regions and dev differ in names and in parts left out."""
OLDEST_DAYS = 90


def path_of(chart: str) -> Path:
    return FOLDER / f"{chart}.yaml"


@cache
def facts() -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of every chart."""
    return {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.yaml"))}


def digest(values: object, environment: Environment) -> str:
    """Return the digest of a chart's values: JSON with sorted keys, without the names of account and organization.

    No chart reads those: whoever fills them in has nothing to render.
    """
    told = json.dumps(values, sort_keys=True, separators=(",", ":"))
    told = told.replace(environment.account_id, "ACCOUNT").replace(_prefix(environment), "ORGANIZATION-ENV-")
    return hashlib.sha256(told.encode()).hexdigest()


def _prefix(environment: Environment) -> str:
    return f"{environment.organization}-{environment.name}-"


def stale(chart: str, version: str, values: object, environment: Environment, today: date) -> str:
    """Return why the facts of a chart say nothing of these values any more; empty if they do."""
    known = facts().get(chart)
    if known is None:
        return f"{chart} was never rendered"
    read = known["read"]
    if read["version"] != version:
        return f"{chart} is pinned at {version}, and {read['version']} was rendered"
    if read["values"] != digest(values, environment):
        return f"{chart} was rendered with other values"
    age = (today - date.fromisoformat(read["date"])).days
    return f"{chart} was rendered {age} days ago" if age > OLDEST_DAYS else ""
