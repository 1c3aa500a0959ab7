"""An engine on paper, in the place of vLLM in a worker's image: the names that Penstock takes of vLLM, and its wire.

It lies in the image as ``vllm/__init__.py``, with ``wire.py`` beside it, and runs behind the real gate, started by
the real agent from the real plan. It knows no model: it says the same word at a fixed pace, with token ids.
"""

import argparse
import asyncio
import importlib
import json
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]
STEP_S = 0.05
PROMPT_TOKENS = 3
STUBS_ID, OUR_ID = b'"token_ids":[278]', b'"token_ids":[260]'
"""What the word is in the tokenizer of the stub, and in the demo's model."""
METRICS = """\
vllm:num_requests_running {running}
vllm:num_requests_waiting 0
vllm:kv_cache_usage_perc 0.0
vllm:generation_tokens_total {tokens}
vllm:prompt_tokens_total {tokens}
vllm:iteration_tokens_total_count {tokens}
vllm:cache_config_info{{num_gpu_blocks="4096"}} 1
"""


class Engine:
    """The HTTP application that vLLM's server would be."""

    def __init__(self) -> None:
        self.running = self.tokens = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == "/metrics":
            await whole(send, METRICS.format(running=self.running, tokens=self.tokens).encode(), b"text/plain")
        elif scope["method"] == "GET":
            await whole(send, b"")
        else:
            body = json.loads(await read(receive))
            answering = asyncio.ensure_future(self._answer(scope["path"], body, send))
            leaving = asyncio.ensure_future(gone(receive))
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            answering.cancel() if not answering.done() else None
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _answer(self, path: str, body: dict[str, Any], send: Send) -> None:
        wire = importlib.import_module("vllm.wire")
        first, token, last = (told.replace(STUBS_ID, OUR_ID) for told in wire.events(path, body))
        number = wire.max_tokens(body)
        meter = importlib.import_module("penstock.worker.meter").current.get()
        meter.prompt(PROMPT_TOKENS)
        meter.enter()
        steps = self._steps(number, meter)
        if not body.get("stream"):
            made = [step async for step in steps]
            await whole(send, json.dumps(said(path, body, len(made))).encode())
            return
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await event(send, first)
        async for step in steps:
            await event(send, last if step == number - 1 else token)
        await event(send, wire.USAGE % (PROMPT_TOKENS, PROMPT_TOKENS + number, number))
        await event(send, b"data: [DONE]\n\n", more=False)

    async def _steps(self, number: int, meter: Any) -> AsyncIterator[int]:  # noqa: ANN401
        self.running += 1
        try:
            for step in range(number):
                await asyncio.sleep(STEP_S)
                self.tokens += 1
                meter.made(1)
                yield step
        finally:
            self.running -= 1
            meter.leave()


def said(path: str, body: dict[str, Any], tokens: int) -> dict[str, Any]:
    text = " the" * tokens
    choice = {"message": {"role": "assistant", "content": text}} if "chat" in path else {"text": text}
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}
    return {
        "id": "paper",
        "object": "o",
        "created": 1,
        "model": body.get("model"),
        "choices": [{"index": 0, **choice, "finish_reason": "length"}],
        "usage": usage,
    }


async def read(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


async def gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def event(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


async def whole(send: Send, body: bytes, kind: bytes = b"application/json") -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await event(send, body, more=False)


def main() -> None:
    """Serve, as vLLM's own main does: its arguments are read from the command line."""
    import uvicorn

    parser = argparse.ArgumentParser()
    for name in ("--host", "--middleware"):
        parser.add_argument(name, required=True)
    parser.add_argument("--port", type=int, required=True)
    options, _ = parser.parse_known_args()
    module, _, name = options.middleware.rpartition(".")
    app = getattr(importlib.import_module(module), name)(Engine())
    uvicorn.run(app, host=options.host, port=options.port, log_level="warning", lifespan="off")


class Hooked:
    """Stands for each class of vLLM that Penstock hooks into; nothing calls these here."""

    @classmethod
    def to_chat_completion_request(cls) -> None: ...
    def add_request(self) -> None: ...
    def process_outputs(self) -> None: ...
    def message_stream_converter(self) -> None: ...
    def messages_full_converter(self) -> None: ...
    def extract_tool_calls(self) -> None: ...
    def _extract_tool_calls(self) -> None: ...
    def _raise_if_error(self) -> None: ...
    def abort_requests(self) -> None: ...
    def from_request(self) -> None: ...
    def monitor_engine_liveness(self) -> None: ...
    def _process_simple_streaming_events(self) -> None: ...


def compiles() -> None:
    """Stands for each function of xgrammar's: nothing calls one here."""


GRAMMARS = ("from_ebnf", "from_json_schema", "from_regex", "from_lark", "from_structural_tag")
COMPILED = ("compile_json_schema", "compile_regex", "compile_lark", "compile_structural_tag", "compile_grammar")
XGRAMMAR: dict[str, object] = {
    "Grammar": type("Grammar", (), {name: staticmethod(compiles) for name in GRAMMARS}),
    "GrammarCompiler": type("GrammarCompiler", (), dict.fromkeys(COMPILED, compiles)),
}
NAMES: dict[str, dict[str, object]] = {
    "entrypoints.launchers.api_server.entry": {"main": main},
    "envs": {"VLLM_V1_OUTPUT_PROC_CHUNK_SIZE": 128},
    "v1.engine.async_llm": {"AsyncLLM": type("AsyncLLM", (Hooked,), {})},
    "v1.engine.output_processor": {"OutputProcessor": type("OutputProcessor", (Hooked,), {})},
    "v1.engine.utils": {"CoreEngineProcManager": type("CoreEngineProcManager", (Hooked,), {})},
    "entrypoints.anthropic.serving": {"AnthropicServingMessages": type("Messages", (Hooked,), {})},
    "entrypoints.generate.base.serving": {"GenerateBaseServing": type("Serving", (Hooked,), {})},
    "entrypoints.openai.responses.serving": {
        "ResponseCompletedEvent": type("Completed", (), {}),
        "ResponsesResponse": type("Response", (Hooked,), {}),
        "OpenAIServingResponses": type("Responses", (Hooked,), {}),
    },
    "parser.abstract_parser": {"DelegatingParser": type("Parser", (Hooked,), {})},
    "exceptions": {"GenerationError": type("GenerationError", (Exception,), {})},
}


def register() -> None:
    for path, content in NAMES.items():
        parts = ["vllm", *path.split(".")]
        for depth in range(2, len(parts) + 1):
            name = ".".join(parts[:depth])
            sys.modules.setdefault(name, types.ModuleType(name)).__path__ = []
            if depth > 2:  # `from vllm.a import b` looks for b in a
                setattr(sys.modules[".".join(parts[: depth - 1])], parts[depth - 1], sys.modules[name])
        vars(sys.modules[".".join(parts)]).update(content)
    vars(sys.modules.setdefault("xgrammar", types.ModuleType("xgrammar"))).update(XGRAMMAR)


if __name__ == "vllm":
    register()
