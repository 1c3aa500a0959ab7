"""Asks a worker's gate for the usage of requests that are running, or that ended without a report.

A missing answer means no usage: the contract allows it, and it is no error.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from penstock.domain.clock import Clock
from penstock.domain.fleet.table import WorkerEntry
from penstock.domain.ids import RequestId, WorkerId
from penstock.domain.serving.ticket import HEADER, binding_of, of_platform, seal
from penstock.domain.serving.transport import Workers
from penstock.domain.serving.used import Used
from penstock.gateway.answers import collecting
from penstock.lateness import timeout

PATH = "/penstock/usage"
_OK = 200


class Asks(Protocol):
    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        """Return the usage so far, or the final one of requests that end within ``wait_s``; unknown requests are left
        out.

        None if the worker does not answer within ``within_s``.
        """
        ...


class UsageClient:
    def __init__(self, workers: Workers, ticket_key: Callable[[WorkerId], bytes], clock: Clock) -> None:
        self._workers, self._key_of, self._clock = workers, ticket_key, clock

    async def ask(
        self, worker: WorkerEntry, requests: Sequence[RequestId], *, within_s: float, wait_s: float = 0.0
    ) -> Mapping[RequestId, Used] | None:
        body = msgspec.json.encode({"requests": requests, "wait_s": wait_s})
        headers = [("content-type", "application/json"), (HEADER, self._ticket(worker.id, body, within_s))]
        try:
            async with timeout(within_s):
                answer = await collecting.ask(self._workers, worker.url, PATH, headers, body, within_s=within_s)
            return msgspec.json.decode(answer.body, type=dict[RequestId, Used]) if answer.status == _OK else None
        except (OSError, msgspec.MsgspecError):  # a time-out is an OSError as well
            return None

    def _ticket(self, worker: WorkerId, body: bytes, seconds: float) -> str:
        now = self._clock.now()
        ticket = of_platform(now + seconds)
        return seal(ticket, self._key_of(worker), binding_of(PATH, body), now)
