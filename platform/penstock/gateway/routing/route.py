"""Sample → filter → score → pick among a version's ready workers; if none is free, the time to wait.

It knows neither HTTP nor a request's text, only the prompt's length and block hashes.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from math import inf
from typing import NamedTuple, Protocol

from penstock.domain.clock import Clock
from penstock.domain.errors import Overloaded
from penstock.domain.fleet.table import VersionEntry, WorkerEntry
from penstock.domain.ids import NO_VERSION, TenantId, VersionId, WorkerId
from penstock.domain.serving.report import FIRST_PACE, Load
from penstock.domain.serving.request import Prepared
from penstock.domain.serving.request_record import Choice
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.routing import refusals, residency, scorers, selection
from penstock.gateway.routing.current import CurrentTable, Roster, View, roster
from penstock.gateway.routing.load_board import LoadBoard
from penstock.gateway.routing.prefix_index import MAX_HOLDERS, PrefixIndex
from penstock.gateway.routing.scorers import Candidate
from penstock.gateway.routing.selection import ENOUGH, ROUNDS, RouterSettings, draw
from penstock.gateway.routing.turned_away import TurnedAway
from penstock.telemetry import names
from penstock.telemetry.metrics import Counted, Counter, Metrics

_MOST_MODELS = 1024
KEY_TOKENS = 256
"""The credit of a cache key if no block of the prompt is known: more than a tie, less than a short prompt's wait."""


class Health(Protocol):
    """Port: workers to skip for a while, never all of those asked about."""

    def ejected(self, workers: Sequence[WorkerId], now: float, among: int = 0) -> frozenset[WorkerId]:
        """The workers to skip; of a sample (``among``) possibly all."""
        ...

    def shut_for_s(self, version: VersionId, now: float) -> float:
        """Seconds of early refusal for a version that fails everywhere; 0 if it may be asked."""
        ...

    def is_unreachable(self, version: VersionId) -> bool:
        """No worker accepts connections: only a start will help."""
        ...


class _PrefixBlocks(NamedTuple):
    held: Counted
    new: Counted


class _Ask(NamedTuple):
    """``held`` are the prompt's cached blocks by worker, ``tried`` the workers already tried."""

    now: float
    held: Mapping[WorkerId, int] = {}
    block_size: int = 0
    tried: frozenset[WorkerId] = frozenset()
    adapter: VersionId = NO_VERSION
    order: Mapping[WorkerId, int] = residency.NOBODY
    """The first workers of the adapter's order, with their positions."""
    own_tokens: int = 0
    """Of its prompt."""
    floods: bool = False
    """Whether a worker of the version refuses the tenant for its own full queue."""


