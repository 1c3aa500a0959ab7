"""The copy of a text that is judged, as UTF-8: NFKC, without invisible characters, letters beyond ASCII without case.

Each character is normalised alone, so a text cut into events gives the same bytes, and each byte knows its character.
Look-alikes of other scripts stay.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\v\f\r")
_CONTROL = re.compile(rf"[{re.escape(_CONTROLS.decode())}]")
_C1 = frozenset(range(0x80, 0xA0)) - {0x85}
_IGNORABLE = (
    *(0x034F, 0x2065, 0x3164, 0xFFA0, *range(0x115F, 0x1161), *range(0x17B4, 0x17B6), *range(0x180B, 0x1810)),
    *(*range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)),
)
"""``Default_Ignorable_Code_Point`` of Unicode 17, beside format characters and surrogates."""
_INVISIBLE = frozenset({*_CONTROLS, *_C1, *_IGNORABLE})
_ALIKE = str.maketrans(
    {
        **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
        **dict.fromkeys((0x85, 0x2028, 0x2029), "\n"),
        0x1680: " ",
        "İ": "I",
    }
)
"""Hyphens, and what NFKC leaves of white space; the case of İ is i in Turkish alone."""
_FOLD = bytes(range(256)).lower().translate(bytes.maketrans(b"\t\n\v\f\r", b"     "))
"""Lower case of ASCII, and white space as a blank."""

_HIGH, _LOW, _HEX = "[dD][89abAB][0-9a-fA-F]{2}", "[dD][c-fC-F][0-9a-fA-F]{2}", "[0-9a-fA-F]"
_ESCAPE = re.compile(rf"""\\(?:u({_HIGH})\\u({_LOW})|u({_HEX}{{4}})|(["\\/bfnrt]))""")
_BEGUN = re.compile(rf"\\(?:u(?:{_HEX}{{0,3}}|{_HIGH}(?:\\(?:u{_HEX}{{0,3}})?)?))?\Z")
_MEANT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


Reading = tuple[bytes, int, list[int] | None, list[int] | None]
"""Judged bytes, the number of characters that were read, and for each byte the start and end of its characters; None if
each byte is a character, or ends one behind its start. A class would cost as much as the rest.
"""


def starts(reading: Reading) -> Sequence[int]:
    _, read, found, _ = reading
    return range(read) if found is None else found


def ends(reading: Reading) -> Sequence[int]:
    return [at + 1 for at in starts(reading)] if reading[3] is None else reading[3]


@lru_cache(maxsize=8_192)
def _of(character: str) -> bytes:
    if unicodedata.category(character) in ("Cf", "Cs") or ord(character) in _INVISIBLE:
        return b""
    plain = unicodedata.normalize("NFKC", character).translate(_ALIKE)
    return "".join(one if one.isascii() else one.casefold() for one in plain).encode()


def normal(text: str) -> Reading:
    if text.isascii() and (text.isprintable() or not _CONTROL.search(text)):
        return text.encode(), len(text), None, None
    judged, firsts = bytearray(), list[int]()
    for at, character in enumerate(text):
        piece = _of(character)
        judged += piece
        firsts += [at] * len(piece)
    return bytes(judged), len(text), firsts, None


def unescaped(text: str) -> Reading:
    """Read the text as the inside of JSON strings; an escape that is not complete yet is not read."""
    if "\\" not in text:
        return normal(text)
    judged, firsts, lasts, at = bytearray(), list[int](), list[int](), 0
    while at < len(text):
        character, end = text[at], at + 1
        if character == "\\":
            if _BEGUN.match(text, at):
                break
            if (found := _ESCAPE.match(text, at)) is not None:
                character, end = _meant(found), found.end()
        piece = _of(character)
        judged += piece
        firsts += [at] * len(piece)
        lasts += [end] * len(piece)
        at = end
    return bytes(judged), at, firsts, lasts


def _meant(escape: re.Match[str]) -> str:
    high, low, unit, letter = escape.groups()
    if letter:
        return _MEANT.get(letter, letter)
    return chr(int(unit, 16)) if unit else chr(0x10000 + (int(high, 16) - 0xD800 << 10) + int(low, 16) - 0xDC00)


def folded(judged: bytes) -> bytes:
    """Return as many bytes without case, each white space as a blank: phrases are compared in it."""
    return judged.translate(_FOLD)


def forms(phrase: str) -> list[str]:
    """Return a phrase as judged texts have it: composed, and decomposed."""
    return list(dict.fromkeys(normal(one)[0].decode() for one in (phrase, unicodedata.normalize("NFD", phrase))))
