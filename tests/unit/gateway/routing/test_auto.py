"""Rules of auto aliases, pure: which of them fits what is asked, and what is told where none does."""

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.domain.errors import BadRequest, ContextTooLong, InvalidField, NoRuleFits, TooDear, UnsupportedByModel
from penstock.domain.ids import Alias
from penstock.domain.money import MicroUsd
from penstock.domain.serving.auto import Auto, Caller, Rule
from penstock.domain.serving.request import Api, Sealed
from penstock.domain.tenancy.tenant import Plan, Priority
from penstock.gateway.routing.asked import asked
from penstock.gateway.routing.auto import Misfit, first_of, misfit, nothing_fits, of_error, unable
from tests.support.samples.calls import VERSION, principal, request

RULE = Rule(name="rule", to=Alias("toy"))
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
HI = {"role": "user", "content": "hi"}
CALLED = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "x"}
PICTURE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}


def seen(body: dict[str, object], api: Api = Api.CHAT) -> tuple[bool, bool, bool, bool]:
    """Return calls, tools, JSON and images as rules see them, the same however large the body is."""
    found = []
    for at in ("plain", "sealed"):
        told = dict(body)
        for name in ("messages", "input") if at == "sealed" else ():
            if isinstance(told.get(name), list):
                told[name] = Sealed(msgspec.json.encode(told[name]), items=1, is_text=False)
        asks = asked(request(api=api, body=told), principal())
        found.append((asks.calls, asks.tools, asks.json, asks.images))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"messages": [HI]}, (False, False, False, False)),
        ({"messages": [HI], "tools": [TOOL]}, (True, True, False, False)),
        ({"messages": [HI], "tools": [TOOL], "tool_choice": "none"}, (False, False, False, False)),
        ({"messages": [HI, CALLED, RESULT]}, (False, True, False, False)),
        ({"messages": [HI, CALLED]}, (False, True, False, False)),
        ({"messages": [HI], "response_format": SCHEMA}, (False, False, True, False)),
        ({"messages": [HI], "response_format": {"type": "text"}}, (False, False, False, False)),
        ({"messages": [HI, PICTURE, HI]}, (False, False, False, True)),
        ({"messages": [{"role": "user", "content": '"type":"image_url" "role":"tool"'}]}, (False,) * 4),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, "y"]}]}, (False,) * 4),
        ({"messages": "none"}, (False,) * 4),
    ],
)
def test_what_a_chat_asks(body: dict[str, object], what: tuple[bool, ...]) -> None:
    """Tools and images are seen wherever they stand in the conversation, and not in a caller's text."""
    assert seen(body) == what


