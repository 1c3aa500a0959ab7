"""The packs that ship, as data beside this file."""

from functools import cache
from importlib.resources import files

from penstock.filters.pack import Pack
from penstock.filters.reading import parse

NAMES = ("abuse", "off", "pii", "secrets")


def text(name: str) -> bytes:
    return files(__package__ or "").joinpath(f"{name}.yaml").read_bytes()


@cache
def pack(name: str) -> Pack:
    return parse(text(name))
