"""Words an engine's refusal of a body as one sentence that names the field. Pure.

vLLM returns its validation library's output, with the caller's text.

Trade-off: for an unreadable message the caller learns only that the engine refused.
"""

import re
from collections.abc import Iterator

MAX_MESSAGE_CHARS = 400
MAX_FIELD_CHARS = 100
MAX_REASONS = 3

_LISTED = re.compile(
    r"^\s*\{'type': '[\w.-]+', 'loc': (?P<loc>'[^']*'|\([^()]*\)), "
    r"'msg': (?:'(?P<one>(?:[^'\\]|\\.)*)'|\"(?P<two>(?:[^\"\\]|\\.)*)\")",
    re.MULTILINE,
)
"""vLLM's own format: a Python dictionary, truncated somewhere after the message."""
_PRINTED = re.compile(r"^(?P<loc>\S.*)\n\s+(?P<msg>.*?) \[type=[\w.-]+, input_value=", re.MULTILINE)
"""Two lines of pydantic's text."""
_SIGNS = ("validation error", "input_value=", "'loc':")
_LEADS = re.compile(r"^(?:Value error|Assertion failed), ")
_NATIVE = re.compile(r"\[[0-9:]{8}\] \S+: ")
"""Clock and source line, with which a grammar compiler begins."""
_EXTRAS = re.compile(r"\s*\((?:parameter=(?P<param>[\w.\[\]]+)(?:, )?)?(?:value=.*)?\)\s*$", re.DOTALL)
"""The end of vLLM's own errors, which contains the caller's value."""
_OPERATORS = re.compile(r"\s*(?:To increase this\s|Set (?:max_logprobs|detokenize)\b).*", re.DOTALL)
"""Advice to the engine's operator: settings that no caller has."""
_DUMPED = re.compile(r":?\s*\{'.*", re.DOTALL)
"""An object of the engine's, printed with the caller's values."""
_QUOTED = re.compile(r"'[^']{41,}'|\"[^\"]{41,}\"")
_INTERNAL = re.compile(r"^[A-Z][A-Za-z]+$|[\[({]")
"""An engine's class or wrapper in the path to a field."""
_ENGINES_OWN = frozenset({"body", "str", "int", "float", "bool", "list", "dict", "tuple", "bytes"})
_NAME = re.compile(r"\w{1,64}")
_INPUT, _MISSING = "Input should be ", "Field required"


def sentence(message: str, param: str = "") -> tuple[str, str]:
    """Return a sentence, or none if the caller's text stays in it, and the field at fault."""
    found = list(_reasons(message))
    if found:
        field = _innermost([where for where, _ in found])
        return _joined(field, [why for where, why in found if where == field]), field
    if any(sign in message for sign in _SIGNS):
        return "", _field(param)
    ending = _EXTRAS.search(message)
    given = param or (ending and ending["param"]) or ""
    plain = _EXTRAS.sub("", message) if ending and ending[0].strip() != "()" else message
    plain = _DUMPED.sub("", _OPERATORS.sub("", _NATIVE.sub("", plain)))
    return _line(_QUOTED.sub("…", plain))[:MAX_MESSAGE_CHARS], _field(given)


def _reasons(message: str) -> Iterator[tuple[str, str]]:
    for one in _LISTED.finditer(message):
        yield _field(one["loc"]), _reason(one["one"] or one["two"] or "")
    for one in _PRINTED.finditer(message):
        yield _field(one["loc"]), _reason(one["msg"])


def _reason(text: str) -> str:
    plain = _DUMPED.sub("", _OPERATORS.sub("", _EXTRAS.sub("", _LEADS.sub("", text))))
    return _line(_QUOTED.sub("…", plain))[: MAX_MESSAGE_CHARS // (MAX_REASONS + 1)]


def _joined(field: str, reasons: list[str]) -> str:
    said = list(dict.fromkeys(reasons))[:MAX_REASONS]
    kinds = [one.removeprefix(_INPUT) for one in said if one.startswith(_INPUT)]
    if kinds:
        return f"{field or 'the body'} should be {' or '.join(kinds)}"
    if said[0] == _MISSING:
        return f"{field} is required"
    return f"{field}: {said[0]}" if field else said[0]


def _innermost(fields: list[str]) -> str:
    return next(one for one in fields if not any(other.startswith((f"{one}[", f"{one}.")) for other in fields))


def _field(path: str) -> str:
    """Return a path as callers write it, up to the first part that is no name."""
    parts = [part.strip(" '\"") for part in re.split(r"[.,]", path.strip("()'"))]
    named = ""
    for part in parts:
        if not part or part in _ENGINES_OWN or _INTERNAL.search(part):
            continue
        if not _NAME.fullmatch(part):
            break  # a key of the caller's own
        named += f"[{part}]" if part.isdigit() else f".{part}"
    return named.lstrip(".")[:MAX_FIELD_CHARS]


def _line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text[: 2 * MAX_MESSAGE_CHARS]).split())
