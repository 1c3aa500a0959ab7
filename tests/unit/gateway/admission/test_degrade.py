"""Degrade before deny: who is degraded, how, and what is never broken by it."""

from dataclasses import replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import Alias, VersionId
from penstock.domain.models.model import Task, Tier
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Degradation
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import UNBOUNDED, Cost
from penstock.domain.tenancy.tenant import Plan
from penstock.gateway.admission.controller import bounded
from penstock.gateway.admission.degrade import OUTPUT_FIELD, capped, may_move
from penstock.gateway.admission.degrader import Pressure, PressureDegrader, PressureSettings
from penstock.gateway.calls.call import Admitted
from tests.support.clock import ManualClock
from tests.support.samples import calls

CAP = Plan(degrade_output_tokens=20)
BIG = calls.VERSION
SMALL = replace(BIG, id=VersionId("small@0123456789ab"))
JSON = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}
TOOLS = [{"type": "function", "function": {"name": "f"}}]


def price(prompt: int, cached: int, output: int) -> Price:
    return Price(prompt_per_mtok=MicroUsd(prompt), cached_per_mtok=MicroUsd(cached), output_per_mtok=MicroUsd(output))


def asks(api: Api = Api.CHAT, *, total: int = UNBOUNDED, sequences: int = 1, **body: object) -> InferenceRequest:
    return calls.request(
        api=api, body={"model": "toy", **body}, cost=Cost(sequences=sequences, output_tokens=total, prompt_tokens=5)
    )


@pytest.mark.parametrize(
    ("api", "body", "sequences", "capped_total"),
    [
        (Api.CHAT, {}, 1, 20),
        (Api.CHAT, {"max_tokens": 100}, 1, 20),
        (Api.CHAT, {"max_completion_tokens": 100, "max_tokens": 3}, 1, 20),
        (Api.CHAT, {"n": 3}, 3, 60),
        (Api.CHAT, {"n": 3, "max_tokens": 100}, 3, 60),
        (Api.COMPLETIONS, {"prompt": ["a", "b"], "max_tokens": 100}, 2, 40),
        (Api.COMPLETIONS, {"prompt": [1, 2, 3], "best_of": 2, "max_tokens": 100}, 2, 40),
        (Api.RESPONSES, {"max_output_tokens": 100}, 1, 20),
        (Api.MESSAGES, {"max_tokens": 100}, 1, 20),
        (Api.CHAT, {"max_tokens": 100, "min_tokens": 20}, 1, 20),
        (Api.CHAT, {"response_format": {"type": "text"}}, 1, 20),
        (Api.CHAT, {"tools": TOOLS, "tool_choice": "none"}, 1, 20),
    ],
)
def test_each_answer_is_capped(api: Api, body: dict[str, Any], sequences: int, capped_total: int) -> None:
    """Every sequence has at most the cap, and there are as many of them as asked for."""
    total = 100 * sequences if any("tokens" in name for name in body) else UNBOUNDED
    request = capped(asks(api, total=total, sequences=sequences, **body), CAP)
    assert request is not None
    assert request.body[OUTPUT_FIELD[api]] == 20
    assert request.cost.output_tokens == capped_total
    assert request.body.get("n") == body.get("n")


@pytest.mark.parametrize(
    "request_",
    [
        asks(total=20, max_tokens=20),
        asks(total=1, max_tokens=1),
        asks(total=100, max_tokens=100, min_tokens=21),
        asks(min_tokens=21),
        asks(Api.COMPLETIONS, total=48, sequences=3, prompt="x", n=3),
        asks(response_format=JSON),
        asks(response_format={"type": "json_object"}),
        asks(structured_outputs={"regex": "a+"}),
        asks(tools=TOOLS),
        asks(Api.RESPONSES, text={"format": JSON}),
        asks(Api.EMBEDDINGS, input="x"),
    ],
)
def test_what_a_cut_would_break_is_not_capped(request_: InferenceRequest) -> None:
    """Nothing is capped that is short already, has to be longer, or is useless when cut."""
    assert capped(request_, CAP) is None
    assert capped(asks(), Plan()) is None


