"""The pools' file: a number that can't be is refused, with its field."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.connectors.kubernetes import pools
from penstock.connectors.kubernetes.placing import place
from penstock.domain.command_error import CommandError
from penstock.domain.fleet.versions import Served
from penstock.domain.ids import VersionId
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


@pytest.mark.parametrize("price", [0, -1.86])
def test_a_price_of_0_is_refused_by_name(tmp_path: Path, price: float) -> None:
    """A price that is not known is left out: 0 would make GPUs free."""
    file = pools_file(tmp_path, dollars_per_hour=price)
    with pytest.raises(CommandError, match=r"`float` > 0.0 - at `\$.devices\[0\].dollars_per_hour`"):
        pools.read(file)


def test_a_worker_costs_its_devices_and_without_a_price_nothing_is_known(tmp_path: Path) -> None:
    """Four GPUs of 1.86 dollars are 7.44."""
    served = Served(version=VersionId("m@1"), least=1, workers=1, gpus=4)
    for price, expected in ((1.86, pytest.approx(7.44)), (None, None)):
        placed = place(served, pools.read(pools_file(tmp_path, dollars_per_hour=price)).devices)
        assert placed is not None
        assert placed.dollars_per_hour == expected


@pytest.mark.parametrize(("held_gib", "chosen"), [(16, "l4"), (19, "a10g"), (30, "l40s")])
def test_a_version_gets_the_cheapest_device_that_reads_it_in_time(tmp_path: Path, held_gib: int, chosen: str) -> None:
    """An L4 reads 19 GiB in more than the chat tier's 0.1 s; data sheets say 300, 600 and 864 GB a second."""
    offered = {"a10g": (22, 600, 1.006), "l4": (22, 300, 0.8048), "l40s": (44, 864, 1.861)}
    devices = [
        samples.device(name, gib=gib) | {"bytes_per_s": speed * 10**9, "dollars_per_hour": price}
        for name, (gib, speed, price) in offered.items()
    ]
    served = Served(version=VersionId("m@1"), least=1, workers=1, held_bytes=held_gib << 30)
    placed = place(served, pools.read(samples.file(tmp_path, *devices)).devices)
    assert placed is not None
    assert placed.device.name == chosen


def pools_file(folder: Path, **changes: object) -> Path:
    return samples.file(folder, samples.device("l40s", gpus=4) | changes)
