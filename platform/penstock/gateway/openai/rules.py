"""Rules between the fields of a body: what needs another field, excludes it, or has no effect without it. Pure."""

from collections.abc import Callable, Mapping, MutableMapping

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.openai import tool_results, tools
from penstock.gateway.openai.fields import Body, shown

Rule = Callable[[Body], str | None]
"""Checks a body that has its field, and raises ``InvalidField``; returns a field without effect, if any."""

LOGPROBS = "message.output_text.logprobs"
CONSTRAINTS = ("json", "regex", "choice", "grammar", "json_object", "structural_tag")
"""Of these ``structured_outputs`` has exactly one."""
_FORMS = ("response_format", "text")
_SPOKEN = ("text", "thinking", "redacted_thinking", "tool_use")
MIN_BUDGET = 1024
"""Anthropic's minimum of ``thinking.budget_tokens``."""
MAX_METADATA, MAX_METADATA_NAME, MAX_METADATA_CHARS = 16, 64, 512
"""OpenAI's published maxima: keys, and characters of a key and of its text."""


def check(api: Api, body: Body) -> tuple[str, ...]:
    rules = RULES[api]
    found = [told for name in body.keys() & rules.keys() if (told := rules[name](body)) is not None]
    return tuple(sorted(found))


def _needs(name: str, other: str, value: object) -> Rule:
    def told(body: Body) -> str | None:
        return None if body.get(other) == value else name

    return told


def _after(first: str, name: str) -> Rule:
    def told(body: Body) -> str | None:
        return name if body.get(first) is not None else None

    return told


def _min_tokens(*mosts: str) -> Rule:
    def check_min(body: Body) -> None:
        least = body["min_tokens"]
        most = next((body[name] for name in mosts if body.get(name) is not None), None)
        if isinstance(least, int) and isinstance(most, int) and least > most:
            raise InvalidField(f"min_tokens must be at most {most}, the answer's longest length", param="min_tokens")

    return check_min


def _continue(body: Body) -> None:
    name = "continue_final_message"
    if body[name] is True and body.get("add_generation_prompt") is not False:
        raise InvalidField(f"{name} needs add_generation_prompt to be false: no new turn begins", param=name)


def _response_format(body: Body) -> None:
    given = body["response_format"]
    if isinstance(given, Mapping) and given.get("type") == "json_schema":
        inner = given.get("json_schema")
        if not isinstance(inner, Mapping) or inner.get("schema") is None:
            raise _required("response_format.json_schema.schema")


def _structured_outputs(body: Body) -> None:
    given, name = body["structured_outputs"], "structured_outputs"
    if other := next((one for one in _FORMS if _binds(body.get(one))), ""):
        raise InvalidField(f"{name} and {other} both bind the answer: send one of them", param=name)
    if tools.forces(body.get("tool_choice")):
        raise InvalidField(f"{name} can't be used with a forced tool call (tool_choice): send one of them", param=name)
    if isinstance(given, Mapping) and given.get("choice") == []:
        raise InvalidField(f"{name}.choice must not be empty", param=f"{name}.choice")
    if isinstance(given, Mapping) and sum(given.get(one) is not None for one in CONSTRAINTS) != 1:
        raise InvalidField(f"{name} must have exactly one of {', '.join(CONSTRAINTS)}", param=name)


def _binds(form: object) -> bool:
    """``response_format``, or Responses' ``text``, binds the answer to more than text."""
    given = form.get("format", form) if isinstance(form, Mapping) else {}
    return isinstance(given, Mapping) and given.get("type", "text") != "text"


def _no_call(body: Body) -> str | None:
    """``tool_choice`` without tools: Responses echo the default."""
    tools.check_choice(body)
    return "tool_choice" if body["tool_choice"] == "none" and not body.get("tools") else None


def _top_logprobs(body: Body) -> str | None:
    """A Responses body requests log probabilities by ``include``."""
    asked = body.get("include")
    return None if isinstance(asked, list) and LOGPROBS in asked else "top_logprobs"


