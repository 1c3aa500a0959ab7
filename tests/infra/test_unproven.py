"""A run that proved less than it could says so at its end."""

import subprocess
from pathlib import Path

import pytest

from infra.review.terraform import MIRROR_VARIABLE
from tests.infra.conftest import ROOT, pytest_terminal_summary
from tests.infra.unproven import unproven


class Screen:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def section(self, title: str, **_: object) -> None:
        self.lines.append(title)

    def line(self, text: str, **_: object) -> None:
        self.lines.append(text)


def test_a_run_without_a_provider_says_what_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mirror the end of the run names what nobody planned and nobody reviewed, and what to do about it."""
    monkeypatch.delenv(MIRROR_VARIABLE, raising=False)
    screen = Screen()
    pytest_terminal_summary(screen)  # type: ignore[arg-type]
    told = "\n".join(screen.lines)
    assert "NOT PROVEN" in told
    assert "planned NOTHING" in told
    assert "checkov" in told
    assert "before you deploy" in screen.lines[-1]  # to which the gate prints it
    assert MIRROR_VARIABLE in told


def test_a_full_run_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was left out, nothing is said."""
    monkeypatch.setattr("tests.infra.unproven.missing", lambda: "")
    told = list(unproven())
    assert [one for one in told if "NOTHING" in one] == [one for one in told if "cosign signed" in one]
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/cosign")
    screen = Screen()
    pytest_terminal_summary(screen)  # type: ignore[arg-type]
    assert screen.lines == []
    assert list(unproven()) == []


def found(**variables: str) -> str:
    """Return the mirror that the gate finds on a machine with these variables."""
    return subprocess.run(
        [ROOT / ".ci" / "provider-mirror"],
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def test_the_gate_uses_the_mirror_that_the_machine_has(tmp_path: Path) -> None:
    """The gate takes the mirror it is told of, else one where Terraform looks, and no folder without the provider."""
    told, usual, empty = (str(tmp_path / name) for name in ("told", "home/.terraform.d/plugins", "empty"))
    for mirror in (told, usual):
        (Path(mirror) / "registry.terraform.io/hashicorp/aws").mkdir(parents=True)
    home = str(tmp_path / "home")
    assert found(HOME=home) == usual
    assert found(HOME=home, **{MIRROR_VARIABLE: told}) == told
    assert found(HOME=home, **{MIRROR_VARIABLE: empty}) == usual
