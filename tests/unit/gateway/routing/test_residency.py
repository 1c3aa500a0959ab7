"""Which workers hold which adapter: few for each, the same in every gateway, more under load, fewer again after it."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.fleet.worker import WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.gateway.routing import residency, scorers
from penstock.gateway.routing.residency import HOMES, MOST_ORDERS, MOST_RANKED, Homes, ordered
from penstock.gateway.routing.scorers import SLACK_TOKENS, Candidate

PIRATE = VersionId("pirate@0123456789ab")
WORKERS = tuple(WorkerId(f"w{n}") for n in range(6))
ORDER = ordered(PIRATE, WORKERS)
FIRST, SECOND, THIRD, FOURTH = ORDER
BUSY = SLACK_TOKENS + 1.0
names = st.sets(st.integers(0, 99).map(lambda n: WorkerId(f"w{n}")), min_size=2, max_size=40)


def candidates(
    work: dict[WorkerId, float] | None = None, holding: Sequence[WorkerId] = (), among: Sequence[WorkerId] = WORKERS
) -> list[Candidate]:
    entries = [
        WorkerEntry(id=one, url="http://x", state=WorkerState.READY, adapters=(PIRATE,) * (one in holding))
        for one in among
    ]
    return [Candidate(one, (work or {}).get(one.id, 0.0)) for one in entries]


def best(among: list[Candidate], adapter: VersionId = PIRATE) -> WorkerId:
    """Return who has the highest score, and check that all scores are scores."""
    plain = scorers.totals(among, adapter=True)
    scores = residency.credited(plain, among, adapter, ordered(adapter, [one.entry.id for one in among]))
    assert all(0.0 <= score <= 1.0 for score in scores)
    return among[max(range(len(among)), key=scores.__getitem__)].entry.id


@given(names, st.text("abc@", min_size=1, max_size=80))
def test_a_worker_that_goes_moves_nobody_else(workers: set[WorkerId], adapter: str) -> None:
    """The order without its first worker is the order of before, one place up."""
    before = list(ordered(VersionId(adapter), sorted(workers)))
    after = list(ordered(VersionId(adapter), sorted(workers - {before[0]})))
    assert after[: len(before) - 1] == before[1:]
    assert len(before) == min(MOST_RANKED, len(workers))


def test_names_that_differ_only_at_their_ends_have_orders_of_their_own() -> None:
    """An adapter's id may be longer than a hash's key."""
    long = "x" * 63
    found = {tuple(ordered(VersionId(f"{long}@{n:012d}"), WORKERS)) for n in range(20)}
    assert len(found) > 10


def test_adapters_spread_evenly() -> None:
    """Of 600 adapters each of six workers is the first home of about a hundred."""
    firsts = Counter(next(iter(ordered(VersionId(f"a{n}@x"), WORKERS))) for n in range(600))
    assert firsts.keys() == set(WORKERS)
    assert max(firsts.values()) < 140


def test_an_adapter_that_nobody_holds_goes_to_a_home() -> None:
    """The first one loads it; while it is busy, the second does."""
    assert best(candidates({SECOND: 1.0})) == FIRST
    assert best(candidates({FIRST: 3_000.0, THIRD: 1.0}, holding=[])) == SECOND


def test_who_holds_it_is_asked_until_it_is_clearly_busier() -> None:
    """A little work does not make a second worker load it; more does, and much more leaves the one that holds it."""
    assert best(candidates({FIRST: 500.0}, holding=[FIRST])) == FIRST
    assert best(candidates({FIRST: 1_500.0}, holding=[FIRST])) == SECOND
    assert best(candidates({FIRST: BUSY, SECOND: BUSY}, holding=[FIRST, SECOND])) == THIRD


def test_it_spills_over_in_its_order() -> None:
    """All gateways agree whom it spills over to: with three of them busy, the fourth."""
    busy = dict.fromkeys((FIRST, SECOND, THIRD), BUSY)
    assert best(candidates(busy, holding=list(busy))) == FOURTH


def test_a_stranger_that_holds_it_is_no_home_but_better_than_a_load() -> None:
    """What spilled over is used while no home holds it, and fades once one does."""
    stranger = next(worker for worker in WORKERS if worker not in (FIRST, SECOND))
    assert best(candidates(holding=[stranger])) == stranger
    assert best(candidates(holding=[stranger, FIRST])) == FIRST


def test_few_workers_load_each_adapter() -> None:
    """Of fifty adapters that take turns over six idle workers each is loaded by one; under load by two, then three."""
    loads: dict[float, float] = {}
    for work in (0.0, 1_000.0, 20_000.0):
        held: defaultdict[VersionId, set[WorkerId]] = defaultdict(set)
        for turn in range(2_000):
            adapter = VersionId(f"a{turn % 50}@x")
            homes = list(ordered(adapter, WORKERS))
            tired = homes[: turn // 50 % 3 if work else 0]  # whoever is asked has work for a while
            among = [
                one._replace(entry=replace(one.entry, adapters=(adapter,) * (one.entry.id in held[adapter])))
                for one in candidates(dict.fromkeys(tired, work))
            ]
            held[adapter].add(best(among, adapter))
        loads[work] = sum(map(len, held.values())) / len(held)
    assert loads == {0.0: 1.0, 1_000.0: len(HOMES), 20_000.0: len(HOMES) + 1}


def test_orders_are_bounded_and_made_once() -> None:
    """The least lately made one goes; a known one is the same object."""
    homes = Homes(WORKERS)
    assert homes.of(PIRATE) is homes.of(PIRATE)
    for n in range(MOST_ORDERS + 10):
        homes.of(VersionId(f"a{n}@x"))
    assert len(homes._orders) == MOST_ORDERS


def test_a_request_without_an_adapter_scores_as_ever() -> None:
    """Its scores leave no room for what it does not ask for."""
    among = candidates({FIRST: 100.0}, holding=[FIRST])
    assert max(scorers.totals(among)) > max(scorers.totals(among, adapter=True))
