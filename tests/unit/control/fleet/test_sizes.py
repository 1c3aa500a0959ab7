"""What a worker takes of the pool."""

from dataclasses import replace

import pytest

from penstock.control.fleet.sizes import DEFAULT_KV_BYTES, check, worker_bytes
from penstock.domain.errors import Conflict
from penstock.domain.fleet import Deployment
from penstock.domain.ids import VersionId
from penstock.domain.model import AdapterSettings, Artifact, EngineSettings, HandlerSettings
from tests.support import control_things as things

PLAIN = replace(things.manifest(), engine=EngineSettings(kv_cache_bytes=100))
A, B = VersionId("a@1"), VersionId("b@1")


def test_weights_and_cache_of_all_ranks() -> None:
    """Files and the KV cache of each GPU count; what is left to the engine counts as what it takes."""
    assert worker_bytes(PLAIN) == 30 + 100
    spread = replace(PLAIN, engine=EngineSettings(kv_cache_bytes=100, tensor_parallel_size=2))
    assert worker_bytes(spread) == 30 + 200
    assert worker_bytes(replace(PLAIN, engine=EngineSettings(kv_cache_bytes=0))) == 30 + DEFAULT_KV_BYTES


def test_what_has_no_cache_and_what_has_no_worker() -> None:
    """A classic model has no KV cache, and an adapter none of its own bytes in the pool."""
    assert worker_bytes(replace(PLAIN, handler=HandlerSettings(name="h", inputs=(), outputs=()))) == 30
    assert worker_bytes(replace(PLAIN, adapter=AdapterSettings(base="a" * 64, rank=8))) == 0


def test_slots_of_adapters_count_by_rank() -> None:
    """Slots of SmolLM2-135M at rank 8 are counted as at least what vLLM takes for them, 4.9 MB each, and not double."""
    weights = (Artifact(path="model.safetensors", sha256="a" * 64, size_bytes=270_000_000),)
    engine = EngineSettings(kv_cache_bytes=100, adapter_slots=2, adapter_rank=8)
    slots = worker_bytes(replace(PLAIN, files=weights, engine=engine)) - 270_000_100
    assert 2 * 4_900_000 <= slots <= 4 * 4_900_000


def test_more_pinned_than_fits_is_refused() -> None:
    """Pinned workers must all fit at once, each version's at all; without a pool nothing is refused."""
    held = {A: 60, B: 50}
    one, other = (Deployment(version=version, replicas=1, pinned=True) for version in (A, B))
    check([one, replace(other, pinned=False)], held, 100)
    with pytest.raises(Conflict, match="pinned workers would need"):
        check([one, other], held, 100)
    with pytest.raises(Conflict, match="pinned workers would need"):
        check([replace(one, replicas=2)], held, 100)
    with pytest.raises(Conflict, match="a worker of a@1 needs"):
        check([replace(one, pinned=False)], held, 59)
    check([one, replace(other, replicas=0)], held, 100)
    check([one, other], held, 0)
