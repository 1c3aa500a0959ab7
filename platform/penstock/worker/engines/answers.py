"""Brings vLLM's answers into the form that their APIs document, in the process of its HTTP server.

* Responses: without tools ``tool_choice`` is the default; a truncated stream and its last item end as incomplete.
* Messages: a stream's first event counts cached tokens like its last. A truncated tool call stays a tool call and is
  never sent as markup; a tool's input is an object, or the engine fails. Ids begin with ``msg_`` and ``toolu_``.

Written for vLLM 0.32.
"""

import json
from collections.abc import AsyncIterator, Callable, Iterable
from functools import wraps
from http import HTTPStatus
from typing import Any, Literal

from penstock.worker.meter import current

FORMLESS = "the engine's answer is no call of the tool that was asked for"
_CUT = "length"
_ITEM_DONE = "response.output_item.done"
_CONTEXT = 3
"""The position of the answer's context among the arguments of vLLM's stream of events."""
_DATA = "data: "
_DONE = "data: [DONE]"
_CHAT, _MESSAGE = "chatcmpl-", "msg_"
_CALL, _USE = "chatcmpl-tool-", "toolu_"
_AS_CALL, _AS_USE = f'"id":"{_CALL}', f'"id":"{_USE}'
"""A call's id in a chunk's JSON; inside a text its quotation marks would be escaped."""


def install() -> None:
    from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
    from vllm.entrypoints.openai.responses import serving
    from vllm.parser.abstract_parser import DelegatingParser

    serving.ResponseCompletedEvent = _ended(serving.ResponseCompletedEvent)
    respond = with_default_choice(with_cut_item(serving.ResponsesResponse.from_request))
    serving.ResponsesResponse.from_request = staticmethod(respond)
    streamed = with_cut_end(serving.OpenAIServingResponses._process_simple_streaming_events)  # noqa: SLF001  no other
    serving.OpenAIServingResponses._process_simple_streaming_events = streamed  # noqa: SLF001
    DelegatingParser.extract_tool_calls = or_as_streamed(DelegatingParser.extract_tool_calls)
    DelegatingParser._extract_tool_calls = with_its_text(DelegatingParser._extract_tool_calls)  # noqa: SLF001  no other
    AnthropicServingMessages.messages_full_converter = with_inputs(AnthropicServingMessages.messages_full_converter)
    converter = AnthropicServingMessages.message_stream_converter
    AnthropicServingMessages.message_stream_converter = with_cached(converter)


def _ended(completed: Any) -> Callable[..., Any]:  # noqa: ANN401  vLLM is untyped here
    class Incomplete(completed):
        type: Literal["response.incomplete"]

    def ended(**fields: Any) -> Any:  # noqa: ANN401
        if fields["response"].status == "incomplete":
            return Incomplete(**{**fields, "type": "response.incomplete"})
        return completed(**fields)

    return ended


def with_cut_item(respond: Any) -> Any:  # noqa: ANN401
    @wraps(respond)
    def responded(*args: Any, **fields: Any) -> Any:  # noqa: ANN401
        response = respond(*args, **fields)
        for item in response.output[-1:] if response.status == "incomplete" else ():
            _cut(item)
        return response

    return responded


def with_default_choice(respond: Any) -> Any:  # noqa: ANN401
    """Without tools ``tool_choice`` is the API's default, not vLLM's ``none``. A caller's own ``none`` can't be told
    apart here; the gateway reports that it has no effect.
    """

    @wraps(respond)
    def responded(*args: Any, **fields: Any) -> Any:  # noqa: ANN401
        response = respond(*args, **fields)
        if not response.tools and response.tool_choice == "none":
            response.tool_choice = "auto"
        return response

    return responded


def with_cut_end(stream: Any) -> Any:  # noqa: ANN401
    """End a truncated Responses stream's last item as incomplete.

    Only the end of the events shows which item is the last, so an item's end is held until the next event.
    """

    @wraps(stream)
    async def streamed(self: Any, *given: Any) -> AsyncIterator[Any]:  # noqa: ANN401
        context, held = given[_CONTEXT], None
        async for event in stream(self, *given):
            if held is not None:
                yield held
            held = event if event.type == _ITEM_DONE and _is_cut(context) else None
            if held is None:
                yield event
        if held is not None:
            _cut(held.item)
            yield held

    return streamed


def _is_cut(context: Any) -> bool:  # noqa: ANN401
    return any(output.finish_reason == _CUT for output in context.last_output.outputs)


def _cut(item: Any) -> None:  # noqa: ANN401
    if getattr(item, "status", None) == "completed":
        item.status = "incomplete"


# -- tool calls ------------------------------------------------------------------------


