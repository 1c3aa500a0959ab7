"""A hung process is found by questions without an answer, and never by a late supervisor's own."""

import asyncio
import time

import pytest

from penstock.supervision.restarts import MOST_MISSED, MOST_SLOW, until_silent


async def never() -> None:
    await asyncio.Event().wait()


def yes() -> bool:
    return True


async def test_a_process_that_is_not_stopped_has_more_time() -> None:
    """On a starved machine a healthy process is silent for long: one that the kernel lets run is given many times."""
    asked = 0

    async def count() -> None:
        nonlocal asked
        asked += 1
        await never()

    await asyncio.wait_for(until_silent(count, lambda: False, every_s=0.001, within_s=0.01), 10)
    assert asked == MOST_SLOW


async def test_questions_without_an_answer_tell_a_hang() -> None:
    """Three questions in a row that end without an answer are a hang, and its length is told."""
    silent_s = await asyncio.wait_for(until_silent(never, yes, every_s=0.01, within_s=0.05), 5)
    assert silent_s >= MOST_MISSED * 0.06


async def test_an_answer_in_between_begins_anew() -> None:
    """A process that answers each third question is slow, and does not hang."""
    asked = 0

    async def third() -> None:
        nonlocal asked
        asked += 1
        if asked % MOST_MISSED:
            await never()

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(until_silent(third, yes, every_s=0.001, within_s=0.02), 0.5)
    assert asked > 2 * MOST_MISSED


async def test_our_own_lateness_is_no_evidence() -> None:
    """A question whose answer came while this process stood still is answered, however late that is noticed."""
    asked = 0

    async def late() -> None:
        nonlocal asked
        asked += 1
        if asked > 2:
            await never()
        time.sleep(0.5)  # noqa: ASYNC251  the supervisor itself stands still
        await asyncio.sleep(0.01)

    await asyncio.wait_for(until_silent(late, yes, every_s=0.01, within_s=0.2), 10)
    assert asked == 2 + MOST_MISSED
