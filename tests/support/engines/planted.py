"""A stub engine that says planted texts, cut as its cases say, in each API's own events."""

import asyncio
import json
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.engines import stub
from tests.support.engines.stub import StubEngine
from tests.support.engines.wire import Behaviour, chunk

CASE = re.compile(rb"case (\d+)\.")
JSON = {"separators": (",", ":")}
_USAGE = {"prompt_tokens": 11, "total_tokens": 16, "completion_tokens": 5}


@dataclass(frozen=True, kw_only=True)
class Case:
    """``said`` has each choice's texts by their kind, in the order of generation, as pieces."""

    number: int
    path: str
    said: tuple[Mapping[str, list[str]], ...]
    with_tokens: bool = False
    """Whether events have log probabilities."""
    is_ascii: bool = True
    """Whether the engine escapes other characters in its JSON."""
    cuts_bytes: bool = False
    """Whether events arrive in pieces of a few bytes."""

    def whole(self, choice: int, kind: str) -> str:
        return "".join(self.said[choice].get(kind, ()))


def _probed(path: str) -> Case:
    """Return what the platform's own questions get."""
    kind = "text" if path.endswith("/v1/completions") else "content"
    return Case(number=0, path=path, said=({kind: ["fine"]},))


class PlantedEngine(StubEngine):
    def __init__(self) -> None:
        super().__init__()
        self.cases: dict[int, Case] = {}

    async def start(self, port: int = 0, host: str = "127.0.0.1") -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), host, port, backlog=1024)
        self.url = f"http://{host}:{self._server.sockets[0].getsockname()[1]}"


class _Connection(stub._Connection):
    stub: PlantedEngine

    def _case(self) -> Case:
        found = CASE.search(self.body)
        return self.stub.cases[int(found[1])] if found is not None else _probed(self.url.decode())

    def _stream(self, path: str, body: dict[str, Any], behaviour: Behaviour) -> None:
        del path
        case = self._case()
        head = b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"
        self._write(self._head(200, head, behaviour))
        has_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        self._send(list(_pieces(case, b"".join(events(case, has_usage=has_usage)))))

    def _send(self, pieces: list[bytes]) -> None:
        if self.transport is None:
            return
        if pieces:
            self.sent += 1
            self._write(chunk(pieces.pop(0)))
            self.timer = asyncio.get_running_loop().call_soon(self._send, pieces)
            return
        self._write(b"0\r\n\r\n")
        self._over()

    def _complete(self, path: str, body: dict[str, Any]) -> bytes:
        del path, body
        case = self._case()
        return json.dumps(answer(case), ensure_ascii=case.is_ascii, separators=(",", ":")).encode()


def _pieces(case: Case, data: bytes) -> Iterator[bytes]:
    chance, at = random.Random(case.number), 0
    while at < len(data):
        size = chance.randint(1, 400) if case.cuts_bytes else data.find(b"\n\n", at) + 2 - at
        yield data[at : at + size]
        at += size


def events(case: Case, *, has_usage: bool) -> Iterator[bytes]:
    if case.path.endswith("completions"):
        for one in _openai(case, has_usage=has_usage):
            yield b"data: %b\n\n" % _dumped(case, one)
        yield b"data: [DONE]\n\n"
        return
    for one in _responses(case) if case.path.endswith("responses") else _messages(case):
        yield b"event: %b\ndata: %b\n\n" % (one["type"].encode(), _dumped(case, one))


def _dumped(case: Case, value: object) -> bytes:
    return json.dumps(value, ensure_ascii=case.is_ascii, separators=(",", ":")).encode()


def _tokens(case: Case, piece: str) -> dict[str, Any] | None:
    if not case.with_tokens:
        return None
    other = {"token": "no", "logprob": -2.0, "bytes": [110, 111]}
    chosen = {"token": piece, "logprob": -0.1, "bytes": list(piece.encode())}
    if case.path.endswith("chat/completions"):
        return {"content": [{**chosen, "top_logprobs": [chosen, other]}]}
    return {
        "tokens": [piece],
        "token_logprobs": [-0.1],
        "text_offset": [0],
        "top_logprobs": [{piece: -0.1, "no": -2.0}],
    }


