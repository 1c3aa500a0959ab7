"""Engines that speak every API behind real gates, and fill their meters: all dialects and all ends, without a model.

Run as a process: it prints the address of each gate, and writes to a file what each request took when it was over.
"""

import argparse
import asyncio
import json
import random
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import Receive, Scope, Send

from penstock.domain.clock import SystemClock
from penstock.domain.ids import RequestId, VersionId, WorkerId
from penstock.domain.serving.request import Api
from penstock.domain.tenancy.keys import worker_secret
from penstock.worker.gate.corridor import Gate
from penstock.worker.gate.meters import Meters
from penstock.worker.gate_config import GateConfig
from penstock.worker.meter import Meter, current, fill

STEP_S = 0.002
PROBE = "platform"
"""What the platform's own requests are called: nobody is billed for them."""
LONG_TEXT = "x" * 200_000
"""A request that asks for a seed of 7 gets such pieces: its reader may be too slow for them."""


class Truth(Meters):
    """Meters that write down what every request took, in the order in which they came and ended."""

    def __init__(self, out: Path) -> None:
        super().__init__()
        self._out = out.open("a")

    def open(self, request: RequestId, weight: float = 1.0) -> Meter:
        self._write({"opened": request})
        return super().open(request, weight)

    def close(self, request: RequestId, meter: Meter, now: float) -> None:
        super().close(request, meter, now)
        self._write({"closed": request, **asdict(meter.used)})

    def _write(self, line: dict[str, object]) -> None:
        if PROBE in line.values():
            return
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()


class ToyEngine:
    """An engine's ASGI app: the asked number of tokens, several in one event now and then; it breaks on order."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = json.loads((await receive())["body"])
        meter = current.get()
        assert meter is not None
        working = asyncio.ensure_future(self._answer(scope["path"], body, meter, send))
        leaving = asyncio.ensure_future(_gone(receive))
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        if not working.done():
            working.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
        if not working.cancelled() and (error := working.exception()) is not None:
            raise error

    async def _answer(self, path: str, body: dict[str, Any], meter: Meter, send: Send) -> None:
        prompts = _prompts(path, body)
        for tokens in prompts:
            meter.prompt(tokens)
        meter.cached(sum(prompts) // 3)
        await asyncio.sleep(STEP_S)
        if path == Api.EMBEDDINGS:
            for _ in prompts:
                meter.enter()
                meter.made(0)
                meter.leave()
            await _whole(send, {"data": [], "usage": {"prompt_tokens": sum(prompts)}})
            return
        lots, first = self._lots(body, meter, len(prompts)), True
        if not body.get("stream"):
            made = [tokens async for tokens in lots]
            await _whole(send, _said(path, body, sum(prompts), sum(made)))
            return
        total = 0
        async for tokens in lots:
            if first:
                await _head(send, b"text/event-stream; charset=utf-8")
                await _event(send, _opening(path, body, sum(prompts)))
            total, first = total + tokens, False
            await _event(send, _delta(path, body, self._chance))
        for event in _closing(path, body, sum(prompts), total):
            await _event(send, event)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _lots(self, body: dict[str, Any], meter: Meter, prompts: int) -> AsyncIterator[int]:
        """Make the tokens of all sequences, and yield them in lots of one or more steps; break at the asked one."""
        sequences = prompts * int(body.get("n") or 1)
        each = int(body.get("max_completion_tokens") or body.get("max_tokens") or body.get("max_output_tokens") or 9)
        breaks_at = each // 2 if body.get("seed") == 13 else -1
        for _ in range(sequences):
            meter.enter()
        lot = 0
        for step in range(each):
            await asyncio.sleep(STEP_S)
            for _ in range(sequences):
                meter.made(1)
            lot += sequences
            if step == breaks_at:
                raise RuntimeError("it broke")
            if self._chance.random() < 0.7 or step == each - 1:
                if step == each - 1:
                    for _ in range(sequences):
                        meter.leave()
                yield lot
                lot = 0


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _prompts(path: str, body: dict[str, Any]) -> list[int]:
    """Return each prompt's tokens: as many as it has words."""
    given = body.get("prompt") if path == Api.COMPLETIONS else body.get("input") if path == Api.EMBEDDINGS else None
    texts = given if isinstance(given, list) else [given or json.dumps(body.get("messages") or body.get("input"))]
    return [len(str(text).split()) for text in texts]


