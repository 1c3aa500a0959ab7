"""The gate's refusals, and their answers."""

import json
from collections.abc import Callable
from enum import StrEnum
from http import HTTPStatus

from penstock.domain.ids import VersionId
from penstock.domain.serving.report import SILENT, Report
from penstock.telemetry import names
from penstock.telemetry.metrics import Metrics
from penstock.worker.gate.asgi import Headers, Send, answer
from penstock.worker.gate.queue_wait import FOR_GOOD, QueueRefusal
from penstock.worker.gate.queueing.admission import Shed


class GateRefusal(StrEnum):
    DRAINING = "draining"
    SLEEPING = "sleeping"
    LATE = "late"
    OVERLOADED = "overloaded"
    EVICTED = "evicted"
    TICKET = "ticket"
    TOO_LARGE = "too_large"
    PATH = "path"
    ADAPTER = "adapter"

    @property
    def status(self) -> int:
        return _STATUS.get(self, HTTPStatus.SERVICE_UNAVAILABLE)


_STATUS = {
    GateRefusal.TICKET: HTTPStatus.UNAUTHORIZED,
    GateRefusal.TOO_LARGE: HTTPStatus.BAD_REQUEST,
    GateRefusal.PATH: HTTPStatus.NOT_FOUND,
}
OF_QUEUE = {
    Shed.FULL: GateRefusal.OVERLOADED,
    Shed.KV_PART: GateRefusal.OVERLOADED,
    Shed.LATE: GateRefusal.LATE,
    Shed.EVICTED: GateRefusal.EVICTED,
    Shed.CLOSING: GateRefusal.DRAINING,
    Shed.ADAPTER: GateRefusal.ADAPTER,
}


class Refused(Exception):
    """The engine has not seen the request."""

    def __init__(
        self, refusal: GateRefusal, detail: str = "", queue: QueueRefusal = FOR_GOOD, report: Report = SILENT
    ) -> None:
        super().__init__(detail or refusal)
        self.refusal, self.queue, self.report = refusal, queue, report
        self.message = f"The worker did not take the request: {detail or refusal}."


class RefusalAnswers:
    def __init__(self, metrics: Metrics, version: VersionId, headers: Callable[[Report], Headers]) -> None:
        counter = metrics.counter(names.GATE_REFUSALS)
        self._headers = headers
        self._counts = {refusal: counter.labels(version, refusal) for refusal in GateRefusal}

    async def answer(self, refused: Refused, send: Send) -> None:
        refusal = refused.refusal
        self._counts[refusal].inc()
        body = {"error": {"message": refused.message, "code": refusal, **refused.queue.fields}}
        headers = (*self._headers(refused.report), (b"x-penstock-refused", refusal.encode()))
        await answer(send, refusal.status, json.dumps(body).encode(), headers=headers)
