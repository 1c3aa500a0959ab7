"""An invariant: an id, a promise, the stacks it speaks of, and a check that yields what breaks it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from infra.capture.graph import Node
from infra.config.kinds import StackKind
from infra.policy.view import View

Breach = tuple[Node | None, str]
"""Where it is broken (`None`: something is absent from the stack) and what to do about it."""

Check = Callable[[View], Iterator[Breach]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Invariant:
    """One rule. `kinds` empty means every stack."""

    id: str
    promise: str
    check: Check
    kinds: frozenset[StackKind] = frozenset()

    def breaches(self, view: View) -> list[Breach]:
        """What breaks the rule in this stack."""
        if self.kinds and view.kind not in self.kinds:
            return []
        return list(self.check(view))


@dataclass(frozen=True, slots=True)
class Book:
    """The rules of one module, in the order in which they are written."""

    rules: list[Invariant] = field(default_factory=list)

    def rule(self, name: str, promise: str, *kinds: StackKind) -> Callable[[Check], Check]:
        """Enter a check under an id."""

        def enter(check: Check) -> Check:
            self.rules.append(Invariant(id=name, promise=promise, check=check, kinds=frozenset(kinds)))
            return check

        return enter
