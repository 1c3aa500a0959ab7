"""Who fills the pool for good, as `penstock status` says it."""

from penstock.cli import pool_screen


def test_pins_are_named_where_there_is_a_pool() -> None:
    """What is pinned and runs takes its memory from all others; without a pool, or without pins, nothing is said."""
    versions = [
        {"id": "a@1", "pinned": True, "replicas": 1},
        {"id": "b@1", "pinned": False, "replicas": 1},
        {"id": "c@1", "pinned": True, "replicas": 0},
    ]
    lora = {"id": "l@1", "pinned": True, "replicas": 1, "base": "a@1"}
    assert pool_screen.pins({}, [lora]).endswith("memory: l@1 (of a@1)")
    pool = {"held_bytes": 0, "limit_bytes": 1, "waited_for": []}
    assert pool_screen.pins(pool, versions) == "\npinned, and nobody else has their memory: a@1"
    assert (pool_screen.pins(None, versions), pool_screen.pins(pool, versions[1:])) == ("", "")
