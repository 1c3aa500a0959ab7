import gzip
import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from loadtests.plan import scenario as scenarios
from loadtests.plan.planning import Order, Session, Sizes, closed, planned
from loadtests.plan.prompts import length, text
from loadtests.plan.scenario import Mix, Scenario, ScenarioRefused, Sessions, Tenant

STEADY = Scenario(says="", mix="", per_s=5, duration_s=100, lengths="azure-conversation")
CALM = Mix(says="", tenants=(Tenant(name="calm", weight=1), Tenant(name="busy", weight=3)))


def order(scenario: Scenario = STEADY, mix: Mix = CALM, *, seed: int = 1, sizes: Sizes | None = None) -> Order:
    return Order(
        scenario=scenario,
        mix=mix,
        per_s=scenario.per_s or 2.0,
        duration_s=min(600, scenario.duration_s),
        seed=seed,
        sizes=sizes or Sizes(),
    )


def of(plan: list[Session], tenant: str) -> list[Session]:
    return [session for session in plan if session.tenant == tenant]


@pytest.mark.parametrize("name", [name for name in scenarios.names() if name != "replay"])
def test_every_scenario_can_be_planned(name: str) -> None:
    """Each scenario's file is read, its mix is there, and each of its tenants asks."""
    scenario = scenarios.load(name)
    mix = scenarios.load_mix(scenario.mix)
    plan = planned(order(scenario, mix, sizes=Sizes(scale=0.1)))
    assert {session.tenant for session in plan} == {tenant.name for tenant in mix.tenants}
    assert [session.at_s for session in plan] == sorted(session.at_s for session in plan)


def test_the_scenarios_that_were_promised_are_there() -> None:
    """There is a file for each kind of load, and one that replays a trace."""
    promised = "burst diurnal long-prompts noisy-neighbour overload replay shared-prefix soak steady".split()
    assert scenarios.names() == promised


def test_every_mix_is_used_or_for_one_key() -> None:
    """No mix lies about unused, and each is read without a fault."""
    used = {scenarios.load(name).mix for name in scenarios.names()}
    assert [name for name in scenarios.names(scenarios.MIXES) if name not in used] == []
    assert [scenarios.load_mix(name).says for name in sorted(used)] != []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{says: x, mix: one, per_s: 1, duration_s: 9, lengths: servegen-small, cheese: 1}", "unknown field `cheese`"),
        ("{says: x, mix: one, per_s: 0, duration_s: 9, lengths: servegen-small}", "`float` > 0"),
        ("{says: x, mix: one, duration_s: 9, lengths: servegen-small}", "either per_s or of_capacity"),
        ("{says: x, mix: one, per_s: 1, of_capacity: 2, duration_s: 9, lengths: servegen-small}", "either per_s or"),
        ("{says: x, mix: one, per_s: 1, duration_s: 9, lengths: servegen-small, refusals: fine}", "enum value 'fine'"),
        ("{says: x, mix: one, per_s: 1, duration_s: 9, lengths: burst-gpt}", "no fit is called 'burst-gpt'"),
        ("{says: x, mix: one, per_s: 1, duration_s: 9, lengths: servegen-small, sharing: servegen-small}", "prefixes"),
        (
            "{says: x, mix: one, per_s: 1, duration_s: 9, lengths: servegen-small, hours_of: azure-conversation}",
            "hours",
        ),
    ],
)
def test_a_wrong_scenario_is_refused_with_its_place(tmp_path: Path, text: str, why: str) -> None:
    """A file with an unknown key or an impossible value is refused, and the message names file and fault."""
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ScenarioRefused, match=r"mine\.yaml") as refused:
        scenarios.load(str(path))
    assert why in str(refused.value)


def test_an_unknown_scenario_is_refused_with_those_that_there_are() -> None:
    """The message lists what there is."""
    with pytest.raises(ScenarioRefused, match="burst, diurnal"):
        scenarios.load("cheese")


def test_weights_share_the_rate() -> None:
    """A tenant of three times the weight asks three times as often, and together they ask at the rate."""
    plan = planned(order(msgspec.structs.replace(STEADY, duration_s=600)))
    assert len(plan) == pytest.approx(3000, rel=0.06)
    assert len(of(plan, "busy")) == pytest.approx(3 * len(of(plan, "calm")), rel=0.15)


def test_a_tenant_is_planned_for_whoever_else_is_there() -> None:
    """A tenant's requests are the same beside another neighbour, so that runs with and without one compare."""
    other = Mix(says="", tenants=(CALM.tenants[0], Tenant(name="other", weight=3, cv=4.0)))
    assert of(planned(order()), "calm") == of(planned(order(mix=other)), "calm")


def test_the_same_seed_gives_the_same_plan() -> None:
    """Everything in a plan comes from the seed."""
    assert planned(order()) == planned(order())
    assert planned(order()) != planned(order(seed=2))


