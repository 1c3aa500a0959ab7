"""Measures a running engine through its gate: sends rounds of made-up prompts, then fits a curve to the engine's
steps.

Prompts are random tokens, so that no prefix is cached, and belong to the platform: they pass the queue and are billed
to no tenant.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penstock.domain.clock import Clock
from penstock.domain.command_error import CommandError
from penstock.domain.errors import EngineError, InvalidField
from penstock.domain.models.curves import Curve, Origin
from penstock.steps.rounds import EngineBounds, Round, rounds
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.learning import curve_of, read

_PATH = "/v1/completions"
_TOKENS = range(10, 1000)
"""Token ids that every vocabulary has."""
_ROUND_S = 300.0
"""The longest time of one round: beyond it the engine is taken for lost."""
_BETWEEN_S = 0.05
BUSY = 0.1
"""The part of disturbed steps from which a person is warned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    curve: Curve
    steps: int
    seconds: float
    rounds: int
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    client: GateClient
    clock: Clock
    chance: random.Random
    note: Callable[[str], None]

    async def of_engine(self, *, max_seqs: int, max_model_len: int, block_size: int, most_s: float) -> Measured:
        """Measure with the memory that the engine reports; raises ``CommandError``."""
        try:
            kv_tokens = (await self.client.numbers()).kv_blocks * block_size
            room = EngineBounds(max_seqs=max_seqs, max_model_len=max_model_len, kv_tokens=kv_tokens)
            return await self.measure(room, most_s)
        except InvalidField as error:
            raise _refused(error) from error
        except ExceptionGroup as group:  # of the requests that a round asked at once
            raise _unanswered(group.exceptions[0]) from group
        except (OSError, EngineError) as error:
            raise _unanswered(error) from error

    async def measure(self, room: EngineBounds, most_s: float) -> Measured:
        began, number, planned = self.clock.monotonic(), 0, list(rounds(room))
        told = await self._told(forget=True)
        for number, one in enumerate(planned, 1):
            await self._run(one)
            if self.clock.monotonic() - began > most_s:
                break
            if number % 10 == 0:
                self.note(f"{number} of {len(planned)} rounds")
        told = await self._told()
        return Measured(
            curve=curve_of(told, Origin.BENCH, self.clock.now()),
            steps=read(told).steps,
            seconds=self.clock.monotonic() - began,
            rounds=number,
            is_whole=number == len(planned),
        )

    async def _told(self, *, forget: bool = False) -> dict[str, object]:
        try:
            return dict(await self.client.steps(forget=forget))
        except EngineError as error:
            raise CommandError(
                "Its engine keeps no log of steps.", do="Measure a version that vLLM runs, started by this release."
            ) from error

    async def _run(self, one: Round) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(one.sequences):
                group.create_task(self._ask(one.prompt, one.output))
            await asyncio.sleep(_BETWEEN_S if one.beside else 0)
            for prompt in one.beside:
                await self._ask(prompt, 1)

    async def _ask(self, prompt: int, output: int) -> None:
        body = {
            "prompt": list(self._prompt(prompt)),
            "max_tokens": output,
            "ignore_eos": True,
            "temperature": 0,
        }
        await self.client.ask(_PATH, body, _ROUND_S)

    def _prompt(self, tokens: int) -> Iterator[int]:
        return (self.chance.choice(_TOKENS) for _ in range(tokens))


def _unanswered(error: Exception) -> CommandError:
    return CommandError(f"The worker did not answer: {error}.", do="See penstock scale history, and penstock logs.")


def _refused(error: InvalidField) -> CommandError:
    where = f" ({error.param})" if error.param else ""
    return CommandError(f"No curve was stored{where}: {error.message}.", do="Run it longer, or in a quiet hour.")
