"""Loads LoRA adapters into an engine: those that its queue requests are fetched, verified, loaded, tested, then ready.

A faulty adapter is refused on this worker for a while; if it changed the base's answers, the engine restarts. The
base's golden prompts are asked again in the same batch as the new adapter: asked alone they would not reveal an engine
that confuses the two.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from penstock.domain.clock import Clock
from penstock.domain.errors import ArtifactRefused, EngineError, PenstockError, StoreUnavailable
from penstock.domain.fleet.worker import RefusedAdapter
from penstock.domain.ids import VersionId
from penstock.domain.models.adapter import CONFIG, WEIGHTS
from penstock.domain.models.model import Manifest, digest_of
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.formats import adapter_gain
from penstock.telemetry.logs import logger
from penstock.worker.agent.gate_client import GateClient
from penstock.worker.agent.health import Cause
from penstock.worker.agent.running import EngineLost
from penstock.worker.agent.warmup import golden
from penstock.worker.artifacts.cache import Hold
from penstock.worker.artifacts.node import Copy

POLL_S = 20.0
LOAD_TIMEOUT_S = 60.0
REFUSED_FOR_S = 60.0
"""Seconds until a refused adapter is tried again: store or files may be repaired by then."""
AGAIN_S = 2.0
"""Seconds until a retry after a temporary failure, such as an unreachable store."""
NO_ROOM_S = 0.25
MOST_TOLD = 8
"""The number of refused adapters reported, the latest."""
MOST_REASON_CHARS = 200
COMPANY_TOKENS = 48
"""Output tokens of the adapter while its base's golden prompts run beside it."""
Obtain = Callable[[VersionId], Awaitable[Copy]]


class AdapterRefused(PenstockError):
    """The adapter may not be served on this worker."""


class NoRoom(PenstockError):
    """All adapter slots are in use: none can be freed now."""


class BaseSpoiled(PenstockError):
    """The base model answers wrong after an adapter was loaded: the engine has to be started again."""


