"""A server of uvicorn that does nothing: what the library alone costs. ``python -m loadtests.http_empty``.

It prints its address and process as JSON, and answers each request with the same bytes.
"""

import json
import os
import socket
from typing import Any

import uvicorn

ANSWER = b'{"id":"bench","choices":[{"index":0,"text":"' + b" token" * 16 + b'"}]}'
HEAD = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


async def answer(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  ASGI
    del scope
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": HEAD})
    await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}", "pid": os.getpid()}), flush=True)
        config = uvicorn.Config(answer, loop="uvloop", lifespan="off", access_log=False, log_level="warning")
        uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    main()
