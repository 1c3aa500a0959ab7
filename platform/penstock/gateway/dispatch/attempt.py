"""One attempt: receives a worker's answer until the first token has been passed on.

Until then another worker can be tried, so errors go to the dispatcher; later errors go to the relay.
"""

import asyncio
from typing import Protocol

from penstock.domain.errors import PenstockError
from penstock.domain.ids import VersionId, WorkerId
from penstock.domain.outcome import Stage
from penstock.domain.serving.report import NOTHING, Load, Report
from penstock.domain.serving.transport import Exchange
from penstock.formats.report import HEADER, decode
from penstock.gateway.calls.call import Admitted
from penstock.gateway.calls.demand import ANY, Demand
from penstock.gateway.calls.relay import Relay
from penstock.gateway.dispatch import verdict, wire
from penstock.gateway.dispatch.verdict import FailedAttempt


class Loads(Protocol):
    def heard(self, worker: WorkerId, load: Load) -> None: ...

    def dispatched(self, worker: WorkerId, tokens: int) -> None: ...

    def turned_away(self, worker: WorkerId, version: VersionId, for_s: float, refused: Demand = ANY) -> None: ...


_OK = 200
_MAX_ERROR_BYTES = 64 << 10
_ERROR_EVENTS = (b'data: {"error"', b"event: error")


class Attempt:
    """Receives one exchange with a worker, and is the relay's source.

    The relay gets the attempt at its start, so that a disconnect ends it.
    """

    def __init__(self, relay: Relay, worker: WorkerId, loads: Loads, call: Admitted) -> None:
        self._call = call
        call.attempts.begin()
        self._is_unasked = False
        self._relay = relay
        self._worker = worker
        self._loads = loads
        self._done: asyncio.Future[FailedAttempt | None] = asyncio.get_running_loop().create_future()
        self._exchange: Exchange | None = None
        self._aborted = False
        self._paused = False
        self._status = 0
        self._refused = b""
        self._body = b""
        relay.attach(self)

    def started(self, exchange: Exchange) -> None:
        self._exchange = exchange
        if self._aborted:
            exchange.abort()
        elif self._paused:
            exchange.pause()

    def not_connected(self, error: OSError) -> None:
        self._call.attempts.used = NOTHING
        self._settle(verdict.no_connection(error))

    async def begun(self) -> FailedAttempt | None:
        """Return None once the answer reaches the caller.

        Raises the relay's error if the client left or it is too late.
        """
        try:
            return await self._done
        except asyncio.CancelledError:
            self._close()
            raise

    # -- the relay's source ------------------------------------------------------------

    def pause(self) -> None:
        self._paused = True
        if self._exchange is not None:
            self._exchange.pause()

    def resume(self) -> None:
        self._paused = False
        if self._exchange is not None:
            self._exchange.resume()

    def abort(self, error: PenstockError) -> None:
        self._close()
        if not self._done.done():
            self._done.set_exception(error)

    # -- the exchange's receiver -------------------------------------------------------

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Read the gate's load report; the relay gets only a 200."""
        call, report = self._call, decode(wire.header(headers, HEADER))
        if report.load is not None:
            self._loads.heard(self._worker, report.load)
        self._status, call.attempts.report = status, report
        waited_s = self._for_adapter(report)
        if status == _OK or waited_s:  # who was refused at once did not wait
            call.timings.spent(Stage.QUEUE, waited_s)
        if status == _OK:
            self._is_unasked = call.request.stream and not wire.is_stream(headers)
            self._relay.on_head(status, headers)
        else:
            self._refused = wire.header(headers, wire.REFUSED_HEADER)
        call.attempts.used = NOTHING if self._refused else report.used

    def _for_adapter(self, report: Report) -> float:
        """Return the request's wait at the gate without its adapter's part, which is a separate stage."""
        call, waited_s = self._call, report.waited.waited_s if report.waited is not None else 0.0
        if report.adapted is None or not call.version.base:
            return waited_s
        spent_s = min(waited_s, report.adapted.waited_s)
        if spent_s:
            call.timings.spent(Stage.ADAPTER, spent_s)
        return waited_s - spent_s

    def on_body(self, data: bytes) -> None:
        if self._status != _OK:
            if len(self._body) < _MAX_ERROR_BYTES:
                self._body += data
            return
        if self._is_unasked:
            return
        if data.startswith(_ERROR_EVENTS):
            self._close()
            self._settle(verdict.of_event(data))
            return
        self._relay.on_body(data)
        if self._relay.has_delivered:
            if self._exchange is not None:
                self._exchange.hand_over(self._relay)
            self._settle(None)

    def on_end(self, error: BaseException | None) -> None:
        self._exchange = None  # it knows us: no cycle is to stay
        if error is not None:
            self._settle(verdict.lost())
        elif self._status != _OK:
            self._settle(verdict.of_answer(self._status, self._refused, self._body, has_run=self._has_run))
        elif self._is_unasked:
            self._settle(verdict.no_stream())
        else:
            self._relay.on_end(None)
            self._settle(None if self._relay.has_delivered else verdict.engine_error())

    @property
    def _has_run(self) -> bool:
        """Tell whether the single prompt made tokens; of a list, a later prompt may be the refused one."""
        used = self._call.attempts.used
        return used is not None and used.output_tokens > 0 and self._call.request.cost.prompts == 1

    def _settle(self, result: FailedAttempt | None) -> None:
        if not self._done.done():
            self._done.set_result(result)

    def _close(self) -> None:
        self._aborted = True
        if self._exchange is not None:
            self._exchange.abort()
            self._exchange = None
