"""The contract that deployments are made from: complete, and the one that is checked in."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.apps.keys import check_files
from penstock.contract.gateway import GATEWAY
from penstock.contract.nouns import Process
from penstock.contract.written import PROCESSES, text
from penstock.domain.command_error import CommandError
from penstock.gateway.app.openapi import document
from penstock.settings.told import SettingKind, named
from penstock.telemetry import pages
from tests.support import tree

KEPT = tree.ROOT / "infra/contract.json"
PLATFORM = tree.ROOT / "platform/penstock"

of_each_process = pytest.mark.parametrize("process", PROCESSES, ids=lambda process: process.name)


@cache
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text())["processes"]
    return found


def referred(value: object) -> Iterator[str]:
    """Yield the settings that a declaration names."""
    if isinstance(value, tuple):
        for item in value:
            yield from referred(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            found = getattr(value, field.name)
            if field.name.endswith("setting") and found and not found.isupper():
                yield found
            yield from referred(found)


def test_the_contract_that_is_checked_in_is_the_one_of_this_code() -> None:
    """`penstock contract > infra/contract.json` was run after the last change."""
    assert KEPT.read_text() == text()


@of_each_process
def test_what_a_declaration_names_is_a_setting_of_that_process(process: Process) -> None:
    """Ports, folders, secrets and calls name settings that this very process is told."""
    known = set(process.settings.model_fields)
    assert {*referred(process), *process.needed} - known == set()


@of_each_process
def test_every_secret_file_is_declared(process: Process) -> None:
    """Finding 3.2: no process reads a key that nobody mounts."""
    files = {name for kind in (SettingKind.KEY_FILE, SettingKind.FILE) for name in named(kind, process.settings)}
    own = process.certificate
    certificate = {own.cert_setting, own.key_setting, own.ca_setting} if own else set()
    assert {secret.setting for secret in process.secrets} | certificate == files


@of_each_process
def test_every_folder_that_is_written_is_declared(process: Process) -> None:
    """Finding 3.8: whatever is written can be put on a folder of its own."""
    assert set(named(SettingKind.FOLDER, process.settings)) <= {folder.setting for folder in process.folders}


@of_each_process
def test_every_port_and_probe_is_told_apart(process: Process) -> None:
    """Finding 3.5: probes and metrics name ports that the process listens at, each with a number of its own."""
    names = [port.name for port in process.ports]
    numbers = [port.number for port in process.ports]
    assert len(set(numbers)) == len(numbers)
    assert {probe.port for _, probe in process.probes} <= set(names)
    assert process.metrics[0] in {*names, ""}


@of_each_process
def test_every_setting_says_what_it_means(process: Process) -> None:
    """A name, a type and a default are not enough to pass a setting to a process."""
    silent = [one["name"] for one in kept()[process.name]["settings"] if not one["meaning"].endswith((".", "``"))]
    assert silent == []


def test_every_setting_is_read() -> None:
    """A setting that no code reads is no setting."""
    code = "\n".join(path.read_text() for path in PLATFORM.rglob("*.py") if path.parent != PLATFORM / "contract")
    declared = {name for process in PROCESSES for name in process.settings.model_fields}
    unread = {name for name in declared if not re.search(rf"\.{name}\b", code)}
    assert unread == set()


def test_nobody_calls_a_port_that_is_not_there() -> None:
    """Who calls a process of the contract names one of its ports, and that port names it among its callers."""
    ports = {(process.name, port.name): port.callers for process in PROCESSES for port in process.ports}
    processes = {process.name for process in PROCESSES}
    for process in PROCESSES:
        for call in process.calls:
            if call.to in processes:
                assert process.name in ports[call.to, call.port]


def test_no_default_holds_a_secret() -> None:
    """What may hold a password is empty unless it is given."""
    settings = [one for process in kept().values() for one in process["settings"]]
    assert [one["name"] for one in settings if one["kind"] in ("secret", "key file") and one["default"]] == []


@pytest.mark.parametrize(
    ("process", "setting"),
    [(process, secret.setting) for process in PROCESSES for secret in process.secrets],
    ids=lambda one: one.name if isinstance(one, Process) else one,
)
def test_a_secret_that_is_not_mounted_is_refused_by_name(tmp_path: Path, process: Process, setting: str) -> None:
    """Finding 3.2: every file that a process is told of and that is not there is named, with a remedy."""
    told = process.settings.model_validate({"home": tmp_path, setting: str(tmp_path / "nowhere")})
    with pytest.raises(CommandError, match=f"PENSTOCK_{setting.upper()} at {tmp_path}/nowhere") as refused:
        check_files(told, process.settings)
    assert "Mount the file" in refused.value.do


def test_a_balancer_passes_on_every_path_that_clients_ask_for() -> None:
    """The public port's patterns hold each route of the gateway's description but pages of a process's own state."""
    (public,) = [port for port in GATEWAY.ports if port.name == "public"]
    paths = document()["paths"]
    assert isinstance(paths, dict)
    routes = [re.sub(r"\{[^}]*\}", "x", path) for path in paths]
    kept_in = {path for path in routes if not any(fnmatch(path, pattern) for pattern in public.paths)}
    assert kept_in == {"/healthz", "/readyz", "/health", "/ping", "/version"}
    assert not [path for path in (pages.METRICS, pages.READY) for pattern in public.paths if fnmatch(path, pattern)]
