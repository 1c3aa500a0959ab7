"""Converts GGUF or pickled weights to safetensors in a child process, since only engines may import torch."""

import asyncio
import re
import shutil
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from uuid import uuid4

from penstock.domain.command_error import CommandError
from penstock.packaging.ports import Report

_READ_BYTES = 4096
_LAST_LINES = 12


async def run(argv: Sequence[str], on_line: Callable[[str], None], *, what: str, do: str) -> None:
    """``on_line`` gets each line and redrawn progress bar. Raises ``CommandError`` if it fails."""
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


PROGRAMS = {
    ".gguf": "penstock.worker.engines.gguf",
    ".pth": "penstock.worker.engines.pickled",
    ".pt": "penstock.worker.engines.pickled",
}
"""Conversion programs by file suffix."""
_REFUSED = "refused: "
"""The beginning of a program's line about a file that it refuses; the rest is a sentence for the file's author."""
_SAVE = "Save the weights alone: torch.save(model.state_dict(), ...), or safetensors."
_BAR = re.compile(r"^Converting[^:]*:\s+\d+%\|.*?\| (?P<done>\d+)/(?P<total>\d+)")


async def convert(source: Path, folder: Path, name: str, report: Report) -> Path:
    """Convert the model into ``folder``, which appears only when complete; return it."""
    beside = folder.with_name(f".{folder.name}.{uuid4().hex}")
    refused: list[str] = []

    def hear(line: str) -> None:
        if line.startswith(_REFUSED):
            refused.append(line.removeprefix(_REFUSED))
        _report_progress(name, line, report)

    report(f"{name}: converting, loading libraries")
    try:
        await run(
            [sys.executable, "-m", PROGRAMS[source.suffix], str(source), str(beside)],
            hear,
            what=f"Converting {source.name}",
            do="Converting needs the worker's packages (torch, transformers, gguf): install penstock[worker-cpu].",
        )
        beside.rename(folder)
    except CommandError as error:
        if not refused:
            raise
        raise CommandError(f"{source.name} can't be converted: {refused[-1]}.", do=_SAVE) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _report_progress(name: str, line: str, report: Report) -> None:
    if line.startswith("step: "):
        report(f"{name}: converting, {line.removeprefix('step: ')}")
    elif match := _BAR.match(line):
        report(f"{name}: converting, {match['done']} of {match['total']} tensors")
