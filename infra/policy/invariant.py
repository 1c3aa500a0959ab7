"""An invariant: an id, a promise, the stacks it speaks of, and a check that yields what breaks it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from infra.config.kinds import StackKind
from infra.graph.nodes import Node
from infra.policy.view import View

Breach = tuple[Node | None, str]
"""Where it is broken (`None`: something is absent from the stack) and what to do about it."""

Check = Callable[[View], Iterator[Breach]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One rule. `kinds` empty means every stack.

    The engine hands stack policies what the provider gave back: defaults filled in, numbers that scalers moved.
    A rule about what the program wrote sets `as_written`; it sees one resource's inputs at a time, and no references.
    """

    id: str
    promise: str
    check: Check
    kinds: frozenset[StackKind] = frozenset()
    as_written: bool = False

    def breaches(self, view: View) -> list[Breach]:
        """What breaks the rule in this stack."""
        if self.kinds and view.kind not in self.kinds:
            return []
        return list(self.check(view))


@dataclass(frozen=True, slots=True)
class Book:
    """The rules of one module, in the order in which they are written."""

    rules: list[Invariant] = field(default_factory=list)

    def rule(self, name: str, promise: str, *kinds: StackKind, as_written: bool = False) -> Callable[[Check], Check]:
        """Enter a check under an id."""

        def enter(check: Check) -> Check:
            rule = Invariant(id=name, promise=promise, check=check, kinds=frozenset(kinds), as_written=as_written)
            self.rules.append(rule)
            return check

        return enter
