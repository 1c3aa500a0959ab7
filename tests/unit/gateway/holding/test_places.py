"""Who waits for a version that sleeps, who gives way, and who goes on first."""

import random
from collections import Counter

from penstock.domain.ids import TenantId
from penstock.domain.tenancy.standing import Standing
from penstock.gateway.holding.places import HeldRequest, HoldSettings, Places

SMALL = HoldSettings(requests=4, tokens=1000)


def entry(
    number: int, tenant: str, *, tokens: int = 10, weight: int = 1, standing: Standing = Standing.PAID
) -> HeldRequest:
    return HeldRequest(who=number, tenant=TenantId(tenant), weight=weight, standing=standing, tokens=tokens)


def order(places: Places) -> list[object]:
    found = []
    while (one := places.next()) is not None:
        found.append(one.who)
    return found


def test_one_tenant_has_its_part_of_the_places() -> None:
    """Half of the requests and half of the tokens, however empty the rest is."""
    places = Places(SMALL)
    assert [places.enter(entry(number, "a")) for number in range(3)] == [(), (), None]
    assert places.enter(entry(9, "b", tokens=501)) is None
    assert (len(places), places.tokens) == (2, 20)


def test_whoever_has_most_gives_way() -> None:
    """Where the places are taken a newcomer has the newest one of the tenant that has most, and nobody's fair one."""
    places = Places(SMALL)
    mine = [entry(number, "a") for number in range(2)]
    for one in (*mine, entry(2, "b"), entry(3, "c")):
        assert places.enter(one) == ()
    assert places.enter(entry(4, "d")) == (mine[1],)
    assert places.enter(entry(5, "e")) is None, "four tenants have one each"


def test_weights_count() -> None:
    """A tenant of weight two keeps two places where others have one."""
    places = Places(SMALL)
    for one in (entry(0, "a", weight=2), entry(1, "a", weight=2), entry(2, "b"), entry(3, "c")):
        places.enter(one)
    assert places.enter(entry(4, "d")) is None


def test_a_lower_standing_gives_way_first_and_a_higher_one_never() -> None:
    """Batch work makes room for who is watched, whatever each of them has; nobody makes room for batch work."""
    places = Places(SMALL)
    batch = entry(3, "c", standing=Standing.BATCH)
    for one in (entry(0, "a"), entry(1, "a"), entry(2, "b"), batch):
        places.enter(one)
    assert places.enter(entry(4, "d", standing=Standing.INTERACTIVE)) == (batch,)
    assert places.enter(entry(5, "e", standing=Standing.BATCH)) is None


def test_who_finds_no_room_drives_nobody_out() -> None:
    """A request that would not fit though others went leaves them as they were."""
    places = Places(HoldSettings(requests=9, tokens=100))
    for one in (entry(0, "a", tokens=20), entry(1, "a", tokens=20), entry(2, "b", tokens=45)):
        places.enter(one)
    assert places.enter(entry(3, "c", tokens=50)) is None
    assert (len(places), places.tokens) == (3, 85)


def test_they_go_on_in_turn_and_not_as_they_came() -> None:
    """A tenant that came first with many does not go before the one request of another; long ones count as such."""
    places = Places(HoldSettings())
    for number in range(3):
        places.enter(entry(number, "a"))
    places.enter(entry(10, "b"))
    places.enter(entry(20, "c", tokens=25))
    places.enter(entry(30, "d", standing=Standing.INTERACTIVE, tokens=900))
    assert order(places) == [30, 0, 10, 1, 20, 2]
    assert (len(places), places.tokens) == (0, 0)


def test_each_gets_its_share_of_any_beginning() -> None:
    """Of random crowds the first so many that go on are the tenants' in equal parts, whoever came first."""
    chance = random.Random(7)
    for _ in range(50):
        crowd = [entry(number, chance.choice("aaab")) for number in range(60)]
        places = Places(HoldSettings(requests=200))
        for one in crowd:
            places.enter(one)
        rare = sum(one.tenant == "b" for one in crowd)
        first = Counter(places.next().tenant for _ in range(2 * rare))  # type: ignore[union-attr]
        assert abs(first[TenantId("a")] - first[TenantId("b")]) <= 1


def test_who_leaves_frees_its_place_once() -> None:
    """A place is free at once, and leaving twice frees nobody else's."""
    places = Places(HoldSettings(requests=2, tokens=100))
    one, other = entry(0, "a"), entry(1, "b")
    places.enter(one)
    places.enter(other)
    assert [places.remove(one), places.remove(one)] == [True, False]
    assert (len(places), places.tokens) == (1, 10)
