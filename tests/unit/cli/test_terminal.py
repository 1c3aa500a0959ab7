"""Every command under other locales, on a full disk, into a closed pipe and as JSON; and names that would steer."""

import inspect
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from penstock.cli import application
from tests.support.controllers.in_memory import Room
from tests.support.samples.commands import ALL
from tests.support.tree import ROOT

app = application()

RUNNER = CliRunner()
LISTS = (
    "models list", "tenants list", "tenants show acme", "orgs list", "keys list", "budgets show", "usage show acme",
    "usage reconcile", "aliases list", "rollout status", "audit", "explain --decisions",
)  # fmt: skip
LOCALES = (
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"LC_ALL": "C", "PYTHONUTF8": "0"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
)
NARROWEST = (LOCALES[0], LOCALES[-1])
"""ASCII by the name of the encoding, and by the locale."""
WALK = """
import contextlib, io, os, sys
from typer.main import get_command
from penstock.cli import application, terminal
terminal.prepare()
command = get_command(application())
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    command.main(["--help"])  # loads what help needs once, before the forks
out, err = sys.argv[1:3]
for words in sys.argv[3].split(";"):
    if os.fork() == 0:
        os.dup2(os.open(out, os.O_WRONLY) if out.startswith("/") else int(out), 1)
        try:
            code = terminal.run(lambda: command.main(words.split(), prog_name="penstock"))
        except BaseException as error:
            os.write(2, f"TRACEBACK {words}: {error!r}\\n".encode("ascii", "replace"))
            code = 99
        os._exit(code)
    os.wait()
"""


INSTALLED = """
import resource, sys
from {module} import {name} as command
sys.argv[1:] = ["version"]
try:
    command()
finally:
    print(resource.getrlimit(resource.RLIMIT_CORE), sys.stdout.errors)
"""
HELPS = tuple(f"{' '.join(path)} --help" for path in ALL)


def walked(words: tuple[str, ...], out: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    """Run these commands in one process each, with this standard output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    command = [sys.executable, "-c", WALK, out, "-", ";".join(words)]
    given = {**environment, **cast("dict[str, str]", more.pop("environment", {}))}
    return subprocess.run(command, cwd=ROOT, env=given, capture_output=True, check=False, **more)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("locale", LOCALES, ids=str)
def test_no_locale_ends_in_a_traceback(locale: dict[str, str], room: Room) -> None:
    """Of every list, and in the narrowest two of every command's help."""
    helps = HELPS if locale in NARROWEST else HELPS[:1]
    done = walked((*helps, *LISTS), "1", environment=locale)
    assert b"TRACEBACK" not in done.stderr, done.stderr
    assert done.stdout.count(b"Usage") >= len(helps)


def test_the_installed_command_is_prepared() -> None:
    """The script of a wheel leaves no core file with prompts, and writes what its terminal lacks as other signs."""
    module, _, name = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["penstock"].partition(
        ":"
    )
    program = INSTALLED.format(module=module, name=name)
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[1:] == ["(0, 0) other-signs"], done.stderr


def test_a_full_disk_is_said_in_one_line(room: Room) -> None:
    """By every command that writes something."""
    words = (*HELPS, *LISTS, "config", "contract", "version", "usage export")
    done = walked(words, "/dev/full")
    assert b"TRACEBACK" not in done.stderr, done.stderr
    assert done.stderr.count(b"Can't write the output: No space left on device.") >= len(words) - 1


def test_a_closed_pipe_ends_quietly(room: Room) -> None:
    """As after `| head -1`."""
    reads, writes = os.pipe()
    os.close(reads)
    done = walked((*HELPS, *LISTS, "config", "contract", "usage export"), str(writes), pass_fds=(writes,))
    os.close(writes)
    assert b"TRACEBACK" not in done.stderr, done.stderr
    assert b"Can't write" not in done.stderr


def test_every_list_is_there_as_json() -> None:
    """A command that prints a view has `--json`."""
    without = [
        " ".join(path)
        for path, command in ALL.items()
        if "screen.tell(" in inspect.getsource(inspect.unwrap(command.callback or len))
        and "as_json" not in {parameter.name for parameter in command.params}
    ]
    assert without == []


@pytest.mark.parametrize("words", LISTS)
def test_json_is_json(words: str, room: Room) -> None:
    """It parses, in ASCII, with the names of the operators' API."""
    done = RUNNER.invoke(app, [*words.split(), "--json"])
    assert done.exit_code == 0, done.output
    assert done.stdout.isascii()
    for line in done.stdout.splitlines():
        assert isinstance(json.loads(line), dict)


STEERS = "a\x1b[2J\x1b]0;mine\x07b\u202ec\x9b31md\r\u2066e"


def test_names_do_not_steer_the_terminal(room: Room, tmp_path: Path) -> None:
    """Names that were stored before they were refused, and others' words, have a sign for each such character."""
    import asyncio

    from penstock.domain.ids import TenantId
    from penstock.domain.tenancy.tenant import Tenant
    from tests.support.samples import control_plane as things

    asyncio.run(room.tenancy.add_tenant(Tenant(id=TenantId("odd"), name=STEERS), things.act()))
    (tmp_path / "logs").mkdir(exist_ok=True)
    (tmp_path / "logs/engine.log").write_text(STEERS + "\n")
    for words in ("tenants list", "tenants show odd", "logs engine", "tenants list --json"):
        done = RUNNER.invoke(app, words.split())
        assert done.exit_code == 0, done.output
        assert not {"\x1b", "\x07", "\u202e", "\x9b", "\u2066"} & set(done.output), words
    refused = RUNNER.invoke(app, ["tenants", "create", "bad", "--name", STEERS])
    assert (refused.exit_code, "name" in refused.output or "control characters" in refused.output) == (1, True)
