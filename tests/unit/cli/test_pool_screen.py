"""What `penstock status` says of the pool."""

from penstock.cli import pool_screen


def test_the_pool_is_told_with_who_waits_and_who_never_fits() -> None:
    """One line has what is held and waited for, and each version that is larger than all of it one more."""
    assert pool_screen.pool(None) == ""
    found = {"held_bytes": 0, "limit_bytes": 500_000_000, "waited_for": []}
    assert pool_screen.pool(found) == "\npool: 0 of 500 MB held"
    full = {"waited_for": [{"version": "a@1", "requests": 2}], "unfit": ["b@1 does not fit: needs 541 of 500 MB"]}
    assert pool_screen.pool({**found, **full}) == (
        "\npool: 0 of 500 MB held; waited for: a@1 (2 requests)\nb@1 does not fit: needs 541 of 500 MB"
    )
