"""The supervisor's state in ``run/up.json``: for ``penstock status`` and tests. Nothing steers by it."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from penstock.supervision.files import write_private

FILE = "up.json"


@dataclass(slots=True, kw_only=True)
class UpState:
    """The supervisor's process, how far it is, and the processes it looks after, by name."""

    pid: int
    url: str = ""
    phase: str = ""
    ready: bool = False
    processes: dict[str, int] = field(default_factory=dict)


def write(run: Path, state: UpState) -> None:
    """Store the state, whole."""
    write_private(run / FILE, json.dumps(asdict(state)))


def read(run: Path) -> UpState | None:
    """Return the last state stored, None where there is none."""
    try:
        return UpState(**json.loads((run / FILE).read_text()))
    except (OSError, ValueError, TypeError):
        return None
