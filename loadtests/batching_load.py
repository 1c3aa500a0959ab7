"""Models and a load that every way of batching meets alike, in other environments too: it knows nothing of ours.

Three models, each on one thread: an encoder of MiniLM's size that embeds short queries; the same with a head, over
longer texts; a mobile network of images, about as much work as EfficientNet-Lite0. Random weights cost as trained ones.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from math import inf
from typing import NamedTuple, cast

import torch
import transformers

WINDOW_S = 0.010
SPAN_S = 5.0
SEASONING = (1, 4, 16, 32, 1, 1, 1, 1, 2, 2, 3, 3, 8, 8)
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


class Kind(NamedTuple):
    """A model as it is served: items of a batch, the promise in seconds, the cost of an item; how it is made.

    ``make`` takes the number of items and returns a function that computes such a batch.
    """

    most_items: int
    slo_s: float
    cost: int
    make: Callable[[], Callable[[int], torch.Tensor]]


def _bert(tokens: int, classes: int = 0) -> Callable[[int], torch.Tensor]:
    config = transformers.BertConfig(
        hidden_size=384, num_hidden_layers=6, num_attention_heads=12, intermediate_size=1536
    )
    model = transformers.BertModel(config).eval()
    head = torch.nn.Linear(384, classes) if classes else torch.nn.Identity()

    def computed(items: int) -> torch.Tensor:
        given = torch.ones((items, tokens), dtype=torch.long)
        return cast("torch.Tensor", head(model(given).last_hidden_state.mean(1)))

    return computed


def _vision(side: int) -> Callable[[int], torch.Tensor]:
    model = transformers.MobileNetV2Model(transformers.MobileNetV2Config(image_size=side)).eval()
    return lambda items: cast("torch.Tensor", model(torch.ones((items, 3, side, side))).pooler_output)


KINDS = {
    "encoder": Kind(32, 0.15, 8, lambda: _bert(8)),
    "classifier": Kind(32, 0.25, 32, lambda: _bert(32, classes=20)),
    "vision": Kind(16, 0.5, 1, lambda: _vision(224)),
}


class Model:
    """One of them, and the sizes of the batches that it was given."""

    def __init__(self, kind: Kind) -> None:
        """Load it, and run it a few times."""
        torch.set_num_threads(1)
        self.kind, self.sizes = kind, list[int]()
        self._computed = kind.make()
        for size in (1, 8, kind.most_items) * 3:
            self([None] * size)

    def __call__(self, items: Sequence[object]) -> list[object]:
        self.sizes.append(len(items))
        with torch.inference_mode():
            return list(self._computed(len(items)))


def arrivals(per_s: float, burst: int, seed: int) -> list[float]:
    """Return the seconds at which items come: alone, or several at once as seldom."""
    chance, at, found = random.Random(seed), 0.0, list[float]()
    while (at := at + chance.expovariate(per_s / burst)) < SPAN_S:
        found += [at] * (chance.randint(1, 2 * burst - 1) if burst > 1 else 1)
    return found


async def meet(ask: Ask, model: Model, times: Sequence[float]) -> Outcome:
    """Let arrivals meet one way, and return what came of it."""
    loop, took, slo_s = asyncio.get_running_loop(), list[float](), model.kind.slo_s
    for size in (min(one, model.kind.most_items) for one in SEASONING):
        await asyncio.gather(*(ask(0.0) for _ in range(size)), return_exceptions=True)
    model.sizes.clear()
    began = loop.time()

    async def one(at: float) -> None:
        try:
            answer = await ask(began + at + slo_s - loop.time())
        except Exception:  # noqa: BLE001  each way has its own words for a refusal; none of them is an answer in time
            return
        if answer is not None:
            took.append(loop.time() - began - at)

    async with asyncio.TaskGroup() as asking:
        for at in times:
            if at > loop.time() - began:
                await asyncio.sleep(began + at - loop.time())
            asking.create_task(one(at))
    good = sum(each <= slo_s for each in took)
    p50_s = sorted(took)[len(took) // 2] if took else inf
    return Outcome(good / SPAN_S, good / len(times), p50_s, sum(model.sizes) / max(1, len(model.sizes)))
