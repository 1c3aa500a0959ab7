"""What several homes prepare together, one of them does; the others wait in words."""

import asyncio
import os
from pathlib import Path

import pytest

from penstock.domain.command_error import CommandError
from penstock.packaging.locking import locked

NEVER = 60.0


async def test_who_waits_names_the_holder_and_goes_on_after_it(tmp_path: Path) -> None:
    """The second says whom it waits for, and has the lock as soon as it is let go."""
    file, said = tmp_path / ".lock", list[str]()

    async def second() -> None:
        async with locked(file, said.append, NEVER):
            said.append("taken")

    async with locked(file, said.append):
        waiting = asyncio.create_task(second())
        while not said:  # noqa: ASYNC110  it says so in its first step
            await asyncio.sleep(0)
        assert said == [f"waiting for process {os.getpid()}, which prepares the same"]
    await waiting
    assert said[1:] == ["taken"]


async def test_a_holder_that_hangs_is_named_with_the_remedy(tmp_path: Path) -> None:
    """It waited for good, without a word, in a thread that no Ctrl-C ends; now it ends with the holder's number."""
    async with locked(tmp_path / ".lock", print):
        with pytest.raises(CommandError, match=f"Process {os.getpid()} has held .*lock for more than") as refused:
            async with locked(tmp_path / ".lock", print, 0.05):
                pass
    assert "end it" in refused.value.do


async def test_who_waits_can_be_interrupted(tmp_path: Path) -> None:
    """A cancelled wait ends at once, and holds nothing."""
    said = list[str]()

    async def second() -> None:
        async with locked(tmp_path / ".lock", said.append, NEVER):
            pass

    async with locked(tmp_path / ".lock", print):
        waiting = asyncio.create_task(second())
        while not said:  # noqa: ASYNC110  it says so in its first step
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    async with locked(tmp_path / ".lock", print, 0.05):
        pass
