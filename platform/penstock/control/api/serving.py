"""Serves the operators' API for as long as the controller's work runs: the end of either ends the other.

Signals are left to the process: uvicorn's handling would end it before the leader's lock is released.
"""

import asyncio
import signal
import socket
from collections.abc import Coroutine, Generator
from contextlib import contextmanager, suppress
from secrets import token_hex

from penstock.control.api.app import bounded, refusal
from penstock.control.api.deps import Control
from penstock.control.api.refusals import WINDOW_S
from penstock.intake.held import Intake
from penstock.intake.limits import Limits
from penstock.intake.server import EdgeServer, configure
from penstock.tls.identity import CONTROLLER_API
from penstock.tls.listener import guard
from penstock.tls.mutual import Mutual

ENDS_WITHIN_S = 3.0
"""Seconds after which an operator's call is cut off at the end of the process."""


class _Server(EdgeServer):
    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


async def serve(
    control: Control, work: Coroutine[None, None, None], listener: socket.socket, mutual: Mutual | None
) -> None:
    limits = Limits(drain_grace_s=ENDS_WITHIN_S, drain_linger_s=0.0)
    intake = Intake(connections=limits.connections)
    config = configure(bounded(control, limits, intake), limits, intake, answer=refusal, ids=lambda: token_hex(12))
    config.load()
    if mutual is not None:
        guard(config, mutual, CONTROLLER_API)
    server = _Server(config)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, setattr, server, "should_exit", True)  # noqa: FBT003
    corridor = asyncio.create_task(work)
    corridor.add_done_callback(lambda _: setattr(server, "should_exit", True))
    try:
        await server.serve(sockets=[listener])
    finally:
        corridor.cancel()
        with suppress(asyncio.CancelledError):
            await corridor


async def note_repeats(control: Control) -> None:
    while True:
        await asyncio.sleep(WINDOW_S)
        await control.note_repeats()
