"""What the torch engine says of itself, as its agent reads it."""

import asyncio
import threading

from penstock.domain.serving.request import Api
from penstock.worker.engines.torch.handler import Features, Model
from penstock.worker.engines.translate import parse
from tests.support.engines.torch_handler import Toy, model, running
from tests.support.patience import patient, until


async def test_the_agent_reads_its_numbers() -> None:
    """Each batch is progress, and what runs is what is being computed."""
    async with running() as engine:
        before = parse(engine.numbers.exposition())
        await engine.post(Api.EMBEDDINGS, {"input": "one"})
        after = parse(engine.numbers.exposition())
    assert before.progress != after.progress
    assert (after.running, after.waiting) == (0, 0)


class Busy(Toy):
    """Computes until it may end."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.may = threading.Event()

    def forward(self, batch: Features) -> Features:
        assert self.may.wait(10.0)
        return super().forward(batch)


async def test_items_that_wait_for_their_batch_are_told() -> None:
    """One that came first runs, those behind it wait; whoever leaves waits no more, and at the end nobody does."""
    busy = Busy(model())
    async with running(busy) as engine:

        async def told(running_: int, waiting: int) -> None:
            found = None
            async with asyncio.timeout(patient(5)):
                while found != (running_, waiting):
                    await asyncio.sleep(0.001)
                    numbers = parse((await engine.post("/metrics", b"")).body.decode())
                    found = numbers.running, numbers.waiting

        try:
            asking = [asyncio.create_task(engine.post(Api.EMBEDDINGS, {"input": "first"}))]
            await asyncio.to_thread(until, "it runs", lambda: engine.numbers.running == 1, within_s=5)
            asking += [asyncio.create_task(engine.post(Api.EMBEDDINGS, {"input": ["a", "b"]})) for _ in range(2)]
            await told(1, 4)
            asking.pop().cancel()
            await told(1, 2)
        finally:
            busy.may.set()
        await asyncio.gather(*asking)
        await told(0, 0)
