"""The need of a version: asked work, growth, backlog, and guards that only add, to workers that are full."""

from dataclasses import replace

import pytest

from penstock.domain.fleet.demand import Rate, VersionDemand
from penstock.domain.fleet.versions import Seen
from penstock.domain.fleet.worker import WorkerReport, WorkerState
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.models.model import Tier
from penstock.domain.models.steps import StepModel
from penstock.domain.serving.report import Load as EngineLoad
from penstock.domain.serving.slo import Indicator, Objective, SloTier
from penstock.domain.tenancy.standing import Standing
from penstock.scaling import law
from penstock.scaling.law import Engines, Load, Need
from penstock.scaling.work import Curve, Shape, Speed

TIER = SloTier(
    tier=Tier.CHAT,
    says="chat",
    window_days=28,
    deadline_s=60.0,
    objectives=(
        Objective(indicator=Indicator.TTFT, good_ratio=0.95, within_s=1.0),
        Objective(indicator=Indicator.ITL, good_ratio=0.95, within_s=0.1),
    ),
)
LOAD = Load(
    shape=Shape(prompt=100.0, output=50.0, context=125.0),
    speed=Speed(batch=10, request_s=0.5, prefill_s=0.05),
    work=4.0,
)
FULL = Engines(ready=5, fill_ratio=0.9, kv_used_ratio=0.5, backlog=0, ttft_p90_s=0.2, itl_p90_s=0.05)
CALM = VersionDemand()


def needed(
    engines: Engines = FULL,
    demand: VersionDemand = CALM,
    *,
    load: Load = LOAD,
    growth: float = 1.0,
    tier: SloTier = TIER,
    is_settled: bool = True,
) -> Need:
    return law.need(load, engines, demand, tier, growth, is_settled=is_settled)


def test_asked_work_is_served_at_the_target_load() -> None:
    """4 worker-seconds a second need 5 workers at a load of 0.8."""
    found = needed()
    assert found.workers == pytest.approx(5.0)
    assert (found.wish, found.reason, found.guard) == (5, "asked_work", 0)


def test_growth_multiplies_what_arrives() -> None:
    """Demand that grows by half during a start is provided for."""
    found = needed(growth=1.5)
    assert found.workers == pytest.approx(7.5)
    assert found.reason == "growth"


def test_a_backlog_is_worked_off_within_its_budget() -> None:
    """The drain budget is its least for a short objective, and what a long objective leaves after the prompt."""
    short = needed(replace(FULL, backlog=400))
    assert short.workers == pytest.approx(4.0 + 400 * 0.5 / 20.0)
    assert short.reason == "backlog"
    slow = replace(TIER, objectives=(replace(TIER.objectives[0], within_s=40.05),))
    assert needed(replace(FULL, backlog=400), tier=slow).workers == pytest.approx(4.0 + 400 * 0.5 / 40.0)


def test_headroom_drains_a_small_backlog() -> None:
    """What the target load leaves free works off a few waiting requests: no worker is bought for them."""
    assert needed(replace(FULL, backlog=10)).workers == pytest.approx(5.0)


def test_held_requests_count_like_waiting_ones_and_ask_for_one_at_least() -> None:
    """A version without workers is asked for by what gateways hold."""
    nobody = replace(LOAD, work=0.0)
    none = replace(FULL, ready=0, fill_ratio=0.0, kv_used_ratio=0.0)
    assert needed(none, VersionDemand(held_requests=1), load=nobody).wish == 1
    assert needed(none, VersionDemand(held_requests=400), load=nobody).wish == 400 * 0.5 / 20.0
    assert needed(none, load=nobody).wish == 0


def test_a_whole_number_is_not_rounded_up() -> None:
    """5.0000000001 workers are five."""
    assert Need(workers=5.0 + 1e-12, reason="").wish == 5
    assert Need(workers=5.01, reason="").wish == 6
    assert Need(workers=5.01, reason="", guard=7).wish == 7


