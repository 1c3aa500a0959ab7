"""Turns a folder in Hugging Face layout into a version: files chosen, hashed, described by a manifest, signed,
stored.

The same folder and choices give the same digest on any machine and day.
"""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import msgspec

from penstock.domain.errors import ArtifactRefused
from penstock.domain.ids import ModelName, VersionId
from penstock.domain.models.model import (
    Artifact,
    EngineSettings,
    GoldenPrompt,
    HandlerSettings,
    Manifest,
    Provenance,
    Task,
    Tier,
    canonical,
    digest_of,
    version_id,
)
from penstock.domain.money import Price
from penstock.formats import manifests
from penstock.formats.abilities import abilities
from penstock.formats.contents import (
    ALLOWED,
    MANIFEST,
    PICKLES,
    WEIGHTS,
    check_contents,
    check_listing,
    check_manifest,
)
from penstock.packaging import reading
from penstock.packaging.bill import bill_of
from penstock.packaging.ports import ArtifactStore, Report, Signer

TIERS = {Task.GENERATE: Tier.CHAT, Task.EMBED: Tier.EMBEDDING, Task.CLASSIFY: Tier.CLASSIC}
EMBEDDING_GOLDEN = GoldenPrompt(
    prompt="A kitten sleeps on the sofa.",
    near="A young cat is napping on the couch.",
    far="The central bank raised interest rates.",
)
"""A golden prompt that every model of English sentences answers right; a wrong pooling or a broken kernel does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Serving choices that are not in the folder; None keeps the folder's value."""

    name: ModelName
    price: Price | None
    licence: str
    origin: str
    source_sha256: str = ""
    task: Task | None = None
    tier: Tier | None = None
    engine: EngineSettings | None = None
    golden: tuple[GoldenPrompt, ...] = ()
    handler: HandlerSettings | None = None
    """The handler, for a model that runs in torch."""
    tensor_parallel_size: int = 1
    engine_changes: Mapping[str, int | str] = field(default_factory=dict)
    """Changed fields of the engine's settings."""
    safety: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    id: VersionId
    digest: str
    manifest: Manifest
    signature_sha256: str


def measure(folder: Path, allowed: frozenset[str] = ALLOWED) -> tuple[Artifact, ...]:
    """Return files by path, with digests. Raises ``ArtifactRefused`` for weights in pickles only."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and _belongs(path, folder, allowed)]
    if not any(path.suffix == WEIGHTS for path in paths):
        pickles = sorted(path.name for path in folder.rglob("*") if path.suffix in PICKLES)
        found = f"only {', '.join(pickles[:3])}, which can run code when loaded" if pickles else "no weights"
        raise ArtifactRefused(f"{folder} has {found}: save the weights as .safetensors")
    return tuple(_artifact(path, folder) for path in paths)


def left_out(folder: Path, allowed: frozenset[str] = ALLOWED) -> list[str]:
    """Return the folder's files that do not belong to the version, hidden files aside."""
    names = [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]
    seen = [name for name in names if not any(part.startswith(".") or part == "__pycache__" for part in name.parts)]
    return [name.as_posix() for name in seen if not _belongs(folder / name, folder, allowed)]


def describe(folder: Path, files: tuple[Artifact, ...], choices: Choices) -> Manifest:
    """Raises ``ArtifactRefused`` that names the missing part."""
    if choices.price is None:
        raise ArtifactRefused("a version needs a price: give --price in micro-dollars per million tokens")
    if not choices.licence:
        raise ArtifactRefused("a version needs a licence: give --licence, for example Apache-2.0")
    task = choices.task or reading.task_of(folder)
    generates = task is Task.GENERATE
    template = reading.chat_template_of(folder) if generates else ""
    special_tokens = reading.special_tokens_of(folder)
    manifest = Manifest(
        name=choices.name,
        task=task,
        tier=choices.tier or TIERS[task],
        files=files,
        price=choices.price,
        provenance=Provenance(origin=choices.origin, licence=choices.licence, source_sha256=choices.source_sha256),
        engine=_engine(folder, choices),
        sampling=reading.sampling_of(folder),
        golden=choices.golden or ((EMBEDDING_GOLDEN,) if task is Task.EMBED and choices.handler is None else ()),
        chat_template=template,
        special_tokens=special_tokens,
        renders=tuple(map(str, abilities(template, special_tokens))) if template else None,
        handler=choices.handler,
        safety=choices.safety,
    )
    manifests.check(manifest)
    check_manifest(manifest)
    return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Publishing:
    """The means of publishing: store, signer, scratch folder (on the weights' disk), progress report."""

    store: ArtifactStore
    signer: Signer
    work: Path
    report: Report


def _engine(folder: Path, choices: Choices) -> EngineSettings:
    settings = choices.engine or EngineSettings(
        max_model_len=reading.context_of(folder), tensor_parallel_size=choices.tensor_parallel_size
    )
    return msgspec.convert({**asdict(settings), **choices.engine_changes}, EngineSettings)


def publish(folder: Path, manifest: Manifest, publishing: Publishing) -> Packed:
    """Store blobs and bill of materials, the signature last; quick if they are stored."""
    digest = digest_of(manifest)
    bill = bill_of(manifest, digest)
    signature = publishing.store.signature(digest)
    if (
        not signature
        or not publishing.signer.has_signed(signature)
        or not _is_stored(manifest, digest, publishing.store)
    ):
        with _staged(folder, manifest, publishing.work) as stage:
            publishing.report(f"{manifest.name}: signing")
            signature = publishing.signer.sign(stage)
            publishing.report(f"{manifest.name}: storing {manifest.size_bytes / 1e6:,.0f} MB")
            for file in manifest.files:
                publishing.store.put(file.sha256, stage / file.path)
            publishing.store.put(digest, canonical(manifest))
            publishing.store.put_bill(digest, bill)
            publishing.store.put_signature(digest, signature)
    elif publishing.store.bill(digest) != bill:
        publishing.store.put_bill(digest, bill)
    return Packed(
        id=version_id(manifest.name, digest),
        digest=digest,
        manifest=manifest,
        signature_sha256=hashlib.sha256(signature).hexdigest(),
    )


def _is_stored(manifest: Manifest, digest: str, store: ArtifactStore) -> bool:
    return all(store.has(key) for key in (digest, *(file.sha256 for file in manifest.files)))


@contextmanager
def _staged(folder: Path, manifest: Manifest, work: Path) -> Iterator[Path]:
    """Yield a folder with exactly the version's files and ``manifest.json``, checked as before a load."""
    with tempfile.TemporaryDirectory(prefix=".pack-", dir=work) as root:
        stage = Path(root, "version")
        for file in manifest.files:
            target = stage / file.path
            target.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy((folder / file.path).resolve(), target)
        (stage / MANIFEST).write_bytes(canonical(manifest))
        check_listing(stage, manifest.files)
        check_contents(stage)
        yield stage


def _belongs(path: Path, folder: Path, allowed: frozenset[str]) -> bool:
    name = path.relative_to(folder).as_posix()
    return name in allowed or (path.suffix == WEIGHTS and path.parent == folder)


def _artifact(path: Path, folder: Path) -> Artifact:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(path=path.relative_to(folder).as_posix(), sha256=digest, size_bytes=path.stat().st_size)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)