@dataclass(slots=True, kw_only=True)
class AdapterLoader:
    client: GateClient
    obtain: Obtain
    """Return a verified copy; raises ``ArtifactRefused`` or ``StoreUnavailable``."""
    clock: Clock
    changed: Callable[[], None]
    """Called when the loaded adapters have changed."""
    resident: tuple[VersionId, ...] = ()
    _before: tuple[VersionId, ...] = ()
    _pinned: tuple[VersionId, ...] = ()
    _pinned_anew: asyncio.Event = field(default_factory=asyncio.Event)
    _holds: dict[VersionId, Hold] = field(default_factory=dict)
    _checked: set[VersionId] = field(default_factory=set)
    _refused: dict[VersionId, tuple[str, float]] = field(default_factory=dict)

    @property
    def refused(self) -> tuple[RefusedAdapter, ...]:
        now = self.clock.monotonic()
        return tuple(
            RefusedAdapter(version=one, reason=why, left_s=max(0.0, until - now))
            for one, (why, until) in self._refused.items()
        )

    def pin(self, adapters: tuple[VersionId, ...]) -> None:
        """Load these first and never evict them; all others are unpinned."""
        if adapters != self._pinned:
            self._pinned = adapters
            self._pinned_anew.set()

    async def beside(self, watch: Awaitable[EngineLost], base: Manifest) -> EngineLost:
        if not base.engine.adapter_slots:
            return await watch
        watching, serving = asyncio.ensure_future(watch), asyncio.ensure_future(self._serve(base, digest_of(base)))
        telling = asyncio.ensure_future(self._tell_pins())
        try:
            await asyncio.wait({watching, serving}, return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                serving.result()
            return await watching
        except BaseSpoiled as spoiled:
            return EngineLost(Cause.CRASH, spoiled.message)
        finally:
            for task in (watching, serving, telling):
                task.cancel()
            await asyncio.gather(watching, serving, telling, return_exceptions=True)
            self._before = tuple(dict.fromkeys((*self.resident, *self._before)))
            self._show(())

    async def _serve(self, base: Manifest, digest: str) -> None:
        self._checked = set()
        self._before = tuple(sorted(self._before, key=lambda one: one not in self._pinned))
        while self._before:
            await self._bring(self._before[0], base, digest)
            self._before = self._before[1:]
        while True:
            try:
                told = await self.client.ask("/penstock/adapters/wanted", {"wait_s": POLL_S}, POLL_S + 10.0)
            except (OSError, EngineError):
                await asyncio.sleep(AGAIN_S)
                continue
            if "adapter" in told:
                await self._bring(VersionId(str(told["adapter"])), base, digest)

    async def _tell_pins(self) -> None:
        """Now and on change, so that the queue requests the missing ones."""
        while True:
            self._pinned_anew.clear()
            try:
                await self.client.ask("/penstock/adapters/pin", {"adapters": list(self._pinned)}, 10.0)
            except (OSError, EngineError):
                await asyncio.sleep(AGAIN_S)
            else:
                await self._pinned_anew.wait()

    async def _bring(self, adapter: VersionId, base: Manifest, digest: str) -> None:
        try:
            await self._load(adapter, base, digest)
        except (ArtifactRefused, AdapterRefused) as error:
            logger().error("adapter_refused", version=adapter, reason=error.message)
            await self._settle(adapter, "refused", reason=error.message, for_s=REFUSED_FOR_S)
            if fault := await self._fault_of_base(base):
                raise BaseSpoiled(f"after {adapter}: {fault}") from error
        except NoRoom:
            await self._settle(adapter, "gave_up")
            await asyncio.sleep(NO_ROOM_S)
        except (StoreUnavailable, OSError, EngineError) as error:
            logger().warning("adapter_not_loaded", version=adapter, reason=str(error))
            await self._settle(adapter, "refused", reason=str(error), for_s=AGAIN_S)
        else:
            logger().info("adapter_ready", version=adapter)
            await self._settle(adapter, "ready")

    async def _load(self, adapter: VersionId, base: Manifest, digest: str) -> None:
        copy = await self.obtain(adapter)
        try:
            await self._check(copy, base, digest)
            body = {"adapter": adapter, "path": str(copy.folder)}
            told = await self.client.ask("/penstock/adapters/load", body, LOAD_TIMEOUT_S)
            if told.get("full"):
                raise NoRoom
        except EngineError as error:
            copy.hold.release()
            raise AdapterRefused(f"the engine does not take it: {error}") from error
        except BaseException:
            copy.hold.release()
            raise
        self._release(adapter)
        self._holds[adapter] = copy.hold
        if adapter not in self._checked:
            await self._question(adapter, copy.manifest, base)
            self._checked.add(adapter)

    async def _check(self, copy: Copy, base: Manifest, digest: str) -> None:
        settings = copy.manifest.adapter
        if settings is None or settings.base != digest:
            theirs = settings.base[:12] if settings else "nobody"
            raise AdapterRefused(f"it was made for {theirs}, and this worker serves {digest[:12]}")
        if not 1 <= settings.rank <= base.engine.adapter_rank:
            raise AdapterRefused(f"its rank is {settings.rank}, and slots allow at most {base.engine.adapter_rank}")
        if fault := await asyncio.to_thread(_fault_of_weights, copy.folder, base.engine.dtype):
            raise AdapterRefused(fault)

    async def _question(self, adapter: VersionId, manifest: Manifest, base: Manifest) -> None:
        """The adapter's golden prompts, then the base's while the adapter runs beside it; then log probabilities.
        Raises ``AdapterRefused``.
        """
        asked = self.client.of(adapter)
        if fault := await golden.check(manifest, asked.ask):
            raise AdapterRefused(fault)
        company = asyncio.ensure_future(asked.ask(Api.COMPLETIONS, _company(), golden.TIMEOUT_S))
        numbered = asyncio.ensure_future(_fault_of_numbers(base, asked))
        try:
            fault, own = await golden.check(base, self.client.ask), await numbered
        finally:
            company.cancel()
            numbered.cancel()
            await asyncio.gather(company, numbered, return_exceptions=True)
        if own:
            raise AdapterRefused(own)
        if fault:
            raise AdapterRefused(f"with this adapter loaded, its base model answers wrong: {fault}")

    async def _fault_of_base(self, base: Manifest) -> str:
        with suppress(OSError, EngineError):
            return await golden.check(base, self.client.ask) or await golden.overflow(base, self.client.ask)
        return ""

    async def _settle(self, adapter: VersionId, outcome: str, *, reason: str = "", for_s: float = 0.0) -> None:
        """Release the files of adapters that the engine no longer holds."""
        body = {"adapter": adapter, "outcome": outcome, "reason": reason, "for_s": for_s}
        self._note(adapter, outcome, reason, for_s)
        if outcome != "ready":
            self._release(adapter)
        with suppress(OSError, EngineError):
            told = await self.client.ask("/penstock/adapters/settle", body, 10.0)
            resident = tuple(cast("list[VersionId]", told.get("resident", self.resident)))
            for gone in self._holds.keys() - {*resident, *self._before}:
                self._release(gone)
            self._show(resident)

    def _note(self, adapter: VersionId, outcome: str, reason: str, for_s: float) -> None:
        if outcome != "gave_up":
            self._refused.pop(adapter, None)
        if outcome == "refused":
            self._refused[adapter] = (reason[:MOST_REASON_CHARS], self.clock.monotonic() + for_s)
            for oldest in list(self._refused)[:-MOST_TOLD]:
                del self._refused[oldest]
            self.changed()

    def _show(self, resident: tuple[VersionId, ...]) -> None:
        if resident != self.resident:
            self.resident = resident
            self.changed()

    def _release(self, adapter: VersionId) -> None:
        hold = self._holds.pop(adapter, None)
        if hold is not None:
            hold.release()


def _fault_of_weights(folder: Path, dtype: str) -> str:
    """Weights that overflow this precision; blocks the thread."""
    try:
        found = json.loads((folder / CONFIG).read_bytes())
        stabilised = found.get("use_rslora") is True
        scale = adapter_gain.scale_of(found["r"], found["lora_alpha"], is_rank_stabilised=stabilised)
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, AttributeError) as error:
        return f"its {CONFIG} gives no scale ({type(error).__name__})"
    return adapter_gain.fault_of(folder / WEIGHTS, scale, dtype)


async def _fault_of_numbers(base: Manifest, client: GateClient) -> str:
    try:
        return await golden.overflow(base, client.ask)
    except EngineError as error:
        return f"it can't say its log probabilities: {error}"


def _company() -> dict[str, object]:
    return {"prompt": [1], "max_tokens": COMPANY_TOKENS, "ignore_eos": True, "temperature": 0, "cache_salt": PLATFORM}