@pytest.mark.parametrize(
    ("engines", "demand", "reason"),
    [
        ({"ttft_p90_s": 1.01}, CALM, "predicted_ttft"),
        ({"itl_p90_s": 0.101}, CALM, "predicted_itl"),
        ({"kv_used_ratio": 0.91, "fill_ratio": 0.1}, CALM, "kv_used"),
        ({}, VersionDemand(answered=100, late=11), "late_answers"),
    ],
)
def test_a_guard_adds_a_quarter_to_full_workers(engines: dict[str, float], demand: VersionDemand, reason: str) -> None:
    """Beyond its bound each guard asks for a quarter more than serve, and is named."""
    found = needed(replace(FULL, **engines), demand)  # type: ignore[arg-type]
    assert (found.guard, found.reason) == (7, reason)


@pytest.mark.parametrize(
    ("engines", "demand"),
    [
        ({"ttft_p90_s": 1.0}, CALM),
        ({"itl_p90_s": 0.1}, CALM),
        ({"kv_used_ratio": 0.9}, CALM),
        ({}, VersionDemand(answered=100, late=10)),
        ({}, VersionDemand(answered=50 - 1, late=50 - 1)),
    ],
)
def test_at_its_bound_no_guard_adds(engines: dict[str, float], demand: VersionDemand) -> None:
    """An objective met exactly, a budget burnt at twice its pace, and too few answers ask for nothing."""
    assert needed(replace(FULL, **engines), demand).guard == 0  # type: ignore[arg-type]


def test_just_enough_answers_are_judged() -> None:
    """Fifty answers, all late, say something."""
    assert needed(FULL, VersionDemand(answered=50, late=50)).reason == "late_answers"


def test_the_worst_guard_is_named() -> None:
    """Of several guards the one furthest beyond its bound is the reason."""
    assert needed(replace(FULL, ttft_p90_s=1.5, itl_p90_s=0.4)).reason == "predicted_itl"


def test_late_answers_of_fewer_workers_do_not_count() -> None:
    """Answers from before a worker came judge a fleet that is no more."""
    assert needed(FULL, VersionDemand(answered=100, late=100), is_settled=False).guard == 0


def test_no_guard_buys_for_idle_workers() -> None:
    """Late answers beside free slots have another cause; the record says it, and nothing is added."""
    idle = replace(FULL, fill_ratio=0.7 - 0.01, kv_used_ratio=0.1, ttft_p90_s=9.0)
    found = needed(idle, VersionDemand(answered=100, late=100))
    assert (found.guard, found.wish) == (0, 5)
    assert found.reason.endswith("late_answers and predicted_ttft beside idle workers: no capacity is missing")
    assert needed(replace(idle, fill_ratio=0.7)).guard == 7
    assert needed(replace(idle, kv_used_ratio=0.7)).guard == 7


def test_one_worker_gets_one_more() -> None:
    """A quarter of one worker is one worker."""
    assert needed(replace(FULL, ready=1, ttft_p90_s=2.0), load=replace(LOAD, work=0.5)).guard == 2


def test_a_guard_below_the_need_names_nothing() -> None:
    """If the need itself is larger, the need is the reason."""
    assert needed(replace(FULL, ttft_p90_s=2.0), growth=2.0).reason == "growth"
    assert needed(replace(FULL, ttft_p90_s=2.0), growth=1.4).reason == "growth", "seven by both"


def test_without_a_curve_kv_use_is_the_mean_of_the_workers() -> None:
    """Two engines at 0.2 and 0.4 are at 0.3, none at 0."""
    ready = [seen(kv_used_ratio=used) for used in (0.2, 0.4)]
    assert [law.unmeasured(CALM, one)[-1].value for one in (ready, [])] == [pytest.approx(0.3), 0.0]


def seen(**load: float) -> Seen:
    report = WorkerReport(
        worker=WorkerId("w"),
        version=VersionId("m@0"),
        state=WorkerState.READY,
        url="",
        load=EngineLoad(**load),  # type: ignore[arg-type]
    )
    return Seen(report=report, at=0.0)


CURVE = Curve(steps=StepModel(fixed_s=0.01, token_s=0.001, context_s=0.0, sequence_s=0.0, rides=False), seqs_most=64)


def test_waiting_beside_free_slots_is_no_backlog() -> None:
    """A batch of ten with four running takes six: of eight that wait two lack a worker, of six none."""
    assert law.engines_of([seen(running=4, waiting=8)], LOAD, CURVE).backlog == 2
    assert law.engines_of([seen(running=4, waiting=6)], LOAD, CURVE).backlog == 0
    assert law.engines_of([seen(running=12, waiting=3), seen(running=0, waiting=3)], LOAD, CURVE).backlog == 3


