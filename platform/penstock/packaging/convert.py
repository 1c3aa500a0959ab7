"""Converts GGUF or pickled weights to safetensors in a child process, since only engines may import torch."""

import re
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from penstock.domain.command_error import CommandError
from penstock.packaging.ports import Report
from penstock.packaging.programs import run

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