@given(
    n=st.integers(1, 8),
    each=st.integers(0, 500),
    cap=st.integers(1, 300),
    most=st.integers(0, 1000),
    least=st.integers(0, 50),
)
def test_a_capped_request_is_shorter_and_within_the_plan(n: int, each: int, cap: int, most: int, least: int) -> None:
    """Capping never lengthens, never goes below what must come, and the plan's own bound takes the result."""
    body: dict[str, Any] = {"n": n, "min_tokens": least, **({"max_tokens": each} if each else {})}
    request = asks(total=n * each or UNBOUNDED, sequences=n, **body)
    plan = Plan(degrade_output_tokens=cap, max_output_tokens=most)
    found = capped(request, plan)
    if found is None:
        return
    per_answer = found.body["max_completion_tokens"]
    assert least <= per_answer <= cap  # type: ignore[operator]
    assert per_answer < (each or inf)  # type: ignore[operator]
    assert bounded(found, most) == found


def test_the_smaller_model_may_answer() -> None:
    """One that costs no more, for a request that bound itself to nothing."""
    assert may_move(asks(), BIG, SMALL)
    assert may_move(asks(response_format=JSON), BIG, SMALL), "another model keeps a schema just as well"


@pytest.mark.parametrize(
    ("body", "smaller"),
    [
        ({}, BIG),
        ({}, replace(SMALL, task=Task.EMBED)),
        ({}, replace(SMALL, price=price(2, 1, 1))),
        ({}, replace(SMALL, price=price(1, 2, 1))),
        ({}, replace(SMALL, price=price(1, 1, 2))),
        ({"seed": 0}, SMALL),
        ({"tools": TOOLS}, SMALL),
        ({"prompt": [1, 2]}, replace(SMALL, tokenizer_sha256="1" * 64)),
        ({"prompt": [[1], [2]]}, replace(SMALL, tokenizer_sha256="1" * 64)),
        ({"logit_bias": {"5": 1}}, replace(SMALL, tokenizer_sha256="1" * 64)),
    ],
)
def test_what_another_model_would_break_is_not_moved(body: dict[str, Any], smaller: VersionEntry) -> None:
    """Never dearer in any price, never against a seed, tools, or another reading of token ids."""
    assert not may_move(asks(**body), BIG, smaller)


def test_an_exact_version_is_a_contract() -> None:
    """Who names a version gets that version."""
    assert not may_move(calls.request(model=BIG.id), BIG, SMALL)


@given(st.tuples(*[st.integers(0, 5)] * 6))
def test_no_price_ever_rises(prices: tuple[int, ...]) -> None:
    """Whatever the prices are, no usage costs more than it would have."""
    wished, smaller = replace(BIG, price=price(*prices[:3])), replace(SMALL, price=price(*prices[3:]))
    if may_move(asks(), wished, smaller):
        for prompt, cached, output in ((1, 0, 0), (1, 1, 0), (0, 0, 1)):
            many = {"prompt": prompt * 10**6, "cached": cached * 10**6, "output": output * 10**6}
            assert smaller.price.of(**many) <= wished.price.of(**many)


def test_pressure_has_two_lines() -> None:
    """It begins at one wait, ends below half of it, and only after some calm seconds."""
    pressure = Pressure(PressureSettings(enter_s=1.0, calm_s=5.0))
    rises = [pressure.look(wait_s, now) for wait_s, now in ((0.9, 0.0), (1.0, 1.0), (0.6, 2.0))]
    assert rises == [False, True, True]
    falls = [pressure.look(wait_s, now) for wait_s, now in ((0.4, 3.0), (0.6, 7.0), (0.4, 8.0), (0.4, 12.9))]
    assert falls == [True] * 4
    assert not pressure.look(0.4, 13.0)
    assert not pressure.look(0.9, 14.0)


