"""Pools that the infrastructure ships as a mounted file: devices, and a pod template each.

Pods are complete except for placeholders (`FILLED`), which the controller fills; no version is known here. Unknown
fields are refused: a misspelt one would leave its default in force.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from penstock.domain.command_error import CommandError
from penstock.formats.documents import DocumentRefused, json_of

EDITION = 2
FILLED = ("{VERSION}", "{WORKER}", "{NAME}", "{MODEL}", "{DIGEST}", "{POOL}")
"""Placeholders of a template: the version, the pod's own name, and the values of its labels."""
Json = Mapping[str, object]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[int, msgspec.Meta(gt=0)]


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gpus: Count
    most: Count
    resources: Json


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``device_bytes`` is a GPU's or slice's memory, ``start_s`` the longest start."""

    name: str
    device: str
    device_bytes: Count
    sizes: tuple[Size, ...]
    template: Json
    is_spot: bool = False
    start_s: Seconds = 1800


class Pools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``scaler`` is the address, host and port, by which KEDA reaches the controllers."""

    edition: int
    namespace: str
    prometheus: str
    scaler: str
    pools: tuple[Pool, ...]


def read(file: Path) -> Pools:
    """Return the pools of a file; raises ``CommandError``."""
    do = "It is made by the infrastructure; deploy it anew, or correct PENSTOCK_POOLS_FILE."
    try:
        found = msgspec.convert(json_of(file.read_bytes()), Pools)
    except (OSError, DocumentRefused, msgspec.MsgspecError) as error:
        raise CommandError(f"The pools in {file} can't be read: {error}.", do=do) from error
    if found.edition != EDITION:
        raise CommandError(f"The pools in {file} are of edition {found.edition}, not {EDITION}.", do=do)
    if not found.pools:
        raise CommandError(f"There is no pool in {file}.", do=do)
    return found
