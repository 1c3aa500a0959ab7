"""Comparisons between rules: of what, how many, whom they ask, and what is told of them."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from penstock.domain.errors import BadRequest, ContextTooLong, NoCapacity, PenstockError, UnknownModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.ids import Alias, TenantId, VersionId
from penstock.domain.money import MicroUsd, Price
from penstock.domain.outcome import Degradation, Outcome
from penstock.domain.serving.agreement import Counts, Pair
from penstock.domain.serving.auto import Auto, Rule
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.serving.request_record import Ruled
from penstock.domain.serving.shadow import Copy, TokenIds
from penstock.domain.tenancy.tenant import SHADOWS, Plan, Principal
from penstock.domain.tokens import Usage
from penstock.gateway.calls.call import Admitted, Answer, no_ids
from penstock.gateway.calls.inside import Asked
from penstock.gateway.calls.relay import Reply
from penstock.gateway.evidence.counting import Arms
from penstock.gateway.shadow import comparing, unseen
from penstock.gateway.shadow.comparing import Comparing
from penstock.gateway.shadow.unseen import Unseen
from penstock.gateway.streaming.continuation import is_plain
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from tests.support.clock import ManualClock
from tests.support.samples import calls

CHEAP = Price(prompt_per_mtok=MicroUsd(1), cached_per_mtok=MicroUsd(1), output_per_mtok=MicroUsd(2))
BIG = calls.VERSION
SMALL = replace(BIG, id=VersionId("small@ba9876543210"), price=CHEAP)
SHORT = Rule(name="short", to=Alias("small"), prompt_tokens=10)
REST = Rule(name="rest", to=Alias("big"), compare="short", compare_per_s=1.0)
PAIR = Pair(Alias("auto"), "rest", BIG.id, "short", SMALL.id)
IDS = TokenIds(prompt=[1, 2], answer=list(range(10)))
OK = Answer(outcome=Outcome.OK, usage=Usage(prompt_tokens=100, output_tokens=10), ids=lambda: IDS)
JSON = {"model": "auto", "messages": [], "response_format": {"type": "json_object"}}


@dataclass
class House:
    """Comparisons, and a corridor in which the small model differs at some places of what it scores."""

    clock: ManualClock
    rules: tuple[Rule, ...] = (SHORT, REST)
    differs: int = 0
    """At so many of ten tokens."""
    refusal: BadRequest | None = None
    """Why the small model can't be resolved."""
    asleep: bool = False
    fails: Outcome | None = None
    errors: dict[Outcome, PenstockError] = field(
        default_factory=lambda: {
            Outcome.BAD_REQUEST: ContextTooLong("too long"),
            Outcome.NO_CAPACITY: NoCapacity("nobody"),
        }
    )
    busy: PenstockError | None = None
    """The refusal of each score."""
    small: VersionEntry = SMALL
    form: bytes | None = None
    """What the small model's answer is as JSON, or as labels."""
    seen: list[Admitted] = field(default_factory=list)
    told: list[tuple[Pair, Counts]] = field(default_factory=list)
    answered: int = 0
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.metrics = Metrics()
        self.comparing = Comparing(
            autos=lambda alias: Auto(alias=alias, rules=self.rules) if alias == "auto" else None,
            resolve=self.resolve,
            is_awake=lambda _: not self.asleep,
            told=self.tell,
            unseen=Unseen(
                ids=lambda: f"shadow-{len(self.seen)}",
                clock=self.clock,
                apart_s=lambda: 0.0,
                is_plain=is_plain,
                spawn=self.spawn,
                metrics=self.metrics,
            ),
        )

    def tell(self, pair: Pair, tenant: TenantId, counts: Counts) -> None:
        assert tenant in ("acme", "beta", "cut")
        self.answered += counts.answered
        if counts.pairs:
            self.told.append((pair, counts))

    def resolve(self, request: InferenceRequest, principal: Principal) -> VersionEntry:
        assert (request.model, request.price_cap) == ("small", 0)
        assert principal.tenant != SHADOWS
        if self.refusal is not None:
            raise self.refusal
        return self.small

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
        """Answer as the pipeline does."""
        version = BIG if request.model == BIG.id else self.small
        call, is_score = calls.inside(request, principal, copy, version), "prompt_logprobs" in request.body
        self.seen.append(call)
        if error := self.busy if is_score else self.errors.get(self.fails or Outcome.OK):
            return Asked(call=call, answer=Answer.refused(error, Usage()), error=error)
        outcome = self.fails if self.fails is not None and not is_score else Outcome.OK
        answer = Answer(outcome=outcome, usage=Usage(prompt_tokens=50, output_tokens=5))
        if self.comparing.wants_ids(call):
            answer = replace(answer, ids=lambda: TokenIds(prompt=[9], answer=[8]))
        if self.comparing.reads(call):
            answer = replace(answer, form=lambda: self.form)
        body = b""
        if is_score:
            prompt = request.body["prompt"]
            assert isinstance(prompt, list)
            away = self.differs if version is self.small else 0
            tokens = [7] * (len(prompt) - away) + [8] * away
            places = [None, *({str(token): {"rank": 1}} for token in tokens[1:])]
            body = json.dumps({"choices": [{"prompt_logprobs": places}]}).encode()
        return Asked(call=call, answer=answer, body=body)

    async def ended(self, call: Admitted, answer: Answer = OK) -> list[tuple[Pair, Counts]]:
        """Tell of an answer and return what came of it."""
        before = len(self.told)
        self.comparing.ended(call, answer, self.ask)
        await asyncio.gather(*self.tasks)
        self.tasks.clear()
        return self.told[before:]

    def left_out(self, reason: str) -> float:
        return float(self.metrics.counter(names.SHADOW_LEFT_OUT).labels(reason=reason)._value.get())


