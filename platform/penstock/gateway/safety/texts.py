"""Every text of an answer or event, by the running text to which it belongs, and the same with texts replaced. Pure.

Unknown fields are judged too. Fields that only engine and platform write are skipped by their names.
"""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from penstock.domain.serving.request import Api

CONTENT, REASONING, TOKENS, CALL, ALONE = "content", "reasoning", "tokens", "call", "alone"
OPENAI = frozenset({Api.CHAT, Api.COMPLETIONS})


class Key(NamedTuple):
    """One running text: of a choice, and of its tool call, item or block."""

    choice: int
    kind: str
    at: int = 0


UNPLACED = -1
_WHOLE = Key(0, ALONE, UNPLACED)
Edit = Callable[[Key, str, bool], str]
"""Takes a text and whether later events go on with it; returns what stands in its place."""
_KINDS = {
    **dict.fromkeys(("content", "text"), CONTENT),
    **{name: name for name in ("reasoning", "reasoning_content", "refusal", "thinking")},
    **dict.fromkeys(("arguments", "partial_json", "input"), CALL),
}
"""Fields of deltas with which later events go on, and their kinds; what a tool gets is never masked."""
REASONINGS = ("reasoning", "reasoning_content")
_WRITTEN_HERE = frozenset(
    """
    id object created created_at completed_at model role type status finish_reason stop_reason index item_id call_id
    output_index content_index summary_index sequence_number system_fingerprint service_tier usage metrics penstock
    """.split()
)
_BESIDE = ("token_ids", "prompt_token_ids", "prompt_logprobs")
_BETWEEN = "\0"
"""Between tokens that were not chosen: no rule matches over it."""


