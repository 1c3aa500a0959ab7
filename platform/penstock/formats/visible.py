"""Text that a terminal shows as it is: without control characters, and without marks that turn or hide its neighbours.

Names that came before they were refused, model output and other programs' words are shown with a sign in their place.
"""

import re

UNSHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
"""Control characters, and what turns or hides the text beside it."""
_INSIDE = re.compile(UNSHOWN.pattern.replace(r"\x00-\x1f", r"\x00-\x08\x0b-\x1f"))
_SIGN = "\N{REPLACEMENT CHARACTER}"


def visible(text: str) -> str:
    """Return the text with a sign for each such character; its lines and tabs stay."""
    return _INSIDE.sub(_SIGN, text)