def test_engines_are_told_against_the_allowed_batch() -> None:
    """Fill and KV use are means; predictions are of the worker at the ninetieth percentile."""
    ten = [seen(running=number, kv_used_ratio=0.1 * number, wait_s=float(number)) for number in range(1, 11)]
    found = law.engines_of(ten, LOAD, CURVE)
    assert found.fill_ratio == pytest.approx(0.55)
    assert found.kv_used_ratio == pytest.approx(0.55)
    assert found.ttft_p90_s == pytest.approx(9.0 + 0.05)
    assert found.itl_p90_s == pytest.approx(0.01 + 0.001 * (9 + 18))
    assert found.ready == 10


def test_nothing_is_predicted_of_nobody() -> None:
    """Without workers, or without a running request, there is no step and no wait."""
    none = law.engines_of([], LOAD, CURVE)
    assert (none.ttft_p90_s, none.itl_p90_s, none.fill_ratio, none.is_full) == (0.0, 0.0, 0.0, False)
    assert law.engines_of([seen()], LOAD, CURVE).itl_p90_s == 0.0


def test_work_is_of_standings_that_buy() -> None:
    """Batch work, yielding requests and shadow copies ask for no worker."""
    one = Rate(requests=1.0, prompt_tokens=100.0, output_tokens=50.0)
    all_ = dict.fromkeys(Standing, one)
    assert law.buying(all_) == Rate(requests=3.0, prompt_tokens=300.0, output_tokens=150.0)


def test_without_arrivals_the_last_shape_prices_what_waits() -> None:
    """A version that sleeps is asked for by holds: priced as its last mean request, or by their own tokens."""
    held = VersionDemand(held_requests=2, held_tokens=200)
    assert law.load_of(CURVE, held, TIER, LOAD.shape).shape is LOAD.shape
    assert law.load_of(CURVE, held, TIER, None).shape == Shape(prompt=50.0, output=50.0, context=100.0)
    assert law.load_of(CURVE, held, TIER, None).work == 0.0


def test_batch_work_gets_what_interactive_work_leaves() -> None:
    """At the target load nothing is left, at half of it half of the batch, with nobody serving nothing."""
    assert law.batch_slots(replace(LOAD, work=2.0), 5, 1.0) == 5
    assert law.batch_slots(LOAD, 5, 1.0) == 0
    assert law.batch_slots(replace(LOAD, work=2.0), 5, 2.0) == 0
    assert law.batch_slots(replace(LOAD, work=0.0), 5, 1.0) == 10
    assert law.batch_slots(replace(LOAD, work=0.0), 0, 1.0) == 0


def test_each_input_is_a_signal() -> None:
    """A record names what it was made of."""
    names = {
        signal.name: signal.value for signal in needed(replace(FULL, backlog=3), VersionDemand(held_requests=2)).signals
    }
    assert names == {
        "asked_work": 4.0,
        "growth": 1.0,
        "backlog": 5,
        "batch_fill": 0.9,
        "kv_used": 0.5,
        "predicted_ttft_p90": 0.2,
        "predicted_itl_p90": 0.05,
    }


def test_an_answer_of_one_token_brings_its_prompt_to_each_step() -> None:
    """With one token of output a sequence's whole prompt is in its step."""
    short = replace(LOAD, shape=Shape(prompt=100.0, output=1.0, context=100.0))
    assert law.engines_of([seen(running=1)], short, CURVE).itl_p90_s == pytest.approx(0.01 + 0.001 * 101)


def test_at_exactly_its_pace_the_budget_asks_for_nothing() -> None:
    """Every answer late, half of them allowed: twice the budget's pace is the bound, and not beyond it."""
    half = replace(TIER, objectives=(replace(TIER.objectives[0], good_ratio=0.5),))
    assert needed(FULL, VersionDemand(answered=100, late=100), tier=half).guard == 0


def test_of_equal_needs_the_backlog_is_named() -> None:
    """Forty that wait need the very headroom that the target load leaves."""
    found = needed(replace(FULL, backlog=40))
    assert (found.wish, found.reason) == (5, "backlog")