def or_as_streamed(extract: Any) -> Any:  # noqa: ANN401
    """Parse a whole answer without a complete tool call as a stream is."""

    @wraps(extract)
    def extracted(self: Any, model_output: str, request: Any) -> Any:  # noqa: ANN401
        found = extract(self, model_output, request)
        parser = self._tool_parser
        if found.tools_called or parser is None or not _holds_markup(parser, model_output, request.tool_choice):
            return found
        parser = type(parser)(parser.model_tokenizer, request.tools)
        delta = parser.extract_tool_calls_streaming("", model_output, model_output, [], [], [], request)
        calls = _joined(delta.tool_calls) if delta is not None else []
        said = delta.content if delta is not None else None
        return type(found)(tools_called=bool(calls), tool_calls=calls, content=said or None if calls else said or "")

    return extracted


def with_its_text(extract: Any) -> Any:  # noqa: ANN401
    """Take the parser's text of an answer without a call, not the raw output with marks."""

    @wraps(extract)
    def extracted(self: Any, content: str | None, request: Any, *more: Any, **named: Any) -> Any:  # noqa: ANN401
        calls, text = extract(self, content, request, *more, **named)
        parser = self._tool_parser
        if calls is None and parser is not None and _holds_markup(parser, text or "", request.tool_choice):
            text = self.extract_tool_calls(text, request=request).content or None
        return calls, text

    return extracted


def _holds_markup(parser: Any, text: str, choice: object) -> bool:  # noqa: ANN401
    """Find a tool call's opening mark, or its beginning at the end.

    A single character counts only if a call was forced: otherwise it may be ordinary text.
    """
    mark = getattr(parser, "tool_call_start_token", None)
    if not isinstance(mark, str) or not mark:
        return False
    least = 1 if choice not in (None, "auto", "none") else 2
    return mark in text or any(text.endswith(mark[:size]) for size in range(least, len(mark)))


def _joined(deltas: Iterable[Any]) -> list[Any]:
    from vllm.entrypoints.generate.base.protocol import FunctionCall, ToolCall

    calls: dict[int, Any] = {}
    for one in deltas:
        call = calls.setdefault(one.index, ToolCall(type="function", function=FunctionCall(name="", arguments="")))
        call.function.name += one.function.name or ""
        call.function.arguments += one.function.arguments or ""
    return [call for call in calls.values() if call.function.name]


def with_inputs(convert: Any) -> Any:  # noqa: ANN401
    """Write Messages' arguments as an object, and ids as Anthropic's."""

    @wraps(convert)
    def converted(self: Any, generator: Any) -> Any:  # noqa: ANN401
        choice = generator.choices[0]
        generator.id = generator.id.replace(_CHAT, _MESSAGE, 1)
        for call in choice.message.tool_calls or ():
            call.id = call.id.replace(_CALL, _USE, 1)
            call.function.arguments = _as_object(call.function.arguments, is_cut=choice.finish_reason == _CUT)
        return convert(self, generator)

    return converted


def _as_object(arguments: str, *, is_cut: bool) -> str:
    from partial_json_parser import loads
    from vllm.exceptions import GenerationError

    try:
        found = loads(arguments) if is_cut and arguments.strip() else json.loads(arguments or "{}")
    except ValueError:
        found = None
    if isinstance(found, dict):
        return json.dumps(found, ensure_ascii=False)
    if is_cut:
        return "{}"
    error = GenerationError(FORMLESS)
    error.status_code = HTTPStatus.INTERNAL_SERVER_ERROR
    raise error


# -- usage -----------------------------------------------------------------------------


def with_cached(convert: Any) -> Any:  # noqa: ANN401
    """Add cached tokens to Messages' first chunk; ids are Anthropic's."""

    @wraps(convert)
    async def converted(self: Any, chunks: AsyncIterator[str]) -> AsyncIterator[str]:  # noqa: ANN401
        async for event in convert(self, _told(chunks)):
            yield event

    return converted


async def _told(chunks: AsyncIterator[str]) -> AsyncIterator[str]:
    is_first = True
    async for chunk in chunks:
        yield cached_in(chunk) if is_first else chunk.replace(_AS_CALL, _AS_USE)
        is_first = False


def cached_in(chunk: str) -> str:
    """Usage gets the cached and newly stored tokens of the request's meter."""
    meter = current.get()
    if meter is None or not chunk.startswith(_DATA) or chunk.startswith(_DONE):
        return chunk
    told = json.loads(chunk.removeprefix(_DATA))
    told["id"] = str(told.get("id", "")).replace(_CHAT, _MESSAGE, 1)
    if isinstance(told.get("usage"), dict):
        details = {"cached_tokens": meter.cached_tokens, "created_cache_tokens": meter.created_tokens}
        told["usage"]["prompt_tokens_details"] = details
    return f"{_DATA}{json.dumps(told, ensure_ascii=False)}\n\n"
