"""The history checker accepts what may happen, and rejects each thing that must not."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.domain.money import MicroUsd
from penstock.domain.outcome import Outcome
from penstock.domain.tenancy import budget
from penstock.domain.tenancy.limits import Measure, MeterKind
from penstock.domain.tenancy.tenant import Plan, Scope
from tests.support.histories.record import (
    Asked,
    Bounds,
    Counted,
    End,
    Fault,
    History,
    Hurt,
    Opened,
    Rest,
    Settled,
    Take,
)
from tests.support.histories.rules import RULES, check
from tests.support.samples.ledger_rows import row

NOW = 1_790_000_000.0
CAP = 100
METER = f"tenant:acme:spend:{budget.day(NOW).name}"
SLOTS = "tenant:acme:concurrent"
PLAN = Plan(spend_per_day=MicroUsd(CAP), max_concurrent=2, requests_per_min=60)


def take(amount: int = 10, meter: str = METER, capacity: int = CAP) -> Take:
    kind = MeterKind.BUDGET if meter == METER else MeterKind.SLOTS
    measure = Measure.SPEND if meter == METER else Measure.CONCURRENCY
    return Take(meter=meter, kind=kind, measure=measure, amount=amount, capacity=capacity)


def asked(name: str, at: float = 0.0, **changes: object) -> Asked:
    plain = Asked(
        name=name,
        tenant="acme",
        gateway="g1",
        began_at=NOW + at,
        ended_at=NOW + at + 0.5,
        end=End.WHOLE,
        admitted=True,
        tokens=5,
        answer=f"answer of {name}",
    )
    return replace(plain, **changes)  # type: ignore[arg-type]  # any field


def opened(name: str, at: float = 0.0, **changes: object) -> Opened:
    takes = (take(), take(1, SLOTS, 2))
    plain = Opened(at=NOW + at, lease=f"{name}-0", takes=takes, due=NOW + at + 10)
    return replace(plain, **changes)  # type: ignore[arg-type]  # any field


def settled(name: str, at: float = 0.0, cost: int = 10) -> Settled:
    return Settled(at=NOW + at + 0.5, lease=f"{name}-0", spent={METER: cost})


def good() -> History:
    """Return a run of four requests: one answered, one failed, one left, one refused."""
    cut = {"end": End.FAILED, "tokens": 3}
    left = {"end": End.LEFT, "admitted": None, "tokens": 2}
    return History(
        bounds=Bounds(tokens_per_s=10.0, gateways=2),
        scopes={"acme": (Scope(name="tenant:acme", plan=PLAN),)},
        asked=[
            asked("a"),
            asked("b", 1, **cut),
            asked("c", 2, **left),
            asked("d", 3, end=End.REFUSED, admitted=False, tokens=0),
        ],
        opened=[opened("a"), opened("b", 1), opened("c", 2)],
        settled=[settled("a"), settled("b", 1), settled("c", 2)],
        rows=[
            row("a-0", at=NOW, cost=10),
            row("b-0", at=NOW + 1, cost=10, outcome=Outcome.BROKEN_STREAM, output_tokens=3),
            row("c-0", at=NOW + 2, cost=10, outcome=Outcome.CANCELLED, output_tokens=4),
        ],
        made={"a-0": 5, "b-0": 3, "c-0": 5},
        rest=Rest(spent={METER: 30}, held={METER: 0, SLOTS: 0}),
    )


def killed(at: float = 0.2) -> Hurt:
    return Hurt(fault=Fault.GATEWAY_KILLED, at=NOW + at, until=NOW + at, gateway="g1")


def lost(at: float, until: float) -> Hurt:
    return Hurt(fault=Fault.LIMITS_LOST, at=NOW + at, until=NOW + until)


def test_what_may_happen_is_accepted() -> None:
    """A run with an answer, a failure, a departure and a refusal, each accounted for, has no finding."""
    assert check(good()) == []


Edit = Callable[[History], object]


def twice(history: History) -> None:
    """Give one idempotency key two effects."""
    history.asked[0] = replace(history.asked[0], once="k")
    history.asked.append(asked("e", 4, once="k"))
    history.rows.append(row("e-0", at=NOW + 4, cost=0))
    history.made["e-0"] = 5


def overdrawn(history: History) -> None:
    """Let five answers cost more than the budget, each within its reservation."""
    history.rows = [replace(one, cost=MicroUsd(40)) for one in history.rows]
    takes = (take(40), take(1, SLOTS, 2))
    history.opened = [replace(one, takes=takes) for one in history.opened]
    history.settled = [replace(one, spent={METER: 40}) for one in history.settled]
    history.rest = replace(history.rest, spent={METER: 120})


def crowded(history: History) -> None:
    """Grant a third slot of two."""
    for name in ("x", "y", "z"):
        history.opened.append(opened(name, 5, takes=(take(1, SLOTS, 2),)))
        history.settled.append(settled(name, 6, cost=0))


def hurried(history: History) -> None:
    """Admit twice the rate within three seconds."""
    for i in range(121):
        history.asked.append(asked(f"r{i}", 5 + i / 100, admitted=True))


BAD: list[tuple[str, Edit]] = [
    ("one_row_each", lambda h: h.rows.pop(0)),
    ("one_row_each", lambda h: h.rows.append(row("a-1", at=NOW, cost=0))),
    ("one_row_each", lambda h: h.rows.append(row("d-0", at=NOW, cost=0, outcome=Outcome.OVER_LIMIT))),
    ("one_row_each", lambda h: h.rows.append(row("nobody-0", at=NOW, cost=0))),
    ("rows_say_how_it_ended", lambda h: h.rows.__setitem__(0, replace(h.rows[0], outcome=Outcome.CANCELLED))),
    ("rows_say_how_it_ended", lambda h: h.rows.__setitem__(1, replace(h.rows[1], outcome=Outcome.OK))),
    ("billed_is_what_was_made", lambda h: h.made.pop("a-0")),
    ("billed_is_what_was_made", lambda h: h.made.update({"a-0": 4})),
    ("billed_is_what_was_made", lambda h: h.rows.__setitem__(1, replace(h.rows[1], output_tokens=0))),
    ("the_refused_never_ran", lambda h: h.made.update({"d-0": 1})),
    ("one_effect_per_key", twice),
    ("one_settlement_each", lambda h: h.settled.pop()),
    ("one_settlement_each", lambda h: h.settled.append(settled("a", 1))),
    ("one_settlement_each", lambda h: h.settled.append(settled("stranger", 1, cost=0))),
    ("the_store_gives_no_more_than_it_has", crowded),
    ("the_store_gives_no_more_than_it_has", lambda h: h.counted.append(Counted(at=NOW + 1.9, meter=METER, spent=95))),
    ("nothing_is_held_at_rest", lambda h: setattr(h, "rest", replace(h.rest, held={SLOTS: 1}))),
    ("nothing_is_held_at_rest", lambda h: setattr(h, "rest", replace(h.rest, running=1))),
    ("nothing_is_held_at_rest", lambda h: setattr(h, "rest", replace(h.rest, in_flight=1))),
    ("spend_is_the_sum_of_rows", lambda h: setattr(h, "rest", replace(h.rest, spent={METER: 20}))),
    ("spend_is_the_sum_of_rows", lambda h: setattr(h, "rest", replace(h.rest, spent={METER: 40}))),
    ("budgets_end", overdrawn),
    ("rates_hold_in_every_window", hurried),
]


@pytest.mark.parametrize(("rule", "edit"), [pytest.param(*bad, id=f"{i}-{bad[0]}") for i, bad in enumerate(BAD)])
def test_what_must_not_happen_is_found(rule: str, edit: Edit) -> None:
    """A good run with one thing wrong is rejected by the rule for it."""
    history = good()
    edit(history)
    assert rule in {finding.partition(":")[0] for finding in check(history)}


def test_every_rule_has_a_history_that_it_rejects() -> None:
    """No rule is there that never found anything."""
    assert {rule for rule, _ in BAD} == {rule.__name__ for rule in RULES}


def test_a_dead_gateways_requests_may_be_unwritten_but_not_unbilled_for_long() -> None:
    """Of what a killed gateway delivered a round's tokens may be missing from the bill, and its lease unsettled."""
    history = good()
    history.hurts = [killed()]
    history.asked[0] = replace(history.asked[0], end=End.CUT, tokens=5)
    history.settled.pop(0)
    history.rest = replace(history.rest, spent={METER: 20})
    history.rows[0] = replace(history.rows[0], outcome=Outcome.INTERNAL, output_tokens=0, cost=MicroUsd(0))
    assert check(history) == []
    history.made["a-0"] = history.asked[0].tokens + 20
    history.asked[0] = replace(history.asked[0], tokens=20)
    assert [finding.partition(":")[0] for finding in check(history)] == ["billed_is_what_was_made"]


def test_a_lost_store_may_forget_what_was_under_way_and_no_more() -> None:
    """Around the loss a meter may be unsure by the rows of that time; rows long before it must be counted again."""
    history = good()
    history.hurts = [lost(1.8, 1.9)]
    history.settled.pop(0)
    history.rest = replace(history.rest, spent={METER: 0})
    assert check(history) == []
    history.rows[0] = row("a-0", at=NOW - 60, cost=10)
    assert [finding.partition(":")[0] for finding in check(history)] == ["spend_is_the_sum_of_rows"]