@pytest.fixture
def house(clock: ManualClock) -> House:
    return House(clock)


def answered(rule: str = "rest", **changes: Any) -> Admitted:  # noqa: ANN401  any field of a request
    """Return a call that this rule of ``auto`` has led to the big model."""
    return replace(calls.call(**changes), ruled=Ruled(Alias("auto"), rule, "big"))


@pytest.mark.parametrize(("differs", "agreed"), [(0, 1), (1, 1), (2, 0), (10, 0)])
async def test_texts_agree_by_what_both_hold_for_likeliest(house: House, differs: int, agreed: int) -> None:
    """At nine tenths of the caller's answer or more, each behind its own prompt; prices as if nothing were cached."""
    house.differs = differs
    ((pair, counts),) = await house.ended(answered())
    assert pair == PAIR
    assert counts == Counts(
        pairs=1, texts=1, texts_agreed=agreed, alike=100 - 10 * differs, paid=110, other_paid=50 * 1 + 5 * 2
    )
    copy, big, small = house.seen
    assert (copy.principal.tenant, copy.request.model) == (SHADOWS, SMALL.id)
    assert [one.request.body["prompt"] for one in (big, small)] == [[1, 2, *IDS.answer], [9, *IDS.answer]]


@pytest.mark.parametrize(
    ("own", "other", "counts"),
    [
        (b'{"a":1}', b'{"a":1}', Counts(pairs=1, forms=1, forms_agreed=1)),
        (b'{"a":1}', b'{"a":2}', Counts(pairs=1, forms=1)),
        (b'{"a":1}', b"", Counts(pairs=1, forms=1)),
        (b'{"a":1}', None, Counts(pairs=1, untold=1)),
    ],
)
async def test_answers_with_a_form_agree_where_that_is_equal(
    house: House, own: bytes, other: bytes | None, counts: Counts
) -> None:
    """Nothing is scored then."""
    house.form = other
    ((_, found),) = await house.ended(answered(body=JSON), replace(OK, form=lambda: own))
    assert found._replace(paid=0, other_paid=0) == counts
    assert len(house.seen) == 1


async def test_json_that_the_caller_did_not_get_is_compared_with_nothing(house: House) -> None:
    """A grammar's answer without its form has neither text nor form to go by."""
    for form in (b"", None):
        told = form
        assert await house.ended(answered(body=JSON), replace(OK, form=lambda told=told: told)) == []  # type: ignore[misc]
    assert house.seen == []


async def test_texts_of_other_tokenizers_are_unknown_and_no_difference(house: House) -> None:
    """What they cost is known all the same."""
    house.small = replace(SMALL, tokenizer_sha256="f" * 64)
    ((_, counts),) = await house.ended(answered())
    assert counts == Counts(pairs=1, untold=1, paid=110, other_paid=60)


@pytest.mark.parametrize(
    ("fails", "counts"),
    [
        (Outcome.BAD_REQUEST, Counts(pairs=1, failed=1)),
        (Outcome.ENGINE_ERROR, Counts(pairs=1, failed=1)),
        (Outcome.NO_CAPACITY, None),
        (Outcome.DEADLINE, None),
        (Outcome.EVICTED, None),
    ],
)
async def test_who_can_not_is_told_and_who_was_shed_is_not(house: House, fails: Outcome, counts: Counts | None) -> None:
    """Copies are the first to be shed: that says nothing of a model."""
    house.fails = fails
    found = await house.ended(answered())
    assert [one for _, one in found] == ([] if counts is None else [counts])


