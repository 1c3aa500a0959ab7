"""A worker's gate before a toy engine, as a process: ``python -m tests.support.workers.gate_process PLAN``.

The plan is the one that the agent writes; TLS is put on as in the engine's process, and uvicorn serves.
"""

import asyncio
import json
import sys
from pathlib import Path

import uvicorn
from starlette.types import Receive, Scope, Send

from penstock.telemetry import logs
from penstock.worker.engines import plan
from penstock.worker.engines.launch import guard_listener
from penstock.worker.gate.corridor import Gate

TOKENS, STEP_S = 100, 0.05
"""Of a stream, where its request asks for no other number."""


async def engine(scope: Scope, receive: Receive, send: Send) -> None:
    """Stream the asked number of tokens, one a step, as vLLM's chat does."""
    asked = json.loads((await receive())["body"])
    head = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for number in range(asked.get("max_tokens") or TOKENS):
        choice = {"index": 0, "delta": {"content": f"t{number} "}, "finish_reason": None}
        await _event(send, {"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": [choice]})
        await asyncio.sleep(STEP_S)
    last = {"index": 0, "delta": {}, "finish_reason": "stop"}
    await _event(send, {"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": [last]})
    usage = {"prompt_tokens": 5, "completion_tokens": TOKENS, "total_tokens": 5 + TOKENS}
    await _event(send, {"id": "x", "object": "chat.completion.chunk", "created": 1, "choices": [], "usage": usage})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


async def _event(send: Send, content: dict[str, object]) -> None:
    body = b"data: " + json.dumps(content).encode() + b"\n\n"
    await send({"type": "http.response.body", "body": body, "more_body": True})


def main() -> None:
    """Listen at a free port and say which."""
    launch = plan.read(Path(sys.argv[1]))
    logs.configure("worker")
    if launch.tls is not None:
        guard_listener(launch.tls)
    config = uvicorn.Config(Gate(engine, launch.gate), port=0, log_config=None, lifespan="off", loop="uvloop")
    listener = config.bind_socket()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    main()
