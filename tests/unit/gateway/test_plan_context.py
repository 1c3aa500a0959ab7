"""A plan's context: refused at the edge and by the count, clamped at admission, shown in the list of models."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from penstock.domain.errors import ContextTooLong, InvalidField
from penstock.domain.fleet.table import Route, RoutingTable, Share
from penstock.domain.ids import Alias, TenantId
from penstock.domain.serving.request import Api, Prepared
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.keys import Purpose, derive, mint
from penstock.domain.tenancy.tenant import KeyRing, Org, Plan, ScopeKind, Tenant
from penstock.gateway.admission.controller import within_context
from penstock.gateway.app.routes import visible
from penstock.gateway.calls.call import Chosen
from penstock.gateway.identity.keyring import Keyring
from penstock.gateway.openai.bounds import of_table
from penstock.gateway.openai.parse import parse
from penstock.gateway.preprocess.offload import refusal, result
from tests.support.models import tokenizers
from tests.support.models.prompt_counter import Counter, counter_of
from tests.support.samples.calls import VERSION, arrived, principal, request

BOUND = 64
WHO = principal(plan=Plan(max_context_tokens=BOUND), context_of=ScopeKind.KEY)
IDS = list(range(50))
TABLE = RoutingTable(
    number=1,
    made_at=1.0,
    versions=(VERSION,),
    routes=(Route(alias=Alias("toy"), shares=(Share(version=VERSION.id, weight=10000),)),),
)


@pytest.fixture(scope="module")
def counter() -> Iterator[Counter]:
    made = counter_of(tokenizers.small())
    yield made
    made.preprocessor.close()


async def counted(counter: Counter, api: Api, body: dict[str, Any], **cost: Any) -> Prepared:  # noqa: ANN401  any field
    asked = request(api=api, body=body, cost=Cost(**cost))
    return await counter.preprocessor.prepare(asked, counter.version, WHO)


async def test_prompt_and_answer_fit_into_the_plans_context(counter: Counter) -> None:
    """One token more is a 400 that names the scope, the bound and the rest."""
    assert (await counted(counter, Api.COMPLETIONS, {"prompt": IDS, "max_tokens": 14})).prompt_tokens == 50
    with pytest.raises(ContextTooLong, match=r"50 tokens .*15 more; this key's plan allows 64 tokens: .*14") as caught:
        await counted(counter, Api.COMPLETIONS, {"prompt": IDS, "max_tokens": 15})
    assert caught.value.reason == "key_context"


async def test_several_prompts_name_their_output(counter: Counter) -> None:
    """Each has the context for itself; without a bound nobody could say what is left to each."""
    body = {"prompt": [IDS, IDS]}
    assert (await counted(counter, Api.COMPLETIONS, body, prompts=2, sequences=2, output_tokens=28)).prompt_tokens
    with pytest.raises(ContextTooLong):
        await counted(counter, Api.COMPLETIONS, body, prompts=2, sequences=2, output_tokens=30)
    with pytest.raises(InvalidField, match="give max_tokens"):
        await counted(counter, Api.COMPLETIONS, body, prompts=2, sequences=2)


async def test_a_prompt_that_the_engine_counts_is_held_by_its_bound(counter: Counter) -> None:
    """Nothing unknown passes a plan: an image may have the model's whole context."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with pytest.raises(ContextTooLong, match="counted by the engine alone"):
        await counted(counter, Api.CHAT, {"messages": [{"role": "user", "content": [image]}]})


@pytest.mark.parametrize(
    ("cost", "left"),
    [(Cost(), 59), (Cost(output_tokens=20), 20), (Cost(sequences=2), 59), (Cost(output_tokens=90), 59)],
)
def test_an_answer_gets_what_the_context_leaves(cost: Cost, left: int) -> None:
    """The engine is told: it would go on to the end of the model's context."""
    came = replace(arrived(cost=cost), principal=WHO)
    chosen: Chosen = came.chosen(VERSION, Prepared(prompt_tokens=5))
    bounded = within_context(chosen.request, chosen)
    assert bounded.cost.output_each == left
    assert bounded.body.get("max_completion_tokens") == (None if cost.output_tokens == left else left)


def test_the_edge_refuses_what_no_context_holds() -> None:
    """Before any version is chosen, and with the plan's name."""
    raw = msgspec.json.encode({"model": "toy", "prompt": list(range(BOUND + 1))})
    with pytest.raises(ContextTooLong, match="the context of this key's plan has 64"):
        parse(Api.COMPLETIONS, raw, of_table(TABLE, WHO))
    assert of_table(TABLE, principal()).context_tokens == VERSION.max_model_len


def test_a_child_process_keeps_the_reason() -> None:
    """A large prompt is refused in the same words as a small one."""
    with pytest.raises(ContextTooLong) as caught:
        result(refusal(ContextTooLong("too long", reason="org_context")))
    assert caught.value.reason == "org_context"


def test_models_show_the_smaller_context() -> None:
    """A client that sizes its prompts by the list is never refused for their length."""
    assert {card["max_model_len"] for card in visible(TABLE, WHO).values()} == {BOUND}
    wide = principal(plan=Plan(max_context_tokens=VERSION.max_model_len + 1))
    assert {card["max_model_len"] for card in visible(TABLE, wide).values()} == {VERSION.max_model_len}


@pytest.mark.parametrize(
    ("bounds", "least", "whose"),
    [
        ((0, 0, 0), 0, ScopeKind.KEY),
        ((9, 8, 7), 7, ScopeKind.ORG),
        ((9, 7, 0), 7, ScopeKind.TENANT),
        ((5, 7, 6), 5, ScopeKind.KEY),
    ],
)
def test_the_tightest_scope_is_named(bounds: tuple[int, int, int], least: int, whose: ScopeKind) -> None:
    """Key, tenant and organisation may each bound the context; the error tells whose bound it is."""
    key, tenant, org = (Plan(max_context_tokens=most) for most in bounds)
    pepper = derive(b"k" * 32, Purpose.PEPPER)
    owner = Tenant(id=TenantId("acme"), name="", plan=tenant)
    secret, stored = mint(owner.id, pepper=pepper, now=0.0)
    keys = Keyring(peppers=(pepper,), salt_key=b"s", now=lambda: 0.0)
    group = Org(id=owner.org, name="", plan=org)
    keys.replace(KeyRing(keys=(replace(stored, plan=key),), tenants=(owner,), orgs=(group,)))
    who = keys.authenticate(secret)
    assert (who.plan.max_context_tokens, who.context_of) == (least, whose)