def _thinking(body: Body) -> None:
    """Check a budget as Anthropic does, and leave it out: engines without a reasoning parser refuse any, and
    ``max_tokens`` bounds the answer.
    """
    given = body["thinking"]
    if not isinstance(given, MutableMapping) or given.get("type") != "enabled":
        return
    name, budget, most = "thinking.budget_tokens", given.pop("budget_tokens", None), body.get("max_tokens")
    if not isinstance(budget, int):
        raise _required(name)
    if budget < MIN_BUDGET:
        raise InvalidField(f"{name} must be at least {MIN_BUDGET}", param=name)
    if isinstance(most, int) and budget >= most:
        raise InvalidField(f"{name} must be less than max_tokens", param=name)
    given["type"] = "adaptive"


def _messages(body: Body) -> None:
    """Refuse, as Anthropic does, a beginning of the answer that can't be continued."""
    turns = body["messages"]
    if not isinstance(turns, list) or not turns:
        return
    last = turns[-1]
    if not isinstance(last, Mapping) or last.get("role") != "assistant":
        return
    at, content = f"messages[{len(turns) - 1}].content", last.get("content")
    part = content[-1] if isinstance(content, list) and content else content
    if isinstance(part, Mapping) and part.get("type") not in _SPOKEN:
        return  # no part of an answer: refused as such
    said = part.get("text") if isinstance(part, Mapping) else part
    if not isinstance(said, str) or not said:
        raise InvalidField("there is no text to continue: end with text, or with a user's message", param=at)
    if said != said.rstrip():
        raise InvalidField("the beginning of an answer can't end with white space: leave it out", param=at)
    for name, binds in (("tool_choice", tools.forces), ("output_config", _binds)):
        if binds(body.get(name)):
            raise InvalidField(f"{name} binds an answer from its start: leave out the last message", param=at)


def _metadata(body: Body) -> None:
    """OpenAI would refuse the body beyond these bounds."""
    given = body["metadata"]
    if not isinstance(given, Mapping):
        return
    if len(given) > MAX_METADATA:
        raise InvalidField(f"metadata may have at most {MAX_METADATA} keys", param="metadata")
    for name, value in given.items():
        if says := _metadata_fault(name, value):
            raise InvalidField(says, param=f"metadata.{shown(name)}")


def _metadata_fault(name: str, value: object) -> str:
    if len(name) > MAX_METADATA_NAME:
        return f"a key of metadata has at most {MAX_METADATA_NAME} characters: shorten it"
    if not isinstance(value, str):
        return "a value of metadata is a string: send it in quotes"
    return f"a text has at most {MAX_METADATA_CHARS} characters: shorten it" if len(value) > MAX_METADATA_CHARS else ""


def _required(name: str) -> InvalidField:
    return InvalidField(f"{name} is required", param=name)


_SAMPLED: Mapping[str, Rule] = {
    "structured_outputs": _structured_outputs,
    "length_penalty": _needs("length_penalty", "use_beam_search", value=True),
    "response_format": _response_format,
}
_ENCODED: Mapping[str, Rule] = {
    name: _needs(name, "encoding_format", "base64") for name in ("embed_dtype", "endianness")
}
RULES: Mapping[Api, Mapping[str, Rule]] = {
    Api.CHAT: {
        **_SAMPLED,
        "max_tokens": _after("max_completion_tokens", "max_tokens"),
        "min_tokens": _min_tokens("max_completion_tokens", "max_tokens"),
        "continue_final_message": _continue,
        "metadata": _metadata,
        "tool_choice": tools.check_choice,
    },
    Api.COMPLETIONS: {**_SAMPLED, "min_tokens": _min_tokens("max_tokens")},
    Api.EMBEDDINGS: _ENCODED,
    Api.CLASSIFY: {},
    Api.RESPONSES: {
        "structured_outputs": _structured_outputs,
        "top_logprobs": _top_logprobs,
        "metadata": _metadata,
        "tool_choice": _no_call,
    },
    Api.MESSAGES: {
        "thinking": _thinking,
        "tool_choice": tools.check_choice,
        "tools": tool_results.of_messages,
        "messages": _messages,
    },
}
