"""Shadow copies: whose, of what, how many, and what their candidate is asked."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.domain.errors import NoCapacity
from penstock.domain.fleet.table import WEIGHT_TOTAL, Route, Share, VersionEntry
from penstock.domain.ids import Alias, RequestId, TenantId, VersionId
from penstock.domain.outcome import Degradation, Outcome
from penstock.domain.serving.request import InferenceRequest, Prepared
from penstock.domain.serving.shadow import Copy, Shadow, ShadowCaps, TokenIds
from penstock.domain.tenancy.tenant import SHADOWS, Plan, Principal
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.inside import Asked
from penstock.gateway.calls.relay import Reply
from penstock.gateway.routing.resolve import sticky_key
from penstock.gateway.shadow import unseen
from penstock.gateway.shadow.shadows import Shadows
from penstock.gateway.shadow.unseen import Unseen
from penstock.gateway.streaming.continuation import is_plain
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples import calls

OLD, NEW = calls.VERSION, replace(calls.VERSION, id=VersionId("toy@ba9876543210"))
OK = Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=10, output_tokens=5))
IDS = TokenIds(prompt=[1, 2], answer=[3, 4, 5, 6])
TOLD = replace(OK, ids=lambda: IDS)
"""An answer whose engine told its tokens."""
OWN = TokenIds(prompt=[9], answer=[8, 8])
"""The candidate renders the same request otherwise, and answers otherwise."""


@dataclass
class House:
    """Copies, and a corridor that notes what it is asked."""

    clock: ManualClock
    shadow: Shadow | None = field(default_factory=lambda: Shadow(version=NEW.id, scores=True))
    runs: dict[VersionId, float] = field(default_factory=dict)
    seen: list[Admitted] = field(default_factory=list)
    differed: list[tuple[str, str, float]] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    fails: bool = False
    own: TokenIds | None = field(default_factory=lambda: OWN)
    """What the candidate's engine tells of a copy's tokens, where it is asked for them."""
    made: int = 0
    busy: int = 0
    """How often the incumbent has no room for a score."""

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.shadows = Shadows(
            routes=self,
            sticky=sticky_key,
            differed=lambda alias, version, ratio: self.differed.append((alias, version, ratio)),
            unseen=Unseen(
                ids=self.new_id,
                clock=self.clock,
                apart_s=lambda: 0.0,
                is_plain=is_plain,
                spawn=self.spawn,
                metrics=self.metrics,
            ),
        )

    def new_id(self) -> str:
        self.made += 1
        return f"shadow-{self.made - 1}"

    def route(self, name: str) -> Route | None:
        shares = (Share(version=OLD.id, weight=WEIGHT_TOTAL), Share(version=NEW.id, weight=0))
        return Route(alias=Alias("toy"), shares=shares, shadow=self.shadow) if name == "toy" else None

    def version(self, version: VersionId) -> VersionEntry | None:
        return {OLD.id: OLD, NEW.id: NEW}.get(version)

    def running(self, version: VersionId) -> float:
        return self.runs.get(version, 0.0)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def ask(
        self,
        request: InferenceRequest,
        principal: Principal,
        *,
        copy: Copy | None = None,
        reply: Reply | None = None,
    ) -> Asked:
        """Answer: a score says 7 everywhere, the candidate's 8 at each second place."""
        call = calls.inside(request, principal, copy)
        self.seen.append(call)
        is_busy = self.busy > 0 and request.model == OLD.id
        self.busy -= is_busy
        if self.fails or is_busy:
            error = NoCapacity("busy")
            return Asked(call=call, answer=Answer.refused(error, Usage()), error=error)
        answer = replace(OK, ids=lambda: self.own) if self.shadows.wants_ids(call) else OK
        body = b""
        if "prompt_logprobs" in request.body:
            prompt = request.body["prompt"]
            assert isinstance(prompt, list)
            tokens = [7 if request.model == OLD.id or at % 2 else 8 for at in range(len(prompt))]
            places = [None, *({str(token): {"rank": 1}} for token in tokens[1:])]
            body = json.dumps({"choices": [{"prompt_logprobs": places}]}).encode()
        return Asked(call=call, answer=answer, body=body)

    async def ended(self, call: Admitted, answer: Answer = OK) -> list[Admitted]:
        """Tell of an answer and return what was asked for it."""
        before = len(self.seen)
        self.shadows.ended(call, answer, self.ask)
        await asyncio.gather(*self.tasks)
        self.tasks.clear()
        return self.seen[before:]

    def left_out(self) -> dict[str, float]:
        counter = self.metrics.counter(names.SHADOW_LEFT_OUT)
        reasons = ("acting", "large", "tenant", "caps", "filled")
        found = {one: counter.labels(reason=one)._value.get() for one in reasons}
        return {reason: many for reason, many in found.items() if many}


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


