"""Runs a program that prepares a model, with its progress; shows the program's last lines if it fails."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from penstock.domain.command_error import CommandError

_READ_BYTES = 4096
_LAST_LINES = 12


async def run(argv: Sequence[str], on_line: Callable[[str], None], *, what: str, do: str) -> None:
    """Run the program; ``on_line`` gets each line and redrawn progress bar. Raises ``CommandError`` if it fails."""
    process = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    last: deque[str] = deque(maxlen=_LAST_LINES)
    try:
        async for line in _lines(process.stdout):
            last.append(line)
            on_line(line)
        code = await process.wait()
    except BaseException:
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    if code:
        raise CommandError("\n".join([f"{what} failed (exit {code}):", *last]), do=do)


async def _lines(stream: asyncio.StreamReader | None) -> AsyncIterator[str]:
    rest = ""
    while stream is not None and (data := await stream.read(_READ_BYTES)):
        *lines, rest = (rest + data.decode(errors="replace")).replace("\r", "\n").split("\n")
        for line in lines:
            if line.strip():
                yield line.strip()
    if rest.strip():
        yield rest.strip()
