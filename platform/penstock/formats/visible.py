"""Makes text safe for a terminal: no control characters, no marks that reorder or hide other characters.

Model output, other programs' text and old names that would be refused today are shown with a replacement character.
"""

import re

UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Control characters, and characters that turn or hide neighbouring text."""
_INSIDE = re.compile(UNSHOWN.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f"))
_SIGN = "\N{REPLACEMENT CHARACTER}"


def visible(text: str) -> str:
    """Return the text with a replacement for each control character or mark; lines and tabs stay."""
    return _INSIDE.sub(_SIGN, text)
