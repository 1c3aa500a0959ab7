"""The command line's surface: every command explains itself, and mistakes end in words."""

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest
from msgspec import convert
from typer.testing import CliRunner

from penstock import __version__
from penstock.cli import application
from penstock.control.api.plans import checked
from penstock.domain.errors import InvalidField
from penstock.domain.tenancy.tenant import CAPS, OverQuota, Plan, Priority, Role, ScopeKind
from penstock.settings import load
from penstock.views.tenants import FIELDS
from tests.support.samples.commands import ALL

app = application()

RUNNER = CliRunner()


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let commands find an empty home."""
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    load.cache_clear()
    yield
    load.cache_clear()


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_and_argument_explains_itself(path: tuple[str, ...]) -> None:
    """Each has a sentence of help, and so does everything it takes."""
    command = ALL[path]
    assert command.help
    assert command.help.strip().split("\n")[0].endswith((".", ":")), command.help
    silent = [
        parameter.name
        for parameter in command.params
        if not getattr(parameter, "help", None) and not getattr(parameter, "hidden", False)
    ]
    assert silent == []
    assert RUNNER.invoke(app, [*path, "--help"]).exit_code == 0


@pytest.mark.parametrize(
    "path",
    [
        ("up",),
        ("ask",),
        ("restart",),
        ("models", "push"),
        ("aliases", "set"),
        ("keys", "create"),
        ("tenants", "plan"),
        ("orgs", "create"),
        ("budgets", "set"),
        ("usage", "export"),
        ("usage", "reconcile"),
    ],
    ids=" ".join,
)
def test_help_has_examples(path: tuple[str, ...]) -> None:
    """Commands that take something show how they are used."""
    assert "For example" in (ALL[path].help or "")


@pytest.mark.parametrize(
    ("command", "choices"),
    [(["keys", "create", "x", "--role", "root"], Role), (["tenants", "create", "x", "--priority", "high"], Priority)],
)
def test_a_wrong_choice_is_answered_with_the_right_ones(command: list[str], choices: type[StrEnum]) -> None:
    """Who names a role or class that there is not sees those that there are."""
    result = RUNNER.invoke(app, command)
    assert result.exit_code == 2
    assert [choice for choice in choices if choice not in result.stderr] == []


def test_what_the_help_of_bounds_names_is_what_keys_and_organisations_take() -> None:
    """Every field that is named is accepted, and every other field of a plan is refused in words."""
    others = {"priority": Priority.BATCH, "over_quota": OverQuota.YIELD, "paid": False, "weight": 2, "copied": False}
    for kind, who in ((ScopeKind.KEY, "a key"), (ScopeKind.ORG, "an organisation")):
        for name in CAPS:
            checked(convert({name: 1}, Plan), kind)
        for name, value in others.items():
            with pytest.raises(InvalidField, match=f"{who} has bounds only"):
                checked(convert({name: value}, Plan), kind)
    assert {*FIELDS} - {*CAPS} == {
        *others,
        *("degrade_output_tokens", "degrade_model", "reserved", "kv_part", "auto_tier", "service_tiers"),
        *("batch_enqueued_tokens", "batch_jobs", "file_bytes", "files", "job_attempts", "job_deadline_s", "keep_s"),
        *("batch_windows", "batch_hours", "batch_pools", "batch_yield", "safety"),
        *("keep_answers_s", "keep_files_s", "keep_matches_s", "training_use", "zero_retention"),
    }


def test_the_version_is_the_packages() -> None:
    """`penstock version` prints what the package says."""
    assert RUNNER.invoke(app, ["version"]).stdout == f"penstock {__version__}\n"


@pytest.mark.parametrize("command", [["status"], ["keys", "list"], ["models", "list"], ["ask", "Hi"]], ids=" ".join)
def test_without_a_platform_the_way_to_one_is_told(command: list[str]) -> None:
    """Nothing running ends in exit code 1 and a sentence, without a traceback."""
    result = RUNNER.invoke(app, command)
    assert result.exit_code == 1
    assert "penstock up" in result.stderr
    assert "Traceback" not in result.output


def test_a_controller_that_is_gone_is_told(tmp_path: Path) -> None:
    """A stale address file is told as a controller that does not answer."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/controller.addr").write_text("http://127.0.0.1:9\n")
    (tmp_path / "admin.key").write_text("psk_x\n")
    result = RUNNER.invoke(app, ["keys", "list"])
    assert result.exit_code == 1
    assert "No controller answers at http://127.0.0.1:9" in result.stderr


def test_down_without_a_platform_is_no_error() -> None:
    """There is nothing to stop, and that is said."""
    result = RUNNER.invoke(app, ["down"])
    assert result.exit_code == 0
    assert "No platform runs" in result.stdout
