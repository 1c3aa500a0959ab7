"""The contract as JSON: the declarations, with every setting from the code."""

import ast
import hashlib
import inspect
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Any

from penstock import __version__
from penstock.connectors.kubernetes.scaling import written as written_scaler
from penstock.contract.controller import CONTROLLER
from penstock.contract.gateway import GATEWAY
from penstock.contract.init import INIT
from penstock.contract.nouns import Process
from penstock.contract.runner import RUNNER
from penstock.contract.worker import WORKER
from penstock.settings.told import PREFIX, SettingKind, Told

SCALED = written_scaler(
    {"apiVersion": "apps/v1", "kind": "{KIND}", "name": "{NAME}"},
    {"least": "{LEAST}", "most": "{MOST}", "held": "{HELD}"},
    "{SCALER}",
    "{PROMETHEUS}",
)
"""A ScaledObject's spec with placeholders: infrastructure fills it for gateways, as connectors do for versions."""
EDITION = 1
"""A format number, raised whenever a reader of the previous format would misread something."""
PROCESSES = (GATEWAY, CONTROLLER, RUNNER, WORKER, INIT)
Json = Mapping[str, object]


def text() -> str:
    processes = {process.name: written(process) for process in PROCESSES}
    content = {"edition": EDITION, "version": __version__, "digest": digest(processes), "processes": processes}
    return json.dumps(content, indent=2) + "\n"


def digest(processes: Json) -> str:
    """Return the digest that readers recompute to detect an edited or half-merged file."""
    plain = json.dumps(processes, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(plain.encode()).hexdigest()}"


def written(process: Process) -> Json:
    plain = {field.name: _plain(getattr(process, field.name)) for field in fields(process)}
    port, path = process.metrics
    return plain | {
        "command": list(process.command),
        "arguments": dict(process.arguments),
        "settings": settings_of(process.settings, process.needed),
        "needed": [variable(name) for name in process.needed],
        "probes": {name: _plain(probe) for name, probe in process.probes},
        "metrics": {"port": port, "path": path} if port else None,
        "scaler": SCALED if process is GATEWAY else None,
    }


def settings_of(declared: type[Told], needed: tuple[str, ...] = ()) -> list[Json]:
    schema, said = declared.model_json_schema(), meanings(declared)
    return [
        {**_setting(name, declared, schema, is_needed=name in needed), "meaning": " ".join(said.get(name, "").split())}
        for name in sorted(declared.model_fields)
    ]


def meanings(declared: type[Told]) -> dict[str, str]:
    """Read the fields' docstrings from the source; pydantic would at each start, for a sixth of a command's CPU."""
    found: dict[str, str] = {}
    for group in reversed([one for one in declared.__mro__ if issubclass(one, Told)]):
        body = ast.parse(dedent(inspect.getsource(group))).body[0]
        for field, text in pairwise(body.body if isinstance(body, ast.ClassDef) else ()):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                    found[name] = inspect.cleandoc(said)
    return found


def variable(field: str) -> str:
    """Return a field's name in the environment; names of other variables stay."""
    return field if not field or field.isupper() else f"{PREFIX}{field.upper()}"


def _setting(name: str, declared: type[Told], schema: Mapping[str, object], *, is_needed: bool) -> Json:
    field, shape = declared.model_fields[name], _shape(schema, name)
    kinds = [str(kind) for kind in SettingKind if kind in field.metadata]
    bounds: dict[str, object] = {
        key: shape[key] for key in ("minimum", "maximum", "exclusiveMinimum", "enum") if key in shape
    }
    return {
        "name": variable(name),
        "type": shape.get("type", "string"),
        "default": shape.get("default"),
        **bounds,
        "kind": kinds[0] if kinds else "plain",
        "needed": is_needed,
    }


def _shape(schema: Mapping[str, Any], name: str) -> dict[str, object]:
    properties, definitions = schema["properties"], schema.get("$defs", {})
    shape: dict[str, object] = dict(properties[name])
    referred = shape.pop("$ref", "")
    return {**definitions.get(str(referred).rpartition("/")[2], {}), **shape}


def _plain(value: object) -> object:
    """Return a declaration as JSON; fields that name settings become variables."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _field(field.name, getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        pairs = [item for item in value if isinstance(item, tuple) and len(item) == 2]  # noqa: PLR2004
        if value and len(pairs) == len(value):
            return {str(key): _plain(item) for key, item in pairs}
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None


def _field(name: str, value: object) -> object:
    return variable(str(value)) if name.endswith("setting") else _plain(value)
