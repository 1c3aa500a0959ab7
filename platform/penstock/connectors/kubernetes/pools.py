"""The pools that the infrastructure ships as a mounted file: where workers can run, and what a pod of each looks like.

Pods are whole but for the places in braces (`FILLED`), which only the controller can fill; no version is known here.
A field that there is not is refused: a misspelt one would leave its default in force.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from penstock.domain.command_error import CommandError

EDITION = 1
FILLED = ("{VERSION}", "{WORKER}", "{NAME}", "{MODEL}", "{DIGEST}", "{POOL}")
"""What a template may leave open: the version, the pod's own name, and the values of its labels."""
Json = Mapping[str, object]


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a worker of so many GPUs asks of a node, and how many such workers the pool holds at its largest."""

    gpus: int
    most: int
    resources: Json


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pool. ``device_bytes`` is the memory of one GPU or slice, ``start_s`` how long a worker may take to serve."""

    name: str
    device: str
    device_bytes: int
    sizes: tuple[Size, ...]
    template: Json
    is_spot: bool = False
    start_s: int = 1800


class Pools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them, the first to be filled first; whom the scaler asks, and the namespace of all objects."""

    edition: int
    namespace: str
    prometheus: str
    pools: tuple[Pool, ...]


def read(file: Path) -> Pools:
    """Return the shipped pools, or raise ``CommandError``."""
    do = "It is made by the infrastructure; deploy it anew, or correct PENSTOCK_POOLS_FILE."
    try:
        found = msgspec.json.decode(file.read_bytes(), type=Pools)
    except (OSError, msgspec.MsgspecError) as error:
        raise CommandError(f"The pools in {file} can't be read: {error}.", do=do) from error
    if found.edition != EDITION:
        raise CommandError(f"The pools in {file} are of edition {found.edition}, not {EDITION}.", do=do)
    if not found.pools:
        raise CommandError(f"There is no pool in {file}.", do=do)
    return found
