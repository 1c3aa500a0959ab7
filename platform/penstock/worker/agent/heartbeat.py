"""Reports to the controller how the worker is: every so often, and at once when its state changes.

With the controller away nothing stops: the next beat tries again, at the address that is valid then.
"""

import asyncio
import json
import ssl
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from penstock.domain.worker import VERSION_HEADER, WORKER_HEADER, WorkerReport
from penstock.telemetry.logs import logger
from penstock.tls.handshake import failed
from penstock.worker.agent import wire

PATH = "/internal/workers/heartbeat"
DRAIN = "drain"
_OK = 200
MOST_WORDS = 300
"""Of a refusal, for the log."""


@dataclass(slots=True, kw_only=True)
class Heart:
    """Beats until cancelled. ``controller`` returns the base URL of the moment, empty where nobody knows one."""

    report: Callable[[], WorkerReport]
    controller: Callable[[], str]
    bearer: str
    on_drain: Callable[[], None]
    every_s: float
    tls: Callable[[], ssl.SSLContext] | None = None
    """What a connection to it is made with."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _is_connected: bool = True

    def beat_now(self) -> None:
        """Ask for a beat without waiting for its time."""
        self._changed.set()

    async def run(self) -> None:
        """Beat."""
        while True:
            self._changed.clear()
            await self.beat()
            try:
                async with asyncio.timeout(self.every_s):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def beat(self) -> bool:
        """Report once; return whether the controller answered."""
        try:
            desired = await self._post()
        except (OSError, ValueError) as error:
            self._note(is_connected=False, reason=failed(error) or str(error) or type(error).__name__)
            return False
        self._note(is_connected=True, reason="")
        if desired == DRAIN:
            self.on_drain()
        return True

    async def _post(self) -> object:
        base = self.controller()
        if not base:
            raise ConnectionError("no address")
        report = self.report()
        call = wire.Call(
            url=base.rstrip("/") + PATH,
            method="POST",
            headers={
                "authorization": f"Bearer {self.bearer}",
                WORKER_HEADER: report.worker,
                VERSION_HEADER: report.version,
            },
            body=json.dumps(asdict(report)).encode(),
            timeout_s=max(1.0, self.every_s),
            tls=self.tls() if self.tls else None,
        )
        answer = await wire.send(call)
        if answer.status != _OK:
            raise ConnectionError(f"status {answer.status}: {answer.body[:MOST_WORDS].decode(errors='replace')}")
        raw = json.loads(answer.body)
        return raw.get("desired") if isinstance(raw, dict) else None

    def _note(self, *, is_connected: bool, reason: str) -> None:
        if is_connected != self._is_connected:
            self._is_connected = is_connected
            logger().info("controller_back" if is_connected else "controller_away", reason=reason)