def test_a_neighbour_comes_when_the_mix_says() -> None:
    """The flood of the noisy neighbour begins after a third of the run, and then asks ten times as often."""
    scenario = msgspec.structs.replace(scenarios.load("noisy-neighbour"), duration_s=600)
    plan = planned(order(scenario, scenarios.load_mix(scenario.mix)))
    flood, reader = of(plan, "flood"), [one for one in of(plan, "reader") if one.at_s >= 0.34 * 600]
    assert min(session.at_s for session in flood) >= 0.34 * 600
    assert len(flood) == pytest.approx(10 * len(reader), rel=0.25)


def test_lengths_are_scaled_and_held_under_what_the_target_takes() -> None:
    """Prompts and answers are multiplied, and never longer than the sizes allow."""
    sizes = Sizes(scale=0.5, max_prompt_tokens=300, max_output_tokens=40)
    turns = [turn for session in planned(order(sizes=sizes)) for turn in session.turns]
    assert max(length(turn.pieces) for turn in turns) == 300
    assert max(turn.output_tokens for turn in turns) == 40


def test_a_session_goes_on_with_what_was_said() -> None:
    """A later turn's prompt begins with the whole earlier one, and comes after a time of thought."""
    talker = Tenant(name="talker", sessions=Sessions(turns=4, think_s=5))
    plan = planned(order(mix=Mix(says="", tenants=(talker,))))
    sessions = [session for session in plan if len(session.turns) > 1]
    assert sum(len(session.turns) for session in plan) == pytest.approx(500, rel=0.25)
    for session in sessions:
        first, second = (text(turn.pieces, "salt") for turn in session.turns[:2])
        assert second.startswith(first)
    assert all(turn.think_s > 0 for session in sessions for turn in session.turns[1:])


def test_another_salt_gives_another_text() -> None:
    """Texts differ between runs with the same seed, so that no cache has seen them."""
    pieces = (("system", 5), ("rest", 5))
    assert text(pieces, "one") != text(pieces, "two")
    assert len(text(pieces, "one").split()) == 10


def test_habits_come_as_often_as_the_mix_says() -> None:
    """Slow readers, leavers and unary callers have their shares, and no unary caller reads slowly or leaves."""
    odd = Tenant(name="odd", unary_ratio=0.3, slow_ratio=0.2, leaving_ratio=0.4)
    turns = [one.turns[0] for one in planned(order(mix=Mix(says="", tenants=(odd,))))]
    assert sum(turn.unary for turn in turns) / len(turns) == pytest.approx(0.3, abs=0.06)
    streams = [turn for turn in turns if not turn.unary]
    assert sum(turn.slow for turn in streams) / len(streams) == pytest.approx(0.2, abs=0.06)
    assert sum(turn.leaves_after_tokens > 0 for turn in streams) / len(streams) == pytest.approx(0.4, abs=0.06)
    assert not any(turn.slow or turn.leaves_after_tokens for turn in turns if turn.unary)


def test_callers_that_wait_for_each_other_all_begin_at_once() -> None:
    """What measures a capacity is so many sessions from the start, with more turns than they get done."""
    plan = closed(order(), callers=6, turns=9)
    assert [(session.at_s, len(session.turns)) for session in plan] == [(0.0, 9)] * 6


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a small trace in Mooncake's format."""
    rows = [
        {"timestamp": 0, "input_length": 700, "output_length": 50, "hash_ids": [0, 1]},
        {"timestamp": 6000, "input_length": 1100, "output_length": 60, "hash_ids": [0, 1, 2]},
        {"timestamp": 60000, "input_length": 520, "output_length": 70, "hash_ids": [0, 3]},
    ]
    path = tmp_path / "mooncake_conversation.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(json.dumps(row) for row in rows).encode()))
    return path


def test_a_trace_is_replayed_at_its_own_times(trace: Path) -> None:
    """Requests have the trace's times, lengths and shared blocks, each bucket spread over its three seconds."""
    plan = planned(replace(order(mix=scenarios.load_mix("one")), trace=trace, per_s=None))
    assert [int(session.at_s // 3) for session in plan] == [0, 2, 20]
    assert [session.turns[0].output_tokens for session in plan] == [50, 60, 70]
    assert [session.turns[0].pieces for session in plan] == [
        (("block-0", 512), ("block-1", 188)),
        (("block-0", 512), ("block-1", 512), ("block-2", 76)),
        (("block-0", 512), ("block-3", 8)),
    ]


def test_a_rate_presses_a_trace(trace: Path) -> None:
    """With a rate the trace's times are multiplied until its mean rate is that one."""
    plan = planned(replace(order(mix=scenarios.load_mix("one")), trace=trace, per_s=1.0))
    assert len(plan) == 3
    assert plan[-1].at_s == pytest.approx(3.0)


def test_what_comes_after_the_run_is_left_out(trace: Path) -> None:
    """A trace that is longer than the run is cut."""
    plan = planned(replace(order(mix=scenarios.load_mix("one")), trace=trace, per_s=None, duration_s=30.0))
    assert len(plan) == 2
