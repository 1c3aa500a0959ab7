"""Ends what a session shares with the last folder that asks for it: an idle platform goes on taking a part of a core.

A folder's own end and not the last test's, since its last tests may read what the others left behind.
"""

from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

Fixtures = list[pytest.FixtureDef[object]]


def last_uses(items: Sequence[pytest.Item], names: Collection[str]) -> dict[str, Fixtures]:
    """Return the fixtures of these names by the id of the test after which nobody asks for them any more."""
    last_of_folder: dict[Path, str] = {item.path.parent: item.nodeid for item in items}
    last_of_fixture: dict[pytest.FixtureDef[object], str] = {}
    for item in items:
        if isinstance(item, pytest.Function):
            asked = item._fixtureinfo.name2fixturedefs
            last_of_fixture |= {asked[name][-1]: last_of_folder[item.path.parent] for name in names if name in asked}
    found: dict[str, Fixtures] = {}
    for fixture, test in last_of_fixture.items():
        found.setdefault(test, []).append(fixture)
    return found


def end(item: pytest.Item, fixtures: Fixtures) -> None:
    """Tear fixtures down, before each what was made of it; one that was never made stays so."""
    for fixture in fixtures:
        fixture.finish(item._request)  # type: ignore[attr-defined]