class _Function(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    name: None = None
    arguments: str | None = None


class _Call(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    index: int = 0
    id: str | None = None
    type: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    index: int = 0
    text: str | None = None
    delta: _Delta | None = None
    finish_reason: str | None = None
    stop_reason: None = None
    logprobs: None = None
    token_ids: None = None
    prompt_token_ids: None = None
    prompt_logprobs: None = None


class _Event(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    id: msgspec.Raw = msgspec.Raw()
    object: msgspec.Raw = msgspec.Raw()
    created: msgspec.Raw = msgspec.Raw()
    model: msgspec.Raw = msgspec.Raw()
    choices: list[_Choice] = []
    usage: msgspec.Raw = msgspec.Raw()
    service_tier: msgspec.Raw = msgspec.Raw()
    system_fingerprint: None = None
    prompt_token_ids: None = None


_EVENT = msgspec.json.Decoder(_Event)


class EventTexts(msgspec.Struct, gc=False):
    """An event's texts, and the choices that it names and ends; ``ends_text``: what was said so far does not go on."""

    texts: list[tuple[Key, str, bool]]
    choices: Collection[int] = ()
    ended: Collection[int] = ()
    ends_text: bool = False


def in_event(api: Api, data: bytes, echoed: Collection[str] = ()) -> EventTexts:
    """Raises ``ValueError`` for what is no JSON object."""
    if api in OPENAI:
        try:
            return _plain(_EVENT.decode(data))
        except msgspec.ValidationError:  # has other fields than an event of text alone
            pass
    decoded = _object(data)
    texts = list[tuple[Key, str, bool]]()

    def keep(key: Key, text: str, runs: bool) -> str:  # noqa: FBT001
        texts.append((key, text, runs))
        return text

    walk(api, decoded, keep, echoed=echoed)
    given = [one for one in decoded.get("choices") or () if isinstance(one, dict)]
    kind = str(decoded.get("type") or "")
    return EventTexts(
        texts,
        [_number(one, "index") for one in given],
        [_number(one, "index") for one in given if one.get("finish_reason") is not None],
        kind.endswith(".done") or kind == "content_block_stop",
    )


_running = lru_cache(maxsize=1_024)(Key)


def _plain(event: _Event) -> EventTexts:
    texts = list[tuple[Key, str, bool]]()
    for choice in event.choices:
        at, delta = choice.index, choice.delta
        if choice.text:
            texts.append((_running(at, CONTENT), choice.text, True))
        if delta is None:
            continue
        if delta.reasoning:
            texts.append((_running(at, REASONING), delta.reasoning, True))
        if delta.content:
            texts.append((_running(at, CONTENT), delta.content, True))
        for call in delta.tool_calls or ():
            if call.function is not None and call.function.arguments:
                texts.append((Key(at, CALL, call.index), call.function.arguments, True))
    ended = [choice.index for choice in event.choices if choice.finish_reason is not None]
    return EventTexts(texts, [choice.index for choice in event.choices], ended)


def _object(data: bytes) -> dict[str, Any]:
    decoded = msgspec.json.decode(data)
    if not isinstance(decoded, dict):
        raise ValueError("no JSON object")  # noqa: TRY004 - a fault of the answer
    return decoded


def _number(value: dict[str, Any], name: str) -> int:
    found = value.get(name)
    return found if isinstance(found, int) else 0


def walk(api: Api, decoded: dict[str, Any], edit: Edit, *, echoed: Collection[str] = (), drops: bool = False) -> None:
    """Replace each text of an event or a whole answer by what ``edit`` returns, in the order of their generation.

    ``echoed``: fields of the request, which a Responses object repeats; ``drops``: what names tokens is left out.
    """
    walker = _Walker(edit, drops=drops)
    if api is Api.RESPONSES:
        walker.responses(decoded, echoed)
    elif api is Api.MESSAGES:
        walker.messages(decoded)
    else:
        for choice in decoded.get("choices") or ():
            walker.choice(choice)
        walker.fields(decoded, _WHOLE, skipped={"choices"})


class _Walker:
    def __init__(self, edit: Edit, *, drops: bool) -> None:
        self._edit, self._drops = edit, drops

    def responses(self, decoded: dict[str, Any], echoed: Collection[str]) -> None:
        kind, answer = str(decoded.get("type") or ""), decoded.get("response", decoded)
        if kind.endswith(".delta"):
            at = _number(decoded, "output_index") << 10 | _number(decoded, "content_index")
            self._delta(decoded, Key(0, CALL if "arguments" in kind or "input" in kind else kind, at))
            return
        if answer is not decoded:
            self.fields(decoded, _WHOLE, skipped={"response"})
        if isinstance(answer, dict):
            self.fields(answer, _WHOLE, skipped=() if kind and answer is decoded else echoed)

    def messages(self, decoded: dict[str, Any]) -> None:
        key = Key(0, CONTENT, _number(decoded, "index") if "index" in decoded else UNPLACED)
        for name in ("delta", "content_block"):
            if isinstance(part := decoded.get(name), dict):
                self._part(part, key)
        self.fields(decoded, key._replace(kind=ALONE), skipped={"delta", "content_block"})

    def choice(self, choice: Any) -> None:  # noqa: ANN401 - any JSON
        if not isinstance(choice, dict):
            raise ValueError("a choice is no JSON object")  # noqa: TRY004
        key = Key(_number(choice, "index"), CONTENT)
        for name in ("delta", "message"):
            if isinstance(part := choice.get(name), dict):
                self._part(part, key)
        self._part(choice, key, skipped={"delta", "message"})
        if isinstance(stop := choice.get("stop_reason"), str):
            stop = self._edit(key._replace(kind=ALONE), stop, False)  # noqa: FBT003
            for kind in (*REASONINGS, CONTENT):  # a stop string goes on with what it ended
                stop = self._edit(key._replace(kind=kind), stop, True)  # noqa: FBT003
            choice["stop_reason"] = stop

    def _part(self, part: dict[str, Any], key: Key, skipped: Collection[str] = ()) -> None:
        """A part with which later events may go on."""
        for name in sorted(part, key=_order):
            inner = part[name]
            if name in _KINDS and isinstance(inner, str):
                if inner:
                    part[name] = self._edit(key._replace(kind=_KINDS[name]), inner, True)  # noqa: FBT003
            elif name in ("tool_calls", "function_call"):
                for at, call in enumerate(inner if isinstance(inner, list) else [inner] if inner else ()):
                    self._call(call, key._replace(kind=CALL, at=at))
            elif name not in skipped:
                self._field(part, name, key._replace(kind=ALONE) if name != "logprobs" else key)

    def _delta(self, event: dict[str, Any], key: Key) -> None:
        if isinstance(said := event.get("delta"), str) and said:
            event["delta"] = self._edit(key, said, True)  # noqa: FBT003
        self.fields(event, key, skipped={"delta", "logprobs"} if isinstance(said, str) else {"logprobs"})
        if "logprobs" in event:
            self._field(event, "logprobs", key._replace(kind=CONTENT))

    def fields(self, value: dict[str, Any], key: Key, skipped: Collection[str] = ()) -> None:
        """Texts that are whole in this value."""
        for name in value:
            if name not in skipped:
                self._field(value, name, key)

    def _call(self, call: Any, key: Key) -> None:  # noqa: ANN401
        if not isinstance(call, dict):
            raise ValueError("a tool call is no JSON object")  # noqa: TRY004
        if "index" in call:
            key = key._replace(at=_number(call, "index"))
        for part in (call, *(one for one in call.values() if isinstance(one, dict))):
            if isinstance(said := part.get("arguments") or part.get("input"), str):
                name = "arguments" if part.get("arguments") else "input"
                part[name] = self._edit(key, said, True)  # noqa: FBT003
            self.fields(part, key, skipped={"arguments", "input", "function", "custom"})

    def _field(self, value: dict[str, Any], name: str, key: Key) -> None:
        inner = value[name]
        if inner is None or name in _WRITTEN_HERE or isinstance(inner, int | float):
            return
        if name == "logprobs":
            self._chances(inner, key)
            value[name] = None if self._drops else inner
        elif name in _BESIDE and self._drops:
            value[name] = None
        elif name in ("arguments", "input"):
            said = inner if isinstance(inner, str) else msgspec.json.encode(inner).decode()
            said = self._edit(key._replace(kind=CALL), said, False)  # noqa: FBT003
            value[name] = said if isinstance(inner, str) else inner
        else:
            value[name] = self._any(inner, key)

    def _any(self, value: Any, key: Key) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return self._edit(key._replace(kind=key.kind if key.kind == CALL else ALONE), value, False)  # noqa: FBT003
        if isinstance(value, dict):
            self.fields(value, key)
        elif isinstance(value, list) and not (value and isinstance(value[0], int | float)):
            for at, inner in enumerate(value):
                value[at] = self._any(inner, key._replace(at=at) if key.at == UNPLACED else key)
        return value

    def _chances(self, chances: Any, key: Key) -> None:  # noqa: ANN401
        chosen, others = list[str](), list[str]()
        _tokens(chances, chosen, others)
        if chosen:
            self._edit(key._replace(kind=TOKENS), "".join(chosen), key.kind == CONTENT)
        if others:
            self._edit(key._replace(kind=ALONE), _BETWEEN.join(others), False)  # noqa: FBT003


def _tokens(value: Any, chosen: list[str], others: list[str]) -> None:  # noqa: ANN401
    """Collect chosen tokens in order, and all others."""
    if isinstance(value, list):
        chosen += [inner for inner in value if isinstance(inner, str)]
        for inner in value:
            if isinstance(inner, dict | list):
                _tokens(inner, chosen, others)
    elif isinstance(value, dict):
        for name, inner in value.items():
            if name == "top_logprobs":
                _others(inner, others)
            elif isinstance(inner, str):
                (chosen if name == "token" else others).append(inner)
            else:
                _tokens(inner, chosen, others)


def _others(value: Any, others: list[str]) -> None:  # noqa: ANN401
    if isinstance(value, list):
        for inner in value:
            _others(inner, others)
    elif isinstance(value, dict):
        others += [value["token"]] if isinstance(value.get("token"), str) else value


def _order(name: str) -> int:
    return 0 if name in REASONINGS else 1 if name in _KINDS else 2 if name == "tool_calls" else 3
