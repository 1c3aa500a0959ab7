"""Filter → score → pick among the ready workers of a version, and how long to wait where there is none.

It must not know HTTP, nor what a request says; only how long its prompt is and which blocks it has.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import inf
from typing import NamedTuple, Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import NoCapacity, Overloaded
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.request import Prepared
from penstock.domain.table import VersionEntry, WorkerEntry
from penstock.domain.worker import Load
from penstock.gateway.routing import filters, pickers, scorers
from penstock.gateway.routing.current import CurrentTable, View
from penstock.gateway.routing.load_board import LoadBoard
from penstock.gateway.routing.prefix_index import PrefixIndex
from penstock.gateway.routing.scorers import Candidate, Weights
from penstock.telemetry import names
from penstock.telemetry.metrics import Counter, Metrics

_MOST_MODELS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterSettings:
    """``max_blocks`` bounds each version's prefix index.

    ``retry_after_s`` is said where no worker of a version has ever told how long it took to start: about what a small
    model takes on a CPU. ``notice_s`` is added to a start that nobody has begun yet: the loss has to be seen first.
    """

    weights: Weights = field(default_factory=Weights)
    max_waiting: int = 256
    retry_after_s: float = 20.0
    notice_s: float = 2.0
    most_retry_after_s: float = 60.0
    max_blocks: int = 50_000


class Health(Protocol):
    """Whom to leave alone for a while; never all of those asked about."""

    def ejected(self, workers: Sequence[WorkerId], now: float) -> frozenset[WorkerId]:
        """Return those that are left alone at monotonic second ``now``."""
        ...

    def shut_for_s(self, version: VersionId, now: float) -> float:
        """Return for how long a version that fails everywhere is to be refused early; 0 where it may be asked."""
        ...

    def is_unreachable(self, version: VersionId) -> bool:
        """Tell whether it is shut because nobody takes its connections: only a start will help."""
        ...


class _PrefixBlocks(NamedTuple):
    """The counters of one model's blocks, looked up once."""

    held: Counter
    new: Counter


def _prefix_blocks(counter: Counter, model: str) -> _PrefixBlocks:
    return _PrefixBlocks(*(counter.labels(model=model, state=state) for state in _PrefixBlocks._fields))


