"""The devices of the cluster, each with its limits and a pod template, from a mounted file of the infrastructure.

Pods are complete except for placeholders (`FILLED`), which the controller fills; no version is known here. Unknown
fields are refused: a misspelt one would leave its default in force.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec

from penstock.domain.command_error import CommandError
from penstock.formats.documents import DocumentRefused, json_of

EDITION = 5
FILLED = ("{VERSION}", "{WORKER}", "{NAME}", "{MODEL}", "{DIGEST}", "{DEVICE}")
"""Placeholders of a template: the version, the pod's own name, and the values of its labels."""
Json = Mapping[str, object]
Count = Annotated[int, msgspec.Meta(ge=0)]
Seconds = Annotated[int, msgspec.Meta(gt=0)]


class Size(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    gpus: Count
    most: Count
    resources: Json


class ScalerLimit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Devices that a node scaler may bring."""

    scaler: str
    most: Count


class Device(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whatever pools have it. ``bytes`` is its memory, ``start_s`` the longest start of a machine, ``places`` the node
    scalers in the order in which they are asked, ``dollars_per_hour`` one device's price.
    """

    name: str
    bytes: Count
    places: tuple[ScalerLimit, ...]
    sizes: tuple[Size, ...]
    template: Json
    bytes_per_s: Count = 0
    dollars_per_hour: Annotated[float, msgspec.Meta(gt=0)] | None = None
    start_s: Seconds = 1800


class Pools(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``scaler`` is the address, host and port, by which KEDA reaches the controllers."""

    edition: int
    namespace: str
    prometheus: str
    scaler: str
    devices: tuple[Device, ...]


def read(file: Path) -> Pools:
    do = "It is made by the infrastructure; deploy it anew, or correct PENSTOCK_POOLS_FILE."
    try:
        found = msgspec.convert(json_of(file.read_bytes()), Pools)
    except (OSError, DocumentRefused, msgspec.MsgspecError) as error:
        raise CommandError(f"The pools in {file} can't be read: {error}.", do=do) from error
    if found.edition != EDITION:
        raise CommandError(f"The pools in {file} are of edition {found.edition}, not {EDITION}.", do=do)
    if not found.devices:
        raise CommandError(f"There is no device in {file}.", do=do)
    return found
