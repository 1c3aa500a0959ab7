"""A rule as expressions over bytes. Pure."""

from penstock.filters.normal import fold
from penstock.filters.pack import Rule

_META = frozenset(r"\.+*?()[]{}|^$-")


def expressions(rule: Rule) -> list[bytes]:
    return [rule.regex.encode()] if rule.regex else [_phrase(phrase) for phrase in rule.phrases]


def _phrase(phrase: str) -> bytes:
    """Return a phrase in any case, as whole words if it ends in an ASCII letter or digit."""
    first, last = (r"\b" if one.isascii() and one.isalnum() else "" for one in (phrase[0], phrase[-1]))
    return f"(?i:{first}{''.join(map(_character, phrase))}{last})".encode()


def _character(one: str) -> str:
    if one == " ":
        return r"[ \t\r\n]"
    if one in _META:
        return "\\" + one
    forms = sorted({form for form in (one, one.lower(), one.upper()) if len(form) == 1 and fold(form) == fold(one)})
    return one if one.isascii() or len(forms) == 1 else f"(?:{'|'.join(forms)})"
