"""What the fault tests observe, as a table for people; and the prompt text that must never reach a log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

CANARY = "canary-4f1c9e72-do-not-log"
"""Stands in every prompt of the fault tests."""

HEAD = ("fault", "observed effect", "seconds")


@dataclass(kw_only=True)
class FaultTable:
    """Fault → observed effect → seconds."""

    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, fault: str, effect: str, seconds: float | None = None) -> None:
        """Note one observation, with its seconds if a time was measured."""
        self.rows.append(
            (fault, effect, "" if seconds is None else f"{seconds:.1f}" if seconds >= 1 else f"{seconds:.2f}")
        )

    def markdown(self) -> str:
        rows = [HEAD, ("---", "---", "---:"), *self.rows]
        return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n" for row in rows)


def log_folders(homes: Path) -> list[Path]:
    """Return the folders of logs and run files of the platforms below this folder."""
    return [path for name in ("logs", "run") for path in homes.rglob(name) if path.is_dir()]


def leaks(folders: Iterable[Path], text: str) -> Iterator[str]:
    """Yield file and line of each occurrence of the text in these folders."""
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if text in line:
                    yield f"{path}:{number}: {line[:200]}"
