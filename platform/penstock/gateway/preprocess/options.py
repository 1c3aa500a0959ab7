"""The engine's own fields that change the number of a prompt's tokens, each on the APIs that read it. Pure.

On other APIs the engine ignores them, and the count must too: a field honoured here alone makes prompts free.
Source: vLLM 0.32, ``build_tok_params`` and ``build_chat_params`` of each request; ``renderers/params.py``.
"""

from penstock.domain.errors import InvalidField
from penstock.domain.serving.request import Api
from penstock.gateway.preprocess.translate import Body

WHOLE = 1 << 62
"""How many tokens are kept of a prompt that nobody cuts."""

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
    """Return the field as the engine sees it: None if the caller is silent, or this API does not know it."""
    return body.get(name) if api in _READ_BY[name] else None


def opens_turn(api: Api, body: Body) -> bool:
    """Tell whether the template opens the assistant's turn."""
    asked = option(api, body, "add_generation_prompt")
    return api is not Api.EMBEDDINGS if asked is None else asked is not False


def adds_special_to_chat(api: Api, body: Body) -> bool:
    """Tell whether the tokenizer's special tokens come on top of a rendered chat; on responses they always do."""
    return api is Api.RESPONSES or bool(option(api, body, "add_special_tokens"))


def kept_tokens(api: Api, body: Body, most: int) -> int:
    """Return how many tokens of a prompt the engine keeps at most; ``most`` if it is to cut to the context.

    Other negative numbers it refuses, and 0, which leaves an empty prompt.
    """
    asked = option(api, body, "truncate_prompt_tokens")
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < -1:
        return WHOLE
    if asked == 0:
        raise InvalidField("truncate_prompt_tokens must leave something of the prompt", param="truncate_prompt_tokens")
    return most if asked == -1 else asked


def is_padded(api: Api, body: Body) -> bool:
    """Tell whether the engine fills each prompt up to the context."""
    return option(api, body, "padding") == "max_length"
