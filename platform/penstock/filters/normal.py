"""The copy of a text that is judged: NFKC, without invisible characters, as UTF-8; each byte knows its character.

Each character is normalised alone, so a text cut into events gives the same bytes. Look-alikes of other scripts stay.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

_CONTROLS = bytes(code for code in (*range(32), 127) if code not in b"\t\n\v\f\r")
_CONTROL = re.compile(rf"[{re.escape(_CONTROLS.decode())}]")
_INVISIBLE = frozenset({0x034F, 0x115F, 0x1160, 0x3164, 0xFFA0, *range(0xFE00, 0xFE10), *_CONTROLS})
"""The grapheme joiner, Hangul fillers, variation selectors, controls; beside format characters and surrogates."""
_HYPHENS = str.maketrans(dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"))
_FOLD = bytes(range(256)).lower().translate(bytes.maketrans(b"\t\r\n", b"   "))
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
    return unicodedata.normalize("NFKC", character).translate(_HYPHENS).encode()


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
    if judged.isascii():
        return judged.translate(_FOLD)
    return "".join(map(fold, judged.decode())).encode().translate(_FOLD)


@lru_cache(maxsize=8_192)
def fold(character: str) -> str:
    """Return the lower case if it is as long in UTF-8."""
    lower = character.lower()
    return lower if len(lower.encode()) == len(character.encode()) else character
