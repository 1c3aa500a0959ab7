"""Addresses in a conversation: an engine that fetches them reaches whatever its network does, for any caller. Pure.

Images, sounds and files come inside the request, as ``data:`` addresses. What a tool was called with is a text of
the model's and nobody fetches it.
"""

from penstock.domain.errors import InvalidField

ADDRESSES = frozenset({"image_url", "audio_url", "video_url", "file_url"})
"""Names under which the APIs hold an address, alone or as the ``url`` of an object."""
TOOL_USES = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_CONTAINERS = (dict, list)


def check(given: object, at: str) -> None:
    """Refuse each address that is not ``data:``, and each type that is no word, however deep it stands."""
    waiting = [given]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            kind = one.get("type")
            if kind is not None and type(kind) is not str:
                raise InvalidField("a type must be a string", param=at)
            if kind in TOOL_USES:
                continue
            for name in ADDRESSES & one.keys():
                _address(one[name], at)
            if kind == "url":
                _address(one.get("url"), at)
            waiting.extend(child for child in one.values() if type(child) in _CONTAINERS)
        elif isinstance(one, list):
            waiting.extend(child for child in one if type(child) in _CONTAINERS)


def _address(given: object, at: str) -> None:
    url = given.get("url") if isinstance(given, dict) else given
    if isinstance(url, str) and url[:5].lower() != "data:":
        raise InvalidField("media must come as data: addresses: nothing is fetched", param=at)
