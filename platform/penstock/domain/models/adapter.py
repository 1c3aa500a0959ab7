"""What an adapter must be beside its base, and which versions may be one: said of manifests alone. Pure.

Packaging asks before it signs, the registry before it stores: neither believes the other. Whether the weights fit is
seen where they are (``packaging/adapter_weights.py``); the signature says that it was.
"""

from collections.abc import Iterable

from penstock.domain.errors import ArtifactRefused
from penstock.domain.ids import VersionId
from penstock.domain.models.model import AdapterSettings, EngineSettings, Manifest, ModelVersion, Task

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
TOKENIZER = "tokenizer.json"
FILES = frozenset({CONFIG, WEIGHTS, TOKENIZER})
"""An adapter's files, all of them and no others; the tokenizer is its base's, byte for byte."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM 0.32 makes slots for (``--max-lora-rank``)."""
MOST_SLOTS = 64


def check_slots(engine: EngineSettings, *, generates: bool) -> None:
    """Return where these settings of an engine allow adapters soundly, or none; else raise ``ArtifactRefused``."""
    slots, rank = engine.adapter_slots, engine.adapter_rank
    if not slots and not rank:
        return
    if not generates:
        raise ArtifactRefused("adapter_slots is for models that generate and run in vLLM: leave it out")
    both = "a base of adapters has both, as adapter_slots=2 and adapter_rank=8"
    if not 1 <= slots <= MOST_SLOTS:
        raise ArtifactRefused(f"adapter_slots is {slots}, not 1 to {MOST_SLOTS}: {both}")
    if rank not in RANKS:
        known = ", ".join(str(one) for one in RANKS)
        raise ArtifactRefused(f"adapter_rank is {rank}; the engine makes slots of the ranks {known}: {both}")


def generates(manifest: Manifest) -> bool:
    """Tell whether this model writes text, in vLLM: only such a one has adapters."""
    return manifest.task is Task.GENERATE and manifest.handler is None


def check_base(base: ModelVersion, rank: int) -> None:
    """Return where an adapter of this rank may be made of this version; else raise ``ArtifactRefused``."""
    engine = base.manifest.engine
    if base.manifest.adapter is not None:
        raise ArtifactRefused(f"{base.id} is an adapter itself: name the version that it is made for")
    if not engine.adapter_slots or not generates(base.manifest):
        raise ArtifactRefused(
            f"{base.id} has no room for adapters: push it with --engine adapter_slots=2 --engine adapter_rank=8"
        )
    if not 1 <= rank <= engine.adapter_rank:
        raise ArtifactRefused(f"its rank is {rank}, and {base.id} has slots for ranks from 1 to {engine.adapter_rank}")


def check_beside(manifest: Manifest, settings: AdapterSettings, base: ModelVersion) -> None:
    """Return where an adapter's manifest is what its base makes it; else raise ``ArtifactRefused``.

    Gateways treat it like any version, and its base's workers run it: what they know of it must be true of both.
    """
    check_base(base, settings.rank)
    theirs = base.manifest
    for what, is_same in (
        ("task", manifest.task is theirs.task),
        ("engine settings", manifest.engine == theirs.engine),
        ("tokenizer", tokenizer_of(manifest) == tokenizer_of(theirs)),
        ("chat template", manifest.chat_template == theirs.chat_template),
        ("special tokens", manifest.special_tokens == theirs.special_tokens),
        ("sampling", manifest.sampling == theirs.sampling),
    ):
        if not is_same:
            raise ArtifactRefused(f"its {what} must be that of its base {base.id}")
    if manifest.handler is not None:
        raise ArtifactRefused("an adapter has no handler")


def bases_of(versions: Iterable[ModelVersion]) -> dict[VersionId, VersionId]:
    """Return each adapter's base; registration has seen to it that there is one."""
    known = tuple(versions)
    by_digest = {one.digest: one.id for one in known}
    made_of = [(one.id, one.manifest.adapter.base) for one in known if one.manifest.adapter is not None]
    return {version: by_digest[base] for version, base in made_of if base in by_digest}


def tokenizer_of(manifest: Manifest) -> str:
    """Return the digest of its tokenizer; empty where it has none."""
    return next((file.sha256 for file in manifest.files if file.path == TOKENIZER), "")
