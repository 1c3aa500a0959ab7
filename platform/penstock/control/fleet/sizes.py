"""What a worker of a version takes of the pool's bytes: weights, KV cache, adapters' slots. Pure.

Trade-off: it is counted from the manifest, before anything runs, and not measured: a version's place must not depend on
how a worker of it once fared. What its processes take beside that is not in the pool's bytes.
"""

import math
from collections.abc import Iterable, Mapping

from penstock.domain.errors import Conflict
from penstock.domain.fleet import Deployment
from penstock.domain.ids import VersionId
from penstock.domain.model import Manifest, ModelVersion, Runtime

DEFAULT_KV_BYTES = 64 << 20
"""Where a manifest leaves it to the engine, on a CPU."""
_SLOT_BYTES = 70.0
"""Of an adapter's slot, for each rank and each root of a byte of weights: an adapter is as large as the rims of its
matrices, and they are as large as the roots of the faces. An upper end: SmolLM2-135M has 37, Llama 3 8B 41, 70B 70."""


def worker_bytes(manifest: Manifest) -> int:
    """Return what one worker of this version holds while it is awake; an adapter has no worker of its own."""
    if manifest.adapter is not None:
        return 0
    engine = manifest.engine
    kv = (engine.kv_cache_bytes or DEFAULT_KV_BYTES) * engine.tensor_parallel_size
    slots = math.ceil(_SLOT_BYTES * engine.adapter_slots * engine.adapter_rank * math.sqrt(manifest.size_bytes))
    return manifest.size_bytes + (kv if manifest.runtime is Runtime.VLLM else 0) + slots


def sizes(versions: Iterable[ModelVersion]) -> Mapping[VersionId, int]:
    """Return what a worker of each version holds."""
    return {one.id: worker_bytes(one.manifest) for one in versions}


def check(deployments: Iterable[Deployment], held: Mapping[VersionId, int], limit_bytes: int) -> None:
    """Return where all of this can be as it says, or raise ``Conflict``; with ``limit_bytes`` 0 there is no pool."""
    if not limit_bytes:
        return
    wanted = [one for one in deployments if one.replicas]
    for one in wanted:
        if held.get(one.version, 0) > limit_bytes:
            needs = f"a worker of {one.version} needs {megabytes(held[one.version])}"
            raise Conflict(f"{needs}, and the pool has {megabytes(limit_bytes)} (PENSTOCK_POOL_BYTES)")
    pinned = sum(one.replicas * held.get(one.version, 0) for one in wanted if one.pinned)
    if pinned > limit_bytes:
        does = "unpin another version, pin fewer workers, or enlarge PENSTOCK_POOL_BYTES"
        raise Conflict(f"pinned workers would need {megabytes(pinned)} of the pool's {megabytes(limit_bytes)}: {does}")


def megabytes(size: int) -> str:
    """Return it in words."""
    return f"{size / 1_000_000:,.0f} MB"
