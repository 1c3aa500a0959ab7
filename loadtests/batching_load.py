"""A model and a load that every way of batching meets alike, in other environments too: it knows nothing of ours.

The model is an encoder of MiniLM's size that embeds short queries, on one thread; random weights cost as trained ones.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import NamedTuple

import torch
import transformers

TOKENS, MOST_ITEMS = 8, 32
SLO_S, WINDOW_S = 0.15, 0.010
SPAN_S = 5.0
SEASONING = (1, 4, 16, MOST_ITEMS, 1, 1, 1, 1, 2, 2, 3, 3, 8, 8)
"""So many at once, one after another, before anything counts: who learns has learned then."""

Compute = Callable[[Sequence[object]], Sequence[object]]
Ask = Callable[[float], Awaitable[object]]
"""Asks for one item that is due in so many seconds (0: nobody says); raises, or returns None, where it is refused."""


class Outcome(NamedTuple):
    """Of one way at one rate: answers in time a second, the share of them, p50 in seconds, the mean batch."""

    good_per_s: float
    good_ratio: float
    p50_s: float
    batch: float


class Encoder:
    """The model, and the sizes of the batches that it was given."""

    def __init__(self) -> None:
        """Load it, and run it a few times."""
        torch.set_num_threads(1)
        config = transformers.BertConfig(
            hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
        )
        self._model = transformers.BertModel(config).eval()
        self.sizes: list[int] = []
        for size in (1, 8, MOST_ITEMS) * 3:
            self([None] * size)

    def __call__(self, items: Sequence[object]) -> list[object]:
        """Return a vector for each item."""
        self.sizes.append(len(items))
        with torch.inference_mode():
            return list(self._model(torch.ones((len(items), TOKENS), dtype=torch.long)).last_hidden_state.mean(1))


def arrivals(per_s: float, burst: int, seed: int) -> list[float]:
    """Return the seconds at which items come: alone, or several at once as seldom."""
    chance, at, found = random.Random(seed), 0.0, list[float]()
    while (at := at + chance.expovariate(per_s / burst)) < SPAN_S:
        found += [at] * (chance.randint(1, 2 * burst - 1) if burst > 1 else 1)
    return found


async def meet(ask: Ask, encoder: Encoder, times: Sequence[float]) -> Outcome:
    """Let arrivals meet one way, and return what came of it."""
    loop, took = asyncio.get_running_loop(), list[float]()
    for size in SEASONING:
        await asyncio.gather(*(ask(0.0) for _ in range(size)), return_exceptions=True)
    encoder.sizes.clear()
    began = loop.time()

    async def one(at: float) -> None:
        try:
            answer = await ask(began + at + SLO_S - loop.time())
        except Exception:  # noqa: BLE001  each way has its own words for a refusal; none of them is an answer in time
            return
        if answer is not None:
            took.append(loop.time() - began - at)

    async with asyncio.TaskGroup() as asking:
        for at in times:
            if at > loop.time() - began:
                await asyncio.sleep(began + at - loop.time())
            asking.create_task(one(at))
    good = sum(each <= SLO_S for each in took)
    p50_s = sorted(took)[len(took) // 2] if took else inf
    return Outcome(good / SPAN_S, good / len(times), p50_s, sum(encoder.sizes) / max(1, len(encoder.sizes)))
