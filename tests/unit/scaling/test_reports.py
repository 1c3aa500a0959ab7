"""Gateways' reports as demand: what counts once, what is missing, what leaves nothing behind."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.fleet.demand import Counted, Demand, GatewayReport, HeldNow, Rate, VersionDemand
from penstock.domain.ids import VersionId
from penstock.domain.tenancy.standing import Standing
from penstock.scaling.reports import Reports

V = VersionId("m@000000000000")


def report(number: int, requests: int = 0, *, gateway: str = "g", began: float = 0.0, **more: object) -> GatewayReport:
    counted = Counted(
        version=V,
        standing=Standing.PAID,
        requests=requests,
        prompt_tokens=10 * requests,
        output_tokens=2 * requests,
        answered=requests,
        late=requests // 2,
    )
    made = GatewayReport(gateway=gateway, began=began, number=number, counted=(counted,))
    return replace(made, **more)  # type: ignore[arg-type]


def rate(demand: Demand) -> Rate:
    return demand.versions[V].rates[Standing.PAID] if V in demand.versions else Rate()


def heard(*reports: tuple[float, GatewayReport]) -> Reports:
    found = Reports()
    for at, one in reports:
        found.take(one, at)
    return found


def test_a_rate_is_of_the_last_ten_seconds() -> None:
    """Twenty seconds at 5 requests a second, then ten at 1: the rate is 1, in tokens too."""
    found = Reports()
    for second in range(31):
        found.take(report(second + 1, 5 * min(second, 20) + max(0, second - 20)), float(second))
    assert rate(found.demand(30.0)) == Rate(requests=1.0, prompt_tokens=10.0, output_tokens=2.0)


def test_a_young_leader_takes_two_requests_for_no_crowd() -> None:
    """Three requests in its first second are 0.3 a second: a rate of one second would buy a worker for noise."""
    assert rate(heard((0.0, report(2, 100)), (1.0, report(3, 103))).demand(1.0)).requests == pytest.approx(0.3)


def test_the_first_report_of_an_older_process_is_where_counting_begins() -> None:
    """What a gateway counted before this controller listened is no arrival of now."""
    assert rate(heard((100.0, report(500, 9_000))).demand(100.5)) == Rate()


def test_the_first_report_of_a_process_counts_whole() -> None:
    """A process that began a moment ago has counted nothing that anybody else heard."""
    assert rate(heard((100.0, report(1, 7))).demand(100.5)).requests == pytest.approx(0.7)


def test_a_second_report_of_the_same_second_adds_its_difference_alone() -> None:
    """Cumulative counters: 10, then 12 in the same second are 12."""
    found = heard((1.0, report(1, 0)), (2.0, report(2, 10)), (2.2, report(3, 12)))
    assert rate(found.demand(2.5)).requests * 10.0 == pytest.approx(12.0)


def test_a_repeated_report_counts_nothing() -> None:
    """The same report again changes neither rates nor what is held."""
    found = heard((1.0, report(1, 0)), (2.0, report(3, 10)))
    before = found.demand(2.0)
    assert not found.take(report(3, 10), 2.0)
    assert found.demand(2.0) == before


def test_counters_of_a_new_process_begin_at_zero() -> None:
    """A gateway that restarts adds what it counted since, and its predecessor goes on counting while it drains."""
    found = heard((1.0, report(1, 0)), (2.0, report(2, 100)), (3.0, report(1, 4, began=2.5)))
    assert rate(found.demand(3.0)).requests * 10.0 == pytest.approx(104)
    assert found.take(report(3, 102), 3.0)
    assert rate(found.demand(3.0)).requests * 10.0 == pytest.approx(106)
    assert found.demand(3.0).gateways == 1
    found.take(report(2, 4, began=2.5), 8.0)
    assert found.demand(8.0).is_known, "its successor speaks under its name"


def test_an_older_process_that_a_new_leader_hears_late_is_where_counting_begins() -> None:
    """The successor was heard first: what the drained process counted in its life is no crowd of now."""
    found = heard((1.0, report(9, 0, began=2.5)), (1.5, report(500, 9_000)))
    assert rate(found.demand(2.0)) == Rate()


def test_a_gap_is_spread_over_its_seconds() -> None:
    """A hundred requests that one report brings after twenty seconds are 5 a second, not a crowd."""
    found = heard((0.0, report(1, 0)), (20.0, report(2, 100)))
    assert rate(found.demand(20.0)).requests == pytest.approx(5.0)


def test_silence_is_missing_and_never_zero() -> None:
    """A gateway that stops reporting is named, and the numbers are not whole until it speaks or is gone for good."""
    found = heard((0.0, report(1, 0)), (0.0, report(1, 0, gateway="h")))
    found.take(report(2, 0, gateway="h"), 5.0)
    demand = found.demand(5.0)
    assert (demand.missing, demand.is_known, demand.gateways, demand.age_s) == (("g",), False, 1, 5.0)
    found.take(report(3, 0, gateway="h"), 899.0)
    assert found.demand(899.0).missing == ("g",)
    found.take(report(4, 0, gateway="h"), 900.0)
    assert found.demand(900.0).is_known
    found.take(report(2, 0), 900.0)
    assert found.demand(900.0).gateways == 2


def test_just_before_its_bound_a_gateway_is_not_silent() -> None:
    """One report later than it should be is no silence."""
    assert heard((0.0, report(1, 0))).demand(5.0 - 0.1).is_known


def test_nobody_heard_is_not_known() -> None:
    """A controller without a report knows no demand."""
    assert not Reports().demand(0.0).is_known


def test_a_gateway_that_ends_in_order_leaves_no_number_behind() -> None:
    """Its holds are gone at once, and it is not missed."""
    held = (HeldNow(version=V, requests=3, tokens=30, oldest_s=2.0),)
    found = heard((0.0, report(1, 0, held=held)), (0.0, report(1, 0, gateway="h")))
    assert found.demand(0.5).versions[V].held_requests == 3
    found.take(report(2, 0, has_ended=True), 1.0)
    demand = found.demand(1.0)
    assert (V in demand.versions, demand.missing, demand.gateways) == (False, (), 1)


def test_a_silent_gateways_holds_do_not_count() -> None:
    """Held requests of a gateway that is gone would wake a version for nobody."""
    found = heard((0.0, report(1, 0, held=(HeldNow(version=V, requests=3, tokens=30),))))
    assert V not in found.demand(5.0).versions


def test_holds_of_all_gateways_add_up_and_the_oldest_counts() -> None:
    """Two gateways' holds of one version are one demand."""
    one, two = (HeldNow(version=V, requests=n, tokens=10 * n, oldest_s=float(n)) for n in (1, 2))
    demand = heard((0.0, report(1, held=(one,))), (0.0, report(1, gateway="h", held=(two,)))).demand(0.0).versions[V]
    assert (demand.held_requests, demand.held_tokens, demand.held_s) == (3, 30, 2.0)


