"""Decides whether a stream that lost its worker may continue at another, and after which token (C9). Pure.

The continuation is a completion after the token ids of the original prompt and of the answer so far. Requests that
depend on more than these are refused: seeds, penalties that distinguish output from prompt, grammars, parsers, log
probabilities, several choices, unknown fields.

Trade-off: a list of allowed fields refuses some streams that could continue.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from penstock.domain.serving.request import Api, InferenceRequest, Sealed
from penstock.gateway.calls import wishes

MAX_CONTINUATIONS = 2
"""Continuations of a stream: one that loses a third engine may be the cause."""


class Obstacle(StrEnum):
    API = "api"
    FIELD = "field"
    SEED = "seed"
    CONTENT = "content"
    PROMPTS = "prompts"
    SPENT = "spent"
    TOKENIZER = "tokenizer"
    TEXT = "text"
    HELD = "held"
    LENGTH = "length"


_SAMPLING = frozenset(
    """
    temperature top_p top_k min_p repetition_penalty logit_bias allowed_token_ids
    stop stop_token_ids include_stop_str_in_output ignore_eos skip_special_tokens stream_interval
    """.split()
)
"""Sampling options that depend only on recent or all tokens (as vLLM's repetition penalty does): sent unchanged."""

_TOKEN_SETS = frozenset({"logit_bias", "allowed_token_ids"})
"""Sampling options that may be large, sent unchanged."""
_SETTLED = frozenset(
    """
    model user stream stream_options metadata store service_tier prompt_cache_key tool_choice parallel_tool_calls
    messages prompt add_special_tokens add_generation_prompt continue_final_message documents chat_template_kwargs
    truncate_prompt_tokens truncation_side max_tokens max_completion_tokens min_tokens seed
    """.split()
)
"""Fields that only shaped the prompt, are set again, or are checked below."""

_NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "echo": (False,),
    "use_beam_search": (False,),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "return_token_ids": (False,),
    "spaces_between_special_tokens": (True,),
    "include_reasoning": (True,),
    "bad_words": ([],),
    "tools": ([],),
    "response_format": ({"type": "text"},),
}
"""Values with which these fields have no effect."""


def is_plain(request: InferenceRequest) -> bool:
    return obstacle(request) is None


def obstacle(request: InferenceRequest) -> Obstacle | None:
    body = request.body
    if request.api not in (Api.CHAT, Api.COMPLETIONS):
        return Obstacle.API
    if any(not _is_harmless(name, value) for name, value in body.items()) or _wants_usage_in_each_event(body):
        return Obstacle.FIELD
    if body.get("seed") is not None and not is_greedy(request):
        return Obstacle.SEED
    if request.api is Api.CHAT:
        return None if _is_text(body.get("messages")) else Obstacle.CONTENT
    return None if _is_one_prompt(body.get("prompt")) else Obstacle.PROMPTS


def is_greedy(request: InferenceRequest) -> bool:
    """Without ``temperature`` the version's default may sample."""
    return wishes.is_greedy(request.body)


def stops_of(request: InferenceRequest) -> tuple[str, ...]:
    given = request.body.get("stop")
    if isinstance(given, str):
        given = [given]
    return tuple(stop for stop in given if isinstance(stop, str) and stop) if isinstance(given, list) else ()


def _is_harmless(name: str, value: object) -> bool:
    if isinstance(value, Sealed):
        return name in _SETTLED or name in _TOKEN_SETS
    if value is None or name in _SAMPLING or name in _SETTLED:
        return True
    return any(type(value) is type(neutral) and value == neutral for neutral in _NEUTRAL.get(name, ()))


def _wants_usage_in_each_event(body: Mapping[str, object]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and bool(options.keys() - {"include_usage"})


def _is_text(messages: object) -> bool:
    """Token ids of images and sounds mean nothing without the media."""
    if isinstance(messages, Sealed):
        return messages.is_text
    contents = (
        [turn.get("content") for turn in messages if isinstance(turn, dict)] if isinstance(messages, list) else []
    )
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return all(isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text") for part in parts)


def _is_one_prompt(prompt: object) -> bool:
    if isinstance(prompt, Sealed):
        return prompt.items == 1
    if isinstance(prompt, str):
        return True
    return isinstance(prompt, list) and (len(prompt) == 1 or all(type(token) is int for token in prompt))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The first ``kept`` tokens stay. ``lead`` is their text that the caller has not received yet; ``replay`` is
    received text that will be generated again. One of the two is empty.
    """

    kept: int
    lead: str = ""
    replay: str = ""


def cut(pieces: Sequence[str], said: str, stops: Sequence[str], *, is_greedy: bool) -> Cut | Obstacle:
    """``pieces[i]`` is the text that token ``i`` completes, ``said`` the caller's text.

    The cut is never inside a character (a token without text may have begun one), nor inside a possible stop string,
    the beginning of which the next engine would not know. Tokens after the cut are generated again: sampled ones only
    if the caller has received none of their text.
    """
    whole = "".join(pieces)
    most_held = max((len(stop) for stop in stops), default=0)
    is_ahead = whole.startswith(said) and len(whole) - len(said) <= most_held
    if not is_ahead and not (is_greedy and said.startswith(whole)):
        return Obstacle.TEXT
    end = len(whole)
    kept = len(pieces)
    while kept and (not pieces[kept - 1] or _may_begin(stops, whole, end)):
        kept -= 1
        end -= len(pieces[kept])
    if end >= len(said):
        return Cut(kept=kept, lead=whole[len(said) : end])
    return Cut(kept=kept, replay=said[end:]) if is_greedy else Obstacle.HELD


def _may_begin(stops: Sequence[str], text: str, end: int) -> bool:
    return any(text.endswith(stop[:size], 0, end) for stop in stops for size in range(1, len(stop)))


def body_of_rest(request: InferenceRequest, tokens: Sequence[int], kept: int, left: int) -> dict[str, object]:
    body = {name: value for name, value in request.body.items() if name in _SAMPLING and value is not None}
    least = request.body.get("min_tokens")
    if isinstance(least, int) and least > kept:
        body["min_tokens"] = least - kept
    return body | {
        "prompt": list(tokens),
        "max_tokens": left,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    }
