"""A gateway process under all shipped packs: nothing of a planted match arrives at its client's socket."""

from pathlib import Path

import pytest

from loadtests.fuzz_filters import CHAT, COMPLETIONS, MESSAGES, RESPONSES, fuzzed

pytestmark = pytest.mark.integration
STREAMS = 120
"""``make fuzz-filters`` asks ten thousand."""


async def test_no_character_of_a_match_arrives(tmp_path: Path) -> None:
    """Every stream and whole answer has the verdict of its whole text, and a proper end; no match arrives."""
    count = await fuzzed(tmp_path, range(STREAMS), seed=3)
    assert count.faults == []
    assert (count.leaked, count.streams) == (0, STREAMS)
    assert set(count.apis) == {CHAT, COMPLETIONS, MESSAGES, RESPONSES}
    assert count.filtered > STREAMS / 4