def test_late_answers_are_of_a_minute_and_of_standings_that_buy() -> None:
    """Late batch answers, and late answers of two minutes ago, say nothing about missing workers."""
    batch = Counted(version=V, standing=Standing.BATCH, requests=50, answered=50, late=50)
    found = heard((0.0, report(1, 0)), (1.0, report(2, 10)))
    found.take(report(3, 10, counted=(batch,)), 2.0)
    assert (found.demand(2.0).versions[V].answered, found.demand(2.0).versions[V].late) == (10, 5)
    assert found.demand(60.0).versions[V].answered == 10
    assert found.demand(61.0).versions[V].answered == 0
    assert V not in found.demand(63.0).versions


@pytest.mark.parametrize(
    "bad",
    [
        {"began": math.nan},
        {"loop_lag_s": math.inf},
        {"loop_lag_s": -1.0},
        {"cpu_s": math.nan},
        {"cpu_s": -1.0},
        {"gateway": ""},
        {"held": (HeldNow(version=V, requests=-1, tokens=0),)},
        {"held": (HeldNow(version=V, requests=1, tokens=0, oldest_s=math.nan),)},
        {"counted": (Counted(version=V, standing=Standing.PAID, requests=-5),)},
        {"counted": (Counted(version=V, standing=Standing.PAID, read_tokens=9, cached_tokens=10),)},
        {"counted": (Counted(version=V, standing=Standing.PAID, answered=9, late=10),)},
        {"counted": (Counted(version=V, standing=Standing.PAID, requests=2**53),)},
        {"held": (HeldNow(version=V, requests=1, tokens=100_000_001),)},
        {"held": (HeldNow(version=V, requests=1, tokens=1, oldest_s=2.0**53),)},
    ],
)
def test_an_unsound_report_counts_nothing(bad: dict[str, object]) -> None:
    """Numbers that are none, negative counts and a missing name are refused."""
    found = heard((0.0, report(1, 0)))
    assert not found.take(replace(report(2, 5), **bad), 1.0)  # type: ignore[arg-type]
    assert rate(found.demand(1.0)) == Rate()


