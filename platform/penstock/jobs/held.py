"""The jobs that a runner holds at the moment, and the lanes that they leave room in."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.domain.ids import VersionId
from penstock.domain.jobs.ids import JobId
from penstock.domain.jobs.job import Job
from penstock.domain.serving.report import Load
from penstock.jobs.attempts import Stopped
from penstock.jobs.replies import Stoppable
from penstock.jobs.window import SEEN_S, Lane


@dataclass(slots=True, eq=False)
class Held:
    job: Job
    began_at: float
    """Monotonic seconds."""
    reply: Stoppable | None = None
    stopped: Stopped | None = None

    def run_with(self, reply: Stoppable) -> None:
        self.reply = reply
        if self.stopped is not None:
            reply.stop()

    def stop(self, why: Stopped) -> None:
        if self.stopped is None:
            self.stopped = why
            if self.reply is not None:
                self.reply.stop()

    @property
    def has_output(self) -> bool:
        return self.reply is not None and self.reply.started


class VersionLoads(NamedTuple):
    """The loads of a version's serving workers, and the seats of each."""

    workers: tuple[Load, ...]
    seats: int
    pools: tuple[tuple[str, ...], ...]
    """As in a ``Lane``."""


@dataclass(slots=True)
class HeldJobs:
    """``loads`` are those of all versions of the present table."""

    loads: Callable[[], Mapping[VersionId, VersionLoads]]
    monotonic: Callable[[], float]
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a job has left: there may be room."""
    _held: dict[tuple[JobId, int], Held] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Held]:
        return iter(list(self._held.values()))

    def find(self, job: JobId, epoch: int) -> Held | None:
        return self._held.get((job, epoch))

    def add(self, job: Job) -> Held:
        held = self._held[job.id, job.epoch] = Held(job, self.monotonic())
        return held

    def leave(self, held: Held) -> None:
        self._held.pop((held.job.id, held.job.epoch), None)
        self.news.set()

    def lanes(self) -> dict[VersionId, Lane]:
        now, own = self.monotonic(), dict[VersionId, list[Held]]()
        for held in self._held.values():
            own.setdefault(held.job.version, []).append(held)
        return {
            version: Lane(
                loads=one.workers,
                seats=one.seats,
                held=len(own.get(version, ())),
                pools=one.pools,
                fresh=sum(now - held.began_at < SEEN_S for held in own.get(version, ())),
            )
            for version, one in self.loads().items()
        }