class WorkerRouter:
    """The pipeline's ``Router``; also dispatch's ``Loads``."""

    def __init__(
        self,
        *,
        table: CurrentTable,
        health: Health,
        clock: Clock,
        chance: random.Random,
        settings: RouterSettings,
        metrics: Metrics,
    ) -> None:
        """Follow ``table``: what is known of workers that leave it is forgotten."""
        self._table = table
        self._health = health
        self._clock = clock
        self._chance = chance
        self._settings = settings
        self._prefix_blocks = lru_cache(_MOST_MODELS)(partial(_prefix_blocks, metrics.counter(names.PREFIX_ROUTED)))
        self._board = LoadBoard()
        self._indexes: dict[VersionId, PrefixIndex] = {}
        table.on_change(self._forget)

    def pick(self, version: VersionEntry, prepared: Prepared, tried: frozenset[WorkerId]) -> WorkerEntry:
        """Return the worker, or raise ``NoCapacity`` or ``Overloaded`` with the seconds to wait."""
        now = self._clock.monotonic()
        version = self._table.version(version.id) or version
        serving = filters.untried(filters.ready(version.workers), tried)
        if not serving:
            raise self._nobody(version)
        if shut_s := self._health.shut_for_s(version.id, now):
            raise self._failing(version, shut_s)
        serving = filters.healthy(serving, self._health.ejected([w.id for w in serving], now))
        open_ = filters.with_room(serving, lambda w: self._load(w, now), self._settings.max_waiting)
        if not open_:
            raise self._full(serving, now)
        index = self._indexes.get(version.id)
        if index is None:
            index = self._indexes[version.id] = PrefixIndex(self._settings.max_blocks)
        chosen = open_[0] if len(open_) == 1 else self._choose(open_, version, prepared, index, now)
        if prepared.blocks:
            self._count(version, index, prepared, chosen.id)
            index.record(prepared.blocks, chosen.id)
        return chosen

    def wait_s(self, version: VersionEntry) -> float:
        """Return the seconds of work that wait at the least busy worker; infinite where nobody would take a request."""
        now = self._clock.monotonic()
        version = self._table.version(version.id) or version
        serving = filters.ready(version.workers)
        if self._health.shut_for_s(version.id, now):
            return inf
        serving = filters.healthy(serving, self._health.ejected([w.id for w in serving], now))
        open_ = filters.with_room(serving, lambda w: self._load(w, now), self._settings.max_waiting)
        return min((self._load(w, now).wait_s for w in open_), default=inf)

    # -- dispatch's ``Loads`` ------------------------------------------------------------

    def heard(self, worker: WorkerId, load: Load) -> None:
        """A worker said how busy it is."""
        self._board.heard(worker, load, self._clock.monotonic())

    def dispatched(self, worker: WorkerId, tokens: int) -> None:
        """This much work was sent to a worker."""
        self._board.dispatched(worker, tokens, self._clock.monotonic())

    # -- choosing ------------------------------------------------------------------------

    def _choose(
        self, workers: Sequence[WorkerEntry], version: VersionEntry, prepared: Prepared, index: PrefixIndex, now: float
    ) -> WorkerEntry:
        at = self._table.view.at
        held = index.matches(prepared.blocks, [w.id for w in workers]) if prepared.blocks else {}
        candidates = [
            Candidate(
                entry=w,
                work_tokens=self._board.work_tokens(w.id, w.load, at, now),
                kv_used_ratio=self._load(w, now).kv_used_ratio,
                cached_tokens=held.get(w.id, 0) * version.block_size,
            )
            for w in workers
        ]
        return workers[pickers.best(scorers.totals(candidates, self._settings.weights), self._chance)]

    def _load(self, worker: WorkerEntry, now: float) -> Load:
        return self._board.load(worker.id, worker.load, self._table.view.at, now)

    def _count(self, version: VersionEntry, index: PrefixIndex, prepared: Prepared, worker: WorkerId) -> None:
        held = index.matches(prepared.blocks, (worker,)).get(worker, 0)
        counted = self._prefix_blocks(version.id.partition("@")[0])
        counted.held.inc(held)
        counted.new.inc(len(prepared.blocks) - held)

    # -- nobody --------------------------------------------------------------------------

    def _nobody(self, version: VersionEntry) -> NoCapacity:
        """Say when the first of the starting workers is expected, else how long a start takes."""
        starting = [w.ready_in_s for w in version.workers if w.state.is_starting and w.ready_in_s]
        return NoCapacity(retry_after_s=self._within(min(starting, default=0.0) or self._start_s(version)))

    def _failing(self, version: VersionEntry, shut_s: float) -> NoCapacity:
        """Say when the next request may try: as soon as a probe is due, or a start is over where only that helps."""
        if self._health.is_unreachable(version.id):
            return self._nobody(version)
        return NoCapacity("every worker of this model fails", retry_after_s=self._within(shut_s))

    def _start_s(self, version: VersionEntry) -> float:
        return version.start_s + self._settings.notice_s if version.start_s else self._settings.retry_after_s

    def _within(self, wait_s: float) -> float:
        return min(self._settings.most_retry_after_s, max(1.0, wait_s))

    def _full(self, workers: Sequence[WorkerEntry], now: float) -> Overloaded:
        """Say when the first of the full workers will have done half of its queue, at the rate it works."""
        at = self._table.view.at
        waits = [
            0.5 * self._board.work_tokens(w.id, w.load, at, now) / max(1.0, self._board.drain_per_s(w.id))
            for w in workers
        ]
        return Overloaded(retry_after_s=self._within(min(waits)))

    def _forget(self, before: View, after: View) -> None:
        self._board.forget(before.workers - after.workers)
        for version in [v for v in self._indexes if v not in after.versions]:
            del self._indexes[version]
