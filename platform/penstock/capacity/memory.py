"""The memory of a version's worker in the pool: weights, KV cache, adapter slots.

Trade-off: it is computed from the manifest and not measured, so that packing does not depend on one run.
"""

import math
from collections.abc import Iterable, Mapping

from penstock.domain.fleet.versions import Catalogue
from penstock.domain.ids import VersionId
from penstock.domain.models.model import Manifest, ModelVersion, Runtime

DEFAULT_KV_BYTES = 64 << 20
"""The KV cache if the manifest leaves it to the engine, on a CPU."""
_SLOT_BYTES = 70.0
"""Bytes of an adapter's slot, per rank and per square root of a byte of weights: an adapter grows with its matrices'
edges, and weights with their areas. An upper bound: SmolLM2-135M has 37, Llama 3 8B 41, 70B 70.
"""


def worker_bytes(manifest: Manifest) -> int:
    if manifest.adapter is not None:
        return 0
    engine = manifest.engine
    kv = (engine.kv_cache_bytes or DEFAULT_KV_BYTES) * engine.tensor_parallel_size
    slots = math.ceil(_SLOT_BYTES * engine.adapter_slots * engine.adapter_rank * math.sqrt(manifest.size_bytes))
    return manifest.size_bytes + (kv if manifest.runtime is Runtime.VLLM else 0) + slots


def sizes(versions: Iterable[ModelVersion]) -> Mapping[VersionId, int]:
    return {one.id: worker_bytes(one.manifest) for one in versions}


def crowded_out(known: Catalogue, limit_bytes: int) -> Mapping[VersionId, int]:
    """Return the unpinned versions, up to the pool's size, that do not fit beside the pinned ones, with their bytes."""
    if not limit_bytes or not known.kept:
        return {}
    held = sizes(known.versions)
    left = limit_bytes - sum(
        one.replicas * held.get(one.version, 0) for one in known.staffed if one.version in known.kept
    )
    others = [one.version for one in known.staffed if one.replicas and one.version not in known.kept]
    return {version: held[version] for version in others if left < held.get(version, 0) <= limit_bytes}


def megabytes(size: int) -> str:
    return f"{size / 1_000_000:,.0f} MB"
