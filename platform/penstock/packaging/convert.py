"""GGUF to safetensors, in a process of its own: only the engine's room may import torch."""

import re
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from penstock.packaging.ports import Tell
from penstock.packaging.programs import run

PROGRAM = "penstock.worker.engines.gguf"
_BAR = re.compile(r"^Converting[^:]*:\s+\d+%\|.*?\| (?P<done>\d+)/(?P<total>\d+)")


async def convert(gguf: Path, folder: Path, name: str, tell: Tell) -> Path:
    """Write the model into ``folder``, which appears only when it is complete; return it."""
    beside = folder.with_name(f".{folder.name}.{uuid4().hex}")
    tell(f"{name}: converting, loading libraries")
    try:
        await run(
            [sys.executable, "-m", PROGRAM, str(gguf), str(beside)],
            lambda line: _tell_progress(name, line, tell),
            what=f"Converting {gguf.name}",
            do="Converting needs the worker's packages (torch, transformers, gguf): install penstock[worker-cpu].",
        )
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _tell_progress(name: str, line: str, tell: Tell) -> None:
    if line.startswith("step: "):
        tell(f"{name}: converting, {line.removeprefix('step: ')}")
    elif match := _BAR.match(line):
        tell(f"{name}: converting, {match['done']} of {match['total']} tensors")
