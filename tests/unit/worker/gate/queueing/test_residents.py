"""Which adapters an engine holds, which are loaded next, who gives way."""

from penstock.domain.ids import TenantId, VersionId
from penstock.domain.outage import SHORTEST_WAIT_S
from penstock.worker.gate.queueing.constants import BOUND_S, LOADS_PER_MINUTE, MINUTE_S
from penstock.worker.gate.queueing.residents import AdapterRefusal, Residents

ACME, MANY = TenantId("acme"), TenantId("many")
NOBODY = frozenset[VersionId]()


def an(number: int) -> VersionId:
    return VersionId(f"a{number}@000000000000")


def load(residents: Residents, adapter: VersionId, now: float, seconds: float = 0.0) -> None:
    residents.begin(adapter, now)
    residents.loaded(adapter, now + seconds)
    residents.ready(adapter, now + seconds)


def test_what_somebody_waits_for_is_loaded_one_at_a_time() -> None:
    """Nothing is wanted until somebody waits, and nothing else while one is on its way."""
    residents = Residents(4)
    assert residents.wanted(0.0) is None
    residents.came(an(1), ACME, 0.0)
    residents.came(an(2), ACME, 0.0)
    assert residents.wanted(0.0) == an(1)
    residents.begin(an(1), 0.0)
    assert residents.wanted(0.0) is None
    residents.loaded(an(1), 0.5)
    assert not residents.has(an(1))
    residents.ready(an(1), 0.6)
    assert residents.has(an(1))
    assert residents.wanted(0.6) == an(2)


def test_a_tenant_with_many_adapters_delays_others_by_one_load() -> None:
    """Whoever had least loaded lately comes first, however long the others wait."""
    residents = Residents(64)
    for number in range(20):
        residents.came(an(number), MANY, 0.0)
    for number in range(3):
        load(residents, an(number), float(number))
        residents.gone(an(number), MANY)
    residents.came(an(99), ACME, 3.0)
    assert residents.wanted(3.0) == an(99)


def test_loads_are_bounded_by_the_minute() -> None:
    """A storm of adapters costs the engine so many loads a minute, and the next is predicted for the next minute."""
    residents = Residents(100)
    for number in range(LOADS_PER_MINUTE + 1):
        residents.came(an(number), MANY, 0.0)
    for number in range(LOADS_PER_MINUTE):
        load(residents, an(number), 0.5 * number)
        residents.gone(an(number), MANY)
    assert residents.wanted(30.0) is None
    assert residents.look_at(30.0) == MINUTE_S
    assert residents.wait_s(an(LOADS_PER_MINUTE), 30.0) == MINUTE_S - 30.0
    assert residents.wanted(MINUTE_S) == an(LOADS_PER_MINUTE)


def test_the_least_used_gives_way_and_never_one_in_the_batch_or_pinned() -> None:
    """Use decides, not age; who is in the batch or pinned stays."""
    residents = Residents(3)
    for number in range(3):
        load(residents, an(number), 0.0)
    for number, uses in enumerate((3, 1, 2)):
        for at in range(uses):
            residents.uses.use(an(number), float(at))
    assert residents.gives_way(NOBODY, 9.0) == an(1)
    assert residents.gives_way(frozenset({an(1)}), 9.0) == an(2)
    residents.pinned = frozenset({an(2)})
    assert residents.gives_way(frozenset({an(1)}), 9.0) == an(0)


def test_who_is_waited_for_stays_for_its_least_time() -> None:
    """An adapter that has just come isn't thrown out before those that wait for it are through."""
    residents = Residents(1)
    residents.came(an(1), ACME, 0.0)
    load(residents, an(1), 0.0)
    assert residents.gives_way(NOBODY, BOUND_S - 0.1) is None
    assert residents.gives_way(NOBODY, BOUND_S) == an(1)
    residents.gone(an(1), ACME)
    assert residents.gives_way(NOBODY, 0.1) == an(1)


def test_a_refused_adapter_is_not_wanted_for_a_while() -> None:
    """Why is told to who asks for it; afterwards it is tried again."""
    residents = Residents(4)
    residents.came(an(1), ACME, 0.0)
    residents.begin(an(1), 0.0)
    residents.refuse(an(1), "wrong answers", 0.0, for_s=60.0)
    assert (residents.wanted(1.0), residents.refusal(an(1), 1.0)) == (None, AdapterRefusal("wrong answers", 60.0))
    assert (residents.wanted(60.0), residents.refusal(an(1), 60.0)) == (an(1), None)


def test_who_could_not_wait_is_loaded_for_all_the_same() -> None:
    """A load that takes longer than anybody may wait would never happen otherwise; a wish is forgotten in time."""
    residents = Residents(4)
    residents.wish(an(1), ACME, 0.0)
    residents.wish(an(2), ACME, 5.0)
    assert residents.wanted(1.0) == an(1)
    load(residents, an(1), 1.0)
    assert residents.wanted(2.0) == an(2)
    assert residents.wanted(5.0 + MINUTE_S) is None


