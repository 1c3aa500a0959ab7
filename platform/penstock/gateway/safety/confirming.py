"""Asks the platform's own models about what rules suspect, as requests of the platform itself.

The platform pays, and no policy holds for them: a judge of judges would ask for ever. A model that is away, late or
refuses decides as its rule says, and is counted.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.clock import Clock
from penstock.domain.ids import KeyId, RequestId
from penstock.domain.serving.request import Api, InferenceRequest
from penstock.domain.tenancy.cost import Cost
from penstock.domain.tenancy.tenant import JUDGES, Plan, Principal, Priority, Role
from penstock.filters import confirming
from penstock.filters.confirming import MOST_ASKED, Suspect
from penstock.filters.hold import Compiled
from penstock.filters.pack import AtBound, Confirm
from penstock.gateway.calls.inside import Asked
from penstock.lateness.awake import timeout

WHO = Principal(
    tenant=JUDGES,
    key=KeyId(JUDGES),
    role=Role.INFER,
    plan=Plan(paid=True, priority=Priority.INTERACTIVE),
    models=(),
    cache_salt=JUDGES,
)
"""A caller waits for it, so it goes before other work."""


class Confirmation(StrEnum):
    CONFIRMED = "confirmed"
    CLEARED = "cleared"
    BLOCK = "block"
    """The model was away, and the rule blocks then."""
    RELEASE = "release"


Ask = Callable[[InferenceRequest, Principal], Awaitable[Asked]]
Tell = Callable[[Confirmation, float], None]
"""Is called with each verdict and the seconds that it took."""
Settle = Callable[[bool], None]
"""Is called with whether a suspicion stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirming:
    ask: Ask
    ids: Callable[[], str]
    clock: Clock
    tell: Tell
    spawn: Callable[[Coroutine[None, None, None]], object]

    async def settled(self, compiled: Compiled, found: Sequence[Suspect]) -> list[Suspect]:
        """Return the matches that stand; each rule's model is asked once, all of them at the same time."""
        asked = [(rule, confirm) for rule in {one.rule for one in found} if (confirm := compiled.confirm(rule))]
        each = [list(dict.fromkeys(one.sentence or "" for one in found if one.rule == rule)) for rule, _ in asked]
        verdicts = await asyncio.gather(*(self.of(one, some) for (_, one), some in zip(asked, each, strict=True)))
        return confirming.kept(found, {rule: verdict for (rule, _), verdict in zip(asked, verdicts, strict=True)})

    async def of(self, confirm: Confirm, sentences: Sequence[str], before: int = 0) -> frozenset[str]:
        """Return the sentences that are matches; ``before`` were asked of the same text."""
        began = self.clock.monotonic()
        found = None if before + len(sentences) > MOST_ASKED else await self._asked(confirm, sentences)
        took_s = self.clock.monotonic() - began
        if found is not None:
            self.tell(Confirmation.CONFIRMED if found else Confirmation.CLEARED, took_s)
            return found
        self.tell(Confirmation(confirm.away), took_s)
        return frozenset(sentences if confirm.away is AtBound.BLOCK else ())

    async def _asked(self, confirm: Confirm, sentences: Sequence[str]) -> frozenset[str] | None:
        """A guard model is asked by sentence: together they might be more sequences than one request may decode."""
        questions = [sentences] if confirm.like else [[one] for one in sentences]
        answers = await asyncio.gather(*(self._answer(confirm, one) for one in questions))
        known = [answer for answer in answers if answer is not None]
        return frozenset[str]().union(*known) if len(known) == len(questions) else None

    async def _answer(self, confirm: Confirm, sentences: Sequence[str]) -> frozenset[str] | None:
        """Return None if the model does not answer in time, or not as it was asked."""
        body = confirming.body(confirm, sentences)
        number, tokens = len(confirm.like) + len(sentences), len(sentences) if confirm.prompt else 0
        size = len(confirm.prompt) * len(sentences) + sum(map(len, (*confirm.like, *sentences)))
        request = InferenceRequest(
            id=RequestId(self.ids()),
            api=Api.COMPLETIONS if confirm.prompt else Api.EMBEDDINGS,
            model=confirm.model,
            body=body,
            stream=False,
            include_usage=False,
            cost=Cost(prompts=number, sequences=number, output_tokens=tokens, body_bytes=size),
            arrived_at=self.clock.monotonic(),
            deadline_s=confirm.seconds,
        )
        try:
            async with timeout(confirm.seconds):
                asked = await self.ask(request, WHO)
            return None if asked.error is not None else confirming.confirmed(confirm, sentences, asked.body)
        except (TimeoutError, ValueError):
            return None


class Suspicions:
    """What rules suspect in one answer: each sentence is asked once, as soon as it is whole."""

    def __init__(self, compiled: Compiled, confirming: Confirming, on_news: Callable[[], None]) -> None:
        self._compiled, self._confirming, self._on_news = compiled, confirming, on_news
        self._asked = Counter[int]()
        self._verdicts: dict[tuple[int, str], bool] = {}
        self._waiting: dict[tuple[int, str], list[Settle]] = {}

    def ask(self, rule: int, sentence: str, settle: Settle) -> None:
        """Call ``settle`` at once if the verdict is known."""
        asked, confirm = (rule, sentence), self._compiled.confirm(rule)
        if confirm is None or asked in self._verdicts:
            settle(self._verdicts.get(asked, True))
        elif asked in self._waiting:
            self._waiting[asked].append(settle)
        else:
            self._waiting[asked] = [settle]
            self._confirming.spawn(self._of(confirm, asked))

    async def _of(self, confirm: Confirm, asked: tuple[int, str]) -> None:
        rule, sentence = asked
        before, stands = self._asked[rule], confirm.away is AtBound.BLOCK
        self._asked[rule] += 1
        try:
            stands = bool(await self._confirming.of(confirm, [sentence], before))
        finally:  # whatever fails: a text must not be held for ever
            self._verdicts[asked] = stands
            for settle in self._waiting.pop(asked):
                settle(stands)
            self._on_news()
