"""Documented fields that nothing here serves, each with its alternative. Pure.

An engine silently drops unknown fields. So a field that would change the answer, or its later use, is a 400.
Informative ones (``user``, ``metadata``, ``service_tier``, ``prediction``, ``prompt_cache_key``, ``safety_identifier``)
are taken, and so are values that change nothing. Names that no API documents pass: they may be the engine's own.

``best_of`` is not in this table: it depends on ``n``.
Source: OpenAI's and Anthropic's API references of 2026; what vLLM 0.32 declares in its request classes.
"""

from dataclasses import dataclass

from penstock.domain.errors import UnsupportedField
from penstock.domain.serving.request import JSON_APIS, Api
from penstock.gateway.openai.fields import Body

EVERYWHERE = frozenset(JSON_APIS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved:
    """One field: its refusal's words, the values that ask for nothing, its APIs."""

    remedy: str
    harmless: tuple[object, ...] = ()
    apis: frozenset[Api] = EVERYWHERE


_CHAT = frozenset({Api.CHAT})
_RESPONSES = frozenset({Api.RESPONSES})
_MESSAGES = frozenset({Api.MESSAGES})

UNSERVED: dict[str, Unserved] = {
    "prompt_embeds": Unserved(remedy="send text or token ids"),
    "chat_template": Unserved(remedy="the model version has its own"),
    "functions": Unserved(
        remedy='it is deprecated: send tools, each {"type": "function", "function": ...}', harmless=([],), apis=_CHAT
    ),
    "function_call": Unserved(remedy="it is deprecated: send tool_choice with tools", apis=_CHAT),
    "modalities": Unserved(remedy="answers are text", harmless=([], ["text"]), apis=_CHAT),
    "audio": Unserved(remedy="answers are text", apis=_CHAT),
    "verbosity": Unserved(remedy="say in the prompt how long the answer shall be", harmless=("medium",), apis=_CHAT),
    "web_search_options": Unserved(remedy="nothing is looked up: leave it out, or offer a tool", apis=_CHAT),
    "moderation": Unserved(remedy="nothing is moderated: leave it out", apis=_CHAT | _RESPONSES),
    "store": Unserved(
        remedy="answers are not stored: leave it out or send false", harmless=(False,), apis=_CHAT | _RESPONSES
    ),
    "previous_response_id": Unserved(remedy="responses are not stored: send the whole conversation as input"),
    "conversation": Unserved(
        remedy="conversations are not stored: send the whole conversation as input", apis=_RESPONSES
    ),
    "prompt": Unserved(remedy="prompts are not stored: send the text as input or instructions", apis=_RESPONSES),
    "context_management": Unserved(
        remedy="nothing is cut or compacted: send what fits", harmless=([], {}), apis=_RESPONSES | _MESSAGES
    ),
    "container": Unserved(remedy="code is not run here", apis=_MESSAGES),
    "mcp_servers": Unserved(remedy="no server is called from here: offer tools", harmless=([],), apis=_MESSAGES),
}
_OF_OLD = {f"guided_{kind}": kind for kind in ("json", "regex", "choice", "grammar")}
"""What vLLM took before 0.12 and now answers without any constraint."""
UNSERVED |= {
    name: Unserved(remedy=f'send structured_outputs={{"{kind}": ...}}, or response_format')
    for name, kind in _OF_OLD.items()
}
_NAMES = frozenset(UNSERVED)


def check(api: Api, body: Body) -> None:
    """Raise ``UnsupportedField`` if a field asks for something unserved."""
    for name in body.keys() & _NAMES:
        field, value = UNSERVED[name], body[name]
        if value is not None and api in field.apis and value not in field.harmless:
            raise UnsupportedField(f"{name} is not supported: {field.remedy}", param=name)


def check_best_of(n: int, best_of: int) -> None:
    """Raise ``UnsupportedField`` for the best of more answers: no engine scores them."""
    if best_of > n:
        raise UnsupportedField(
            "best_of is not supported beyond n: ask for n answers with log probabilities, and choose", param="best_of"
        )
