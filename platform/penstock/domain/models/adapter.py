"""Rules for an adapter and its base, by manifests alone. Pure.

Packaging applies the rules before it signs, and the registry again before it stores. ``packaging/adapter_weights.py``
checks the weights; the signature attests that check.
"""

from collections.abc import Iterable

from penstock.domain.errors import ArtifactRefused
from penstock.domain.ids import VersionId
from penstock.domain.models.model import AdapterSettings, EngineSettings, Manifest, ModelVersion, Task

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
TOKENIZER = "tokenizer.json"
FILES = frozenset({CONFIG, WEIGHTS, TOKENIZER})
"""An adapter's files, all of them and no others; the tokenizer equals the base's, byte for byte."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM 0.32 makes slots for (``--max-lora-rank``)."""
MOST_SLOTS = 64
_SLOTS = "manifest.engine.adapter_slots"


def check_slots(engine: EngineSettings, *, generates: bool) -> None:
    """Slots and rank suit this model, or both are 0."""
    slots, rank = engine.adapter_slots, engine.adapter_rank
    if not slots and not rank:
        return
    if not generates:
        raise ArtifactRefused("adapter_slots is for models that generate and run in vLLM: leave it out", param=_SLOTS)
    both = "a base of adapters has both, as adapter_slots=2 and adapter_rank=8"
    if not 1 <= slots <= MOST_SLOTS:
        raise ArtifactRefused(f"adapter_slots is {slots}, not 1 to {MOST_SLOTS}: {both}", param=_SLOTS)
    if rank not in RANKS:
        known = ", ".join(str(one) for one in RANKS)
        says = f"adapter_rank is {rank}; the engine makes slots of the ranks {known}: {both}"
        raise ArtifactRefused(says, param="manifest.engine.adapter_rank")


def generates(manifest: Manifest) -> bool:
    """Only a model that generates text in vLLM has adapters."""
    return manifest.task is Task.GENERATE and manifest.handler is None


def check_base(base: ModelVersion, rank: int) -> None:
    engine = base.manifest.engine
    if base.manifest.adapter is not None:
        raise ArtifactRefused(f"{base.id} is an adapter itself: name the version that it is made for")
    if not engine.adapter_slots or not generates(base.manifest):
        raise ArtifactRefused(
            f"{base.id} has no slots for adapters: push it with --engine adapter_slots=2 --engine adapter_rank=8"
        )
    if not 1 <= rank <= engine.adapter_rank:
        raise ArtifactRefused(f"its rank is {rank}, and {base.id} has slots for ranks from 1 to {engine.adapter_rank}")


def check_beside(manifest: Manifest, settings: AdapterSettings, base: ModelVersion) -> None:
    """Gateways treat an adapter like any version, and its base's workers run it: both manifests must agree."""
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
    """Return each adapter's base, which registration guarantees."""
    known = tuple(versions)
    by_digest = {one.digest: one.id for one in known}
    made_of = [(one.id, one.manifest.adapter.base) for one in known if one.manifest.adapter is not None]
    return {version: by_digest[base] for version, base in made_of if base in by_digest}


def tokenizer_of(manifest: Manifest) -> str:
    return next((file.sha256 for file in manifest.files if file.path == TOKENIZER), "")
