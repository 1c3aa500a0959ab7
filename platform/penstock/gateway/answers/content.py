"""An answer's content by choice, for each API: text, reasoning, tool calls, token ids, log probabilities. Pure.

Whole bodies and events decode to the same ``Choice``; rarely read fields stay raw. All functions raise ``ValueError``
for bytes that are no answer of the API.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec

from penstock.domain.serving.request import Api
from penstock.domain.serving.shadow import TokenIds

ABORTED = "abort"
"""The finish reason of an answer that the engine aborted."""
_IDS = re.compile(rb'"(prompt_)?token_ids":\s*\[[\d,\s]*\]')
"""The JSON of token ids: in a JSON text quotes are escaped, so no text can match."""


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: Function | None = None


class Message(msgspec.Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None


class _Chance(msgspec.Struct, gc=False):
    rank: int | None = None


class Choice(msgspec.Struct, gc=False):
    """An alternative of an answer, or an event's part of it."""

    index: int = 0
    text: str | None = None
    message: Message | None = None
    delta: Message | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None
    prompt_logprobs: msgspec.Raw = msgspec.Raw()

    @property
    def said(self) -> str | None:
        part = self.delta or self.message
        return self.text if part is None else part.content

    @property
    def reasoning(self) -> str | None:
        part = self.delta or self.message
        return None if part is None else part.reasoning

    @property
    def tool_calls(self) -> Sequence[ToolCall]:
        part = self.delta or self.message
        return () if part is None else part.tool_calls or ()

    def likeliest(self) -> list[int | None]:
        given = _RANKS.decode(self.prompt_logprobs) if bytes(self.prompt_logprobs) else None
        return [None if at is None else _first(at) for at in given or ()]


class Choices(msgspec.Struct, gc=False):
    choices: list[Choice]
    prompt_token_ids: list[int] | None = None


class _Part(msgspec.Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None
    id: str | None = None
    name: str | None = None
    input: msgspec.Raw = msgspec.Raw()


class _Item(msgspec.Struct, gc=False):
    type: str = ""
    content: list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None


class _Responses(msgspec.Struct, gc=False):
    output: list[_Item]
    status: str | None = None


class _ResponsesEvent(msgspec.Struct, gc=False):
    type: str
    delta: str | None = None
    output_index: int = 0
    item: _Item | None = None


class _Messages(msgspec.Struct, gc=False):
    content: list[_Part]
    stop_reason: str | None = None


class _MessagesEvent(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _Part | None = None
    content_block: _Part | None = None


class _Label(msgspec.Struct, gc=False):
    label: str | None


class _Labels(msgspec.Struct, gc=False):
    data: list[_Label]


_RANKS = msgspec.json.Decoder(list[dict[int, _Chance] | None] | None)
_CHOICES = msgspec.json.Decoder(Choices)
_RESPONSES, _RESPONSES_EVENT = msgspec.json.Decoder(_Responses), msgspec.json.Decoder(_ResponsesEvent)
_MESSAGES, _MESSAGES_EVENT = msgspec.json.Decoder(_Messages), msgspec.json.Decoder(_MessagesEvent)
_LABELS = msgspec.json.Decoder(_Labels)


def choices(api: Api, body: bytes) -> list[Choice]:
    if api is Api.RESPONSES:
        answer = _RESPONSES.decode(body)
        return [_of_items(answer.output, answer.status)]
    if api is Api.MESSAGES:
        message = _MESSAGES.decode(body)
        return [_of_blocks(message.content, message.stop_reason)]
    return _CHOICES.decode(body).choices


def added(api: Api, data: bytes) -> list[Choice]:
    if api is Api.RESPONSES:
        found = _in_responses(_RESPONSES_EVENT.decode(data))
    elif api is Api.MESSAGES:
        found = _in_messages(_MESSAGES_EVENT.decode(data))
    else:
        return _CHOICES.decode(data).choices
    return [found] if found is not None else []


def only(body: bytes) -> Choice:
    (choice,) = _CHOICES.decode(body).choices
    return choice


def first_of_each(data: Iterable[bytes]) -> list[Choice]:
    return [event.choices[0] for event in _CHOICES.decode_lines(b"\n".join(data))]


def token_ids(body: bytes) -> TokenIds | None:
    """Return the tokens of the one choice; None for several choices, or if any is missing."""
    try:
        answer = _CHOICES.decode(body)
        (choice,) = answer.choices
    except (msgspec.MsgspecError, ValueError):
        return None
    prompt = answer.prompt_token_ids or choice.prompt_token_ids
    return TokenIds(prompt=prompt, answer=choice.token_ids) if prompt and choice.token_ids else None


def without_token_ids(body: bytes) -> bytes:
    return _IDS.sub(lambda found: b'"%btoken_ids":null' % (found[1] or b""), body)


def labels(body: bytes) -> list[str | None]:
    return [item.label for item in _LABELS.decode(body).data]


def _first(chances: dict[int, _Chance]) -> int | None:
    return next((token for token, chance in chances.items() if chance.rank == 1), None)


def _of_items(items: Sequence[_Item], status: str | None) -> Choice:
    texts = {
        kind: [part.text or "" for item in items if item.type == kind for part in item.content or ()] for kind in _TEXTS
    }
    calls = [
        ToolCall(index=at, id=item.call_id, function=Function(name=item.name, arguments=item.arguments))
        for at, item in enumerate(items)
        if item.type == "function_call"
    ]
    content, reasoning = ("".join(texts[kind]) if texts[kind] else None for kind in _TEXTS)
    return Choice(message=Message(content, reasoning, calls or None), finish_reason=status)


_TEXTS = ("message", "reasoning")


def _of_blocks(blocks: Sequence[_Part], stop_reason: str | None) -> Choice:
    content = [block.text for block in blocks if block.text is not None]
    reasoning = [block.thinking for block in blocks if block.thinking is not None]
    calls = [
        ToolCall(index=at, id=block.id, function=Function(name=block.name, arguments=bytes(block.input).decode()))
        for at, block in enumerate(blocks)
        if block.type == "tool_use"
    ]
    message = Message("".join(content) if content else None, "".join(reasoning) if reasoning else None, calls or None)
    return Choice(message=message, finish_reason=stop_reason)


def _in_responses(event: _ResponsesEvent) -> Choice | None:
    if event.type == "response.output_text.delta":
        return Choice(delta=Message(content=event.delta))
    if event.type == "response.reasoning_text.delta":
        return Choice(delta=Message(reasoning=event.delta))
    item = event.item
    if event.type == "response.output_item.added" and item is not None and item.type == "function_call":
        return _call(event.output_index, item.call_id, Function(name=item.name))
    if event.type == "response.function_call_arguments.delta":
        return _call(event.output_index, None, Function(arguments=event.delta))
    return None


def _in_messages(event: _MessagesEvent) -> Choice | None:
    delta, block = event.delta, event.content_block
    if block is not None and block.type == "tool_use":
        return _call(event.index, block.id, Function(name=block.name))
    if delta is None:
        return None
    if delta.partial_json is not None:
        return _call(event.index, None, Function(arguments=delta.partial_json))
    message = Message(content=delta.text, reasoning=delta.thinking)
    return Choice(delta=message, finish_reason=delta.stop_reason)


def _call(index: int, identity: str | None, function: Function) -> Choice:
    return Choice(delta=Message(tool_calls=[ToolCall(index=index, id=identity, function=function)]))
