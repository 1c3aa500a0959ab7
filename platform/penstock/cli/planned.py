"""Inputs of plans for the command line: a model's shape, a version's measured curve, its traffic in the ledger, and the
engine settings that a plan gives a push.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.capacity import told
from penstock.capacity.cold_start import Start
from penstock.capacity.gpus import gpu as known
from penstock.capacity.memory_plan import Lengths, Target, plan, stored_bytes
from penstock.capacity.traffic import Asked, Traffic, busiest
from penstock.cli.arguments import TYPICAL_OUTPUT, TYPICAL_PROMPT
from penstock.domain.errors import ArtifactRefused
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.models.architecture import Architecture
from penstock.domain.models.curves import Curve
from penstock.packaging.architecture import architecture_of, weight_bytes
from penstock.packaging.known_models import MODELS
from penstock.packaging.reading import context_of, read_json

_CONFIG = "config.json"
_MOST_BYTES = 4 << 20
"""The largest config.json: lists of unquantised layers reach a megabyte."""
Json = Mapping[str, Any]


def shape_of(text: str) -> tuple[str, Architecture, int]:
    """Return the model's name, its shape, and the bytes of its weights: of its files if they are here."""
    if (model := MODELS.get(text)) is not None:
        shape = architecture_of(model)
        return text, shape, stored_bytes(shape)
    path = Path(text)
    folder = path.parent if path.name == _CONFIG else path
    if not (folder / _CONFIG).is_file():
        raise ArtifactRefused(
            f"MODEL: {text!r} is no folder with a config.json and no known model: {', '.join(MODELS)}"
        )
    if (size := (folder / _CONFIG).stat().st_size) > _MOST_BYTES:
        raise ArtifactRefused(f"config.json: {size:,} bytes are no model's settings: give at most {_MOST_BYTES:,}")
    shape = architecture_of(read_json(folder, _CONFIG))
    return folder.resolve().name, shape, weight_bytes(folder) or stored_bytes(shape)


def curve_on(curves: Iterable[Json], gpu: str, gpus: int) -> Curve | None:
    """Return the curve that was measured on this number of these GPUs; None if there is none."""
    wanted = gpu.partition("/")[0].partition("-")[0]
    for one in curves:
        curve = msgspec.convert(one, Curve)
        name, _, part = curve.hardware.rpartition(" x")
        if wanted in name.replace("-", " ").split() and part == str(gpus):
            return curve
    return None


def starts_of(workers: Iterable[Json], version: str) -> list[Start]:
    """Return the measured starts of a version's ready workers; a wake is no start."""
    found = [
        Start(
            machine_s=one["machine_s"],
            image_s=one["image_s"],
            phases={WorkerState(timing["phase"]): timing["seconds"] for timing in one["phases"]},
        )
        for one in workers
        if one["version"] == version and one["state"] == WorkerState.READY
    ]
    return [one for one in found if WorkerState.WAKING not in one.phases]


def traffic_of(rows: Iterable[Json], version: str) -> Traffic:
    """Return the busiest minute of a version's rows in the ledger, and their mean lengths."""
    asked = (
        Asked(
            at=one["opened_at"],
            prompt_tokens=one["prompt_tokens"] - one["cached_tokens"],
            output_tokens=one["output_tokens"],
        )
        for one in rows
        if one["version"] == version
    )
    return busiest(asked, version)


def settings_for(
    folder: Path, gpu: str, itl_s: float, gpus: int, report: Callable[[str], None]
) -> dict[str, int | str]:
    """Return the engine settings that the memory plan gives this model on such GPUs, and report their reasons."""
    _, shape, size = shape_of(str(folder))
    context = context_of(folder)
    part = min(1.0, context / (TYPICAL_PROMPT + TYPICAL_OUTPUT))
    lengths = max(1, int(TYPICAL_PROMPT * part)), max(1, int(TYPICAL_OUTPUT * part))
    target = Target(
        context_tokens=context,
        lengths=Lengths(pairs=(lengths,)),
        itl_s=itl_s,
        tensor_parallel=gpus,
    )
    found = plan(shape, size, known(gpu), target)
    if not found.fits:
        raise ArtifactRefused(
            f"it does not fit {gpus} x {gpu}: penstock plan memory {folder} --gpu {gpu} says what would"
        )
    rows = told.settings(found)
    for one in rows:
        report(f"{one['name']}={one['value']}: {one['because']}")
    return {one["name"]: one["value"] for one in rows if one["name"] != "tensor_parallel_size"}
