"""Reports the worker's state to the controller: periodically, and at once on change.

Without a controller nothing stops; each heartbeat uses the controller's current address.
"""

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum

from penstock.domain.fleet.worker import VERSION_HEADER, WORKER_HEADER, WorkerOrder, WorkerReport
from penstock.domain.ids import VersionId
from penstock.telemetry.logs import logger
from penstock.tls.handshake import failed
from penstock.worker.agent import wire

PATH = "/internal/workers/heartbeat"
_ORDERS = frozenset(WorkerOrder)
_OK = 200
MOST_WORDS = 300
REMEDIES = {
    401: "Its key is of another platform, worker or version: `penstock worker-key NAME VERSION` beside the platform's "
    "key prints its own, for PENSTOCK_WORKER_KEY_FILE.",
    403: "Its certificate or its key is another one's: see PENSTOCK_TLS_CERT_FILE and PENSTOCK_WORKER_KEY_FILE.",
}


class Contact(StrEnum):
    HEARD = "heard"
    AWAY = "away"
    REFUSED = "refused"


class HeartbeatRefused(ConnectionError):
    """The controller answers and refuses this worker."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"status {status}: {words}")
        self.remedy = REMEDIES[status]


@dataclass(slots=True, kw_only=True)
class Heart:
    """``controller`` returns the current base URL, empty if unknown."""

    report: Callable[[], WorkerReport]
    controller: Callable[[], str]
    bearer: str
    on_order: Callable[[WorkerOrder], None]
    on_pins: Callable[[tuple[VersionId, ...]], None]
    on_ahead: Callable[[tuple[VersionId, ...]], None] = lambda _: None
    on_batch_slots: Callable[[int | None], None] = lambda _: None
    """Called with the slots that batch work may hold, of each answer; None for no bound."""
    every_s: Callable[[], float]
    tls: Callable[[], ssl.SSLContext] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _contact: Contact = Contact.HEARD

    def beat_now(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        while True:
            self._changed.clear()
            await self.beat()
            try:
                async with asyncio.timeout(self.every_s()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def beat(self) -> bool:
        try:
            told = await self._post()
        except HeartbeatRefused as refusal:
            if self._turned(Contact.REFUSED):
                logger().error("controller_refuses", reason=str(refusal), detail=refusal.remedy)
            return False
        except (OSError, ValueError) as error:
            if self._turned(Contact.AWAY):
                logger().info("controller_away", reason=failed(error) or str(error) or type(error).__name__)
            return False
        if self._turned(Contact.HEARD):
            logger().info("controller_back")
        self._hear(told)
        return True

    def _hear(self, told: Mapping[str, object]) -> None:
        if (desired := told.get("desired")) in _ORDERS:
            self.on_order(WorkerOrder(str(desired)))
        for name, on_versions in (("pinned", self.on_pins), ("ahead", self.on_ahead)):
            if isinstance(versions := told.get(name), list):
                on_versions(tuple(VersionId(str(one)) for one in versions))
        batch_slots = told.get("batch_slots")
        self.on_batch_slots(batch_slots if isinstance(batch_slots, int) else None)

    async def _post(self) -> dict[str, object]:
        base = self.controller()
        if not base:
            raise ConnectionError("no address")
        report = self.report()
        call = wire.HttpCall(
            url=base.rstrip("/") + PATH,
            method="POST",
            headers={
                "authorization": f"Bearer {self.bearer}",
                WORKER_HEADER: report.worker,
                VERSION_HEADER: report.version,
            },
            body=json.dumps(asdict(report)).encode(),
            timeout_s=max(1.0, self.every_s()),
            tls=self.tls() if self.tls else None,
        )
        answer = await wire.send(call)
        if answer.status != _OK:
            words = answer.body[:MOST_WORDS].decode(errors="replace")
            raise (
                HeartbeatRefused(answer.status, words)
                if answer.status in REMEDIES
                else ConnectionError(f"status {answer.status}: {words}")
            )
        raw = json.loads(answer.body)
        return raw if isinstance(raw, dict) else {}

    def _turned(self, contact: Contact) -> bool:
        before, self._contact = self._contact, contact
        return contact is not before
