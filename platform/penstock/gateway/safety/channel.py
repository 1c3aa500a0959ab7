"""One running text of an answer and what its policy found in it. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.filters.confirming import AROUND, sentence
from penstock.filters.hold import Compiled, Tail
from penstock.filters.pack import Action, Applied, Found
from penstock.filters.sentences import MOST_BYTES
from penstock.filters.whole import ESCAPE

MASK = "*"
_BEFORE = AROUND + MOST_BYTES
"""Characters that are kept of text that left: a match that is told late and the sentence around it."""
_SPARE = 1_024
"""Characters more, so that not every event copies them."""


class Hit(NamedTuple):
    applied: Applied
    action: Action
    position: int


class Channel:
    __slots__ = (
        "_compiled",
        "_doubted",
        "_doubts",
        "_first",
        "_forced",
        "_masks",
        "_said",
        "_seen",
        "_tail",
        "_unescaped",
        "blocked_at",
        "is_call",
    )

    def __init__(self, compiled: Compiled, *, is_call: bool = False) -> None:
        self._compiled = compiled
        self._tail = Tail(compiled)
        self._unescaped: Tail | None = None
        self._seen: set[tuple[int, int]] = set()
        self._doubts: dict[Found, bool] = {}
        """Matches that a model has still to confirm, and whether it was asked."""
        self._doubted: set[Found] = set()
        self._said, self._first = "", 0
        """The last of the text, if a rule asks a model, and the position of its first character."""
        self._masks: set[tuple[int, int]] = set()
        self._forced = 0
        self.blocked_at: int | None = None
        self.is_call = is_call

    @property
    def total(self) -> int:
        return self._tail.total

    @property
    def safe(self) -> int:
        safe = self._judged
        if self._doubts:
            safe = min([safe, *(found.start for found in self._doubts if self._acts(found))])
        safe = max(safe, self._forced)
        return safe if self.blocked_at is None else min(safe, self.blocked_at)

    @property
    def _judged(self) -> int:
        return self._tail.safe if self._unescaped is None else min(self._tail.safe, self._unescaped.safe)

    @property
    def held(self) -> int:
        return self._tail.total - self.safe

    @property
    def is_open(self) -> bool:
        """Whether it holds text, or waits for the end of a sentence."""
        return self.held > 0 or bool(self._doubts)

    @property
    def waits(self) -> bool:
        """Whether a model may still forbid a text that is held."""
        return any(map(self._acts, self._doubts))

    def feed(self, text: str, *, is_last: bool = False) -> Sequence[Hit]:
        if self._unescaped is None and ESCAPE in text:
            self._unescaped = self._tail.unescaped()
        if self._compiled.confirms:
            self._keep(text)
        found = self._tail.feed(text, is_last=is_last)
        if self._unescaped is not None:
            found = [*found, *self._unescaped.feed(text, is_last=is_last)]
        return list(self._in(found)) if found else ()

    def questions(self, *, is_last: bool) -> list[tuple[Found, str]]:
        """Return each suspicion once, when its sentence is whole."""
        whole = list[tuple[Found, str]]()
        for found, is_asked in self._doubts.items():
            start, end = found.start - self._first, found.end - self._first
            if not is_asked and (told := sentence(self._said, start, end, is_whole=is_last)) is not None:
                whole.append((found, told))
        self._doubts.update((found, True) for found, _ in whole)
        return whole

    def _keep(self, text: str) -> None:
        first = min([self._judged, *(found.start for found in self._doubts)])
        if (left := first - _BEFORE - self._first) > _SPARE:
            self._said, self._first = self._said[left:], self._first + left
        self._said += text

    def settle(self, found: Found, *, stands: bool) -> Sequence[Hit]:
        """End a suspicion; return the match if it stands."""
        self._doubts.pop(found, None)
        return list(self._standing(found)) if stands else ()

    def _in(self, every: Sequence[Found]) -> Iterator[Hit]:
        for found in every:
            if self._compiled.confirm(found.rule) is None:
                yield from self._standing(found)
            elif found not in self._doubted:
                self._doubted.add(found)
                self._doubts[found] = False

    def _standing(self, found: Found) -> Iterator[Hit]:
        applied = self._compiled.rules[found.rule]
        action = self._action(applied)
        self._act(action, found)
        if (found.rule, found.start) not in self._seen:
            self._seen.add((found.rule, found.start))
            yield Hit(applied, action, found.start)

    def force(self) -> None:
        self._forced = self._tail.total

    def masked(self, text: str, start: int) -> str:
        """Return the text that begins at ``start`` as it may be shown."""
        for first, last in self._masks:
            low, high = max(first - start, 0), min(last - start, len(text))
            if low < high:
                text = text[:low] + MASK * (high - low) + text[high:]
        return text

    def left(self, end: int) -> None:
        """Forget what was masked before ``end``: it has left."""
        if self._masks:
            self._masks = {mask for mask in self._masks if mask[1] > end}

    def is_masked(self, start: int, end: int) -> bool:
        return bool(self._masks) and any(first < end and start < last for first, last in self._masks)

    def _action(self, applied: Applied) -> Action:
        action = applied.rule.action
        return Action.BLOCK if action is Action.MASK and self.is_call else action

    def _acts(self, found: Found) -> bool:
        """Whether its text is held until a model has said; not what left at a bound."""
        return found.start >= self._forced and self._compiled.rules[found.rule].rule.action is not Action.OBSERVE

    def _act(self, action: Action, found: Found) -> None:
        if action is Action.MASK:
            self._masks.add((found.start, found.end))
        elif action is Action.BLOCK:
            self.blocked_at = min(found.start, found.start if self.blocked_at is None else self.blocked_at)
