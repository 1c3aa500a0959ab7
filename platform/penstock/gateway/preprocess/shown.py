"""Parts of a request that a chat template omits: refused, or reported as without effect. Pure.

The routing table lists the template's abilities, found by rendering at the push (``formats/abilities.py``). A table
without a list refuses nothing.
"""

from collections.abc import Iterable, Iterator, Mapping

from penstock.domain.errors import UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api
from penstock.formats.abilities import Ability
from penstock.formats.chat_template import ChatTemplate, Message
from penstock.gateway.calls import wishes
from penstock.gateway.preprocess import options
from penstock.gateway.preprocess.translate import Body, EngineOnly

_SYSTEM = frozenset({"system", "developer"})
_EFFORT = {Api.RESPONSES: "reasoning.effort", Api.MESSAGES: "output_config.effort"}
"""The path of the effort field in an API other than chat's ``reasoning_effort``."""
_NO_EFFORT = "none"
_IN_MESSAGES = frozenset({Ability.SYSTEM, Ability.TOOL_TURNS})
KWARGS = "chat_template_kwargs"
_BESIDE_CONTENT = ("reasoning", "task")
_USUAL = frozenset({"role", "content"})
_MOST_TOLD, _MOST_CHARS = 8, 64
"""Bounds on reported keys that a caller made up: documented names have at most 30 characters."""


def check_tools(body: Mapping[str, object], version: VersionEntry) -> None:
    if body.get("tools") and wishes.uses_tools(body) and not _can(Ability.TOOLS, version):
        raise UnsupportedByModel(
            f"{version.id} has a chat template without tools: leave tools out, or use a model trained for them",
            param="tools",
        )


def check(api: Api, body: Mapping[str, object], messages: Iterable[Message], version: VersionEntry) -> None:
    if options.option(api, body, "documents") and not _can(Ability.DOCUMENTS, version):
        raise UnsupportedByModel(
            f"{version.id} has a chat template without documents: send their text in a message", param="documents"
        )
    missing = () if version.renders is None else _IN_MESSAGES.difference(version.renders)
    if not missing:
        return
    for ability in sorted({ability for message in messages for ability in _needed(message)}):
        if ability in missing:
            what = "system messages" if ability is Ability.SYSTEM else "earlier tool calls"
            param = "input" if api is Api.RESPONSES else "messages"
            raise UnsupportedByModel(
                f"{version.id} has a chat template without {what}: put their content into a user message", param=param
            )


def unread(api: Api, body: Mapping[str, object], version: VersionEntry, template: ChatTemplate) -> tuple[str, ...]:
    """Fields that the template does not read; the answer reports them."""
    found: list[str] = []
    if not _can(Ability.NAMES, version):
        found += _unread_names(body)
    found += _unread_in_messages(api, body, version)
    if KWARGS in body:
        found += _unread_kwargs(body, template)
    if not _can(Ability.EFFORT, version):
        found += _unread_effort(api, body)
    return tuple(sorted(found)) if found else ()


def _unread_effort(api: Api, body: Mapping[str, object]) -> Iterator[str]:
    if asked_effort(api, body) not in (None, _NO_EFFORT):
        yield _EFFORT.get(api, "reasoning_effort")
    thinking = body.get("thinking")
    if api is Api.MESSAGES and isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive"):
        yield "thinking"


def _unread_names(body: Mapping[str, object]) -> Iterator[str]:
    messages = body.get("messages")
    if isinstance(messages, list) and any(
        isinstance(one, dict) and one.get("name") and one.get("role") != "tool" for one in messages
    ):
        yield "messages[].name"


def _unread_in_messages(api: Api, body: Mapping[str, object], version: VersionEntry) -> Iterator[str]:
    """Fields that no word of the template names, and a last answer that is not continued."""
    name = "input" if api is Api.RESPONSES else "messages"
    messages = body.get(name)
    if api.generates and options.ends_with_assistant(messages) and not options.continues(api, body):
        yield f"{name}[-1]"
    if not isinstance(messages, list) or api is Api.RESPONSES:
        return
    given = {name for one in messages if isinstance(one, dict) for name in one.keys() - _USUAL}
    for name in _BESIDE_CONTENT:
        if name in given and name not in (version.chat_template or ""):
            yield f"messages[].{name}"


def _unread_kwargs(body: Mapping[str, object], template: ChatTemplate) -> Iterator[str]:
    own = body.get(KWARGS)
    unknown = [key for key in own if key not in template.variables] if isinstance(own, dict) else []
    for key in unknown[:_MOST_TOLD]:
        is_plain = key.isidentifier() and key.isascii() and len(key) <= _MOST_CHARS
        yield f"{KWARGS}.{key}" if is_plain else KWARGS


def _needed(message: Message) -> Iterable[Ability]:
    if message["role"] in _SYSTEM:
        yield Ability.SYSTEM
    if message["role"] == "tool" or message.get("tool_calls"):
        yield Ability.TOOL_TURNS


def _can(ability: Ability, version: VersionEntry) -> bool:
    return version.renders is None or ability in version.renders


_VARIABLES = frozenset({"reasoning_effort", "enable_thinking"})


def variables(api: Api, body: Body, template: ChatTemplate) -> dict[str, object]:
    """Return the variables that the engine passes (vLLM 0.32, ``build_chat_params``).

    Raises ``EngineOnly`` if only the engine knows them.
    """
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
    if api is Api.RESPONSES:
        return _field(body.get("reasoning"), "effort")
    if api is Api.MESSAGES:
        return _field(body.get("output_config"), "effort")
    return body.get("reasoning_effort")


def _field(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None
