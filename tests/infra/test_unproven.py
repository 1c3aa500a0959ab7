"""A run that proved less than it could says so at its end."""

import pytest

from infra.review.terraform import MIRROR_VARIABLE
from tests.infra.conftest import pytest_terminal_summary
from tests.infra.unproven import unproven


class Screen:
    """Keeps what a run prints."""

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
    assert MIRROR_VARIABLE in told


def test_a_full_run_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was left out, nothing is said."""
    monkeypatch.setattr("tests.infra.unproven.missing", lambda: "")
    screen = Screen()
    pytest_terminal_summary(screen)  # type: ignore[arg-type]
    assert screen.lines == []
    assert list(unproven()) == []
