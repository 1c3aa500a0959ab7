"""Exit codes in words."""

import pytest

from penstock.domain.fleet.worker import how_it_ended


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with code 0"),
        (-9, "was killed by SIGKILL"),
        (-200, "was killed by signal 200"),
        (None, "ended, with an unknown exit code"),
    ],
)
def test_exit_codes_in_words(code: int | None, words: str) -> None:
    """An exit code is said so that a person understands it, and an unknown one is none."""
    assert how_it_ended(code) == words
