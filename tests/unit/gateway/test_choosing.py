"""Which version answers, and its prompt: plain names as ever, auto aliases rule by rule, with a real resolver."""

from dataclasses import dataclass, field, replace

import pytest

from penstock.domain.errors import ContextTooLong, InvalidField, NoRuleFits, StoreUnavailable, TooDear, UnknownModel
from penstock.domain.fleet.table import Override, Route, RoutingTable, Share, VersionEntry
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.models.model import Task
from penstock.domain.money import MicroUsd, Price
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import Api, InferenceRequest, Prepared
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import Principal
from penstock.gateway.calls.call import Call, Chosen, Progress, Timings
from penstock.gateway.choosing import NONE, Choosing
from penstock.gateway.routing.current import CurrentTable
from penstock.gateway.routing.resolve import TableResolver, reachable
from tests.support.samples.calls import VERSION, principal, request

CHEAP = Price(prompt_per_mtok=MicroUsd(10), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(20))
DEAR = replace(CHEAP, output_per_mtok=MicroUsd(900))
SMALL = replace(VERSION, id=VersionId("small@000000000000"), digest="0" * 64, max_model_len=100, price=CHEAP)
BIG = replace(
    VERSION, id=VersionId("big@111111111111"), digest="1" * 64, max_model_len=1000, tool_parser="hermes", price=DEAR
)
VECTORS = replace(VERSION, id=VersionId("vectors@222222222222"), digest="2" * 64, task=Task.EMBED)
ROUTES = tuple(
    Route(alias=Alias(alias), shares=(Share(version=version.id, weight=10_000),))
    for alias, version in (("small", SMALL), ("big", BIG), ("vectors", VECTORS))
)
TO_SMALL, TO_BIG = Rule(name="short", to=Alias("small")), Rule(name="rest", to=Alias("big"))
TOOLS = {"model": "auto", "messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "function"}]}


@dataclass
class Counts:
    """The preprocessor's place: every prompt has so many tokens, and some models something against it."""

    tokens: int = 10
    refuses: dict[str, Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    is_counted: bool = True

    async def prepare(self, request: InferenceRequest, version: VersionEntry, principal: Principal) -> Prepared:
        del request, principal
        self.asked.append(version.id.partition("@")[0])
        if version.id in self.refuses:
            raise self.refuses[version.id]
        if self.tokens >= version.max_model_len:
            raise ContextTooLong(f"{self.tokens} are too many")
        return Prepared(prompt_tokens=self.tokens, is_counted=self.is_counted)


class Site:
    """A gateway's choice over one table, and what it was told."""

    def __init__(self, *rules: Rule, counts: Counts | None = None, routes: tuple[Route, ...] = ROUTES) -> None:
        self.table = CurrentTable()
        auto = Auto(alias=Alias("auto"), rules=rules or (TO_SMALL, TO_BIG))
        versions = (SMALL, BIG, VECTORS)
        self.table.swap(RoutingTable(number=1, made_at=0.0, routes=routes, versions=versions, autos=(auto,)), 0.0)
        self.counts, self.told = counts or Counts(), list[tuple[str, str]]()
        self.choosing = Choosing(
            autos=TableResolver(self.table).auto,
            resolver=TableResolver(self.table),
            preprocessor=self.counts,
            count=lambda alias, rule: self.told.append((alias, rule)),
        )

    async def ask(self, who: Principal | None = None, **changes: object) -> Chosen:
        asked = request(**{"model": "auto", **changes})
        call = Call(request=asked, principal=who or principal(), timings=Timings(lambda: 0.0, 0.0))
        return await self.choosing.choose(Progress(call))

    async def chosen(self, who: Principal | None = None, **changes: object) -> str:
        """Return the rule, and check that all is said of its model."""
        call = await self.ask(who, **changes)
        assert call.ruled is not None
        assert call.request.model == call.ruled.to
        assert call.version.id.startswith(call.ruled.to.partition("@")[0])
        return call.ruled.rule


async def test_a_plain_name_is_resolved_and_counted_as_ever() -> None:
    """Nothing is told of rules, and the request stays as it was."""
    site = Site()
    asked = request(model="small")
    came = Call(request=asked, principal=principal(), timings=Timings(lambda: 0.0, 0.0))
    call = await site.choosing.choose(Progress(came))
    assert call.prepared == Prepared(prompt_tokens=10)
    assert (call.version, call.request is asked, call.ruled, site.told) == (SMALL, True, None, [])


@pytest.mark.parametrize(("tokens", "rule"), [(1, "short"), (99, "short"), (100, "rest"), (999, "rest")])
async def test_the_smallest_model_whose_context_holds_the_prompt_answers(tokens: int, rule: str) -> None:
    """By the count of the model's own tokenizer, to the token; nobody but the first that fits is counted for twice."""
    site = Site(counts=Counts(tokens))
    assert await site.chosen() == rule
    assert site.counts.asked == (["small"] if rule == "short" else ["small", "big"])
    assert site.told == [("auto", rule)]


async def test_tools_go_where_they_are_understood() -> None:
    """The small model was taught none, so its engine would refuse; it is not even counted for."""
    site = Site()
    call = await site.ask(body=TOOLS)
    assert (call.version, site.counts.asked) == (BIG, ["big"])
    assert call.ruled is not None
    assert call.ruled.passed == (("short", "its model was taught no tool calls"),)


async def test_a_bound_of_a_rule_is_in_tokens() -> None:
    """A rule may be for shorter prompts than its model could take."""
    rules = (replace(TO_SMALL, prompt_tokens=10), TO_BIG)
    assert await Site(*rules, counts=Counts(10)).chosen() == "short"
    assert await Site(*rules, counts=Counts(11)).chosen() == "rest"


async def test_where_only_the_engine_can_count_the_bound_decides() -> None:
    """An upper bound above a rule's makes the request go on: no rule is ever given more than it takes."""
    rules = (replace(TO_SMALL, prompt_tokens=10), TO_BIG)
    assert await Site(*rules, counts=Counts(11, is_counted=False)).chosen() == "rest"


async def test_what_nobody_but_the_engine_can_count_goes_where_it_is_sure_to_fit() -> None:
    """To the first model that holds its bound and the answer; where none surely does, to the last that may."""
    cost = Cost(output_tokens=50)
    for bound, rule in ((50, "short"), (51, "rest"), (999, "rest")):
        assert await Site(counts=Counts(bound, is_counted=False)).chosen(cost=cost) == rule
    unsure = Counts(99, is_counted=False)
    call = await Site(TO_SMALL, replace(TO_SMALL, name="again"), counts=unsure).ask(cost=cost)
    assert call.ruled is not None
    assert (call.ruled.rule, call.ruled.passed) == ("again", (("short", "only its engine can tell whether it fits"),))
    assert (
        await Site(replace(TO_SMALL, prompt_tokens=10), TO_BIG, counts=Counts(11, is_counted=False)).chosen() == "rest"
    )


async def test_the_same_tokenizer_counts_once() -> None:
    """Rules that what was counted already rules out cost no rendering: sixteen rules, two looks at the prompt."""
    many = [replace(TO_SMALL, name=f"r{n}", prompt_tokens=n + 1) for n in range(15)]
    site = Site(*many, TO_BIG, counts=Counts(50))
    assert await site.chosen() == "rest"
    assert site.counts.asked == ["small", "big"]
    full = Site(*[replace(TO_SMALL, name=f"r{n}") for n in range(15)], TO_BIG, counts=Counts(500))
    assert await full.chosen() == "rest"
    assert full.counts.asked == ["small", "big"]


async def test_a_key_sees_rules_to_its_own_models_alone() -> None:
    """What it may not use is passed over without a word; so is everything for a key without the alias itself."""
    only_big = principal(models=(Alias("auto"), Alias("big")))
    for site in (Site(), Site(replace(TO_SMALL, json=True), TO_BIG)):
        call = await site.ask(only_big)
        assert call.ruled is not None
        assert (call.ruled.rule, call.ruled.passed) == ("rest", ())
    with pytest.raises(NoRuleFits, match="this key may use"):
        await Site().ask(principal(models=(Alias("auto"),)))
    with pytest.raises(UnknownModel):
        await Site().ask(principal(models=(Alias("big"),)))


async def test_a_callers_own_cap_is_kept() -> None:
    """Dearer models are passed over, and refused under their own names."""
    site = Site(TO_BIG, TO_SMALL)
    assert [await site.chosen(price_cap=MicroUsd(cap)) for cap in (0, 900, 899, 20)] == [
        "rest",
        "rest",
        "short",
        "short",
    ]
    with pytest.raises(NoRuleFits, match="dearer than the price cap"):
        await site.ask(price_cap=MicroUsd(19))
    with pytest.raises(TooDear, match=r"\$0\.0009 .* cap is \$0\.000899"):
        await site.ask(model="big", price_cap=MicroUsd(899))


async def test_the_task_is_looked_at_in_any_case() -> None:
    """Vectors come of the model that makes them, chats of those that chat."""
    vectors = Rule(name="vectors", to=Alias("vectors"))
    site = Site(vectors, TO_SMALL)
    assert await site.chosen(api=Api.EMBEDDINGS, body={"input": "x"}) == "vectors"
    assert await site.chosen() == "short"


async def test_where_nothing_fits_the_reasons_are_told_and_kept() -> None:
    """A 400 with a reason for each rule, counted, with a record of it, and no word of the prompt."""
    site = Site(replace(TO_SMALL, json=True), replace(TO_BIG, prompt_tokens=5))
    progress = Progress(Call(request=request(model="auto"), principal=principal(), timings=Timings(lambda: 0.0, 0.0)))
    with pytest.raises(NoRuleFits) as caught:
        await site.choosing.choose(progress)
    call = progress.call
    says = "no rule of auto fits: short: it is for structured answers; rest: the prompt is longer than it takes"
    assert caught.value.message == says
    assert (call.version, site.told) == (None, [("auto", NONE)])
    assert call.ruled is not None
    assert (call.ruled.rule, len(call.ruled.passed)) == ("", 2)


async def test_a_fault_of_the_request_is_told_as_it_is() -> None:
    """Messages that no template takes are the caller's to mend; those that one takes go there."""
    fault = InvalidField("messages must be a list", param="messages")
    with pytest.raises(InvalidField) as caught:
        await Site(counts=Counts(refuses={SMALL.id: fault, BIG.id: fault})).ask()
    assert caught.value is fault
    assert await Site(counts=Counts(refuses={SMALL.id: fault})).chosen() == "rest"


async def test_a_store_that_is_away_is_no_reason_to_go_on() -> None:
    """Who can't be counted for now would be counted for later: the choice must not depend on the moment."""
    with pytest.raises(StoreUnavailable):
        await Site(counts=Counts(refuses={SMALL.id: StoreUnavailable()})).ask()


async def test_a_conversation_only_goes_on() -> None:
    """It keeps its rule while that fits, whatever the others would say, and goes to a later one as it grows."""
    site = Site()
    assert await site.chosen() == "short"
    assert await site.chosen(kept_rule="rest") == "rest"
    site.counts.tokens = 500
    assert await site.chosen(kept_rule="short") == "rest"
    site.counts.tokens = 5_000
    with pytest.raises(ContextTooLong):
        await site.ask(kept_rule="rest")


async def test_shares_and_overrides_of_a_target_are_those_of_direct_callers() -> None:
    """A rollout of what a rule leads to splits its callers as it splits the others."""
    shares = (Share(version=SMALL.id, weight=5_000), Share(version=BIG.id, weight=5_000))
    own = (Override(tenant=TenantId("first"), version=BIG.id),)
    split = Route(alias=Alias("small"), shares=shares, overrides=own)
    site = Site(TO_SMALL, routes=(split, *ROUTES[1:]))
    for n in range(20):
        direct, led = [await site.ask(model=name, session=f"s{n}") for name in ("small", "auto")]
        assert direct.version is led.version
    first = await site.ask(principal(tenant=TenantId("first")))
    assert first.version is BIG


async def test_rates_are_drawn_once_before_anything_is_counted() -> None:
    """However many models are tried."""
    site, drawn = Site(counts=Counts(500)), list[str]()

    async def draw(version: VersionEntry) -> None:
        assert not site.counts.asked
        drawn.append(version.id)

    call = Call(request=request(model="auto"), principal=principal(), timings=Timings(lambda: 0.0, 0.0))
    await site.choosing.choose(Progress(call), draw)
    assert drawn == [SMALL.id]


def test_limits_are_asked_about_all_that_rules_lead_to() -> None:
    """Before a body is read nobody knows which one it will be; a key's scope holds there too."""
    view = Site().table.view
    assert reachable(view, principal(), "auto") == {SMALL.id, BIG.id}
    assert reachable(view, principal(models=(Alias("auto"), Alias("big"))), "auto") == {BIG.id}
    assert reachable(view, principal(models=(Alias("big"),)), "auto") == frozenset()