async def test_a_copy_is_the_same_body_as_the_platforms_own_request(house: House) -> None:
    """To a pinned version, with the caller's salt, and without its key, session, idempotency and trace."""
    call = calls.call(session="s", idempotency_key="k", traceparent="t", caller_trace="c", deadline_s=1.0, stream=True)
    (copy,) = await house.ended(call)
    asked = copy.request
    assert (asked.body, asked.api, asked.stream) == (call.request.body, call.request.api, True)
    assert (asked.model, asked.id) == (NEW.id, "shadow-0")
    assert (asked.session, asked.idempotency_key, asked.traceparent, asked.caller_trace, asked.deadline_s) == (
        ("",) * 4 + (0.0,)
    )
    who = copy.principal
    assert (who.tenant, who.plan, who.scopes, who.cache_salt) == (SHADOWS, Plan(), (), "salt")
    sticky = sticky_key(call.request, call.principal)
    assert copy.copy == Copy(of=RequestId("req-1"), alias=Alias("toy"), tenant=TenantId("acme"), sticky=sticky, paid=15)


async def test_a_copy_is_under_its_callers_packs(house: House) -> None:
    """Filters end the candidate's answer as they would the incumbent's, so that both are compared alike."""
    copies = await house.ended(calls.call(plan=Plan(safety="secrets,own", max_concurrent=1)), TOLD)
    assert {copy.principal.plan for copy in copies} == {Plan(safety="secrets,own")}


async def test_a_candidate_of_other_tenants_is_sent_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a tenant asks goes to no version that it may not have itself, unseen or not."""
    for tenant, copies in (("beta", 0), ("acme", 1)):
        monkeypatch.setattr(f"{__name__}.NEW", replace(NEW, tenants=(TenantId(tenant),)))
        evidence = [one for one in await house.ended(calls.call()) if one.copy and one.copy.is_evidence]
        assert len(evidence) == copies
    assert house.left_out() == {"tenant": 1}


async def test_a_copy_knows_what_its_original_cost_as_if_nothing_had_been_cached(house: House) -> None:
    """Where the engine's own count never came, nobody knows."""
    (copy,) = await house.ended(calls.call(), replace(OK, usage=replace(OK.usage, cached_tokens=8)))
    assert (copy.copy and copy.copy.paid) == 15
    (copy,) = await house.ended(calls.call(), replace(OK, usage=replace(OK.usage, exact=False)))
    assert (copy.copy and copy.copy.paid) is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"plan": Plan(copied=False)}, "tenant"),
        ({"body": {"messages": [], "tools": [{"type": "function"}]}}, "acting"),
        ({"body": {"messages": [], "functions": [{}]}}, "acting"),
        ({"body": {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}}, "acting"),
        ({"body": {"messages": [{"role": "tool", "content": "done"}]}}, "acting"),
        ({"body": {"input": [{"type": "function_call_output", "output": "done"}]}}, "acting"),
        ({"cost": replace(calls.request().cost, body_bytes=1 << 21)}, "large"),
    ],
)
async def test_some_are_never_copied(house: House, changes: dict[str, Any], reason: str) -> None:
    """Those of tenants that say no, those that may lead to acts, and large ones; each is counted by its reason."""
    assert await house.ended(calls.call(**changes)) == []
    assert house.left_out() == {reason: 1}


