"""The agent's client of its own engine: through the gate, with tickets of the platform's tenant.

A probe takes the same path as a request and passes the same checks.
"""

import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import cast

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.errors import EngineError
from penstock.domain.ids import NO_VERSION, VersionId
from penstock.domain.models.model import Task
from penstock.domain.models.steps import StepModel
from penstock.domain.serving.probe import question
from penstock.domain.serving.report import Load
from penstock.domain.serving.ticket import HEADER, binding_of, of_platform, seal
from penstock.worker.agent import wire
from penstock.worker.agent.warmup.warm import EngineRefused
from penstock.worker.engines.translate import EngineNumbers, parse

_OK = 200
_REFUSALS = frozenset({400, 422, 501})


@dataclass(frozen=True, slots=True, kw_only=True)
class GateState:
    """An older or newer gate may leave out a figure of the load: its default then counts."""

    load: Load
    in_flight: int
    draining: bool
    inside: int
    """Requests in flight, waiting in the queue, or still sending their body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateClient:
    url: str
    version: VersionId
    ticket_key: bytes
    clock: Clock
    tls: Callable[[], ssl.SSLContext] | None = None
    """TLS settings of connections to the gate."""
    adapter: VersionId = NO_VERSION
    """The adapter that the client's questions are for; empty for the version itself."""

    def of(self, adapter: VersionId) -> "GateClient":
        return replace(self, version=adapter, adapter=adapter)

    async def is_healthy(self, timeout_s: float = 2.0) -> bool:
        """The engine reports healthy. Raises ``OSError`` without an answer."""
        answer = await self._get("/health", timeout_s)
        return answer.status == _OK

    async def numbers(self, timeout_s: float = 5.0) -> EngineNumbers:
        return parse((await self._page("/metrics", timeout_s)).decode())

    async def exposition(self, timeout_s: float = 2.0) -> bytes:
        return await self._page("/penstock/metrics", timeout_s)

    async def observe(
        self, numbers: EngineNumbers, timeout_s: float = 5.0, *, still: bool, batch_slots: int | None = None
    ) -> GateState:
        """Send the engine's figures, whether it is idle, and the slots for batch work. Raises ``OSError`` or
        ``EngineError``.
        """
        body = {
            "waiting": numbers.waiting,
            "kv_used_ratio": numbers.kv_used_ratio,
            "kv_blocks": numbers.kv_blocks,
            "still": still,
            "batch_slots": batch_slots,
        }
        return _state(await self.ask("/penstock/observed", body, timeout_s))

    async def steps(
        self, learned: StepModel | None = None, timeout_s: float = 5.0, *, forget: bool = False
    ) -> Mapping[str, object]:
        """Send the learned step model, return the step log; ``forget`` clears it. Raises ``OSError`` or
        ``EngineError``.
        """
        body = {"forget": forget, "learned": asdict(learned) if learned is not None else None}
        return await self.ask("/penstock/steps", body, timeout_s)

    async def drain(self, timeout_s: float = 5.0) -> GateState:
        """Close the gate for new work. Raises ``OSError`` or ``EngineError``."""
        return _state(await self.ask("/penstock/drain", {}, timeout_s))

    async def rest(self, timeout_s: float = 5.0, *, on: bool) -> GateState:
        """Close the gate for new requests (``on``) while running ones continue, or open it.

        Raises ``OSError`` or ``EngineError``.
        """
        return _state(await self.ask("/penstock/rest", {"rest": on}, timeout_s))

    async def sleep(self, timeout_s: float = 60.0) -> None:
        await self.ask("/penstock/sleep", {}, timeout_s)

    async def wake(self, timeout_s: float = 60.0) -> None:
        await self.ask("/penstock/wake", {}, timeout_s)

    async def probe(self, task: Task, timeout_s: float) -> None:
        path, body = question(task)
        await self.ask(path, body, timeout_s)

    async def ask(self, path: str, body: Mapping[str, object], timeout_s: float) -> Mapping[str, object]:
        raw = json.dumps({"model": self.version, **body}).encode()
        call = wire.HttpCall(
            url=f"{self.url}{path}",
            method="POST",
            headers={HEADER: self._ticket(timeout_s, binding_of(path, raw)), "accept": "application/json"},
            body=raw,
            timeout_s=timeout_s,
            tls=self._tls,
        )
        answer = await wire.send(call)
        if answer.status != _OK:
            error = EngineRefused if answer.status in _REFUSALS else EngineError
            raise error(f"the engine answered {answer.status} to {path}: {answer.body[:200].decode(errors='replace')}")
        try:
            return cast("Mapping[str, object]", json.loads(answer.body))
        except ValueError as error:
            raise EngineError(f"the engine's answer to {path} is no JSON") from error

    async def _page(self, path: str, timeout_s: float) -> bytes:
        answer = await self._get(path, timeout_s)
        if answer.status != _OK:
            raise ConnectionError(f"the engine answered {answer.status} to {path}")
        return answer.body

    async def _get(self, path: str, timeout_s: float) -> wire.HttpAnswer:
        return await wire.send(wire.HttpCall(url=self.url + path, headers={}, timeout_s=timeout_s, tls=self._tls))

    @property
    def _tls(self) -> ssl.SSLContext | None:
        return self.tls() if self.tls else None

    def _ticket(self, timeout_s: float, binding: bytes) -> str:
        now = self.clock.now()
        ticket = replace(of_platform(now + timeout_s), adapter=self.adapter)
        return seal(ticket, self.ticket_key, binding, now)


def _state(raw: Mapping[str, object]) -> GateState:
    try:
        return msgspec.convert(raw, GateState)
    except msgspec.ValidationError as error:
        raise EngineError(f"the gate's state can't be read: {error}") from error