def _openai(case: Case, *, has_usage: bool) -> Iterator[dict[str, Any]]:
    head = {"id": "stub-1", "object": "o", "created": 1, "model": "m"}
    is_chat = case.path.endswith("chat/completions")
    left = [[(kind, piece) for kind, pieces in said.items() for piece in pieces] for said in case.said]
    chance = random.Random(case.number)

    def event(at: int, part: dict[str, Any], tokens: object = None, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": at, **part, "logprobs": tokens, "finish_reason": finish}
        return {**head, "choices": [choice]}

    for at in range(len(left)) if is_chat else ():
        yield event(at, {"delta": {"role": "assistant", "content": ""}})
    while any(left):
        at = chance.choice([at for at, parts in enumerate(left) if parts])
        kind, piece = left[at].pop(0)
        finish = None if left[at] else "stop"
        if kind == "call":
            part: dict[str, Any] = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        else:
            part = {kind: piece}
        tokens = _tokens(case, piece) if kind in ("content", "text") else None
        yield event(at, {"delta": part} if is_chat else part, tokens, finish)
    if has_usage:
        yield {**head, "choices": [], "usage": _USAGE}


def _responses(case: Case) -> Iterator[dict[str, Any]]:
    (said,) = case.said
    response = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "output": []}
    bodies: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "status": "in_progress"}}]
    output = list[dict[str, Any]]()
    for at, (kind, pieces) in enumerate(said.items()):
        item, name, field, done = _item(kind, "".join(pieces))
        empty: dict[str, Any] = {"arguments": ""} if kind == "call" else {"content": []}
        begun = {**item, "status": "in_progress", **empty}
        bodies.append({"type": "response.output_item.added", "output_index": at, "item": begun})
        place = {"output_index": at, "content_index": 0, "item_id": f"i{at}"}
        bodies += [{"type": f"response.{name}.delta", **place, "delta": piece} for piece in pieces]
        bodies.append({"type": f"response.{name}.done", **place, field: "".join(pieces)})
        bodies.append({"type": "response.output_item.done", "output_index": at, "item": done})
        output.append(done)
    usage = {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
    ended = {**response, "status": "completed", "output": output, "usage": usage}
    for number, one in enumerate([*bodies, {"type": "response.completed", "response": ended}]):
        yield {**one, "sequence_number": number}


def _item(kind: str, whole: str) -> tuple[dict[str, Any], str, str, dict[str, Any]]:
    """Return an item's beginning, the name of its events, their field for the whole text, and the whole item."""
    if kind == "call":
        item = {"type": "function_call", "id": "f", "call_id": "c", "name": "send"}
        return item, "function_call_arguments", "arguments", {**item, "arguments": whole, "status": "completed"}
    text = "reasoning_text" if kind == "reasoning" else "output_text"
    item = {"type": "reasoning" if kind == "reasoning" else "message", "id": "m", "role": "assistant"}
    more: dict[str, Any] = {} if kind == "reasoning" else {"annotations": []}
    part = {"type": text, "text": whole, **more}
    return item, text, "text", {**item, "status": "completed", "content": [part]}


def _messages(case: Case) -> Iterator[dict[str, Any]]:
    (said,) = case.said
    yield {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}}
    for at, (kind, pieces) in enumerate(said.items()):
        block, delta, field = _BLOCKS[kind]
        yield {"type": "content_block_start", "index": at, "content_block": block}
        for piece in pieces:
            yield {"type": "content_block_delta", "index": at, "delta": {"type": delta, field: piece}}
        yield {"type": "content_block_stop", "index": at}
    yield {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


_BLOCKS: Mapping[str, tuple[dict[str, Any], str, str]] = {
    "reasoning": ({"type": "thinking", "thinking": ""}, "thinking_delta", "thinking"),
    "content": ({"type": "text", "text": ""}, "text_delta", "text"),
    "call": ({"type": "tool_use", "id": "t", "name": "send", "input": {}}, "input_json_delta", "partial_json"),
}


def answer(case: Case) -> dict[str, Any]:
    """Return the whole answer."""
    if case.path.endswith("responses"):
        *_, last = _responses(case)
        whole: dict[str, Any] = last["response"]
        return whole
    if case.path.endswith("messages"):
        blocks = [_block(kind, "".join(pieces)) for kind, pieces in case.said[0].items()]
        usage = {"input_tokens": 11, "output_tokens": 5}
        return {"id": "m", "type": "message", "role": "assistant", "content": blocks, "stop_reason": "end_turn"} | {
            "usage": usage
        }
    choices = [_choice(case, at) for at in range(len(case.said))]
    return {"id": "stub-1", "object": "o", "created": 1, "model": "m", "choices": choices, "usage": _USAGE}


def _block(kind: str, whole: str) -> dict[str, Any]:
    block, _, field = _BLOCKS[kind]
    return {**block, "input": json.loads(whole)} if kind == "call" else {**block, field: whole}


def _choice(case: Case, at: int) -> dict[str, Any]:
    texts = {kind: "".join(pieces) for kind, pieces in case.said[at].items()}
    tokens = _tokens(case, texts.get("content") or texts.get("text") or "")
    end = {"index": at, "logprobs": tokens, "finish_reason": "stop"}
    if case.path.endswith("chat/completions"):
        said = texts.pop("call", None)
        function = {"name": "send", "arguments": said}
        calls = [{"id": "c", "type": "function", "function": function}] if said is not None else []
        return {"message": {"role": "assistant", "content": None, **texts, "tool_calls": calls}, **end}
    return {**texts, **end}