def test_what_one_gateway_can_hold_is_believed() -> None:
    """A hundred million tokens at once are."""
    assert Reports().take(report(1, held=(HeldNow(version=V, requests=1, tokens=100_000_000),)), 0.0)


def test_a_new_process_is_spread_since_its_name_was_heard() -> None:
    """By whichever process spoke last: eleven requests of the second since then are of that second."""
    found = heard((0.0, report(1, 0)), (10.0, report(1, 0, began=9.0)), (11.0, report(1, 11, began=10.5)))
    assert rate(found.demand(11.0)).requests == pytest.approx(1.1)


def test_another_gateways_process_is_no_predecessor() -> None:
    """A process that a new leader hears late is where counting begins, whoever else spoke before."""
    assert rate(heard((0.0, report(1, 0, gateway="h")), (1.0, report(500, 9_000, began=5.0))).demand(1.0)) == Rate()


def test_names_do_not_fill_the_memory() -> None:
    """Beyond the bound a further gateway is refused; a known one still speaks."""
    found = heard(*((0.0, report(1, gateway=f"g{number}")) for number in range(1_000)))
    assert found.demand(0.0).gateways == 1_000
    assert not found.take(report(1, gateway="one more"), 0.0)
    assert found.take(report(2, gateway="g0"), 0.0)


def test_a_name_that_fell_silent_gives_its_place_to_a_gateway() -> None:
    """The one that is silent for longest; while all speak, nobody gives way."""
    names = heard(*((0.0, report(1, gateway=f"g{number}")) for number in range(1_000)))
    names.take(report(2, gateway="g0"), 4.0)
    assert not names.take(report(1, gateway="one more"), 5.0 - 0.1)
    assert names.take(report(1, gateway="one more"), 5.0)
    assert names.demand(5.0).gateways == 2


FORGED = [
    {"began": 4e9, "number": 1},
    {"began": -0.0 + 1e-9, "number": 7},
    {"number": 10**9},
    {"number": 3},
    {"has_ended": True},
    {"has_ended": True, "number": 10**9},
    {"has_ended": True, "began": 4e9},
]


@pytest.mark.parametrize("false", FORGED, ids=str)
def test_false_reports_mute_no_gateway(false: dict[str, object]) -> None:
    """One before each true one, under its name: its requests count, and the number is not known to be lower."""
    found, alone = heard((0.0, report(1, 0)), (0.0, report(1, 0, gateway="h"))), heard((0.0, report(1, 0)))
    for second in range(1, 40):
        found.take(report(2, 0, gateway="h", loop_lag_s=float(second)), float(second))
        found.take(replace(report(second + 2, 0), **false), second + 0.4)  # type: ignore[arg-type]
        found.take(report(second + 1, 2 * second), second + 0.5)
        alone.take(report(second + 1, 2 * second), second + 0.5)
        true, told = alone.demand(second + 0.6), found.demand(second + 0.6)
        assert rate(told).requests >= rate(true).requests - 1e-9
        assert told.gateways == 2


def test_a_false_end_hides_no_gateway_that_fell_silent() -> None:
    """Only the process that ended is not missed: another one's last report under its name changes nothing."""
    found = heard((0.0, report(1, 0)), (1.0, report(1, 0, began=4e9, has_ended=True)))
    assert found.demand(9.0).missing == ("g",)


def test_the_last_report_again_breaks_no_silence() -> None:
    """A repeated one says nothing new, whenever it comes."""
    found = heard((0.0, report(1, 0)), (1.0, report(2, 10)))
    assert not found.take(report(2, 10), 60.0)
    assert found.demand(60.0).missing == ("g",)


