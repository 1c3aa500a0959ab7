"""The controller's decisions: the change, the signal that caused it, and the objective."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """``what`` is a word such as ``start`` or ``drain``, ``target`` a worker, a version or an alias. ``signal`` names
    the input, ``value`` is its reading, ``objective`` what it was compared with.
    """

    what: str
    target: str
    signal: str
    value: str
    objective: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    at: float
    decision: Decision
