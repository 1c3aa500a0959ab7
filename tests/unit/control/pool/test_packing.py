"""Who is awake: single decisions, and what holds of all of them."""

import math
from itertools import chain, combinations

from hypothesis import given
from hypothesis import strategies as st

from penstock.control.pool.packing import Packed, PlaceClaim, PoolPolicy, Rank, Resident, Stay, pack
from penstock.domain.ids import VersionId, WorkerId

NOW = 1000.0
POLICY = PoolPolicy(limit_bytes=100, residency_s=5.0, residency_wakes=2.0, patience_s=5.0)


def resident(name: str, size: int = 50, stay: Stay = Stay.HERE, *, uses_per_s: float = 1.0, **also: float) -> Resident:
    return Resident(
        worker=WorkerId(name),
        version=VersionId(f"v-{name}"),
        size_bytes=size,
        stay=stay,
        is_busy=bool(also.get("busy")),
        since=also.get("since", 0.0),
        used_at=also.get("used_at", 0.0),
        uses_per_s=uses_per_s,
        wake_s=also.get("wake_s", 0.0),
    )


def claim(
    name: str, size: int = 50, rank: Rank = Rank.WAITED_FOR, *, waits_s: float = 0.0, holds: int = 0
) -> PlaceClaim:
    return PlaceClaim(
        version=VersionId(f"v-{name}"),
        size_bytes=size,
        rank=rank,
        signal="requests_held",
        value="1",
        worker=None if rank is Rank.NEW else WorkerId(name),
        since=math.inf if rank is Rank.NEW else NOW - waits_s,
        held_since=NOW - waits_s,
        holds_bytes=holds,
    )


def packed(residents: list[Resident], *claims: PlaceClaim, kept: tuple[str, ...] = ()) -> Packed:
    return pack(residents, claims, [VersionId(f"v-{name}") for name in kept], NOW, POLICY)


def test_what_is_free_is_given_at_once() -> None:
    """A claim that fits puts nobody to sleep."""
    done = packed([resident("a"), resident("b", stay=Stay.AWAY)], claim("b"))
    assert (done.wake, done.sleep) == ((WorkerId("b"),), ())


def test_the_least_used_gives_way_and_the_claim_waits_for_its_memory() -> None:
    """Nobody is woken into memory that another one still holds, and one sleeper is enough."""
    here = [resident("a", uses_per_s=2.0), resident("b", uses_per_s=0.5)]
    done = packed([*here, resident("c", stay=Stay.AWAY)], claim("c"))
    assert (done.wake, done.sleep) == ((), (WorkerId("b"),))
    going = [here[0], resident("b", stay=Stay.FALLING_ASLEEP), resident("c", stay=Stay.AWAY)]
    assert (packed(going, claim("c")).wake, packed(going, claim("c")).sleep) == ((), ())
    gone = [here[0], resident("b", stay=Stay.AWAY), resident("c", stay=Stay.AWAY)]
    assert packed(gone, claim("c")).wake == (WorkerId("c"),)


def test_nobody_sleeps_for_nobody() -> None:
    """Without a claim everybody keeps its place."""
    assert packed([resident("a"), resident("b", uses_per_s=0.0)]).sleep == ()


def test_who_serves_is_kept_waited_for_or_new_stays() -> None:
    """None of them gives way, whatever waits."""
    for one in (resident("a", busy=1), resident("a", since=NOW - 4.0), resident("a", since=NOW - 9.0, wake_s=5.0)):
        assert packed([one, resident("b", stay=Stay.COMING)], claim("c", waits_s=14.0)).sleep == ()
    here = [resident("a"), resident("b", stay=Stay.COMING)]
    assert packed(here, claim("c"), kept=("a",)).sleep == ()
    second = Resident(worker=WorkerId("a2"), version=VersionId("v-a"), size_bytes=50, stay=Stay.HERE)
    assert packed([*here, second], claim("a"), claim("c")).sleep == ()


def test_who_waits_for_long_has_the_place_of_a_busy_one() -> None:
    """After its time the least used of the busy gives way, once it was there for its residency; who is kept never."""
    here = [resident("a", busy=1, uses_per_s=2.0), resident("b", busy=1, uses_per_s=0.5)]
    assert packed(here, claim("c", waits_s=15.0)).sleep == ()
    done = packed(here, claim("c", waits_s=15.1))
    assert (done.wake, done.sleep) == ((), ("b",))
    assert [(one.value, one.objective) for one in done.why] == [
        ("v-c has waited for its turn", "of all busy workers v-b was used least for what it holds")
    ]
    assert packed(here, claim("c", waits_s=60.0), kept=("b",)).sleep == ("a",)
    assert packed(here, claim("c", waits_s=60.0), kept=("a", "b")).sleep == ()
    new = [resident("a", busy=1, since=NOW - 4.0), resident("b", busy=1, since=NOW - 9.0, wake_s=5.0)]
    assert packed(new, claim("c", waits_s=60.0)).sleep == ()


