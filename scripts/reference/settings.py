"""The page of settings: each field's variable, default, the processes that read it, and its docstring."""

import inspect
from enum import Enum

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from penstock.contract.written import meanings
from penstock.settings import Settings
from penstock.settings.processes import (
    ControllerSettings,
    GatewaySettings,
    InitSettings,
    RunnerSettings,
    WorkerSettings,
)
from penstock.settings.told import PREFIX, SettingKind, Told
from scripts.reference.markdown import code, table, titled

_LEAD = """Each process reads its settings from `PENSTOCK_*` variables first, then from `settings.yaml` in its home
(the same names in small letters, without the prefix), then takes the default. A name that no setting has is refused.
`penstock config` prints what a start would use, `penstock contract` what each process needs, as JSON.
A process keeps the settings of its start. Those of `penstock up` are read once and handed to all of its processes:
a change needs `penstock down` and `penstock up`, and `penstock restart` says so.

Settings marked *secret* may hold a password and are shown as `***`; those marked *file* or *key file* are paths of files
that the process reads, those marked *folder* of folders that it writes to."""
_PROCESSES: dict[str, type[Told]] = {
    "gateway": GatewaySettings,
    "jobs-runner": RunnerSettings,
    "controller": ControllerSettings,
    "worker": WorkerSettings,
    "init": InitSettings,
}
_TITLES = {
    "Told": "All processes",
    "GatewaySettings": "Gateway",
    "PipelineSettings": "Request pipeline",
    "DeferredSettings": "Jobs, batches, files, webhooks",
    "ControllerSettings": "Controller",
    "WorkerSettings": "Worker",
    "InitSettings": "First start",
    "Settings": "`penstock up` and the command line",
    "DatabaseSettings": "Database",
    "LimitsSettings": "Limits",
    "ArtifactSettings": "Model versions",
    "AuditSettings": "Audit log",
    "KeySettings": "Keys",
    "SealingSettings": "Stored content",
    "PeerSettings": "Certificates",
    "MetricsSettings": "Metrics and health",
    "ListeningSettings": "Address",
    "ReachedSettings": "Address for other processes",
    "ControllerAddress": "Address of the controller",
    "DrainSettings": "Drain",
}
"""The title of each group of settings by the class that declares it, in the order of the page."""
_MEANINGS = meanings(Settings)
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def page() -> str:
    """Return the whole page: a section for each group of settings as the code declares them."""
    parts, shown = [titled("Settings", _LEAD)], set[str]()
    for group in _groups():
        names = [name for name in inspect.get_annotations(group) if name not in shown and name in group.model_fields]
        rows = table(
            ("variable", "default", "read by", "what it sets"), [_row(name, group.model_fields[name]) for name in names]
        )
        lead = (group.__doc__ or "").partition("\n\n")[0]
        parts.append(f"\n## {_TITLES[group.__name__]}\n\n{lead}\n\n{rows}")
        shown.update(names)
    return "".join(parts)


def _groups() -> list[type[Told]]:
    """Return the classes that declare settings, in the page's order; one without a title is an error."""
    found = {one.__name__: one for one in Settings.__mro__ if issubclass(one, Told)}
    return [found.pop(name) for name in _TITLES] + [one for one in found.values() if inspect.get_annotations(one)]


def _row(name: str, field: FieldInfo) -> tuple[str, ...]:
    kinds = [str(one) for one in field.metadata if isinstance(one, SettingKind)]
    readers = [process for process, kind in _PROCESSES.items() if name in kind.model_fields]
    marks = "".join(f" *({kind})*" for kind in kinds)
    return (
        code(f"{PREFIX}{name.upper()}"),
        _default(name, field),
        ", ".join(readers if len(readers) < len(_PROCESSES) else ["all"]) or "up, commands",
        f"{_MEANINGS.get(name, '')}{marks}",
    )


def _default(name: str, field: FieldInfo) -> str:
    value = field.default
    if value is PydanticUndefined or value in ("", None):
        return ""
    if isinstance(value, bool):
        return code("on" if value else "off")
    if isinstance(value, Enum):
        return code(str(value.value))
    if isinstance(value, int) and name.endswith("_bytes"):
        return _bytes(value)
    return code(f"{value:g}" if isinstance(value, float) else str(value))


def _bytes(value: int) -> str:
    for size, unit in _UNITS:
        if value and value % size == 0:
            return f"`{value}` ({value // size} {unit})"
    return code(str(value))