async def test_who_stays_out_of_a_rollout_is_not_copied(house: House) -> None:
    """By the rollout's own list."""
    house.shadow = Shadow(version=NEW.id, out=(TenantId("acme"),))
    assert await house.ended(calls.call()) == []
    assert house.left_out() == {"tenant": 1}


async def test_what_is_no_answer_of_the_incumbents_is_nothing_to_copy(house: House) -> None:
    """Failed, lesser and fallen back ones, the candidate's own, copies, other aliases, and routes without a shadow."""
    degraded, fallen, own, copy = (calls.call() for _ in range(4))
    degraded = replace(degraded, degraded=(Degradation.OUTPUT_CAPPED,))
    fallen = replace(fallen, fell_back_from=NEW.id)
    own = replace(own, version=NEW)
    copy = replace(copy, copy=Copy(of=RequestId("r"), alias=Alias("toy"), tenant=TenantId("t"), sticky="t"))
    for call in (degraded, fallen, own, copy, calls.call(model=OLD.id)):
        assert await house.ended(call) == []
    assert await house.ended(calls.call(), Answer(outcome=Outcome.CANCELLED, usage=Usage())) == []
    house.shadow = None
    assert await house.ended(calls.call()) == []
    assert house.left_out() == {}


async def test_the_candidate_is_filled_up_to_the_incumbents_load_and_no_further(house: House) -> None:
    """Where it is the busier one, nothing is copied: both are to be compared at the same load."""
    house.runs = {OLD.id: 3.0, NEW.id: 3.5}
    assert await house.ended(calls.call()) == []
    house.runs = {OLD.id: 3.0, NEW.id: 3.0}
    assert len(await house.ended(calls.call())) == 1
    assert house.left_out() == {"filled": 1}


@pytest.mark.parametrize(("less", "copies"), [(1.9, 1), (2.0, 2), (3.5, 3), (50.0, 3)])
async def test_ballast_is_work_and_no_evidence(house: House, less: float, copies: int) -> None:
    """Where the incumbent is much busier, a request is copied again, under a salt of its own, and scored once."""
    house.runs = {OLD.id: less + 1.0, NEW.id: 1.0}
    call = calls.call()
    asked = [one for one in await house.ended(call, TOLD) if "prompt_logprobs" not in one.request.body]
    assert [one.copy is not None and one.copy.is_evidence for one in asked] == [True, *[False] * (copies - 1)]
    assert len({one.principal.cache_salt for one in asked}) == copies
    assert asked[0].principal.cache_salt == "salt"
    assert len(house.differed) == 1


async def test_copies_that_are_about_to_come_fill_the_candidate_too(house: House) -> None:
    """Four answers that end in one step of the engine: what is lacking is sent once, not each time."""
    house.runs = {OLD.id: 3.0, NEW.id: 0.0}
    for _ in range(4):
        house.shadows.ended(calls.call(), OK, house.ask)
    await asyncio.gather(*house.tasks)
    assert len([one for one in house.seen if one.copy is not None]) == 4
    assert house.left_out() == {"filled": 2}
    house.tasks.clear()
    house.clock.advance(60.0)
    assert len(await house.ended(calls.call())) == 3


async def test_caps_hold_and_give_back_what_ended(house: House) -> None:
    """Also where the copy was refused: nothing leaks, and nobody hears of it."""
    house.shadow, house.fails = Shadow(version=NEW.id, caps=ShadowCaps(per_s=2.0, at_once=1)), True
    for _ in range(5):
        await house.ended(calls.call())
    assert (len(house.seen), house.left_out()) == (2, {"caps": 3})
    house.clock.advance(1.0)
    assert len(await house.ended(calls.call())) == 1


