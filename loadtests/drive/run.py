"""A run's folder: its settings and target, the plan, and the outcomes. Keys are never in it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from loadtests.drive.records import Health, Record, read, write
from loadtests.plan.planning import Session
from penstock.domain.models.model import Tier

Keys = Mapping[str, str]
"""By tenant; the empty name is for all others."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the generator needs beside plan and keys."""

    scenario: str
    target: str
    model: str
    seed: int
    per_s: float | None
    duration_s: float
    timeout_s: float
    """How long a caller waits, from the planned time on."""
    salt: str
    """What makes this run's texts others than those of every run before, so that no cache has seen them."""
    tiers: dict[str, Tier]
    """By tenant."""
    extra: dict[str, object] = {}
    """Fields that every body gets."""
    capacity_per_s: float | None = None


class RunFolder:
    """Reads and writes the files of one run."""

    def __init__(self, path: Path) -> None:
        """Take the folder, which need not exist."""
        self.path = path
        self.records_file = path / "records.jsonl"

    def begin(self, run: Run, plan: list[Session]) -> None:
        """Write what is to be done; forget what was there."""
        self.path.mkdir(parents=True, exist_ok=True)
        for left in (self._health_file, self.records_file):
            left.unlink(missing_ok=True)
        self._run_file.write_bytes(msgspec.json.format(msgspec.json.encode(run)))
        write(self.path / "plan.jsonl", plan)

    def run(self) -> Run:
        return msgspec.json.decode(self._run_file.read_bytes(), type=Run)

    def plan(self) -> Iterator[Session]:
        with (self.path / "plan.jsonl").open("rb") as lines:
            yield from (msgspec.json.decode(line, type=Session) for line in lines)

    def records(self) -> list[Record]:
        """Return the requests' records, by planned time; none if nothing was sent."""
        found = read(self.records_file) if self.records_file.exists() else ()
        return sorted(found, key=lambda record: record.planned_at)

    def answered(self) -> int:
        """Return how many requests have ended so far."""
        return self.records_file.read_bytes().count(b"\n") if self.records_file.exists() else 0

    def keep_health(self, health: Health) -> None:
        """Write how the generator did; the last thing that it does."""
        self._health_file.write_bytes(msgspec.json.encode(health))

    def health(self) -> Health | None:
        """Return the generator's own figures; None if it never came to its end."""
        return msgspec.json.decode(self._health_file.read_bytes(), type=Health) if self._health_file.exists() else None

    @property
    def _run_file(self) -> Path:
        return self.path / "run.json"

    @property
    def _health_file(self) -> Path:
        return self.path / "health.json"