def test_the_first_load_counts_whole_and_one_that_takes_longer_is_not_here_at_once() -> None:
    """Loads of seven seconds are told as such from the second on, and one that is overdue is still a wait."""
    residents = Residents(4)
    load(residents, an(1), 0.0, seconds=7.0)
    assert residents.wait_s(an(2), 7.0) == 7.0
    residents.begin(an(2), 7.0)
    assert residents.wait_s(an(2), 20.0) == SHORTEST_WAIT_S


def test_what_a_load_takes_is_learned() -> None:
    """The predicted wait follows the loads that were seen."""
    residents = Residents(64)
    for number in range(20):
        load(residents, an(number), 10.0 * number, seconds=0.4)
    residents.came(an(99), ACME, 300.0)
    assert abs(residents.wait_s(an(99), 300.0) - 0.4) < 0.01


def test_pinned_ones_are_loaded_first_and_never_give_way() -> None:
    """Before anybody asks, and before those that are waited for; one that is refused here waits like any other."""
    residents = Residents(3)
    residents.pinned = frozenset([an(2), an(1)])
    residents.came(an(9), ACME, 0.0)
    assert residents.wanted(0.0) == an(1)
    load(residents, an(1), 0.0)
    residents.refuse(an(2), "no", 0.0, for_s=60.0)
    assert residents.wanted(0.0) == an(9)
    load(residents, an(9), 0.0)
    assert residents.wanted(60.0) == an(2)
    load(residents, an(2), 60.0)
    residents.gone(an(9), ACME)
    assert [residents.gives_way(NOBODY, 90.0), residents.gives_way(frozenset([an(9)]), 90.0)] == [an(9), None]
    residents.pinned = frozenset()
    residents.uses.use(an(9), 90.0)
    assert residents.gives_way(NOBODY, 90.0) in {an(1), an(2)}


def refused_at(residents: Residents, adapter: VersionId, seconds: int) -> list[float]:
    """Try whatever is wanted for so long, twice a second, and refuse it for two; return when this one was tried."""
    found = list[float]()
    for now in (tick / 2 for tick in range(2 * seconds)):
        one = residents.wanted(now)
        if one is not None:
            residents.begin(one, now)
            residents.refuse(one, "the store is away", now, for_s=2.0)
            found += [now] if one == adapter else []
    return found


def test_a_pin_that_is_refused_is_tried_less_and_less() -> None:
    """Its store may be back soon, and each try takes one of the minute's loads from others; a new pin begins anew."""
    residents = Residents(4)
    residents.pinned = frozenset([an(1)])
    assert refused_at(residents, an(1), 250) == [0.0, 2.0, 6.0, 14.0, 30.0, 62.0, 122.0, 182.0, 242.0]
    assert residents.look_at(250.0) == 302.0
    residents.pinned = frozenset()
    assert residents.wanted(250.0) is None
    residents.pinned = frozenset([an(1)])
    assert residents.wanted(250.0) == an(1)


def test_a_pin_that_came_after_all_begins_anew() -> None:
    """What it was refused for long ago is nobody's business at the next engine's fault."""
    residents = Residents(4)
    residents.pinned = frozenset([an(1)])
    refused_at(residents, an(1), 60)
    load(residents, an(1), 62.0)
    residents.dropped(an(1))
    residents.begin(an(1), 70.0)
    residents.refuse(an(1), "the store is away", 70.0, for_s=2.0)
    assert (residents.wanted(71.9), residents.wanted(72.0)) == (None, an(1))


def test_a_pin_that_is_refused_goes_behind_what_is_waited_for_but_not_for_ever() -> None:
    """Others' loads come first, also those of a tenant with many; after a minute of them it has its turn."""
    residents = Residents(LOADS_PER_MINUTE * 4)
    residents.pinned = frozenset([an(0)])
    residents.begin(an(0), 0.0)
    residents.refuse(an(0), "the store is away", 0.0, for_s=2.0)
    for number in range(1, 100):
        residents.came(an(number), MANY, 0.0)
    now, tried = 2.0, list[VersionId]()
    while now < 2.0 + MINUTE_S:
        one = residents.wanted(now)
        if one is not None:
            load(residents, one, now)
            residents.gone(one, MANY)
            tried.append(one)
        now += 2.0
    assert len(tried) > LOADS_PER_MINUTE // 2
    assert an(0) not in tried
    assert residents.wanted(now) == an(0)


def test_a_pin_that_is_refused_and_waited_for_has_its_turn_like_any_other() -> None:
    """Whoever waits for it waits no longer than for what nobody has pinned."""
    residents = Residents(4)
    residents.pinned = frozenset([an(1)])
    for _ in range(5):
        residents.refuse(an(1), "the store is away", 0.0, for_s=2.0)
    residents.came(an(1), ACME, 2.0)
    residents.came(an(2), ACME, 3.0)
    assert residents.wanted(3.0) == an(1)
    residents.gone(an(1), ACME)
    residents.wish(an(1), ACME, 3.0)
    residents.came(an(3), MANY, 3.5)
    load(residents, an(2), 3.5)
    residents.gone(an(2), ACME)
    assert residents.wanted(4.0) == an(3)
