"""Bodies that cost whoever reads them the most for their bytes, by name; each as large as it may be."""

from collections.abc import Callable

from penstock.domain.serving.request import Api

Body = tuple[Api, bytes]

_SAID = b'{"model":"toy","max_tokens":1,"messages":[{"role":"user","content":%b}]}'
_MANY = b'{"model":"toy","max_tokens":1,"messages":[%b]}'
_ASKED = b'{"model":"toy","max_tokens":1,"messages":[{"role":"user","content":"x"}],%b}'
_TOOL = b'{"type":"function","function":{"name":"f"}}'
_PROMPT = b'{"model":"toy","max_tokens":1,"prompt":%b}'


def _repeated(piece: bytes, size: int) -> bytes:
    return b",".join([piece] * (size // (len(piece) + 1)))


def _named(value: bytes, size: int) -> bytes:
    return b",".join(b'"k%06x":%b' % (i, value) for i in range(size // (len(value) + 12)))


def _chat(form: bytes, make: Callable[[int], bytes]) -> Callable[[int], Body]:
    return lambda size: (Api.CHAT, form % make(size - len(form)))


def _completion(make: Callable[[int], bytes]) -> Callable[[int], Body]:
    return lambda size: (Api.COMPLETIONS, _PROMPT % make(size - len(_PROMPT)))


WORST: dict[str, Callable[[int], Body]] = {
    "a text": _chat(_SAID, lambda size: b'"' + b"a b " * (size // 4) + b'"'),
    "a text without spaces": _chat(_SAID, lambda size: b'"' + b"a" * size + b'"'),
    "an escaped text": _chat(_SAID, lambda size: b'"' + b"\\u4e2d" * (size // 6) + b'"'),
    "parts that are texts": _chat(_SAID, lambda size: b"[" + _repeated(b'"x"', size) + b"]"),
    "parts that are objects": _chat(_SAID, lambda size: b"[" + _repeated(b'{"type":"text","text":"x"}', size) + b"]"),
    "empty parts": _chat(_SAID, lambda size: b"[" + _repeated(b"[]", size) + b"]"),
    "messages": _chat(
        _MANY, lambda size: _repeated(b'{"role":"user","content":"' + b"x" * (size // 4200) + b'"}', size)
    ),
    "small messages": _chat(_MANY, lambda size: _repeated(b'{"role":"u"}', min(size, 12 * 4000))),
    "tools": _chat(
        _ASKED, lambda size: b'"tools":[' + _repeated(b'{"type":"function","function":{"name":"f"}}', size) + b"]"
    ),
    "template arguments": _chat(_ASKED, lambda size: b'"chat_template_kwargs":{' + _named(b"1", size) + b"}"),
    "fields": _chat(_ASKED, lambda size: _named(b"1", size)),
    "nesting": _chat(_ASKED, lambda size: b'"x":' + b"[" * (size // 2) + b"]" * (size // 2)),
    "shallow nesting": _chat(_ASKED, lambda size: b'"x":[' + _repeated(b"[" * 60 + b"]" * 60, size) + b"]"),
    "properties": _chat(
        _ASKED,
        lambda size: (
            b'"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{'
            + _named(b'{"type":"string"}', size)
            + b"}}}}"
        ),
    ),
    "something unknown": _chat(_ASKED, lambda size: b'"x":[' + _repeated(b"{}", size) + b"]"),
    "token ids": _completion(lambda size: b"[" + _repeated(b"1", size) + b"]"),
    "prompts": _completion(lambda size: b"[" + _repeated(b'"x"', size) + b"]"),
    "prompts of ids": _completion(lambda size: b"[" + _repeated(b"[" + _repeated(b"1", 900) + b"]", size) + b"]"),
}
