"""The safety stage: judges the prompt of an admitted request, and gives its answer a guard. No policy, no work."""

import asyncio
from collections.abc import Callable

from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import JUDGES
from penstock.filters.confirming import Suspect, sentence
from penstock.filters.errors import PromptFiltered
from penstock.filters.hold import Compiled
from penstock.filters.pack import Action, Policy, Where
from penstock.filters.whole import spans
from penstock.gateway.calls.call import Admitted, Answer
from penstock.gateway.calls.relay import Reply
from penstock.gateway.safety import prompts
from penstock.gateway.safety.confirming import Confirming
from penstock.gateway.safety.judging import Held, Judgement, Match, Record, untold
from penstock.gateway.safety.stream_guard import StreamGuard
from penstock.gateway.safety.whole_guard import WholeGuard

_NUMBERS = frozenset({Api.EMBEDDINGS})
"""APIs that answer with numbers alone."""
_LONG_BYTES = 64 << 10
"""Bytes of a request that are judged in a thread: a megabyte takes 10 ms."""
_MOST_POLICIES = 64
"""Compiled policies that are kept, 1 MB each."""
_Sides = tuple[Compiled, Compiled]


class ScreenedRequests:
    def __init__(
        self,
        policy: Callable[[Admitted], Policy],
        record: Record,
        confirming: Confirming,
        tell: Callable[[Held], None] = untold,
    ) -> None:
        self._policy, self._record, self._confirming, self._tell = policy, record, confirming, tell
        self._compiled: dict[str, _Sides] = {}
        self._compiling = asyncio.Lock()

    async def screen(self, call: Admitted, reply: Reply) -> Reply:
        if call.principal.tenant == JUDGES:  # a judge of judges would ask for ever
            return reply
        policy = self._policy(call)
        if not policy.rules or _is_score(call):
            return reply
        prompt, answer = self._compiled.get(policy.digest) or await self._compile(policy)
        number = await self._judge(call, prompt) if prompt.rules else 0
        if not answer.rules or call.request.api in _NUMBERS:
            return reply
        if any(one.rule.action is not Action.OBSERVE for one in answer.rules):
            prompts.check_answer(call.request)
        judgement = Judgement(call, answer, self._record, self._confirming, number)
        if call.request.stream:
            return StreamGuard(reply, call, judgement, self._tell)
        return WholeGuard(reply, call, judgement)

    async def ended(self, reply: Reply, answer: Answer) -> Answer:
        return await reply.ended(answer) if isinstance(reply, StreamGuard | WholeGuard) else answer

    async def _compile(self, policy: Policy) -> _Sides:
        async with self._compiling:
            found = self._compiled.get(policy.digest)
            if found is None:
                found = await asyncio.to_thread(lambda: (Compiled(policy, Where.INPUT), Compiled(policy, Where.OUTPUT)))
                self._compiled[policy.digest] = found
                if len(self._compiled) > _MOST_POLICIES:
                    del self._compiled[next(iter(self._compiled))]
            return found

    async def _judge(self, call: Admitted, compiled: Compiled) -> int:
        """Record the prompt's matches and return their number, or raise ``PromptFiltered``."""
        if call.request.cost.body_bytes > _LONG_BYTES:
            found = await asyncio.to_thread(_found, call, compiled)
        else:
            found = _found(call, compiled)
        if any(one.sentence is not None for one in found):
            found = await self._confirming.settled(compiled, found)
        for number, one in enumerate(found):
            applied = compiled.rules[one.rule]
            self._record(call, Match(applied, Where.INPUT, applied.rule.action, one.position, number, one.text))
        categories = {compiled.rules[rule].rule.category for rule, *_ in found if _blocks(compiled, rule)}
        if categories:
            raise PromptFiltered(f"the prompt has text of the category {min(categories)}, which is not allowed")
        return len(found)


def _is_score(call: Admitted) -> bool:
    """Whether the platform asks how likely the tokens of two judged answers are, which no caller is shown."""
    return call.copy is not None and call.request.cost.scores_prompt


def _blocks(compiled: Compiled, rule: int) -> bool:
    return compiled.rules[rule].rule.action is Action.BLOCK


def _found(call: Admitted, compiled: Compiled) -> list[Suspect]:
    keeps = call.principal.plan.matches_kept_s > 0
    every = [
        Suspect(
            hit.rule,
            hit.start,
            sentence(text, hit.start, hit.end) if compiled.confirm(hit.rule) else None,
            text[hit.start : hit.end] if keeps else "",
        )
        for text in prompts.texts(call.request)
        for hit in spans(compiled.judge, text)
    ]
    return list(dict.fromkeys(every))
