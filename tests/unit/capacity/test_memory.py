"""What a worker takes of the pool."""

from dataclasses import replace

from penstock.capacity.memory import DEFAULT_KV_BYTES, worker_bytes
from penstock.domain.models.model import AdapterSettings, Artifact, EngineSettings, HandlerSettings
from tests.support.samples import control_plane as things

PLAIN = replace(things.manifest(), engine=EngineSettings(kv_cache_bytes=100))


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
