"""Reasoning options in the form in which the engine passes them to the chat template. Pure.

A template that reads no such variable renders the same prompt for any value.
Source: vLLM 0.32, ``build_chat_params`` of chat and responses, ``entrypoints/anthropic/serving.py``.
"""

from collections.abc import Mapping

from penstock.domain.serving.request import Api
from penstock.formats.chat_template import ChatTemplate
from penstock.gateway.preprocess.translate import Body, EngineOnly

_VARIABLES = frozenset({"reasoning_effort", "enable_thinking"})


def variables(api: Api, body: Body, template: ChatTemplate) -> dict[str, object]:
    """Return the template's variables; raises ``EngineOnly`` if only the engine knows them."""
    if not _VARIABLES & template.variables:
        return {}
    effort = _effort(api, body)
    if effort is None:
        return {}
    own = body.get("chat_template_kwargs")
    chosen = isinstance(own, dict) and "enable_thinking" in own
    return {"reasoning_effort": effort} | ({} if chosen else {"enable_thinking": effort != "none"})


def _effort(api: Api, body: Body) -> object:
    if api is Api.MESSAGES and _field(body.get("thinking"), "type") == "disabled":
        raise EngineOnly  # it tries the template for the word that means "not at all"
    return asked_effort(api, body)


def asked_effort(api: Api, body: Body) -> object:
    """Return the effort in the API's own field; None if absent."""
    if api is Api.RESPONSES:
        return _field(body.get("reasoning"), "effort")
    if api is Api.MESSAGES:
        return _field(body.get("output_config"), "effort")
    return body.get("reasoning_effort")


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