def test_what_the_other_apis_ask() -> None:
    """Anthropic's blocks and the items of the Responses API are known too; embeddings have no conversation."""
    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]}
    shown = {"type": "image", "source": {}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [shown]}]}
    assert seen({"messages": [HI, use]}, Api.MESSAGES) == (False, True, False, False)
    assert seen({"messages": [HI, result]}, Api.MESSAGES) == (False, True, False, True)
    none = {"messages": [HI], "tools": [{}], "tool_choice": {"type": "none"}}
    assert seen(none, Api.MESSAGES) == (False, False, False, False)
    items = [HI, {"type": "function_call", "name": "f"}, {"type": "function_call_output", "output": "x"}]
    assert seen({"input": items}, Api.RESPONSES) == (False, True, False, False)
    looks = [{"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]}]
    assert seen({"input": looks, "text": {"format": SCHEMA}}, Api.RESPONSES) == (False, False, True, True)
    assert seen({"input": [PICTURE]}, Api.EMBEDDINGS) == (False, False, False, False)


@pytest.mark.parametrize(
    ("rule", "body", "why"),
    [
        (RULE, {}, None),
        (replace(RULE, apis=(Api.RESPONSES,)), {}, Misfit.API),
        (replace(RULE, tools=True), {}, Misfit.WITH_TOOLS),
        (replace(RULE, tools=False), {"tools": [TOOL]}, Misfit.WITHOUT_TOOLS),
        (replace(RULE, tools=False), {"messages": [HI, CALLED, RESULT]}, Misfit.WITHOUT_TOOLS),
        (replace(RULE, tools=True), {"tools": [TOOL]}, None),
        (replace(RULE, json=True), {}, Misfit.WITH_JSON),
        (replace(RULE, json=False), {"response_format": SCHEMA}, Misfit.WITHOUT_JSON),
        (RULE, {"messages": [PICTURE]}, Misfit.IMAGES),
        (replace(RULE, images=True), {"messages": [PICTURE]}, None),
        (replace(RULE, images=True), {}, None),
        (replace(RULE, callers=(Caller.INTERACTIVE,)), {}, Misfit.CALLER),
        (replace(RULE, callers=(Caller.PAID, Caller.FREE)), {}, None),
    ],
)
def test_conditions_of_a_rule(rule: Rule, body: dict[str, object], why: Misfit | None) -> None:
    """Each is looked at by itself; one that is not given holds."""
    asks = asked(request(body={"messages": [HI], **body}), principal())
    assert misfit(rule, asks) is why


@pytest.mark.parametrize(
    ("given_s", "plan_s", "why"),
    [(0.0, 0.0, None), (10.0, 0.0, None), (9.9, 0.0, Misfit.DEADLINE), (60.0, 9.0, Misfit.DEADLINE)],
)
def test_a_model_that_is_slow_has_none_of_the_hurried(given_s: float, plan_s: float, why: Misfit | None) -> None:
    """The shorter one of the caller's deadline and its plan's counts, and silence is time enough."""
    asks = asked(request(deadline_s=given_s), principal(plan=Plan(deadline_s=plan_s)))
    assert misfit(replace(RULE, deadline_s=10.0), asks) is why


def test_callers_are_known_by_their_plan() -> None:
    """What a caller pays and its class, and nothing that it says itself."""
    plans = (Plan(priority=Priority.INTERACTIVE), Plan(), Plan(paid=False), Plan(priority=Priority.BATCH))
    found = [asked(request(body={"priority": "interactive"}), principal(plan=plan)).caller for plan in plans]
    assert found == [Caller.INTERACTIVE, Caller.PAID, Caller.FREE, Caller.BATCH]


def test_a_version_that_was_taught_no_calls_gets_none() -> None:
    """The engine would refuse them; earlier calls of a conversation it can read."""
    calls, had = (
        asked(request(body=body), principal()) for body in ({"tools": [TOOL]}, {"messages": [CALLED, RESULT]})
    )
    assert unable(RULE, VERSION, calls) is Misfit.TOOL_CALLS
    assert unable(RULE, replace(VERSION, tool_parser="hermes"), calls) is None
    assert unable(RULE, VERSION, had) is None


def test_a_rules_price_bounds_the_dearest_token() -> None:
    """A version that became dearer behind an alias is passed over."""
    asks = asked(request(), principal())
    dear = replace(VERSION, price=replace(VERSION.price, output_per_mtok=MicroUsd(9)))
    assert unable(replace(RULE, price=MicroUsd(8)), dear, asks) is Misfit.PRICE
    assert unable(replace(RULE, price=MicroUsd(9)), dear, asks) is None


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (ContextTooLong("long"), Misfit.CONTEXT),
        (TooDear(), Misfit.PRICE),
        (UnsupportedByModel(), Misfit.TASK),
        (InvalidField("no"), Misfit.TEMPLATE),
    ],
)
def test_refusals_of_a_version_are_reasons(error: BadRequest, why: Misfit) -> None:
    """What one model must refuse is no fault of the request while there is another."""
    assert of_error(error) is why


def test_where_nothing_fits_each_rule_says_why() -> None:
    """In our own words; a prompt that is too long for all is that error, and a fault that all name is told as it is."""
    both = nothing_fits(Alias("auto"), [("a", Misfit.PROMPT), ("b", Misfit.TOOL_CALLS)], None)
    assert (type(both), both.param) == (NoRuleFits, "model")
    assert both.message == (
        "no rule of auto fits: a: the prompt is longer than it takes; b: its model was taught no tool calls"
    )
    long = nothing_fits(Alias("auto"), [("a", Misfit.PROMPT), ("b", Misfit.CONTEXT)], ContextTooLong("x"))
    assert type(long) is ContextTooLong
    fault = InvalidField("messages must be a list", param="messages")
    assert nothing_fits(Alias("auto"), [("a", Misfit.TEMPLATE)], fault) is fault
    assert type(nothing_fits(Alias("auto"), [("a", Misfit.TEMPLATE), ("b", Misfit.API)], fault)) is NoRuleFits
    assert "this key may use" in nothing_fits(Alias("auto"), [], None).message


def test_a_conversation_goes_on_where_it_was() -> None:
    """The rule that a caller sends back is where looking begins; one that is no more, or nonsense, is the beginning."""
    auto = Auto(alias=Alias("auto"), rules=tuple(replace(RULE, name=name) for name in "abc"))
    assert [first_of(auto, kept) for kept in ("", "a", "c", "gone")] == [0, 0, 2, 0]


turns = st.lists(st.sampled_from([HI, CALLED, RESULT, PICTURE]), min_size=1, max_size=6)
rules = st.builds(
    Rule, name=st.just("r"), to=st.just(Alias("toy")), tools=st.sampled_from([None, False]), images=st.booleans()
)


@given(turns=turns, more=turns, rule=rules)
def test_what_did_not_fit_does_not_fit_later(turns: list[object], more: list[object], rule: Rule) -> None:
    """A conversation that has gone past a rule for small models does not come back to it while it grows."""
    early, late = (asked(request(body={"messages": said}), principal()) for said in (turns, turns + more))
    if misfit(rule, early) is not None:
        assert misfit(rule, late) is not None
