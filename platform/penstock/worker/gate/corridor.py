"""The life of a request at its worker: ticket → adapter → wait → engine → settle.

The gate is vLLM's ``--middleware``: no extra hop, and no request can avoid its checks.

Trade-off: it shares the engine's event loop, so its work per request and chunk must be minimal.
"""

import asyncio
import itertools
from dataclasses import dataclass

from penstock.domain.clock import Clock, SystemClock
from penstock.domain.ids import RequestId
from penstock.domain.serving.report import AT_ONCE, Report
from penstock.domain.serving.ticket import Presented, Ticket
from penstock.domain.tenancy.standing import Standing
from penstock.domain.tenancy.tenant import PLATFORM
from penstock.lateness.awake import awake_time
from penstock.worker import gate_config
from penstock.worker.gate.adapters import AdapterPages
from penstock.worker.gate.asgi import ASGIApp, Receive, Scope, Send
from penstock.worker.gate.entry import Entry
from penstock.worker.gate.in_flight import InFlight, RequestChannels, Visit
from penstock.worker.gate.meters import Meters
from penstock.worker.gate.pages import Pages
from penstock.worker.gate.queue_wait import QueueRefusal, QueueWait
from penstock.worker.gate.queueing.work import Work
from penstock.worker.gate.refusals import OF_QUEUE, GateRefusal, RefusalAnswers, Refused
from penstock.worker.gate.tally import Tally
from penstock.worker.gate.work import excess, queue_of, work_of
from penstock.worker.gate_config import TICKET, GateConfig
from penstock.worker.meter import Stops
from penstock.worker.share import Share


@dataclass(frozen=True, slots=True)
class EngineEntry:
    receive: Receive
    report: Report
    work: Work | None = None
    """The queue's entry; None for the platform's own probes, which do not wait."""
    first_token_s: float | None = None


class Gate:
    def __init__(
        self,
        app: ASGIApp,
        config: GateConfig | None = None,
        clock: Clock | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._app, self._numbers = app, itertools.count()
        self.config, self.clock = config or gate_config.installed(), clock or SystemClock()
        self.queue = queue_of(self.config)
        self.queue.look_later = self._look_later
        self.tally = Tally(self.config, self.queue, self.clock.monotonic)
        self.meters = meters if meters is not None else Meters()
        self.entry = Entry(bytes.fromhex(self.config.ticket_key), self.clock)
        self._refusals = RefusalAnswers(self.tally.metrics, self.config.version, self.tally.headers)
        self._adapters: AdapterPages | None = None
        if (slots := self.queue.adapters) is not None:
            self._adapters = AdapterPages(self.queue, slots, app, self.clock, self.config.version)
            self.tally.beside.append(self._adapters.exposition)
        self._pages = Pages(
            engine=app,
            entry=self.entry,
            tally=self.tally,
            meters=self.meters,
            refusals=self._refusals,
            clock=self.clock,
            adapters=self._adapters,
        ).by_path()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # it carries no ticket
            await send({"type": "websocket.close", "code": 1008})
        elif scope["type"] != "http":
            await self._app(scope, receive, send)
        elif (page := self._pages.get(scope["path"])) is not None:
            await page(scope, receive, send)
        else:
            try:
                presented = self.entry.presented(scope)
                with self.entry.counted():
                    await self._serve(presented, scope, receive, send)
            except Refused as refused:
                await self._refusals.answer(refused, send)

    async def _serve(self, presented: Presented, scope: Scope, receive: Receive, send: Send) -> None:
        ticket, receive = await self.entry.accept(presented, scope, receive)
        with self.meters.metered(ticket, self.clock) as meter:
            request = RequestId(f"{ticket.request}/{next(self._numbers)}")
            visit = Visit(ticket, request, meter, awake_time().seconds())
            self._find_adapter(ticket)
            admitted = await self._wait(visit, receive)
            if admitted is not None:
                await self._engine(visit, admitted, scope, send)

    def _find_adapter(self, ticket: Ticket) -> None:
        """Refuse only a failed adapter; others are loaded during the wait, by ``worker/agent/adapters.py``."""
        why, for_s = self._without(ticket)
        if why:
            raise Refused(GateRefusal.ADAPTER, why, QueueRefusal(None, for_s))

    def _without(self, ticket: Ticket) -> tuple[str, float]:
        """Return reason and seconds; empty if the ticket's adapter is served."""
        if not ticket.adapter:
            return "", 0.0
        return (
            self._adapters.refusal(ticket.adapter) if self._adapters else ("its engine has no slots for adapters", 0.0)
        )

    async def _wait(self, visit: Visit, receive: Receive) -> EngineEntry | None:
        """Return None if the client has left. Raises ``Refused``."""
        ticket, size = visit.ticket, self.queue.slots.size
        if ticket.tenant == PLATFORM and not ticket.adapter:
            return EngineEntry(receive, Report(waited=AT_ONCE))
        now = self.clock.monotonic()
        work = work_of(ticket, visit.request, size, clocks_apart=now - self.clock.now(), now=now)
        visit.meter.stops = Stops(is_awaited=work.standing is Standing.INTERACTIVE, until=work.stops_until)
        if too_much := excess(ticket, work, size):
            raise Refused(GateRefusal.TOO_LARGE, f"it needs {too_much}")
        wait = QueueWait(self.queue, work, receive, self.clock.monotonic)
        refused = await wait.until_admitted()
        visit.meter.waited_s = wait.waited.waited_s
        if refused is None:
            self.tally.queue_s.observe(wait.waited.waited_s)
            return EngineEntry(wait.receive, wait.report, work, wait.first_token_s)
        if refused.why is None:
            return None
        refusal = OF_QUEUE[refused.why]
        self.tally.shed(ticket.standing.name.lower(), refused.reason or refusal)
        raise Refused(refusal, self._without(ticket)[0], refused, wait.report)

    async def _engine(self, visit: Visit, admitted: EngineEntry, scope: Scope, send: Send) -> None:
        work = admitted.work
        if work is not None and work.part < 1.0:
            visit.meter.share = Share(work.sequences)
        connection = RequestChannels(
            scope["path"], admitted.receive, send, self.clock.monotonic, admitted.report, admitted.first_token_s
        )
        in_flight = InFlight(visit, connection, self.tally)
        try:
            await self._app({**scope, TICKET: visit.ticket}, in_flight.receive, in_flight.send)
        except Exception as error:
            in_flight.failed(type(error).__name__)
            raise
        finally:
            in_flight.close()

    def _look_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, lambda: self.queue.look(self.clock.monotonic()))