def test_a_turn_takes_as_few_busy_ones_as_it_can() -> None:
    """Idle ones go first, the busy ones for the rest alone, and nobody needless; one is enough where one is told."""
    here = [resident("a", 50, busy=1, uses_per_s=5.0), resident("b", 30), resident("c", 20, busy=1)]
    assert packed(here, claim("z", 40, waits_s=20.0)).sleep == ("c", "b")
    assert packed(here, claim("z", 30, waits_s=20.0)).sleep == ("b",)
    going = [resident("a", 50, Stay.FALLING_ASLEEP, busy=1), resident("b", 50, busy=1)]
    assert packed(going, claim("c", waits_s=20.0)) == Packed()


def test_who_gave_way_waits_for_a_turn_of_its_own() -> None:
    """A busy one that falls asleep is not called back by its new callers while who took its turn still waits."""
    going = [resident("a", 100, Stay.FALLING_ASLEEP, busy=1)]
    back = claim("a", 100, waits_s=9.0, holds=100)
    assert packed(going, claim("b", 100, waits_s=24.0), back) == Packed()
    assert packed(going, back).wake == ("a",)


def test_who_was_only_proven_has_no_residency() -> None:
    """A new version that nobody ever used gives its place to whoever wants it."""
    fresh = resident("a", 100, uses_per_s=0.0, since=NOW - 0.1)
    assert packed([fresh], claim("b", rank=Rank.NEW)).sleep == ("a",)


def test_several_give_way_to_a_large_one_and_no_needless_one() -> None:
    """Those who lose least together, and nobody whose memory is not needed."""
    small = [resident(name, 25, uses_per_s=worth) for name, worth in (("a", 1.0), ("b", 0.1), ("c", 3.0), ("d", 0.2))]
    assert set(packed(small, claim("z", 50)).sleep) == {"b", "d"}
    uneven = [resident("a", 10, uses_per_s=0.01), resident("b", 60, uses_per_s=0.5), resident("c", 30, uses_per_s=2.0)]
    assert packed(uneven, claim("z", 60)).sleep == ("b",)
    alone = [resident("a", 55, uses_per_s=6.0), resident("b", 45, uses_per_s=5.4)]
    assert packed(alone, claim("z", 45)).sleep == ("b",)


def test_who_waits_longest_is_first() -> None:
    """Of two that are waited for the earlier one gets the only place."""
    here = [resident("a", 100, stay=Stay.AWAY)]
    assert packed(here, claim("b", 100, waits_s=1.0), claim("c", 100, waits_s=2.0)).wake == ("c",)
    assert packed(here, claim("b", 100, Rank.NEW), claim("c", 100)).wake == ("c",)
    assert packed(here, claim("b", 100, waits_s=9.0), claim("c", 100, Rank.KEPT)).wake == ("c",)


def test_a_large_one_is_passed_for_a_while_only() -> None:
    """Small ones go before a large one that can't be served yet, until it has waited long enough; then all is kept."""
    here = [resident("a", 60, busy=1), resident("b", 20)]
    assert packed(here, claim("z", 80, waits_s=1.0), claim("c", 20)).wake == ("c",)
    done = packed(here, claim("z", 80, waits_s=6.0), claim("c", 20))
    assert (done.wake, done.sleep) == ((), ("b",))


def test_what_can_never_fit_gathers_nothing() -> None:
    """Beside what never sleeps there is no room for it: nobody is put to sleep in vain, and others go on."""
    here = [resident("a", 60), resident("b", 20)]
    done = packed(here, claim("z", 80, waits_s=99.0), claim("c", 20), kept=("a",))
    assert (done.wake, done.sleep) == (("c",), ())
    assert [one.target for one in done.why if one.what == "wait"] == ["v-z"]


def test_who_falls_asleep_is_called_back_unless_its_memory_is_waited_for() -> None:
    """What is still in memory serves again at once, but not in the place of who waits longer."""
    falling = [resident("a", 100, Stay.FALLING_ASLEEP)]
    back = claim("a", 100, holds=100)
    assert packed(falling, back).wake == ("a",)
    assert packed(falling, claim("b", 100, waits_s=2.0), back).wake == ()


def test_what_is_called_back_is_nobody_elses() -> None:
    """Who waits less long does not count on the memory of one that serves again, and takes another one's."""
    here = [resident("a", 50, Stay.FALLING_ASLEEP), resident("c", 50)]
    done = packed(here, claim("a", 50, waits_s=2.0, holds=50), claim("b", 50))
    assert (done.wake, done.sleep) == (("a",), ("c",))


def test_a_second_worker_takes_what_is_free_alone() -> None:
    """It puts nobody to sleep."""
    second = claim("b", 50, Rank.SECOND)
    assert packed([resident("a", 50)], second).wake == ("b",)
    assert packed([resident("a", 60)], second) == Packed()


