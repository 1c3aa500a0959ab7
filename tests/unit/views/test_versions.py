"""Versions with their workers, adapters and tenants, and the pool of memory."""

from penstock.views import versions


def test_pins_are_named_where_there_is_a_pool() -> None:
    """What is pinned and runs takes its memory from all others; without a pool, or without pins, nothing is said."""
    found = [
        {"id": "a@1", "pinned": True, "replicas": 1},
        {"id": "b@1", "pinned": False, "replicas": 1},
        {"id": "c@1", "pinned": True, "replicas": 0},
    ]
    lora = {"id": "l@1", "pinned": True, "replicas": 1, "base": "a@1"}
    assert versions.pins({}, [lora])[0].endswith("memory: l@1 (of a@1)")
    pool = {"held_bytes": 0, "limit_bytes": 1, "waited_for": []}
    assert versions.pins(pool, found) == ["pinned, so no other version gets their memory: a@1"]
    assert (versions.pins(None, found), versions.pins(pool, found[1:])) == ([], [])


def test_the_pool_is_told_with_who_waits_and_who_never_fits() -> None:
    """One line has what is held and waited for, and each version that is larger than all of it one more."""
    assert versions.pool(None) == []
    found = {"held_bytes": 0, "limit_bytes": 500_000_000, "waited_for": []}
    assert versions.pool(found) == ["pool: 0 of 500 MB held"]
    full = {"waited_for": [{"version": "a@1", "requests": 2}], "unfit": ["b@1 does not fit: needs 541 of 500 MB"]}
    assert versions.pool({**found, **full}) == [
        "pool: 0 of 500 MB held; waited for: a@1 (2 requests)",
        "b@1 does not fit: needs 541 of 500 MB",
    ]


def test_what_is_shown_of_an_adapter() -> None:
    """Its base, which workers hold it, and whether it is on; of any other version how many workers it has."""
    adapter = {"base": "base@1", "resident": ["w1", "w2"], "replicas": 1}
    assert versions.adapter(adapter) == "an adapter of base@1, held by w1, w2"
    assert versions.adapter({**adapter, "resident": []}) == "an adapter of base@1, held by no worker now"
    refused = {**adapter, "resident": [], "refused": ["w1 (for 41 s more): it answers wrong"]}
    assert versions.adapter(refused).endswith("no worker now; REFUSED by w1 (for 41 s more): it answers wrong")
    assert [versions.workers({**adapter, "replicas": on}) for on in (1, 0)] == ["on", "off"]
    assert versions.workers({**adapter, "pinned": True}) == "on (pinned)"
    plain = {"base": "", "resident": [], "replicas": 3}
    assert (versions.adapter(plain), versions.workers(plain)) == ("", "3")


def test_tenants_of_a_version_are_shown() -> None:
    """For whom alone a version is; of one for everybody nothing."""
    assert versions.owners({"tenants": ["acme", "beta"]}) == "for acme, beta alone"
    assert (versions.owners({"tenants": None}), versions.owners({})) == ("", "")
    assert versions.owners({"tenants": []}).startswith("for no tenant")


def test_an_alias_on_a_version_without_workers_is_warned_of() -> None:
    """Callers would be refused: the command says which version to scale."""
    found = [
        {"id": "m@1", "replicas": 0},
        {"id": "m@2", "replicas": 1},
        {"id": "a@1", "replicas": 1, "base": "m@1"},
        {"id": "a@2", "replicas": 1, "base": "m@2"},
        {"id": "m@3", "replicas": 0},
    ]
    told = versions.without_workers(found, {"m@1", "m@2", "a@1", "a@2"})
    assert [one.split()[0] for one in told] == ["m@1", "a@1"]
    assert "penstock models scale m@1 1" in told[0]
