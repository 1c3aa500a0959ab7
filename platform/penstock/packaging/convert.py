"""GGUF to safetensors, in a process of its own: only the engine's room may import torch."""

import re
import shutil
import sys
from pathlib import Path
from uuid import uuid4

from penstock.packaging.ports import Report
from penstock.packaging.programs import run

PROGRAM = "penstock.worker.engines.gguf"
_BAR = re.compile(r"^Converting[^:]*:\s+\d+%\|.*?\| (?P<done>\d+)/(?P<total>\d+)")


async def convert(gguf: Path, folder: Path, name: str, report: Report) -> Path:
    """Write the model into ``folder``, which appears only when it is complete; return it."""
    beside = folder.with_name(f".{folder.name}.{uuid4().hex}")
    report(f"{name}: converting, loading libraries")
    try:
        await run(
            [sys.executable, "-m", PROGRAM, str(gguf), str(beside)],
            lambda line: _report_progress(name, line, report),
            what=f"Converting {gguf.name}",
            do="Converting needs the worker's packages (torch, transformers, gguf): install penstock[worker-cpu].",
        )
        beside.rename(folder)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return folder


def _report_progress(name: str, line: str, report: Report) -> None:
    if line.startswith("step: "):
        report(f"{name}: converting, {line.removeprefix('step: ')}")
    elif match := _BAR.match(line):
        report(f"{name}: converting, {match['done']} of {match['total']} tensors")
