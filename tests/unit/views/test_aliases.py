"""Rules of auto aliases as they are shown."""

from typing import Any

import pytest

from penstock.cli import screen
from penstock.views import aliases

SHOWN = {
    "name": "a", "to": "b", "prompt_tokens": 0, "apis": [], "tools": None, "json": None, "images": False,
    "callers": [], "price": 0, "deadline_s": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, []),
        ({"prompt_tokens": 1000, "tools": False}, ["prompts of at most 1,000 tokens", "no tools"]),
        ({"json": True, "images": True}, ["images too", "JSON"]),
        ({"price": 400_000, "deadline_s": 5.0}, ["at most $0.4 for a million tokens", "deadlines of 5 s and more"]),
        ({"apis": ["/v1/chat/completions"], "callers": ["paid"]}, ["/v1/chat/completions", "paid callers"]),
    ],
)
def test_conditions_are_told_in_words(changes: dict[str, Any], words: list[str]) -> None:
    """What holds for everything is not mentioned."""
    assert aliases.conditions(SHOWN | changes) == words


def test_what_was_taken_away_is_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """With who did it; rules in force are a table in their order."""
    screen.show(aliases.rules("auto", [{"auto": None, "who": "K1", "at": 0.0}]))
    assert "taken away by K1" in capsys.readouterr().out
    screen.show(aliases.rules("auto", [{"auto": {"alias": "auto", "rules": [SHOWN]}, "who": "K1", "at": 0.0}]))
    assert "whatever it is able to" in capsys.readouterr().out
