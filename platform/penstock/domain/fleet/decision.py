"""What the controller decided by itself, and why: what changed, from which signal, against which objective."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision. ``what`` is a word such as ``start`` or ``drain``, ``target`` a worker, a version or an alias.

    ``signal`` names what was looked at, ``value`` is what it said, ``objective`` what it was held against.
    """

    what: str
    target: str
    signal: str
    value: str
    objective: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A decision, and the Unix second at which it was made."""

    at: float
    decision: Decision
