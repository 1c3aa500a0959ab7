"""The pools' file: a number that can't be is refused, with its field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.kubernetes import pools
from penstock.domain.command_error import CommandError
from tests.support.clusters import pools as samples


def numbers(found: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401  any JSON
    """Yield the path of each number of a file, but not in templates, which are Kubernetes' own."""
    inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    for key, value in inner:
        if type(value) is int:
            yield (*path, key)
        elif key != "template":
            yield from numbers(value, (*path, key))


GOOD = samples.content(samples.device("l40s"))


@pytest.mark.parametrize("path", [path for path in numbers(GOOD) if path != ("edition",)], ids=str)
def test_a_negative_number_is_refused_by_name(tmp_path: Path, path: tuple[str | int, ...]) -> None:
    """A device of minus four workers was taken, and none was ever placed there."""
    wrong = json.loads(json.dumps(GOOD))
    place = wrong
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = -1
    file = tmp_path / "pools.json"
    file.write_text(json.dumps(wrong))
    named = "$" + "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    with pytest.raises(CommandError) as refused:
        pools.read(file)
    assert "Expected `int`" in str(refused.value)
    assert named in str(refused.value)
