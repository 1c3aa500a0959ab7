"""Items in, outputs out: items are prepared on CPU threads, batched, computed beside the event loop, and counted for
the bill. An item's token count is capped by its version's declared bounds; ``app`` handles HTTP.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import torch

from penstock.domain.clock import Clock, SystemClock
from penstock.domain.errors import BadRequest, DeadlineInQueue, EngineError, PenstockError
from penstock.domain.ids import TenantId, VersionId
from penstock.domain.serving.report import Batched
from penstock.domain.serving.ticket import GIVEN_UP_S, Ticket
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats import pictures
from penstock.worker.batching.collector import Batcher
from penstock.worker.batching.faults import OutOfMemory
from penstock.worker.batching.items import Item, Key
from penstock.worker.engines.torch import declared
from penstock.worker.engines.torch.handler import Features, Given, Handler, Prepared
from penstock.worker.engines.torch.places import log, place_of
from penstock.worker.engines.torch.preparing import Preparing
from penstock.worker.engines.torch.prospects import Prospect, Prospects
from penstock.worker.engines.torch.tally import Numbers
from penstock.worker.meter import Meter, current
from penstock.worker.share import Share


class Sharing:
    """Two full batches in all if one tenant is present, else each list's own share."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tenants: Counter[TenantId] = Counter()
        self._lists: list[Share] = []

    @contextmanager
    def of(self, tenant: TenantId, share: Share | None) -> Iterator[None]:
        """Bounds the list's ``share``; the platform itself does not count."""
        if tenant == PLATFORM:
            yield
            return
        self._tenants[tenant] += 1
        if share is not None:
            self._lists.append(share)
        self._look()
        try:
            yield
        finally:
            self._tenants -= Counter([tenant])
            if share is not None:
                self._lists.remove(share)
            self._look()

    def _look(self) -> None:
        is_alone = len(self._tenants) == 1
        for share in self._lists:
            share.widen(self._most // len(self._lists) if is_alone else 0)


class TokenCaps:
    """The first count out of bounds is logged."""

    def __init__(self, item_tokens: int) -> None:
        self._most, self._is_said = item_tokens, False

    def billed(self, prepared: Prepared, given: Given) -> Prepared:
        """The handler's capped count, and tokens of decoding its pictures. The gateway has reserved the same number,
        from the same image headers.
        """
        within = self._within(prepared)
        decoded = pictures.tokens_of_item(given) if self._most else 0
        return replace(within, tokens=within.tokens + decoded) if decoded else within

    def _within(self, prepared: Prepared) -> Prepared:
        tokens = max(0, prepared.tokens)
        if self._most:
            tokens = min(self._most, tokens)
        if tokens == prepared.tokens:
            return prepared
        if not self._is_said:
            self._is_said = True
            log(
                "the handler counts an item as %d tokens, which is not from 0 to its item_tokens: it is charged as %d",
                prepared.tokens,
                tokens,
            )
        return replace(prepared, tokens=tokens)


_NO_MEMORY = ("can't allocate memory", "not enough memory")
"""The out-of-memory message of torch's CPU allocator, which has no error class for it."""
BATCHES = 2
"""Batches for which the queue has slots: one in computation, one being formed."""
GIVEN_UP_PART = 0.05
"""The largest part of a request's time that ``GIVEN_UP_S`` may take."""
_Done = tuple[Features, int, Batched | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    rows: tuple[Features, ...]
    tokens: int


@dataclass(frozen=True, slots=True)
class Computed:
    row: Features
    items: int
    seconds: float


@dataclass(frozen=True, slots=True)
class _Asked:
    ticket: Ticket
    meter: Meter
    prospect: Prospect


class Compute:
    def __init__(self, handler: Handler, numbers: Numbers, clock: Clock) -> None:
        self._handler, self._numbers, self._clock = handler, numbers, clock

    def __call__(self, items: Sequence[Item]) -> list[Computed]:
        rows, began_at = [_features(item) for item in items], self._clock.monotonic()
        self._numbers.running += len(rows)
        try:
            with torch.inference_mode():
                batch = {name: self._stacked([row[name] for row in rows]) for name in rows[0]}
                made = {name: one.cpu() for name, one in self._handler.forward(batch).items()}
        except (RuntimeError, MemoryError) as error:
            if _is_lack_of_memory(error):
                raise OutOfMemory from error
            raise
        finally:
            self._numbers.running -= len(rows)
            self._numbers.batches += 1
        if any(len(one) != len(rows) for one in made.values()):
            raise EngineError("the model returned a different number of rows than it was given")
        if not _has_postprocess(self._handler):
            declared.check(made, self._handler.model.settings)
        self._numbers.items += len(rows)
        seconds = self._clock.monotonic() - began_at
        return [Computed({name: one[i] for name, one in made.items()}, len(rows), seconds) for i in range(len(rows))]

    def _stacked(self, rows: Sequence[torch.Tensor]) -> torch.Tensor:
        return torch.stack(list(rows)).to(self._handler.model.device, non_blocking=True)


class Service:
    def __init__(
        self, version: VersionId, handler: Handler, batcher: Batcher, preparing: Preparing, numbers: Numbers
    ) -> None:
        self._version, self._handler = version, handler
        self._batcher, self._preparing, self._numbers = batcher, preparing, numbers
        self._clock, self._prospects = SystemClock(), Prospects()
        self._counts = TokenCaps(handler.model.settings.item_tokens)
        self._sharing = Sharing(BATCHES * handler.model.settings.max_batch)
        self._dtype = str(handler.model.dtype).removeprefix("torch.")

    async def answer(self, given: Sequence[Given], ticket: Ticket) -> Answered:
        """Answer in order.

        Raises the first item's error, ``BadRequest`` or a batcher's; the other items are cancelled.
        """
        meter = current.get() or Meter()
        asked = _Asked(ticket, meter, self._prospect(given, ticket, meter))
        with self._sharing.of(ticket.tenant, meter.share), self._prospects.of(asked.prospect):
            try:
                async with asyncio.timeout(asked.prospect.until - self._clock.monotonic()):
                    done = await self._all(given, asked)
            except (DeadlineInQueue, TimeoutError):
                raise self._prospects.ran_out(asked.prospect) from None
        meter.batched = done[-1][2] if done else None
        return Answered(rows=tuple(row for row, _, _ in done), tokens=sum(tokens for _, tokens, _ in done))

    async def _all(self, given: Sequence[Given], asked: _Asked) -> Sequence[_Done]:
        share, tasks = asked.meter.share, list[asyncio.Task[_Done]]()
        if len(given) == 1 and share is None:
            return [await self._one(given[0], asked)]
        try:
            async with asyncio.TaskGroup() as group:
                for one in given:
                    if share is not None:  # no more tasks than may work
                        await share.take(1)
                    tasks.append(group.create_task(self._one(one, asked)))
        except BaseExceptionGroup as several:
            first = _first(several)
            raise first from first.__cause__
        return [task.result() for task in tasks]

    def exposition(self) -> str:
        self._numbers.waiting = self._batcher.waiting
        return self._numbers.exposition()

    def examples(self, count: int) -> list[Given]:
        return [self._handler.example() for _ in range(count)]

    def _prospect(self, given: Sequence[Given], ticket: Ticket, meter: Meter) -> Prospect:
        now = self._clock.monotonic()
        left_s = ticket.deadline_at - self._clock.now()
        left_s -= min(GIVEN_UP_S, GIVEN_UP_PART * left_s)
        return Prospect(ticket.tenant, len(given), now - (meter.waited_s or 0.0), now + left_s)

    async def _one(self, given: Given, asked: _Asked) -> _Done:
        try:
            began_at = self._clock.monotonic()
            prepared = await self._prepared(given, asked)
            prepared_s = self._clock.monotonic() - began_at
            row, tokens, batch = await self._computed(prepared, given, asked)
            asked.prospect.check(self._clock.monotonic())
            return row, tokens, None if batch is None else replace(batch, prepared_s=prepared_s)
        finally:
            if asked.meter.share is not None:
                asked.meter.share.give(1)

    async def _computed(self, prepared: Prepared, given: Given, asked: _Asked) -> _Done:
        ticket, meter = asked.ticket, asked.meter
        batches: list[Batched] = []

        def started(batch: Batched) -> None:
            asked.prospect.began()
            batches.append(batch)
            meter.prompt(prepared.tokens)  # here, and not before: what is never computed costs nothing

        meter.enter()
        try:
            done = cast(
                "Computed",
                await self._batcher.submit(self._item(prepared, given, ticket, meter.weight), started),
            )
            meter.shared(done.items, done.seconds / done.items)
            asked.prospect.did(done.seconds / done.items)
            meter.made(0)
        finally:
            meter.leave()
        self._numbers.tokens += prepared.tokens
        row = await self._told(done.row)
        return row, prepared.tokens, replace(batches[-1], computed_s=done.seconds) if batches else None

    async def _told(self, row: Features) -> Features:
        if not _has_postprocess(self._handler):
            return row
        return await asyncio.get_running_loop().run_in_executor(self._preparing.pool, self._postprocessed, row)

    def _postprocessed(self, row: Features) -> Features:
        told = self._handler.postprocess(row)
        declared.check({name: one[None] for name, one in told.items()}, self._handler.model.settings)
        return told

    def _item(self, prepared: Prepared, given: Given, ticket: Ticket, weight: float) -> Item:
        features = prepared.features
        shapes = tuple(size for one in features.values() for size in (*one.shape, -1))
        kinds = tuple(f"{name} {one.dtype}" for name, one in features.items())
        return Item(
            key=Key(version=self._version, dtype=self._dtype, bucket=prepared.padded, shape=shapes, arguments=kinds),
            cost=prepared.cost,
            deadline_at=ticket.deadline_at - self._clock.now() + self._clock.monotonic(),
            standing=ticket.standing,
            tenant=ticket.tenant,
            payload=prepared.features,
            digest=_digest(given),
            weight=weight,
        )

    async def _prepared(self, given: Given, asked: _Asked) -> Prepared:
        """Prepare a request's only, quick item on the event loop."""
        work = partial(self._handler.preprocess, given)
        try:
            if asked.prospect.items == 1 and self._handler.is_quick(given):
                return self._counts.billed(self._preparing.at_once(work), given)
            return self._counts.billed(await self._preparing.prepared(work, asked.ticket), given)
        except PenstockError:
            raise
        except (ValueError, TypeError, KeyError) as error:  # a handler that lets its input's faults through
            raise BadRequest(f"the model's handler can't take this input: {place_of(error)}") from error


def _has_postprocess(handler: Handler) -> bool:
    return type(handler).postprocess is not Handler.postprocess


def _features(item: Item) -> Features:
    assert isinstance(item.payload, dict)  # noqa: S101  made by `Service._item`
    return item.payload


def _digest(given: Given) -> bytes:
    raw = given.encode(errors="surrogatepass") if isinstance(given, str) else given
    return hashlib.blake2b(raw, digest_size=16).digest() if isinstance(raw, bytes) else b""


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    found: BaseException = several
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _is_lack_of_memory(error: Exception) -> bool:
    lacks = isinstance(error, torch.OutOfMemoryError | MemoryError)
    return lacks or any(sign in str(error) for sign in _NO_MEMORY)
