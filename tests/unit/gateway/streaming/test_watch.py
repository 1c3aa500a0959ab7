"""Watches of replies whose clients leave together."""

import asyncio
from functools import partial

from penstock.domain.errors import ClientGone, PenstockError
from penstock.gateway.streaming.watch import LEAVES_A_TURN, Watch, nobody
from tests.support.gateways.dispatch import FakeReply


def _tell(told: list[tuple[int, PenstockError]], number: int, error: PenstockError) -> None:
    told.append((number, error))


async def test_of_clients_that_leave_at_once_few_are_handled_in_one_iteration() -> None:
    """All are told in the end, in order; an answer that ended meanwhile is not."""
    told: list[tuple[int, PenstockError]] = []
    replies = [FakeReply() for _ in range(3 * LEAVES_A_TURN)]
    watches = [
        Watch(
            reply,
            deadline_in_s=60.0,
            stall_s=60.0,
            on_stop=partial(_tell, told, number),
            on_paused=nobody,
        )
        for number, reply in enumerate(replies)
    ]
    for reply in replies:
        reply.leave()
    watches[-1].close()
    seen = [len(told)]
    for _ in range(4):
        await asyncio.sleep(0)
        seen.append(len(told))
    assert seen == [LEAVES_A_TURN, 2 * LEAVES_A_TURN, *[3 * LEAVES_A_TURN - 1] * 3]
    assert [number for number, _ in told] == list(range(3 * LEAVES_A_TURN - 1))
    assert {type(error) for _, error in told} == {ClientGone}
    for watch in watches:
        watch.close()
