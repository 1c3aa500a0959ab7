"""The token ids that an engine was asked for with a whole answer: read, and taken out for its caller. Pure."""

import re

import msgspec

from penstock.domain.serving.shadow import TokenIds

_IDS = re.compile(rb'"(prompt_)?token_ids":\s*\[[\d,\s]*\]')
"""In JSON a quote inside a text has a backslash before it, so no text looks like this."""


class _Choice(msgspec.Struct, gc=False):
    token_ids: list[int] | None = None
    prompt_token_ids: list[int] | None = None


class _Body(msgspec.Struct, gc=False):
    choices: list[_Choice]
    prompt_token_ids: list[int] | None = None


_BODY = msgspec.json.Decoder(_Body)


def without(body: bytes) -> bytes:
    """Return the answer as its caller would have had it."""
    return _IDS.sub(lambda found: b'"%btoken_ids":null' % (found[1] or b""), body)


def told(body: bytes) -> TokenIds | None:
    """Return the tokens of prompt and answer; None where there are several answers, or not all was told."""
    try:
        decoded = _BODY.decode(body)
        (choice,) = decoded.choices
    except (msgspec.MsgspecError, ValueError):
        return None
    prompt = decoded.prompt_token_ids or choice.prompt_token_ids
    return TokenIds(prompt=prompt, answer=choice.token_ids) if prompt and choice.token_ids else None
