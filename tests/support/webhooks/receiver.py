"""Program: a receiver of webhooks on loopback; prints its port, then a line for each request: path, id, attempt's time.

    python -m tests.support.webhooks.receiver

The path's first part says what it does: ``ok``, ``hang`` (never answers), or a status such as ``500``.
"""

import asyncio

from tests.support.lines import say


async def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path, headers = head.split(" ")[1], dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:-2])
        await reader.readexactly(int(headers["content-length"]))
        say(f"{path} {headers['webhook-id']} {headers['webhook-timestamp']}")
        does = path.split("/")[1]
        if does == "hang":
            await asyncio.sleep(3600)
        status = 200 if does == "ok" else int(does)
        writer.write(f"HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n".encode())
        await writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(met, "127.0.0.1", 0, backlog=4096)
    say(server.sockets[0].getsockname()[1])
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
