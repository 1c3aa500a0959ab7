"""Program: an engine on paper that sends a token every 20 ms on each connection; it prints its port."""

import asyncio
import sys

from tests.support.lines import say

EVERY_S = 0.02


async def stream(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    loop = asyncio.get_running_loop()
    due = loop.time()
    while not writer.is_closing():
        writer.write(b"token\n")
        await writer.drain()
        due += EVERY_S
        await asyncio.sleep(due - loop.time())


async def main() -> None:
    server = await asyncio.start_server(stream, "127.0.0.1", 0)
    say(server.sockets[0].getsockname()[1])
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