def test_no_process_counts_faster_than_any_could() -> None:
    """A hundred million tokens in each second since the report before are believed, one more is not."""
    found = heard((0.0, report(1)), (0.0, report(1, gateway="h")))
    assert not found.take(report(2, 30_000_001), 3.0)
    assert found.take(report(2, 30_000_000), 3.0)
    assert not found.take(report(1, 10_000_001, gateway="new"), 3.0)


def test_a_report_from_the_future_is_of_now() -> None:
    """A gateway's own clock places nothing: a process that says it began next year counts like any other."""
    found = heard((0.0, report(1, 0, began=4e9)), (1.0, report(2, 5, began=4e9)))
    assert rate(found.demand(1.0)).requests == 0.5


def test_one_gateways_lag_is_the_tiers() -> None:
    """The slowest loop of those that report is shown, a silent one's is not."""
    found = heard((0.0, report(1, loop_lag_s=0.3)), (0.0, report(1, gateway="h", loop_lag_s=0.1)))
    found.take(report(2, gateway="h", loop_lag_s=0.1), 5.0)
    assert (found.demand(0.0).loop_lag_s, found.demand(5.0).loop_lag_s) == (0.3, 0.1)


def test_the_cpu_of_a_request_is_of_all_gateways_and_of_the_last_minute() -> None:
    """One spends 2 ms on each of 100 requests, the other 4 ms on each of 300; what was before the window is gone."""
    found = heard((0.0, report(1)), (0.0, report(1, gateway="h")))
    found.take(report(2, 100, cpu_s=0.2), 1.0)
    found.take(report(2, 300, gateway="h", cpu_s=1.2), 1.0)
    assert found.demand(1.0).request_cpu_s == pytest.approx(1.4 / 400)
    found.take(report(3, 200, cpu_s=0.3), 2.0)
    assert found.demand(61.0).request_cpu_s == pytest.approx(0.1 / 100), "of the minute's requests alone"
    assert found.demand(63.5).request_cpu_s == 0.0


def test_a_restarted_gateways_cpu_counts_from_zero() -> None:
    """Its seconds are of the new process; those of an older process that is heard first are none of now."""
    found = heard((0.0, report(7, 50, cpu_s=90.0)), (1.0, report(1, 10, began=5.0, cpu_s=0.5)))
    assert found.demand(1.0).request_cpu_s == pytest.approx(0.05)


EVENTS = st.lists(
    st.tuples(st.sampled_from(["counts", "repeats", "restarts", "is lost"]), st.integers(0, 50)),
    min_size=1,
    max_size=40,
)


@given(events=EVENTS)
def test_whatever_is_lost_or_repeated_arrivals_count_once(events: list[tuple[str, int]]) -> None:
    """Over any sequence of losses, repeats and restarts, counted arrivals are those of reports that were heard."""
    found, total, lost = Reports(), 0, 0
    counter = number = 0
    began, now = 0.0, 0.0
    last = report(1, 0)
    number = 1
    found.take(last, now)
    for what, more in events:
        now += 10.0 / len(events) / 2
        if what == "repeats":
            assert not found.take(last, now)
            continue
        if what == "restarts":
            began, number, counter, lost = now, 0, 0, 0
        counter, number = counter + more, number + 1
        if what == "is lost":
            lost += more
            continue
        last = report(number, counter, began=began)
        assert found.take(last, now)
        total += more + lost
        lost = 0
    assert rate(found.demand(now)).requests * 10.0 == pytest.approx(total)


def test_cached_prompts_lower_the_part_that_engines_compute() -> None:
    """Of ended answers, whatever their standing; before the first one all is computed."""
    first, second = report(1), report(2)
    counted = replace(second.counted[0], read_tokens=100, cached_tokens=60)
    found = heard((0.0, first), (1.0, replace(second, counted=(counted,)))).demand(1.0)
    assert found.versions[V].uncached_ratio == pytest.approx(0.4)
    assert VersionDemand().uncached_ratio == 1.0


def test_a_report_of_too_many_versions_counts_nothing() -> None:
    """Its sender fills no memory."""
    many = tuple(HeldNow(version=VersionId(str(one)), requests=1, tokens=1) for one in range(5_000))
    reports = Reports()
    assert not reports.take(report(1, held=many), 0.0)
    assert reports.take(report(1, held=many[1:]), 0.0)