def _usage(path: str, prompt: int, output: int) -> dict[str, int]:
    if path in (Api.CHAT, Api.COMPLETIONS):
        return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}
    return {"input_tokens": prompt, "output_tokens": output}


def _said(path: str, body: dict[str, Any], prompt: int, output: int) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "length"}
    shape = {"choices": [choice]} if path in (Api.CHAT, Api.COMPLETIONS) else {"status": "completed"}
    return {"id": "toy", "model": body["model"], **shape, "usage": _usage(path, prompt, output)}


def _opening(path: str, body: dict[str, Any], prompt: int) -> bytes:
    if path == Api.MESSAGES:
        return b"event: message_start\n" + _data(
            {"type": "message_start", "message": {"usage": _usage(path, prompt, 0)}}
        )
    if path == Api.RESPONSES:
        return b"event: response.created\n" + _data({"type": "response.created"})
    return _data({"choices": [{"index": 0, "delta": {"role": "assistant"}}], "model": body["model"]})


def _delta(path: str, body: dict[str, Any], chance: random.Random) -> bytes:
    text = LONG_TEXT if body.get("seed") == 7 else " the"
    if path == Api.MESSAGES:
        return b"event: content_block_delta\n" + _data({"delta": {"text": text}})
    if path == Api.RESPONSES:
        kinds = ("output_text", "reasoning_text", "function_call_arguments")
        return b"event: response.%b.delta\n" % chance.choice(kinds).encode() + _data({"delta": text})
    return _data({"choices": [{"index": 0, "delta": {"content": text}}]})


def _closing(path: str, body: dict[str, Any], prompt: int, output: int) -> list[bytes]:
    usage = _usage(path, prompt, output)
    if path == Api.MESSAGES:
        last = b"event: message_delta\n" + _data({"delta": {"stop_reason": "max_tokens"}, "usage": usage})
        return [last, b"event: message_stop\n" + _data({"type": "message_stop"})]
    if path == Api.RESPONSES:
        return [b"event: response.completed\n" + _data({"response": {"status": "completed", "usage": usage}})]
    return [_data({"choices": [], "usage": usage, "model": body["model"]}), b"data: [DONE]\n\n"]


def _data(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


async def _head(send: Send, kind: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})


async def _whole(send: Send, body: dict[str, Any]) -> None:
    await _head(send, b"application/json")
    await send({"type": "http.response.body", "body": json.dumps(body).encode(), "more_body": False})


async def _event(send: Send, event: bytes) -> None:
    await send({"type": "http.response.body", "body": event, "more_body": True})


def _gate(worker: str, version: str, key: bytes, truth: Path) -> Gate:
    name = WorkerId(worker)
    config = GateConfig(
        worker=name,
        version=VersionId(version),
        ticket_key=worker_secret(key, name).hex(),
        max_num_seqs=4096,
        max_num_batched_tokens=1 << 30,
    )
    return Gate(ToyEngine(random.Random(worker)), config, SystemClock(), Truth(truth))


async def _main(options: argparse.Namespace) -> None:
    fill("toy")
    servers, addresses = [], {}
    for worker in options.workers:
        name, _, version = worker.partition("=")
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        addresses[name] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        gate = _gate(name, version, bytes.fromhex(options.key), options.truth)
        server = uvicorn.Server(uvicorn.Config(gate, log_level="critical", lifespan="off"))
        servers.append(asyncio.create_task(server.serve([listener])))
    sys.stdout.write(json.dumps(addresses) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*servers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workers", nargs="+", help="WORKER=VERSION")
    parser.add_argument("--key", required=True)
    parser.add_argument("--truth", type=Path, required=True)
    asyncio.run(_main(parser.parse_args()))


if __name__ == "__main__":
    main()
