"""Small ready-made versions for tests: a base that allows adapters, and adapters of it; nothing trained or signed."""

from dataclasses import replace

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import ModelName, VersionId
from penstock.domain.models import adapter
from penstock.domain.models.model import (
    AdapterSettings,
    Artifact,
    EngineSettings,
    Manifest,
    ModelVersion,
    digest_of,
    version_id,
)
from tests.support.samples import control_plane as things
from tests.support.samples.calls import VERSION

ENGINE = EngineSettings(adapter_slots=2, adapter_rank=8)


def version_of(made: Manifest) -> ModelVersion:
    """Return the version that a manifest is."""
    digest = digest_of(made)
    return ModelVersion(id=version_id(made.name, digest), digest=digest, manifest=made, created_at=things.NOW)


BASE = version_of(replace(things.manifest("base"), engine=ENGINE))


def manifest(name: str = "pirate", base: ModelVersion = BASE, *, seed: str = "e", rank: int = 8) -> Manifest:
    """Return an adapter's manifest as packaging would write it beside its base's."""
    own = (
        Artifact(path=adapter.CONFIG, sha256=seed * 64, size_bytes=10),
        Artifact(path=adapter.WEIGHTS, sha256=seed * 64, size_bytes=20),
    )
    tokenizer = tuple(file for file in base.manifest.files if file.path == adapter.TOKENIZER)
    settings = AdapterSettings(base=base.digest, rank=rank)
    return replace(base.manifest, name=ModelName(name), files=own + tokenizer, adapter=settings)


def version(name: str = "pirate", base: ModelVersion = BASE, *, seed: str = "e") -> ModelVersion:
    return version_of(manifest(name, base, seed=seed))


def entry(name: str = "pirate@eeeeeeeeeeee", base: VersionEntry = VERSION) -> VersionEntry:
    """Return an adapter as a routing table has it."""
    return replace(base, id=VersionId(name), digest="e" * 64, workers=(), base=base.id)
