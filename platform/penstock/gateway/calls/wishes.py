"""A body's requirements beside tokens: tools, structured output, an unbounded end. Large fields may be sealed. Pure."""

from collections.abc import Mapping

from penstock.domain.serving.request import Sealed


def uses_tools(body: Mapping[str, object]) -> bool:
    return bool(body.get("tools")) and body.get("tool_choice") not in NO_CALL


GREEDY_BELOW = 1e-5
"""vLLM takes the likeliest token at temperatures below this."""


def is_greedy(body: Mapping[str, object], default: float | None = None) -> bool:
    """True if the likeliest token is always taken; ``default`` is the version's temperature."""
    temperature = body.get("temperature")
    chosen = default if temperature is None else temperature
    return isinstance(chosen, int | float) and chosen < GREEDY_BELOW


NO_CALL = ("none", {"type": "none"})
"""The values of OpenAI's and Anthropic's APIs that forbid tool calls."""


def is_structured(body: Mapping[str, object]) -> bool:
    text = body.get("text")
    formats = (
        body.get("response_format"),
        text.get("format") if isinstance(text, dict) else None,
    )
    has_format = isinstance(text, Sealed) or any(map(_is_format, formats))
    return has_format or body.get("structured_outputs") is not None


def _is_format(value: object) -> bool:
    return isinstance(value, Sealed) or (isinstance(value, dict) and value.get("type", "text") != "text")


BOUNDS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})
"""Fields by which a caller bounds its answer."""
FORMS = frozenset({"response_format", "structured_outputs"})
"""Fields by which a caller restricts the answer's tokens, such as a grammar."""
_LEAVES_END = frozenset(
    """
    model messages prompt input system instructions stream stream_options user metadata store service_tier
    prompt_cache_key temperature top_p top_k min_p seed logprobs top_logprobs
    """.split()
)
_SILENT = frozenset(
    {"stop", "tools", "logit_bias", "frequency_penalty", "presence_penalty", "ignore_eos", "min_tokens"}
)
"""Fields without effect if empty, 0 or false."""
_WARMEST = 1.0
"""Temperature above which a model samples unlikely tokens."""


def leaves_end(body: Mapping[str, object], besides: frozenset[str] = frozenset()) -> bool:
    """Tell whether only the model decides the single answer's end: any field but harmless ones and ``besides`` makes
    this False.
    """
    named = {name for name, value in body.items() if value is not None and (value or name not in _SILENT)}
    if named - _LEAVES_END - besides - ({"n"} if body.get("n") == 1 else set()):
        return False
    temperature = body.get("temperature")
    is_cool = not isinstance(temperature, int | float) or temperature <= _WARMEST
    return is_cool and _is_one_prompt(body.get("prompt")) and not _is_begun(body.get("messages") or body.get("input"))


def _is_one_prompt(prompt: object) -> bool:
    return prompt is None or isinstance(prompt, str) or (isinstance(prompt, Sealed) and prompt.items == 1)


def _is_begun(turns: object) -> bool:
    if not isinstance(turns, list):
        return isinstance(turns, Sealed)
    return bool(turns) and isinstance(turns[-1], dict) and turns[-1].get("role") == "assistant"