async def test_both_versions_score_the_answer_and_the_difference_is_told(house: House) -> None:
    """The incumbent's own answer, behind each one's own prompt; the part of places that they hold different."""
    call = calls.call()
    asked = await house.ended(call, TOLD)
    assert [one.request.model for one in asked] == [NEW.id, OLD.id, NEW.id]  # its copy, and the scores
    assert [one.request.body["prompt"] for one in asked[1:]] == [[1, 2, 3, 4, 5, 6], [9, 3, 4, 5, 6]]
    for score in asked[1:]:
        assert (score.copy is not None and score.copy.is_evidence, score.request.cost.scores_prompt) == (False, True)
    assert house.differed == [("toy", NEW.id, 0.5)]


async def test_where_the_candidate_does_not_tell_its_prompt_nothing_is_scored(house: House) -> None:
    """On the incumbent's prompt its own template would not be seen; and who told no tokens asks for none."""
    house.own = None
    assert [one.request.model for one in await house.ended(calls.call(), TOLD)] == [NEW.id]
    (copy,) = await house.ended(calls.call())
    assert copy.copy is not None
    assert not copy.copy.is_scored
    assert house.differed == []


async def test_a_busy_version_is_asked_for_its_score_again(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers go first at the incumbent, so that its refusals are no news; the candidate computes nothing meanwhile."""
    monkeypatch.setattr(unseen, "AGAIN_S", 0.0)
    house.busy = 3
    call = calls.call()
    asked = await house.ended(call, TOLD)
    assert [one.request.model for one in asked] == [NEW.id, *[OLD.id] * 4, NEW.id]
    assert len(house.differed) == 1
    house.busy = 100
    house.clock.advance(5.0)
    assert [one.request.model for one in await house.ended(call, TOLD)] == [NEW.id, *[OLD.id] * unseen.TRIES]
    assert len(house.differed) == 1


async def test_no_more_is_scored_than_its_cap_allows(house: House) -> None:
    """A score costs both versions a prompt; without scores, none is asked for."""
    call = calls.call()
    for _ in range(3):
        await house.ended(call, TOLD)
    assert len(house.differed) == 1
    house.clock.advance(2.0)
    house.shadow = Shadow(version=NEW.id, scores=False)
    await house.ended(call, TOLD)
    assert len(house.differed) == 1


def test_tokens_are_asked_for_only_where_they_will_be_scored(house: House) -> None:
    """Of whole answers of one choice, to short prompts, while the cap has room."""
    assert house.shadows.wants_ids(calls.call())
    assert not house.shadows.wants_ids(calls.call(body={"messages": [], "n": 2}))
    assert not house.shadows.wants_ids(calls.call(model=OLD.id))
    long = replace(calls.call(), prepared=Prepared(prompt_tokens=100_000))
    assert not house.shadows.wants_ids(long)
    house.shadow = None
    assert not house.shadows.wants_ids(calls.call())


async def test_an_adapters_copies_run_beside_their_originals(house: House) -> None:
    """On the same workers nobody is busier: copies that come together all go, each once, and its own name is scored."""
    beside = replace(NEW, base=OLD.id)
    house.version = {OLD.id: OLD, NEW.id: beside}.get  # type: ignore[method-assign,assignment]
    house.runs = {OLD.id: 9.0, NEW.id: 0.0}
    call = calls.call()
    house.shadows.ended(call, TOLD, house.ask)
    asked = await house.ended(call, TOLD)
    assert [one.request.model for one in asked if one.request.cost.scores_prompt] == [OLD.id, NEW.id]
    assert [one.request.model for one in asked if not one.request.cost.scores_prompt] == [NEW.id, NEW.id]
    house.runs = {}
    house.shadows.ended(call, TOLD, house.ask)
    await house.ended(call, TOLD)
    assert "filled" not in house.left_out()
