"""Refuses what a version's chat template would leave out of the prompt without a word. Pure."""

from collections.abc import Iterable, Mapping
from functools import lru_cache

from penstock.domain.errors import UnsupportedByModel
from penstock.domain.fleet.table import VersionEntry
from penstock.domain.serving.request import Api
from penstock.formats.abilities import Ability, of_template
from penstock.formats.chat_template import ChatTemplate, Message
from penstock.gateway.calls import wishes
from penstock.gateway.preprocess import options

_SYSTEM = frozenset({"system", "developer"})
_FOUND = lru_cache(maxsize=64)(of_template)
"""A template is tried once; as many are kept as there are compiled ones."""


def check_tools(body: Mapping[str, object], version: VersionEntry, template: ChatTemplate) -> None:
    """Raise ``UnsupportedByModel`` if tools are offered that the template does not show."""
    if body.get("tools") and wishes.uses_tools(body) and not _can(Ability.TOOLS, version, template):
        raise UnsupportedByModel(
            f"{version.id} shows its model no tools: leave them out, or name a model that was taught them",
            param="tools",
        )


def check(
    api: Api, body: Mapping[str, object], messages: Iterable[Message], version: VersionEntry, template: ChatTemplate
) -> None:
    """Raise ``UnsupportedByModel`` for documents, system messages or earlier calls that the template leaves out."""
    if options.option(api, body, "documents") and not _can(Ability.DOCUMENTS, version, template):
        raise UnsupportedByModel(
            f"{version.id} shows its model no documents: send their text in a message", param="documents"
        )
    asked = {ability for message in messages for ability in _needed(message)}
    for ability in sorted(asked):
        if not _can(ability, version, template):
            what = "system messages" if ability is Ability.SYSTEM else "earlier calls of tools"
            param = "input" if api is Api.RESPONSES else "messages"
            raise UnsupportedByModel(f"{version.id} shows its model no {what}: say it in a user message", param=param)


def _needed(message: Message) -> Iterable[Ability]:
    if message["role"] in _SYSTEM:
        yield Ability.SYSTEM
    if message["role"] == "tool" or message.get("tool_calls"):
        yield Ability.TOOL_TURNS


def _can(ability: Ability, version: VersionEntry, template: ChatTemplate) -> bool:
    return ability in _FOUND(template, version.special_tokens)
