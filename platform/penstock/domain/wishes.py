"""What a body asks of a model beside tokens: tools, a form of the answer. Large fields may be sealed. Pure."""

from collections.abc import Mapping

from penstock.domain.request import Sealed


def uses_tools(body: Mapping[str, object]) -> bool:
    """Tell whether the answer may be a call of a tool, which is useless when cut."""
    return bool(body.get("tools")) and body.get("tool_choice") not in _NO_CALL


_NO_CALL = ("none", {"type": "none"})
"""How OpenAI's and Anthropic's APIs say that no tool is to be called."""


def is_structured(body: Mapping[str, object]) -> bool:
    """Tell whether the answer must have a form that a cut would break."""
    text = body.get("text")
    formats = (
        body.get("response_format"),
        text.get("format") if isinstance(text, dict) else None,
    )
    has_format = isinstance(text, Sealed) or any(map(_is_format, formats))
    return has_format or body.get("structured_outputs") is not None


def _is_format(value: object) -> bool:
    return isinstance(value, Sealed) or (isinstance(value, dict) and value.get("type", "text") != "text")
