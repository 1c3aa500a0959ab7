"""What the stub engine says on the wire, and what it can be told to do. Imports nothing of penstock."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

Mode = Literal[
    "ok",
    "die_before_token",  # head sent, then the connection breaks
    "die_after_token",
    "reset",  # the connection breaks before any byte
    "freeze",  # takes the request, never answers
    "freeze_after_token",
    "drain",  # the gate lets the platform in, and refuses everybody else
    "refuse",  # the gate's answer: 503 with x-penstock-refused
    "error",  # a status of its own with the engine's error shape
    "error_after_token",  # an error of the engine's own as an event in the middle
    "error_in_stream",  # 200, then an error as the first event
    "whole",  # 200 and a whole answer, also to who asks for a stream
    "empty_stream",  # 200, and a stream that ends without an event
]

PLATFORM = "_platform"
"""Whose questions a gate that drains lets in."""


@dataclass(kw_only=True)
class Behaviour:
    """What to do with the next requests; ``times`` 0 means until told otherwise."""

    mode: Mode = "ok"
    times: int = 0
    step_ms: float = 0.0
    """Time between tokens; 0 writes one token a turn of the event loop."""
    delay_ms: float = 0.0
    """Time to the first token (or to a unary answer)."""
    after_tokens: int = 1
    status: int = 500
    reason: str = "draining"
    wait_s: float = 0.0
    """What a refusal says of the wait."""
    why: str | None = None
    """And of its reason."""
    load: dict[str, float] = field(default_factory=lambda: {"running": 1, "queued_tokens": 64, "kv_used_ratio": 0.1})
    report: dict[str, object] = field(default_factory=dict)
    """Further parts of the gate's report."""
    pieces: int = 1
    """Write events in so many pieces (1: whole)."""
    whole_step_ms: float = 0.0
    """Time between the tokens of whole answers: they come when the last one is made."""
    counts: bool = True
    """A gate counts beside the engine, and tells."""
    if_field: str = ""
    """Misbehave to bodies that have this field alone, as engines do that stumble over what callers send."""
    likeliest: int = 7
    """The token that it holds for the likeliest everywhere, where it is asked for scores."""
    still_s: float | None = None
    """What the gate says of its engine: seconds since it last did something."""

    def met_by(self, body: dict[str, Any]) -> "Behaviour":
        """Return what a request with this body meets."""
        if self.if_field and self.if_field not in body:
            return replace(self, mode="ok")
        if self.mode == "drain":
            return replace(self, mode="ok" if body.get("cache_salt") == PLATFORM else "refuse")
        return self


@dataclass(kw_only=True)
class Stats:
    requests: int = 0
    running: int = 0
    peak: int = 0  # the most that ran at once
    finished: int = 0
    aborted: int = 0
    tokens: int = 0
    connections: int = 0
    last_body: dict[str, Any] = field(default_factory=dict)
    last_raw: bytes = b""
    last_headers: dict[str, str] = field(default_factory=dict)


TOKEN = b" the"
ERROR = b'data: {"error":{"message":"stub","type":"BadRequestError","param":null,"code":400}}\n\n'
USAGE = (
    b'data: {"id":"stub-1","object":"o","created":1,"model":"m","choices":[],'
    b'"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}}\n\n'
)


def more_of(body: dict[str, Any], prompt_tokens: int, count: int, likeliest: int) -> bytes:
    """Return vLLM's answer to a request for token ids or scores: the ids of a whole answer, the scores of a prompt
    of ids.
    """
    said = b""
    if body.get("return_token_ids"):
        prompt, answer = (",".join(map(str, range(1, many + 1))).encode() for many in (prompt_tokens, count))
        said += b',"prompt_token_ids":[%b],"token_ids":[%b]' % (prompt, answer)
    if body.get("prompt_logprobs") and "prompt" in body:
        place = b',{"%d":{"logprob":-0.1,"rank":1,"decoded_token":"a"}}' % likeliest
        said += b',"prompt_logprobs":[null%b]' % (place * (len(body["prompt"]) - 1))
    return said


def chunk(data: bytes) -> bytes:
    """Return it as a chunk of HTTP/1.1."""
    return b"%x\r\n%b\r\n" % (len(data), data)


INSTEAD = {
    "empty_stream": b"0\r\n\r\n",
    "error_in_stream": chunk(ERROR) + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n",
}
"""What a stream consists of that has no token."""


def events(path: str, body: dict[str, Any]) -> tuple[bytes, bytes, bytes]:
    """Return the first event, a token's event, and the finishing event of a stream; with ids if the request wants
    them.
    """
    model = str(body.get("model")).encode()
    head = b'data: {"id":"stub-1","object":"o","created":1,"model":"%b","choices":[{"index":0,%%b' % model
    head += b',"logprobs":null,"finish_reason":null%b}]%b}\n\n'
    ids, prompt = (
        (b',"token_ids":[278]', b',"prompt_token_ids":[1,2,3]') if body.get("return_token_ids") else (b"", b"")
    )
    if path.endswith("chat/completions"):
        first = head % (b'"delta":{"role":"assistant","content":""}', b"", prompt)
        token = head % (b'"delta":{"content":"%b"}' % TOKEN, ids, b"")
    else:
        first = head % (b'"text":""', b',"token_ids":[]', prompt) if prompt else b""
        token = head % (b'"text":"%b"' % TOKEN, ids, b"")
    return first, token, token.replace(b'"finish_reason":null', b'"finish_reason":"length"')


def max_tokens(body: dict[str, Any]) -> int:
    """Return how long the answer is to be."""
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        if isinstance(body.get(name), int):
            return max(1, cast("int", body[name]))
    return 16
