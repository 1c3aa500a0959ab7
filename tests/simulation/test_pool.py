"""The pool in virtual time: 30 versions over 6 slots, against common policies and against knowledge of the future."""

import random
import sys
from dataclasses import replace
from functools import cache
from math import inf

import pytest

from penstock.control.pool.packing import PoolPolicy
from tests.simulation.sleepers import (
    Asked,
    Outcome,
    Use,
    World,
    Worth,
    arrivals,
    at_random,
    clairvoyant,
    known,
    lru,
    ours,
    without_residency,
)

PLACES, VERSIONS, HOUR_S = 6, 30, 3600.0
POOL = PoolPolicy(limit_bytes=PLACES)
USES = {
    "conversations, Zipf 1": Use(sessions_per_s=0.06, requests=5.0),
    "conversations, Zipf 0.8": Use(sessions_per_s=0.06, requests=5.0, zipf=0.8),
    "single requests, Zipf 1.3": Use(sessions_per_s=0.3, zipf=1.3),
    "single requests, Zipf 1": Use(sessions_per_s=0.3),
}
CONVERSATIONS = [name for name in USES if name.startswith("conversations")]
WAYS: dict[str, tuple[PoolPolicy, Worth]] = {
    "ours": (POOL, ours),
    "LRU": (POOL, lru),
    "LRU, no residency": (without_residency(POOL), lru),
    "random": (POOL, at_random(random.Random(2))),
    "known popularity": (POOL, known),
    "Belady": (POOL, clairvoyant),
}


@cache
def outcome(use: str, way: str) -> Outcome:
    """Run one policy through an hour of one use; the hour is the same for all."""
    policy, worth = WAYS[way]
    return World(arrivals(USES[use], HOUR_S, random.Random(1)), [1] * VERSIONS, policy, worth).run()


@pytest.mark.slow
def test_hit_ratios_against_the_bounds() -> None:
    """In conversations, and with few popular versions, it is within 10 % of Belady's, and never worse than LRU."""
    # Of single requests that are as good as independent nobody comes so near: exact popularity is no better than ours.
    lines = [f"{'hit ratio (swaps)':28}" + "".join(f"{way:>20}" for way in WAYS)]
    for use in USES:
        ran = [outcome(use, way) for way in WAYS]
        lines.append(f"{use:28}" + "".join(f"{f'{one.hit_ratio:.3f} ({one.swaps})':>20}" for one in ran))
    sys.stdout.write("\n".join(lines) + "\n")
    for use in [name for name in USES if name != "single requests, Zipf 1"]:
        assert outcome(use, "ours").hit_ratio >= 0.9 * outcome(use, "Belady").hit_ratio, use
    for use in USES:
        assert outcome(use, "ours").hit_ratio >= 0.97 * outcome(use, "known popularity").hit_ratio, use
        assert outcome(use, "ours").hit_ratio >= outcome(use, "LRU").hit_ratio - 0.005, use
        assert outcome(use, "ours").hit_ratio >= outcome(use, "random").hit_ratio + 0.02, use


@pytest.mark.parametrize("use", CONVERSATIONS)
def test_nobody_waits_for_ever(use: str) -> None:
    """The ten least popular versions wait no longer than the others: for an idle slot, and for the wake."""
    ran = outcome(use, "ours")
    rare = range(VERSIONS - 10, VERSIONS)
    assert ran.unserved == 0
    assert ran.wait_s(1.0, rare) <= POOL.residency_s + 2.5 + 1.0
    assert ran.wait_s(1.0) <= POOL.residency_s + 2.5 + 1.0


def test_no_running_request_is_ever_touched() -> None:
    """No version is put to sleep during its work, and the pool never holds more than it has."""
    for use in CONVERSATIONS:
        ran = outcome(use, "ours")
        assert (ran.busy_slept, ran.overfull) == (0, 0)


def test_a_large_version_is_served_among_small_ones() -> None:
    """One that needs four places of six gets them, again and again, though small ones are asked for all the time."""
    use = Use(versions=12, zipf=0.5, sessions_per_s=0.25, requests=3.0)
    sizes = [1] * 11 + [4]
    ran = World(arrivals(use, 1200.0, random.Random(3)), sizes, POOL, ours).run()
    assert (ran.unserved, ran.busy_slept, ran.overfull) == (0, 0, 0)
    assert len(ran.waits_s[11]) >= 20
    assert ran.wait_s(0.95, [11]) <= 20.0
    assert ran.wait_s(1.0) <= 60.0


def test_more_callers_than_places_are_served_in_turn() -> None:
    """Where all versions are asked for all the time swaps are bounded by residency, and the waits are spread evenly."""
    use = Use(versions=12, zipf=0.0, sessions_per_s=1.0, serve_s=0.5)
    ran = World(arrivals(use, 600.0, random.Random(4)), [1] * 12, POOL, ours).run()
    assert ran.swaps <= PLACES * 600.0 / (POOL.residency_s + 2.5)
    waits = [ran.wait_s(1.0, [number]) for number in range(12)]
    assert max(waits) <= 40.0
    assert ran.unserved == 0


def always_busy(versions: int, seconds: float) -> list[Asked]:
    """Return requests that overlap all the time, for each version."""
    use = Use(versions=versions, zipf=0.0, sessions_per_s=3.0 * versions, serve_s=2.0)
    return arrivals(use, seconds, random.Random(5))


def test_versions_that_are_always_busy_take_turns() -> None:
    """Two in one place: each waits for the turn, the longest stream and a wake at most; swaps are as rare as turns."""
    asked, alone = always_busy(2, 600.0), PoolPolicy(limit_bytes=1)
    ran = World(asked, [1, 1], alone, ours).run()
    longest_s = max(one.serve_s for one in asked)
    assert ran.unserved == 0
    assert ran.wait_s(1.0) <= alone.turn_s + longest_s + 2.5 + 2.0
    assert ran.swaps <= 600.0 / alone.turn_s + 10
    for_ever = World(asked, [1, 1], replace(alone, turn_s=inf), ours).run()
    assert for_ever.wait_s(1.0) >= 400.0


def test_of_many_that_are_always_busy_each_has_its_turn() -> None:
    """Nine in three slots: a waiting version is served within the turns of those before it, and residency bounds
    the swaps.
    """
    asked, pool = always_busy(9, 600.0), PoolPolicy(limit_bytes=3)
    ran = World(asked, [1] * 9, pool, ours).run()
    longest_s = max(one.serve_s for one in asked)
    assert (ran.unserved, ran.overfull) == (0, 0)
    assert ran.wait_s(1.0) <= pool.turn_s + 2 * (pool.residency_s + longest_s + 2.5 + 1.0)
    assert ran.swaps <= 3 * 600.0 / (pool.residency_s + 2.5)
