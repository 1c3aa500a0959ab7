"""Third-party charts and their images: where they come from, and where in our registry they lie."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypedDict

import yaml

_FILE = Path(__file__).with_name("charts.yaml")
FOLDER = "mirror"


class _Row(TypedDict):
    source: str
    images: list[str]


class _Table(TypedDict):
    charts: dict[str, _Row]
    moving: dict[str, str]


@cache
def _table() -> _Table:
    table: _Table = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return table


def charts() -> dict[str, _Row]:
    """The rows by chart."""
    return _table()["charts"]


def moving() -> dict[str, str]:
    """The upstream tag of each image that has no fixed one."""
    return _table()["moving"]


def mirrored(image: str) -> str:
    """The repository of an image's copy: the upstream path without its host."""
    return f"{FOLDER}/{image.split('/', maxsplit=1)[1]}"


def repositories(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """The repositories that these charts need. Raises `KeyError` for a chart that is not in the catalogue."""
    found = {f"charts/{name}" for name in wanted}
    found |= {mirrored(image) for name in wanted for image in charts()[name]["images"]}
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The account's registry, as the values of one chart name it. An image that is not mirrored can't be named."""

    registry: str
    chart: str

    @property
    def root(self) -> str:
        """What stands in for the upstream host."""
        return f"{self.registry}/{FOLDER}"

    def image(self, upstream: str) -> str:
        """An image's copy. Raises `KeyError` if the catalogue does not list it for this chart."""
        if upstream not in charts()[self.chart]["images"]:
            raise KeyError(f"{upstream} is not mirrored for {self.chart}: add it to catalogue/charts.yaml")
        return f"{self.registry}/{mirrored(upstream)}"

    def folder(self, upstream: str) -> str:
        """The copy's folder, for charts that name folder and image apart."""
        return self.image(upstream).rpartition("/")[0]
