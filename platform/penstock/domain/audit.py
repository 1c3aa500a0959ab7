"""Administrative acts: who did what to what, and when. Written in the transaction of the act itself."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One act. ``who`` is a key id or ``platform``; ``what`` a word such as ``key.revoke``; ``at`` Unix seconds.

    ``detail`` is for people and holds no secret and no prompt text.
    """

    who: str
    what: str
    target: str
    at: float
    detail: str = ""