def test_a_pool_that_has_become_smaller_is_obeyed() -> None:
    """More is awake than it has: idle ones sleep, no more than needed, and those that go already count."""
    here = [
        resident("a", 50, uses_per_s=3.0),
        resident("b", 50, uses_per_s=1.0),
        resident("c", 50, uses_per_s=2.0, busy=1),
    ]
    assert packed(here).sleep == ("b",)
    assert packed([here[0], resident("b", 50, Stay.FALLING_ASLEEP), here[2]]).sleep == ()


def test_each_is_told_with_its_reason() -> None:
    """Sleep, wake and wait each name the signal."""
    whys = packed([resident("a", 100)], claim("b", 100)).why
    assert [(one.what, one.target, one.signal, one.value) for one in whys] == [
        ("sleep", "a", "requests_held", "v-b needs its memory")
    ]


RESIDENTS = st.builds(
    Resident,
    worker=st.just(WorkerId("")),
    version=st.sampled_from([VersionId(f"v{n}") for n in range(6)]),
    size_bytes=st.integers(1, 60),
    stay=st.sampled_from(Stay),
    is_busy=st.booleans(),
    since=st.floats(NOW - 30, NOW),
    used_at=st.floats(NOW - 900, NOW),
    uses_per_s=st.one_of(st.just(0.0), st.floats(0.001, 20)),
    wake_s=st.floats(0, 10),
)


def named(residents: list[Resident]) -> list[Resident]:
    return [
        Resident(**{name: getattr(one, name) for name in one.__slots__} | {"worker": WorkerId(f"w{n}")})
        for n, one in enumerate(residents)
    ]


@given(
    residents=st.lists(RESIDENTS, max_size=9).map(named),
    new=st.lists(st.tuples(st.integers(1, 110), st.floats(0, 30)), max_size=3),
    kept=st.sets(st.sampled_from([VersionId(f"v{n}") for n in range(6)]), max_size=2),
)
def test_what_holds_whoever_is_there(
    residents: list[Resident], new: list[tuple[int, float]], kept: set[VersionId]
) -> None:
    """Nobody who is kept, holds nothing or, before somebody's turn, serves is put to sleep; what is given was free."""
    claims = [
        PlaceClaim(
            version=VersionId(f"new{n}"),
            size_bytes=size,
            rank=Rank.WAITED_FOR,
            signal="requests_held",
            value="1",
            since=NOW - waits_s,
            held_since=NOW - waits_s,
        )
        for n, (size, waits_s) in enumerate(new)
    ]
    claims += [
        PlaceClaim(
            version=one.version,
            size_bytes=one.size_bytes,
            rank=Rank.WAITED_FOR,
            signal="requests_held",
            value="1",
            worker=one.worker,
            since=NOW - 1.0,
        )
        for one in residents
        if one.stay is Stay.AWAY
    ]
    done = pack(residents, claims, kept, NOW, POLICY)
    by_name = {one.worker: one for one in residents}
    for worker in done.sleep:
        assert by_name[worker].stay is Stay.HERE
        if by_name[worker].is_busy:
            assert any(waits_s > POLICY.turn_s for _, waits_s in new)
            assert NOW - by_name[worker].since >= max(5.0, 2 * by_name[worker].wake_s)
        assert by_name[worker].version not in kept
    held = sum(one.size_bytes for one in residents if one.stay is not Stay.AWAY)
    sizes = {one.version: one.size_bytes for one in claims if one.worker is None}
    promised = sum(sizes[one] for one in done.start) + sum(by_name[one].size_bytes for one in done.wake)
    assert not promised or held + promised <= POLICY.limit_bytes
    assert len({*done.sleep}) == len(done.sleep)


@given(
    residents=st.lists(RESIDENTS, min_size=1, max_size=7).map(named),
    size=st.integers(1, 100),
)
def test_victims_lose_little(residents: list[Resident], size: int) -> None:
    """Who is put to sleep for one claim loses at most twice the least that any choice would, with nobody needless."""
    here = [one for one in residents if one.stay is Stay.HERE]
    done = pack(here, [claim("z", size)], (), NOW, PoolPolicy(limit_bytes=max(size, sum(o.size_bytes for o in here))))
    free = max(size, sum(one.size_bytes for one in here)) - sum(one.size_bytes for one in here)
    idle = [
        one for one in here if not one.is_busy and (not one.uses_per_s or NOW - one.since >= max(5.0, 2 * one.wake_s))
    ]
    enough = [
        chosen
        for chosen in chain.from_iterable(combinations(idle, n) for n in range(len(idle) + 1))
        if free + sum(one.size_bytes for one in chosen) >= size
    ]
    chosen = [one for one in here if one.worker in done.sleep]
    if enough:
        assert (
            sum(one.uses_per_s for one in chosen)
            <= 2 * min(sum(one.uses_per_s for one in some) for some in enough) + 1e-9
        )
        assert all(free + sum(o.size_bytes for o in chosen if o is not one) < size for one in chosen)
    else:
        assert not chosen
