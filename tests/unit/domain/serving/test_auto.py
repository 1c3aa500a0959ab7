"""Auto aliases as nouns: what can't be, and what of a set of rules a table may hold."""

from dataclasses import replace
from math import inf, nan

import pytest

from penstock.domain.errors import TableRefused
from penstock.domain.fleet.table import Route, RoutingTable, Share, validate
from penstock.domain.ids import Alias
from penstock.domain.money import MicroUsd
from penstock.domain.serving.auto import MOST_AUTOS, MOST_RULES, Auto, Caller, Rule, caller_of, fault, sound
from penstock.domain.tenancy.standing import Standing
from tests.support.samples.calls import VERSION

SMALL = Rule(name="small", to=Alias("toy"))
TARGETS = frozenset({"toy", VERSION.id})


def auto(*rules: Rule, alias: str = "auto") -> Auto:
    return Auto(alias=Alias(alias), rules=rules)


def test_a_plain_one_is_sound() -> None:
    """Aliases and pinned versions may be led to, by as many rules as there may be."""
    many = (replace(SMALL, name=f"r{n}", to=Alias(VERSION.id)) for n in range(MOST_RULES - 1))
    assert fault(auto(SMALL, *many), TARGETS, {"auto"}) == ""


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (auto(), "1 to 16 rules"),
        (auto(*(replace(SMALL, name=f"r{n}") for n in range(10_000))), "has 10000"),
        (auto(SMALL, SMALL), "one name"),
        (auto(replace(SMALL, to=Alias("other"))), "which has rules itself"),
        (auto(replace(SMALL, to=Alias("auto"))), "which has rules itself"),
        (auto(replace(SMALL, to=Alias("x" * 5_000))), "no alias and no version"),
        (auto(replace(SMALL, name="a\r\nx-evil: 1")), "no name of a rule"),
        (auto(replace(SMALL, name="")), "no name of a rule"),
        (auto(replace(SMALL, deadline_s=nan)), "from 0 on"),
        (auto(replace(SMALL, deadline_s=inf)), "from 0 on"),
        (auto(replace(SMALL, deadline_s=-1.0)), "from 0 on"),
        (auto(replace(SMALL, price=MicroUsd(-1))), "from 0 on"),
        (auto(replace(SMALL, prompt_tokens=-1)), "from 0 on"),
        (auto(SMALL, alias="toy"), "already"),
        (auto(replace(SMALL, compare="none")), "is compared with 'none', which is no rule of auto"),
        (auto(replace(SMALL, compare_per_s=1.0)), "has compare_per_s, but no compare"),
        (auto(replace(SMALL, compare="small")), "which leads to toy too"),
        (auto(SMALL, replace(SMALL, name="rest", compare="small")), "which leads to toy too"),
        (auto(replace(SMALL, compare_per_s=nan)), "is above 0, and 10 at most"),
        (auto(replace(SMALL, compare_per_s=0.0)), "is above 0, and 10 at most"),
        (auto(replace(SMALL, compare_per_s=11.0)), "is above 0, and 10 at most"),
    ],
)
def test_what_can_not_be_is_told(wrong: Auto, says: str) -> None:
    """One sentence that names the fault, and never more than a line of it."""
    told = fault(wrong, TARGETS, {"auto", "other"})
    assert says in told
    assert len(told) < 250


def test_a_table_refuses_what_can_not_be() -> None:
    """A gateway keeps its last good table where rules lead nowhere, or to rules, or a name stands twice."""
    route = Route(alias=Alias("toy"), shares=(Share(version=VERSION.id, weight=10_000),))
    plain = RoutingTable(number=1, made_at=0.0, routes=(route,), versions=(VERSION,), autos=(auto(SMALL),))
    assert validate(plain) is plain
    for autos in (
        (auto(SMALL), auto(SMALL)),
        (auto(replace(SMALL, to=Alias("gone"))),),
        (auto(SMALL, alias="toy"),),
        (auto(replace(SMALL, to=Alias("b"))), auto(SMALL, alias="b")),
        tuple(auto(SMALL, alias=f"a{n}") for n in range(MOST_AUTOS + 1)),
    ):
        with pytest.raises(TableRefused):
            validate(replace(plain, autos=autos))


def test_what_leads_nowhere_is_left_out_of_a_table() -> None:
    """Two operators at a time may have taken a target away: the rest of the rules stands, and what has none goes."""
    lost = replace(SMALL, name="lost", to=Alias("gone"))
    kept = sound([auto(lost, SMALL), auto(lost, alias="b"), auto(SMALL, alias="toy")], TARGETS)
    assert kept == (auto(SMALL),)
    assert sound([auto(SMALL)], TARGETS)[0].rules == (SMALL,)


def test_rules_know_callers_by_class() -> None:
    """Every standing is one that rules can name."""
    assert {caller_of(one) for one in Standing} == set(Caller)


def test_a_rule_whose_other_is_gone_stands_without_it() -> None:
    """A comparison that nobody can make takes no rule, and no name, away."""
    rest = Rule(name="rest", to=Alias(VERSION.id), compare="small", compare_per_s=1.0)
    (left,) = sound([auto(SMALL, rest)], TARGETS - {"toy"})
    assert left.rules == (Rule(name="rest", to=Alias(VERSION.id)),)
    (whole,) = sound([auto(SMALL, rest)], TARGETS)
    assert whole.rules == (SMALL, rest)