async def test_a_score_that_nobody_has_room_for_leaves_it_unknown(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some tries; not a disagreement."""
    monkeypatch.setattr(unseen, "AGAIN_S", 0.0)
    house.busy = NoCapacity("busy")
    ((_, counts),) = await house.ended(answered())
    assert (counts.pairs, counts.untold, counts.texts) == (1, 1, 0)


async def test_only_what_a_comparing_rule_has_answered_well_is_asked_again(house: House) -> None:
    """Not what others have answered, no lesser answer, no failure, and nothing where both lead to one version."""
    lesser, plain = answered(), calls.call()
    lesser = replace(lesser, degraded=(Degradation.OUTPUT_CAPPED,))
    for call in (answered("short"), answered("gone"), plain, lesser):
        assert await house.ended(call) == []
    assert await house.ended(answered(), Answer(outcome=Outcome.CANCELLED, usage=Usage())) == []
    house.refusal = UnknownModel("none")
    assert await house.ended(answered(), Answer(outcome=Outcome.CANCELLED, usage=Usage())) == []
    assert house.answered == 0
    house.small, house.refusal = BIG, None
    assert await house.ended(answered()) == []
    house.rules = (replace(REST, compare="nobody"),)
    assert await house.ended(answered()) == []
    assert house.seen == []


async def test_tenants_that_say_no_acting_requests_and_other_tenants_models_stay_out(house: House) -> None:
    """As with copies to candidates; and no copy wakes a model."""
    no = answered(plan=Plan(copied=False))
    acting = answered(body={"model": "auto", "messages": [], "tools": [{"type": "function"}]})
    formed = replace(OK, form=lambda: b"{}")
    for call, answer, reason in ((no, OK, "tenant"), (acting, formed, "acting")):
        assert await house.ended(call, answer) == []
        assert house.left_out(reason) == 1
    house.small = replace(SMALL, tenants=(TenantId("beta"),))
    assert await house.ended(answered()) == []
    house.small, house.refusal = SMALL, UnknownModel("none for you")
    assert await house.ended(answered()) == []
    house.refusal, house.asleep = None, True
    assert await house.ended(answered()) == []
    assert (house.left_out("tenant"), house.left_out("unable")) == (2, 2)
    assert house.seen == []


async def test_a_rules_comparisons_have_a_rate(house: House) -> None:
    """What is more is left out, and counted."""
    many = [len(await house.ended(answered())) for _ in range(5)]
    assert many == [1, 0, 0, 0, 0]
    assert (house.left_out("caps"), house.answered) == (4, 5)
    house.clock.advance(1.0)
    assert len(await house.ended(answered())) == 1


async def test_nothing_is_remembered_of_what_is_over(house: House) -> None:
    """Neither of a copy nor of a score, whatever became of them."""
    for fails in (None, Outcome.BAD_REQUEST, Outcome.NO_CAPACITY):
        house.fails = fails
        house.clock.advance(1.0)
        await house.ended(answered())
    assert [one._running for one in house.comparing._taken.values()] == [set()]


async def test_a_copy_leaves_no_cached_prompt_that_its_caller_could_find(house: House) -> None:
    """Whoever may name the other model would see by its cache what was asked of it; and it does not run for ever."""
    await house.ended(answered())
    assert {one.principal.cache_salt for one in house.seen} == {"salt-compared"}
    assert house.seen[0].request.deadline_s == comparing.COPY_S


async def test_a_request_that_stands_for_many_is_left_out(house: House) -> None:
    """By its tokens, prompt and answer together."""
    usage = Usage(prompt_tokens=comparing.MOST_TOKENS, output_tokens=1)
    assert await house.ended(answered(), Answer(outcome=Outcome.OK, usage=usage)) == []
    assert house.left_out("large") == 1


async def test_who_can_not_be_compared_keeps_nobody_from_a_turn(house: House) -> None:
    """Neither who is cut off before its JSON is whole, nor who leaves, nor who says no, however often they come."""
    cut, quiet, leaving = answered(body=JSON), answered(), answered()
    broken = replace(OK, form=lambda: b"", ids=no_ids)
    cut = replace(cut, principal=calls.principal(tenant=TenantId("cut")))
    leaving = replace(leaving, principal=calls.principal(tenant=TenantId("leaving")))
    found = 0
    for _ in range(20):
        house.clock.advance(1.0)
        for _ in range(5):
            await house.ended(cut, broken)
            house.comparing.wants_ids(leaving)
            await house.ended(leaving, Answer(outcome=Outcome.CANCELLED, usage=Usage()))
        found += len(await house.ended(quiet))
    assert found >= 15


async def test_ids_are_asked_for_only_where_an_answer_may_be_scored(house: House) -> None:
    """Of each plain, short text of a comparing rule; of a copy where its tokenizer is the same."""
    wants = house.comparing.wants_ids
    assert wants(answered())
    assert not wants(answered("short"))
    assert not wants(calls.call())
    assert not wants(answered(body=JSON))
    await house.ended(answered())
    copy, score, _ = house.seen
    assert wants(copy)
    assert not wants(score)
    assert house.comparing.reads(copy)
    assert not house.comparing.reads(calls.call())


async def test_no_judge_counts_a_comparison(house: House) -> None:
    """It is told by pair, beside the arms; seconds without any tell nothing."""
    arms = Arms(house.clock, "g", "l", sticky=lambda *_: "u", shared=lambda _: None, is_alias=lambda _: False)
    await house.ended(answered())
    copy = house.seen[0]
    arms.ended(copy, OK)
    assert not arms.judges(copy)
    assert arms.take() is None
    for _ in range(2):
        arms.compared(house.told[0][0], TenantId("acme"), house.told[0][1])
    second = arms.take()
    assert second is not None
    assert (second.arms, [(one.pair, one.counts.pairs) for one in second.agreements]) == ((), [(PAIR, 2)])
    assert arms.take() is None