class Room:
    """A degrader over versions whose waits the test sets."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waits = {BIG.id: 0.0, SMALL.id: 0.0}
        self.told: dict[VersionId, bool] = {}
        self.degrader = PressureDegrader(
            crowd=self, clock=self.clock, enter_s={Tier.CHAT: 1.0}, report=lambda name, on: self.told.update({name: on})
        )

    def wait_s(self, version: VersionEntry) -> float:
        return self.waits[version.id]

    def set(self, version: VersionEntry, wait_s: float) -> None:
        self.waits[version.id] = wait_s
        self.degrader.look([BIG, SMALL])


BOTH = Plan(degrade_output_tokens=20, degrade_model=Alias("small"))


def call(plan: Plan = BOTH) -> Admitted:
    return calls.call(plan=plan, version=BIG)


def test_without_pressure_nobody_is_degraded() -> None:
    """An opted-in request passes untouched while there is room."""
    room = Room()
    room.set(BIG, 0.5)
    assert room.degrader.capped(call()) is None
    assert room.degrader.smaller(call(), refused=False) is None
    assert not room.told[BIG.id]


def test_under_pressure_only_who_opted_in_is() -> None:
    """The plan says what; others keep their place, and their refusals."""
    room = Room()
    room.set(BIG, 1.5)
    assert room.told[BIG.id]
    assert room.degrader.capped(call()) is not None
    assert room.degrader.capped(call(Plan(degrade_model=Alias("small")))) is None
    smaller = room.degrader.smaller(call(), refused=False)
    assert smaller is not None
    assert smaller.model == "small"
    assert room.degrader.capped(call(Plan())) is None
    assert room.degrader.smaller(call(Plan()), refused=True) is None


def test_where_nobody_serves_the_smaller_model_does_at_once() -> None:
    """No look is waited for where the wished version can't take a request at all, or has refused this one."""
    room = Room()
    assert room.degrader.smaller(call(), refused=True) is not None
    room.waits[BIG.id] = inf
    assert room.degrader.smaller(call(), refused=False) is not None


def test_the_smaller_model_must_have_room() -> None:
    """A rush is not passed on to a model that is under pressure itself, or gone."""
    room = Room()
    room.set(BIG, 2.0)
    assert room.degrader.fits(call(), SMALL)
    room.waits[SMALL.id] = inf
    assert not room.degrader.fits(call(), SMALL)
    room.set(SMALL, 1.5)
    assert not room.degrader.fits(call(), SMALL)


def test_nobody_is_moved_twice() -> None:
    """A refusal by the smaller model is the last word."""
    moved = call()
    moved = replace(moved, degraded=(Degradation.SMALLER_MODEL,))
    assert Room().degrader.smaller(moved, refused=True) is None


def test_versions_that_left_are_under_no_pressure() -> None:
    """What was told of them ends with them."""
    room = Room()
    room.set(BIG, 2.0)
    room.degrader.look([SMALL])
    assert not room.told[BIG.id]
    assert room.degrader.capped(call()) is None


def test_a_version_that_is_scaled_to_0_is_under_no_pressure() -> None:
    """It was shown as pressed for want of workers that are not wanted."""
    room = Room()
    room.set(BIG, 0.1)
    room.set(BIG, inf)
    assert room.told[BIG.id]
    room.degrader.look([replace(BIG, workers=(), is_unwanted=True)])
    assert not room.told[BIG.id]


def test_a_version_that_has_not_served_yet_is_under_no_pressure() -> None:
    """The alert was pending for each new version until its first worker was ready, without a request."""
    room = Room()
    room.set(BIG, inf)
    assert not room.told.get(BIG.id)
    room.set(BIG, 0.1)
    room.set(BIG, 9.0)
    assert room.told[BIG.id]
