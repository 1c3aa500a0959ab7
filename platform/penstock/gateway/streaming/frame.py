"""The parts common to both relays: request, reply, watch, and the count of tokens."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from penstock.domain.errors import PenstockError
from penstock.domain.outcome import FinishReason, Outcome, Stage
from penstock.domain.serving.request_record import Refusal
from penstock.domain.serving.shadow import TokenIds
from penstock.domain.tokens import UNKNOWN, Usage
from penstock.gateway.answers import account
from penstock.gateway.answers.account import Account, EngineTimes
from penstock.gateway.calls.call import Admitted, Answer, no_ids, unknown
from penstock.gateway.calls.relay import Reply
from penstock.gateway.streaming import service_tier, stages
from penstock.gateway.streaming.watch import Watch, nobody


class AnswerReads(NamedTuple):
    ids: Callable[[], TokenIds | None] = no_ids
    is_json: Callable[[], bool | None] = unknown
    form: Callable[[], bytes | None] = unknown


NO_READS = AnswerReads()


class Frame:
    """``on_paused`` gets the seconds for which the answer waited for its reader."""

    def __init__(
        self,
        *,
        call: Admitted,
        reply: Reply,
        clock: Callable[[], float],
        stall_s: float,
        on_paused: Callable[[float], None] = nobody,
        reads: AnswerReads = NO_READS,
    ) -> None:
        self.call = call
        self.lease = call.lease
        self.reply = reply
        self.clock = clock
        self.deadline_in_s = call.lease.deadline_at - clock()
        self.stall_s = stall_s
        self.on_paused = on_paused
        self.tokens = 0
        self.usage: Usage | None = None
        self.finish: FinishReason | None = None
        self.metrics: EngineTimes | None = None
        self.first_at: float | None = None
        self.itl_s: list[float] = []
        self._reads = reads
        self._sent_at = 0.0
        loop = asyncio.get_running_loop()
        self._answered: asyncio.Future[Answer] = loop.create_future()
        self._news: asyncio.Future[None] = loop.create_future()

    @property
    def version(self) -> str:
        return self.call.version.id

    @property
    def is_over(self) -> bool:
        return self._answered.done()

    def watch(self, on_stop: Callable[[PenstockError], None], on_resume: Callable[[float], None] = nobody) -> Watch:
        """``on_resume`` gets the seconds of each pause."""

        def paused(seconds: float) -> None:
            self.call.timings.paused_s += seconds
            self.on_paused(seconds)
            on_resume(seconds)

        return Watch(
            self.reply,
            deadline_in_s=self.deadline_in_s,
            stall_s=self.stall_s,
            on_stop=on_stop,
            on_paused=paused,
        )

    def sent(self) -> None:
        self._sent_at = self.clock()
        if self._news.done() and not self.is_over:
            self._news = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    async def news(self) -> None:
        await self._news

    def learn(self, said: Account) -> None:
        if said.usage is not None:
            self.usage = account.merged(self.usage, said.usage)
        if said.finish is not None:
            self.finish = said.finish
        if said.metrics is not None:
            self.metrics = said.metrics

    def close_stages(self) -> None:
        """The engine's own times, if it reports them, replace the measured ones."""
        timings = self.call.timings
        timings.mark(Stage.DECODE)
        if self.metrics is not None and not self.call.attempts.continued_at:
            at_gate_s = timings.seconds.get(Stage.QUEUE, 0.0)
            in_engine_s = self.clock() - self._sent_at - at_gate_s - timings.seconds.get(Stage.ADAPTER, 0.0)
            for stage, seconds in stages.engine_stages(self.metrics, in_engine_s).items():
                timings.put(stage, seconds + (at_gate_s if stage is Stage.QUEUE else 0.0))
        elif (batched := self.call.attempts.report.batched) is not None:
            stages.split_batched(timings, batched, items=self.call.cost.prompts)

    def head(self, content_type: bytes, *more: tuple[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        return [
            (b"content-type", content_type),
            (b"x-penstock-version", self.version.encode()),
            (b"server-timing", stages.server_timing(self.call.timings.seconds)),
            *self.lease.headers,
            *self._chosen(),
            *self._lacks(),
            *self._tier(),
            *more,
        ]

    def _chosen(self) -> list[tuple[bytes, bytes]]:
        return [(b"x-penstock-auto", self.call.ruled.rule.encode())] if self.call.ruled is not None else []

    def _lacks(self) -> list[tuple[bytes, bytes]]:
        return [(b"x-penstock-degraded", ",".join(self.call.degraded).encode())] if self.call.degraded else []

    def _tier(self) -> list[tuple[bytes, bytes]]:
        tier = self.call.principal.tier.name
        return [(service_tier.HEADER, tier.encode())] if service_tier.is_told(self.call) else []

    def settle(self, outcome: Outcome, refusal: Refusal | None = None, reads: AnswerReads | None = None) -> Answer:
        if not self._answered.done():
            received, read, seen = self.call.received_at, reads or self._reads, self.call.timings.visible_at
            self._answered.set_result(
                Answer(
                    outcome=outcome,
                    usage=self._known(outcome),
                    refusal=refusal,
                    said=self.usage if outcome is Outcome.OK else None,
                    finish=self.finish,
                    ttft_s=None if self.first_at is None else self.first_at - received,
                    visible_s=None if self.first_at is None else (seen or self.first_at) - received,
                    itl_s=tuple(self.itl_s),
                    ids=read.ids,
                    is_json=read.is_json,
                    form=read.form,
                )
            )
            self.wake()
        return self._answered.result()

    def settle_with(self, error: PenstockError) -> Answer:
        if self.finish is None:
            self.finish = _FINISH.get(error.outcome, FinishReason.ERROR)
        return self.settle(error.outcome, Refusal.of(error))

    async def answer(self) -> Answer:
        return await self._answered

    def _known(self, outcome: Outcome) -> Usage:
        """The engine's usage if the answer is complete (before the end a lower bound), else at least the relayed
        tokens.
        """
        said = self.usage
        if said is not None and outcome is Outcome.OK:
            return said
        if said is None and self.first_at is None:
            return UNKNOWN
        said = said or UNKNOWN
        return Usage(
            prompt_tokens=max(said.prompt_tokens, self.call.prepared.prompt_tokens),
            output_tokens=max(said.output_tokens, self.tokens),
            cached_tokens=said.cached_tokens,
            exact=False,
        )


_FINISH = {
    Outcome.CANCELLED: FinishReason.CANCELLED,
    Outcome.DEADLINE: FinishReason.DEADLINE,
    Outcome.FILTERED: FinishReason.CONTENT_FILTER,
}
