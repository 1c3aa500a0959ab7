"""Ends the fixtures that tests share: after the last file that asks for them, and after a test that failed.

An idle platform takes part of a core, so files that share one follow one another. A platform that a failed test leaves
behind may be broken, so the next test gets a new one.
"""

import inspect
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

Fixtures = list[pytest.FixtureDef[object]]


def adjacent(items: list[pytest.Item], folder: Path, names: Sequence[str], last: Collection[str] = ()) -> None:
    """Order a folder's files by which of these fixtures they share; none is first, ``last`` at the end."""
    places = [i for i, item in enumerate(items) if folder in item.path.parents]
    shared: dict[Path, set[int]] = {}
    for i in places:
        asked = _fixtures(items[i])
        shared.setdefault(items[i].path, set()).update(n for n, name in enumerate(names) if name in asked)
    ordered = sorted((items[i] for i in places), key=lambda one: (one.path.name in last, sorted(shared[one.path])))
    for i, item in zip(places, ordered, strict=True):
        items[i] = item


def last_uses(items: Sequence[pytest.Item], names: Collection[str]) -> dict[str, Fixtures]:
    """Return the fixtures of these names by the id of the last test that may use them."""
    last_of_file: dict[Path, str] = {item.path: item.nodeid for item in items}
    last_of_fixture: dict[pytest.FixtureDef[object], str] = {}
    for item in items:
        asked = _fixtures(item)
        last_of_fixture |= {asked[name]: last_of_file[item.path] for name in names if name in asked}
    found: dict[str, Fixtures] = {}
    for fixture, test in last_of_fixture.items():
        found.setdefault(test, []).append(fixture)
    return found


def running(item: pytest.Item, below: str, kept: Collection[str]) -> Fixtures:
    """Return the shared fixtures of a test that run something: they yield it and end it afterwards.

    ``below`` is the folder that defines them; those named in ``kept`` outlive a failure.
    """
    return [
        fixture
        for name, fixture in _fixtures(item).items()
        if name not in kept
        and fixture.baseid.startswith(below)
        and fixture.scope != "function"
        and inspect.isgeneratorfunction(fixture.func)
    ]


def end(item: pytest.Item, fixtures: Fixtures) -> None:
    """Tear fixtures down, each after its dependents; one that was never made stays so."""
    for fixture in fixtures:
        fixture.finish(item._request)  # type: ignore[attr-defined]


def _fixtures(item: pytest.Item) -> dict[str, pytest.FixtureDef[object]]:
    if not isinstance(item, pytest.Function):
        return {}
    return {name: found[-1] for name, found in item._fixtureinfo.name2fixturedefs.items()}
