"""A body's requirements beside tokens: tools, structured output, an end. Large fields may be sealed. Pure."""

from collections.abc import Mapping

from penstock.domain.serving.request import Sealed


def uses_tools(body: Mapping[str, object]) -> bool:
    """Tell whether the answer may be a tool call, which is useless when cut."""
    return bool(body.get("tools")) and body.get("tool_choice") not in NO_CALL


GREEDY_BELOW = 1e-5
"""vLLM takes the likeliest token at temperatures below this."""


def is_greedy(body: Mapping[str, object], default: float | None = None) -> bool:
    """Tell whether each token is the likeliest; ``default`` is the version's temperature."""
    temperature = body.get("temperature")
    chosen = default if temperature is None else temperature
    return isinstance(chosen, int | float) and chosen < GREEDY_BELOW


NO_CALL = ("none", {"type": "none"})
"""How OpenAI's and Anthropic's APIs say that no tool is to be called."""


def is_structured(body: Mapping[str, object]) -> bool:
    """Tell whether the answer has a structure that a cut would break."""
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
"""By these a caller cuts its answer itself."""
FORMS = frozenset({"response_format", "structured_outputs"})
"""By these it says which tokens an answer may have, as by a grammar."""
_LEAVES_END = frozenset(
    """
    model messages prompt input system instructions stream stream_options user metadata store service_tier
    prompt_cache_key temperature top_p top_k min_p seed logprobs top_logprobs
    """.split()
)
_SILENT = frozenset(
    {"stop", "tools", "logit_bias", "frequency_penalty", "presence_penalty", "ignore_eos", "min_tokens"}
)
"""Say nothing where they are empty, 0 or false."""
_WARMEST = 1.0
"""Above it a model says what it holds for unlikely."""


def leaves_end(body: Mapping[str, object], besides: frozenset[str] = frozenset()) -> bool:
    """Tell whether the model alone decides the end of its one answer.

    Any field beyond the known harmless ones and ``besides`` takes that away.
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
    """Tell whether the caller wrote the beginning of the answer, or may have."""
    if not isinstance(turns, list):
        return isinstance(turns, Sealed)
    return bool(turns) and isinstance(turns[-1], dict) and turns[-1].get("role") == "assistant"
