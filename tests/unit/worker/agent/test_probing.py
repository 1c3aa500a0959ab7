"""The agent's question beside its looks."""

import asyncio

from penstock.worker.agent.running import Probing


class Engine:
    """Answers when told to."""

    def __init__(self) -> None:
        self.asked = 0
        self.answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def ask(self) -> bool:
        """Count, and wait for the answer."""
        self.asked += 1
        return await self.answer


async def test_one_that_waits_delays_nobody_and_is_asked_once() -> None:
    """Looks go on while a question stands behind a long step, and no second one is asked."""
    engine = Engine()
    async with Probing(engine.ask, 2.0) as probing:
        for now in (0.0, 2.0, 4.0):
            probing.begin(now)
            await asyncio.sleep(0)
            assert probing.has_passed()
        assert engine.asked == 1
        engine.answer.set_result(False)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not probing.has_passed()


async def test_it_does_not_ask_more_often_than_told() -> None:
    """A look before its time asks nothing."""
    engine = Engine()
    engine.answer.set_result(True)
    async with Probing(engine.ask, 2.0) as probing:
        for now in (10.0, 11.0, 12.0):
            probing.begin(now)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert probing.has_passed()
    assert engine.asked == 2


async def test_what_waits_at_the_end_is_given_up() -> None:
    """Nothing runs on when an engine is no longer watched."""
    engine = Engine()
    async with Probing(engine.ask, 2.0) as probing:
        probing.begin(0.0)
        await asyncio.sleep(0)
    assert engine.answer.cancelled()
