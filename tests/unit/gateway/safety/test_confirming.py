"""A model confirms what rules suspect in a prompt; away, late or wrong it decides as the rule says."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
import pytest

from penstock.domain.errors import NoCapacity, PenstockError
from penstock.domain.outcome import Outcome
from penstock.domain.serving.request import InferenceRequest
from penstock.domain.tenancy.tenant import JUDGES, Principal
from penstock.domain.tokens import UNKNOWN
from penstock.filters.confirming import MOST_ASKED, sentence
from penstock.filters.errors import PromptFiltered
from penstock.filters.pack import Action, AtBound, Confirm, Pack, Rule, Where, strictest
from penstock.gateway.calls.call import Answer, Call, Timings
from penstock.gateway.calls.inside import Asked
from penstock.gateway.safety.confirming import Confirmation, Confirming
from penstock.gateway.safety.stage import ScreenedRequests
from tests.support.clock import ManualClock
from tests.support.gateways.dispatch import FakeReply
from tests.support.samples.calls import call

CONFIRM = Confirm(model="encoder", like=("I will kill you",), threshold=0.8, seconds=0.05)
RULE = Rule(
    name="threat",
    action=Action.BLOCK,
    category="abuse",
    phrases=("kill",),
    stages=frozenset({Where.INPUT}),
    confirm=CONFIRM,
)
Vectors = Callable[[list[str]], list[list[float]]]


def likeness(texts: list[str]) -> list[list[float]]:
    """Return vectors that are alike if both texts speak of somebody."""
    return [[1.0, 0.0] if "you" in text else [0.0, 2.0] for text in texts]


class House:
    """The stage with one rule, a model that answers with these vectors, and what was told."""

    def __init__(self, rule: Rule = RULE, vectors: Vectors = likeness, error: PenstockError | None = None) -> None:
        self.asked, self.rules = list[tuple[InferenceRequest, Principal]](), list[str]()
        self.verdicts = list[Confirmation]()
        self._vectors, self._error, self.is_stuck = vectors, error, False
        policy = strictest([Pack(id="own", version=1, rules=(rule,))])
        confirming = Confirming(
            ask=self._ask,
            ids=lambda: "judge-1",
            clock=ManualClock(),
            tell=lambda verdict, _: self.verdicts.append(verdict),
            spawn=asyncio.ensure_future,
        )
        self._stage = ScreenedRequests(
            lambda _: policy, lambda _, match: self.rules.append(match.applied.rule.name), confirming
        )

    async def _ask(self, request: InferenceRequest, who: Principal) -> Asked:
        self.asked.append((request, who))
        if self.is_stuck:
            await asyncio.sleep(60)
        texts = msgspec.convert(request.body["input"], list[str])
        rows = [{"index": at, "embedding": vector} for at, vector in enumerate(self._vectors(texts))]
        call = Call(request=request, principal=who, timings=Timings(lambda: 0.0, 0.0))
        body = msgspec.json.encode({"data": rows[::-1]})
        return Asked(call=call, answer=Answer(outcome=Outcome.OK, usage=UNKNOWN), body=body, error=self._error)

    async def passes(self, text: str) -> bool:
        try:
            await self._stage.screen(call(body={"messages": [{"role": "user", "content": text}]}), FakeReply())
        except PromptFiltered:
            return False
        return True


async def test_a_confirmed_suspicion_is_a_match() -> None:
    """The model is asked about the match's sentence alone, as the platform itself, and the prompt is refused."""
    house = House()
    assert not await house.passes("Hello there. I am going to kill you! Bye.")
    ((request, who),) = house.asked
    assert request.body["input"] == ["I will kill you", "I am going to kill you!"]
    assert (request.model, who.tenant, request.deadline_s) == ("encoder", JUDGES, 0.05)
    assert (house.verdicts, house.rules) == ([Confirmation.CONFIRMED], ["threat"])


async def test_a_cleared_suspicion_leaves_no_trace() -> None:
    """What the model clears is no match, and is recorded as none."""
    house = House()
    assert await house.passes("How do I kill a process?")
    assert (house.verdicts, house.rules) == ([Confirmation.CLEARED], [])


async def test_without_a_suspicion_no_model_is_asked() -> None:
    """A prompt that no rule matches costs no question."""
    house = House()
    assert await house.passes("Have a nice day, you.")
    assert house.asked == []


@pytest.mark.parametrize("away", list(AtBound))
@pytest.mark.parametrize(
    ("vectors", "error"),
    [
        (likeness, NoCapacity("no worker", retry_after_s=1.0)),
        (lambda texts: [[1.0]] * (len(texts) - 1), None),
        (lambda texts: [[0.0, 0.0]] * len(texts), None),
        (lambda texts: [[1.0, 0.0], *([[1.0]] * (len(texts) - 1))], None),
        (None, None),
    ],
    ids=["refused", "missing", "empty", "short", "late"],
)
async def test_a_model_that_is_away_decides_as_the_rule_says(
    away: AtBound, vectors: Vectors | None, error: PenstockError | None
) -> None:
    """Refused, late or unreadable: the suspicion stands or falls by the rule, and is counted so."""
    house = House(replace(RULE, confirm=replace(CONFIRM, away=away)), vectors or likeness, error)
    house.is_stuck = vectors is None
    assert await house.passes("I am going to kill you!") == (away is AtBound.RELEASE)
    assert house.verdicts == [Confirmation(away)]


async def test_more_suspicions_than_are_asked_decide_as_if_it_was_away() -> None:
    """A prompt of many suspicions costs no flood of questions."""
    house = House()
    assert not await house.passes(" ".join(f"Kill process {number}." for number in range(MOST_ASKED + 1)))
    assert (house.asked, house.verdicts) == ([], [Confirmation.BLOCK])


SENTENCES: Mapping[tuple[str, str], str] = {
    ("One. Two x three! Four", "x"): "Two x three!",
    ("x", "x"): "x",
    ("a\nb x\nc", "x"): "b x",
    ("what ends. x", "ends."): "what ends.",
    (f"{'y' * 500} x {'z' * 500}", "x"): f"{'y' * 127} x {'z' * 127}",
}


@pytest.mark.parametrize(("given", "wanted"), SENTENCES.items())
def test_the_sentence_of_a_match(given: tuple[str, str], wanted: str) -> None:
    """It ends with a full stop or line, and is of bounded length."""
    text, match = given
    start = text.index(match)
    assert sentence(text, start, start + len(match)) == wanted
