"""The torch engine's listener."""

import asyncio
import socket
from pathlib import Path

from penstock.domain.ids import VersionId
from penstock.worker.engines.torch.main import _listening
from penstock.worker.engines.torch.plan import Serving


async def test_each_part_of_an_answer_is_sent_at_once() -> None:
    """A head and its body leave without waiting for the other side's acknowledgement: that took 40 ms."""
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = writer.get_extra_info("socket")
        accepted.set_result(found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = _listening(Serving(version=VersionId("m@1"), folder=Path(), host="127.0.0.1", port=0))
    async with await asyncio.start_server(serve, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await accepted
        writer.close()