def _of_key(index: PrefixIndex, affinity: int, serving: Roster, block_size: int) -> Mapping[WorkerId, int]:
    holders = index.matches((affinity,), serving.by_id) if affinity else ()
    return {worker: max(1, KEY_TOKENS // max(1, block_size)) for worker in list(holders)[:1]}


def _noted(index: PrefixIndex, affinity: int, chosen: WorkerEntry) -> WorkerEntry:
    if affinity:
        index.record((affinity,), chosen.id)
    return chosen


def _outside(serving: Roster, pools: frozenset[str]) -> frozenset[WorkerId]:
    found = frozenset(one.id for one in serving.serving if pools.isdisjoint(one.pools))
    if found and serving.has_met_all(found):
        raise refusals.outside(pools)
    return found


def _prefix_blocks(counter: Counter, model: str) -> _PrefixBlocks:
    return _PrefixBlocks(*(Counted(counter.labels(model=model, state=state)) for state in _PrefixBlocks._fields))


class WorkerRouter:
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
        self._table = table
        self._health = health
        self._clock = clock
        self._chance = chance
        self._settings = settings
        self._prefix_blocks = lru_cache(_MOST_MODELS)(partial(_prefix_blocks, metrics.counter(names.PREFIX_ROUTED)))
        self._board = LoadBoard()
        self._indexes: dict[VersionId, PrefixIndex] = {}
        self._turned_away = TurnedAway()
        table.on_change(self._forget)

    def pick(
        self,
        version: VersionEntry,
        prepared: Prepared,
        note: Callable[[Choice], None],
        tried: frozenset[WorkerId],
        demand: Demand = ANY,
    ) -> WorkerEntry:
        now = self._clock.monotonic()
        version = self._table.version(version.id) or version
        serving = self._table.view.rosters.get(version.id) or roster(version)
        tried = tried | _outside(serving, demand.pools) if demand.pools else tried
        if serving.has_met_all(tried):
            raise refusals.nobody(version)
        home = version.base or version.id
        if shut_s := self._health.shut_for_s(home, now):
            raise refusals.failing(version, shut_s, is_unreachable=self._health.is_unreachable(home))
        if self._turned_away:
            tried = self._with_refusing(version, serving, tried, demand)
        index = self._indexes.get(home)
        if index is None:
            index = self._indexes[home] = PrefixIndex()
        known: Mapping[WorkerId, int] = index.matches(prepared.blocks, serving.by_id) if prepared.blocks else {}
        held = known or _of_key(index, prepared.affinity, serving, version.block_size)
        floods = bool(self._turned_away) and self._turned_away.has_full_queue(version.id, demand.tenant, now)
        if version.base:
            order = serving.homes.of(version.id)
            ask = _Ask(now, held, version.block_size, tried, version.id, order, prepared.prompt_tokens, floods)
        else:
            ask = _Ask(now, held, version.block_size, tried, own_tokens=prepared.prompt_tokens, floods=floods)
        open_ = self._few(serving, ask)
        chosen, scores = self._best(open_, ask)
        note(selection.recorded(chosen.id, open_, scores, serving=len(serving.serving), met=len(tried)))
        if prepared.blocks:
            self._count(version, known.get(chosen.id, 0), len(prepared.blocks))
            index.record(prepared.blocks, chosen.id)
        return _noted(index, prepared.affinity, chosen)

    def wait_s(self, version: VersionEntry) -> float:
        """Read a random sample of a large version; all workers only if none of the sample would take one."""
        ask = _Ask(self._clock.monotonic())
        version = self._table.version(version.id) or version
        if self._health.shut_for_s(version.base or version.id, ask.now) or self.refuses(version.id):
            return inf
        serving = (self._table.view.rosters.get(version.id) or roster(version)).serving
        some = draw(serving, self._settings.sample.watched, self._chance)
        among = len(serving) if len(some) < len(serving) else 0
        open_ = self._open(some, ask, among) or (self._open(serving, ask) if among else [])
        return min((one.wait_s for one in open_), default=inf)

    def running(self, version: VersionId) -> float:
        roster_ = self._table.view.rosters.get(version)
        some = draw(roster_.serving, self._settings.sample.watched, self._chance) if roster_ is not None else []
        now, at = self._clock.monotonic(), self._table.view.at
        return sum(self._board.seen(one.id, one.load, at, now).load.running for one in some) / max(1, len(some))

    def loads(self, version: VersionId) -> tuple[Load, ...]:
        serving = self._table.view.rosters.get(version)
        now, at = self._clock.monotonic(), self._table.view.at
        workers = serving.serving if serving is not None else ()
        return tuple([self._board.seen(one.id, one.load, at, now).load for one in workers])

    # -- dispatch's ``Loads`` ------------------------------------------------------------

    def heard(self, worker: WorkerId, load: Load) -> None:
        self._board.heard(worker, load, self._clock.monotonic())

    def dispatched(self, worker: WorkerId, tokens: int) -> None:
        self._board.dispatched(worker, tokens, self._clock.monotonic())

    def turned_away(self, worker: WorkerId, version: VersionId, for_s: float, refused: Demand = ANY) -> None:
        self._turned_away.note(worker, version, self._clock.monotonic(), for_s, refused)

    def refusal(self, versions: Iterable[VersionId], demand: Demand) -> Overloaded | None:
        if not self._turned_away:
            return None
        now, waits = self._clock.monotonic(), list[float]()
        for version in versions:
            known = self._table.view.rosters.get(version)
            refusing = self._turned_away.at(version, known.serving, now, demand) if known is not None else ()
            if known is None or not refusing or len(refusing) < len(known.serving):
                return None
            if self._turned_away.may_ask(version, demand.tenant):
                return None
            waits.append(self._turned_away.tell_s(version, refusing, now, demand))
        return refusals.own_queue(min(waits)) if waits else None

    def asks_again(self, version: VersionId, tenant: TenantId) -> bool:
        return self._turned_away.ask(version, tenant)

    def ended(self, version: VersionId, tenant: TenantId) -> None:
        if self._turned_away:
            self._turned_away.ended(version, tenant, self._clock.monotonic())

    def refuses(self, version: VersionId) -> bool:
        known = self._table.view.rosters.get(version)
        if known is None or not known.serving:
            return False
        return len(self._turned_away.at(version, known.serving, self._clock.monotonic())) == len(known.serving)

    # -- choosing ------------------------------------------------------------------------

    def _with_refusing(
        self, version: VersionEntry, serving: Roster, tried: frozenset[WorkerId], demand: Demand
    ) -> frozenset[WorkerId]:
        now, known = self._clock.monotonic(), self._turned_away
        refusing = known.at(version.id, serving.serving, now) if version.base else frozenset[WorkerId]()
        if refusing and serving.has_met_all(tried | refusing):
            raise refusals.refusing(known.wait_s(version.id, refusing, now))
        own = known.at(version.id, serving.serving, now, demand) if demand.tenant else frozenset[WorkerId]()
        if own and serving.has_met_all(tried | refusing | own):
            raise refusals.own_queue(known.tell_s(version.id, own, now, demand))
        return tried | refusing | own

    def _few(self, serving: Roster, ask: _Ask) -> list[Candidate]:
        """Return a sample of a large version's open workers, all of a small one's."""
        everybody, most = serving.serving, self._settings.sample.choices + MAX_HOLDERS
        few = self._sampled(serving, ask) if len(everybody) > most else []
        if few:
            return few
        left = selection.untried(everybody, ask.tried)
        open_ = self._open(left, ask)
        if not open_:
            raise self._full(left, ask)
        return draw(open_, most, self._chance)

    def _sampled(self, serving: Roster, ask: _Ask) -> list[Candidate]:
        """Return an adapter's homes, random draws until enough are open, and the prefix's holders; may be empty."""
        ours, everybody, met = self._settings.sample, serving.serving, set(ask.tried)
        near = [serving.by_id[w] for w in ask.order if w not in met]
        open_ = self._open(near, ask, len(everybody)) if near else []
        met.update(w.id for w in near)
        for _ in range(ROUNDS):
            drawn = [w for w in draw(everybody, max(2, ours.choices - len(near)), self._chance) if w.id not in met]
            open_ += self._open(drawn, ask, len(everybody))
            met.update(w.id for w in drawn)
            if len(open_) >= ENOUGH:
                break
        holders = [serving.by_id[w] for w in ask.held if w not in met] if ask.held else []
        return open_ + self._open(holders, ask, len(everybody)) if holders else open_

    def _open(self, workers: Sequence[WorkerEntry], ask: _Ask, among: int = 0) -> list[Candidate]:
        """``among``: the number of workers that they are sampled from."""
        out = self._health.ejected([w.id for w in workers], ask.now, among)
        left = selection.healthy(workers, out, may_be_none=bool(among)) if out else workers
        at, seen, most_waiting = self._table.view.at, self._board.seen, self._settings.max_waiting
        found = []
        for worker in left:
            load, work_tokens = seen(worker.id, worker.load, at, ask.now)
            if load.waiting < most_waiting:
                cached = ask.held.get(worker.id, 0) * ask.block_size
                found.append(Candidate(worker, work_tokens, cached, load.kv_used_ratio, load.wait_s, load.pace_per_s))
        return found

    def _best(self, open_: Sequence[Candidate], ask: _Ask) -> tuple[WorkerEntry, Sequence[float]]:
        if len(open_) == 1:
            return open_[0].entry, ()
        scores = scorers.totals(open_, adapter=bool(ask.adapter), own_tokens=ask.own_tokens)
        if ask.adapter:
            scores = residency.credited(scores, open_, ask.adapter, ask.order)
        return open_[selection.best(scores, self._chance)].entry, scores

    def _count(self, version: VersionEntry, held: int, blocks: int) -> None:
        counted = self._prefix_blocks(version.id.partition("@")[0])
        counted.held.inc(held)
        counted.new.inc(blocks - held)

    def _full(self, workers: Sequence[WorkerEntry], ask: _Ask) -> Overloaded:
        """Refuse until the first full worker has processed half of its queue.

        A tenant with a full queue of its own at another worker of the version is refused for that.
        """
        at = self._table.view.at
        seen = [self._board.seen(w.id, w.load, at, ask.now) for w in workers]
        wait_s = min(0.5 * one.work_tokens / (one.load.pace_per_s or FIRST_PACE) for one in seen)
        return refusals.own_queue(wait_s) if ask.floods else refusals.full(wait_s)

    def _forget(self, before: View, after: View) -> None:
        self._board.forget(before.workers - after.workers)
        self._turned_away.keep(after.versions)
        for version in [v for v in self._indexes if v not in after.versions]:
            del self._indexes[version]
