"""A process's own lag is no evidence against others: every place that judges by time says how lag is left out."""

import pytest

from tests.architecture import lateness

AWAKE = "awake"
GROUPS = (AWAKE, "awake_seconds", "awake_heartbeats", "by_the_wall", "holds", "waits", "remembers")


def test_the_list_is_what_the_code_has() -> None:
    """A new timer or comparison needs a line, and a line needs its place."""
    assert set(lateness.found()) == set(lateness.listed())
    assert set(lateness.listed().values()) == set(GROUPS)


def test_a_limit_of_ours_is_told_from_asyncios() -> None:
    """What is listed as awake has no raw timer beside it, and no limit of ours is listed as another's."""
    listed, found = lateness.listed(), lateness.found()
    assert {place for place, is_awake in found.items() if is_awake} == {
        place for place, group in listed.items() if group == AWAKE
    }


@pytest.mark.parametrize(
    ("line", "is_found"),
    [
        ("async with asyncio.timeout(5): pass", True),
        ("async with timeout(5): pass", True),
        ("await asyncio.wait_for(work, 5)", True),
        ("await asyncio.wait(tasks, timeout=5)", True),
        ("loop.call_later(5, end)", True),
        ("timer = Timer(5, end)", True),
        ("dead = clock.monotonic() - heard_at > 5", True),
        ("silent_s = now - heard_at; return max(silent_s, 1.0) >= patience_s", True),
        ("if (left_s := until - loop.time()) <= 0: end()", True),
        ("await asyncio.wait(tasks)", False),
        ("return now.count > before.count", False),
        ("return now is not None", False),
        ("return seconds > 5", False),
    ],
)
def test_the_scan_finds_what_judges_by_time(line: str, *, is_found: bool) -> None:
    """Planted: timers of every kind, and comparisons with a reading of a clock or with what was computed from it."""
    source = f"class Some:\n    async def looks(self, now):\n        {line.replace('; ', chr(10) + '        ')}\n"
    assert [name for name, _ in lateness.places(source)] == (["Some.looks"] if is_found else [])
