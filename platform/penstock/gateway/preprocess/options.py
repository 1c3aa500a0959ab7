"""vLLM's own fields that change a prompt's token count, on the APIs that read them. Pure.

On other APIs the engine ignores them, and so does the count: a field honoured only here would make prompts free.
Source: vLLM 0.32, ``build_tok_params`` and ``build_chat_params`` of each request; ``renderers/params.py``.
"""

from collections.abc import Mapping

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.preprocess.translate import Body

WHOLE = 1 << 62
"""The value for a prompt that is not truncated."""

_CHATS = frozenset({Api.CHAT, Api.EMBEDDINGS})
_TOKENISED = _CHATS | {Api.COMPLETIONS}
_READ_BY = {
    "add_generation_prompt": _CHATS,
    "add_special_tokens": _TOKENISED,
    "continue_final_message": _CHATS,
    "documents": frozenset({Api.CHAT}),
    "padding": frozenset({Api.EMBEDDINGS}),
    "truncate_prompt_tokens": _TOKENISED,
}


def option(api: Api, body: Body, name: str) -> object:
    """Return None if absent, or if this API does not read it."""
    return body.get(name) if api in _READ_BY[name] else None


def continues(api: Api, body: Body) -> bool:
    if api is Api.MESSAGES:
        return ends_with_assistant(body.get("messages"))
    return option(api, body, "continue_final_message") is True


def ends_with_assistant(messages: object) -> bool:
    last = messages[-1] if isinstance(messages, list) and messages else None
    return isinstance(last, Mapping) and last.get("role") == "assistant" and last.get("type", "message") == "message"


def opens_turn(api: Api, body: Body) -> bool:
    """The template ends the prompt with the assistant's turn."""
    if api is Api.MESSAGES:
        return not continues(api, body)
    asked = option(api, body, "add_generation_prompt")
    return api is not Api.EMBEDDINGS if asked is None else asked is not False


def adds_special_to_chat(api: Api, body: Body) -> bool:
    """Tell whether a rendered chat gets special tokens; for Responses it does."""
    return api is Api.RESPONSES or bool(option(api, body, "add_special_tokens"))


def kept_tokens(api: Api, body: Body, most: int) -> int:
    """``most`` for truncation to the context. Raises ``InvalidField`` for 0, which leaves an empty prompt; the engine
    itself refuses numbers below -1.
    """
    asked = option(api, body, "truncate_prompt_tokens")
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < -1:
        return WHOLE
    if asked == 0:
        raise InvalidField("truncate_prompt_tokens must leave something of the prompt", param="truncate_prompt_tokens")
    return most if asked == -1 else asked


def is_padded(api: Api, body: Body) -> bool:
    return option(api, body, "padding") == "max_length"
