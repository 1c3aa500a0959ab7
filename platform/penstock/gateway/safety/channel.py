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
    text: str
    """Empty unless the channel keeps it."""


class Channel:
    __slots__ = (
        "_compiled",
        "_doubted",
        "_doubts",
        "_first",
        "_forced",
        "_is_plain",
        "_keeps",
        "_said",
        "_seen",
        "_tail",
        "_unescaped",
        "blocked_at",
        "is_call",
        "masks",
        "safe",
        "total",
    )

    def __init__(self, compiled: Compiled, *, is_call: bool = False, keeps: bool = False) -> None:
        self._compiled, self._keeps = compiled, keeps
        self._tail = Tail(compiled)
        self._unescaped: Tail | None = None
        self._seen: set[tuple[int, int]] = set()
        self._doubts: dict[Found, bool] = {}
        """Matches that a model has still to confirm, and whether it was asked."""
        self._doubted: set[Found] = set()
        self._said, self._first = "", 0
        """The last of the text, if a rule asks a model or matches are kept, and the position of its first character."""
        self.masks: set[tuple[int, int]] = set()
        self._forced = 0
        self._is_plain = not compiled.confirms and not keeps
        """Nothing but its tails says what may leave."""
        self.blocked_at: int | None = None
        self.is_call = is_call
        self.total = self.safe = 0
        """The characters that came, and that may leave."""

    def _settle(self) -> None:
        safe = min([self._judged, *(found.start for found in self._doubts if self._acts(found))])
        safe = max(safe, self._forced)
        self.safe = safe if self.blocked_at is None else min(safe, self.blocked_at)

    @property
    def _judged(self) -> int:
        return self._tail.safe if self._unescaped is None else min(self._tail.safe, self._unescaped.safe)

    @property
    def held(self) -> int:
        return self.total - self.safe

    @property
    def is_open(self) -> bool:
        """Whether it holds text, or waits for the end of a sentence."""
        return self.held > 0 or bool(self._doubts)

    @property
    def waits(self) -> bool:
        """Whether a model may still forbid a text that is held."""
        return any(map(self._acts, self._doubts))

    def feed(self, text: str, *, is_last: bool = False) -> Sequence[Hit]:
        tail = self._tail
        if self._unescaped is None and ESCAPE in text:
            self._unescaped = tail.unescaped()
        if not self._is_plain and (self._compiled.confirms or self._keeps):
            self._keep(text)
        found = tail.feed(text, is_last=is_last)
        self.total = tail.total
        if self._unescaped is not None:
            found = [*found, *self._unescaped.feed(text, is_last=is_last)]
            if tail.agrees(self._unescaped):
                self._unescaped = None
        if self._is_plain and not found:
            self.safe = tail.safe if self._unescaped is None else self._judged
            return ()
        self._is_plain = False
        hits = list(self._in(found))
        self._settle()
        return hits

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
        hits = list(self._standing(found)) if stands else ()
        self._settle()
        return hits

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
            text = self._said[found.start - self._first : found.end - self._first] if self._keeps else ""
            yield Hit(applied, action, found.start, text)

    def force(self) -> None:
        self._forced, self._is_plain = self.total, False
        self._settle()

    def masked(self, text: str, start: int) -> str:
        """Return the text that begins at ``start`` as it may be shown."""
        for first, last in self.masks:
            low, high = max(first - start, 0), min(last - start, len(text))
            if low < high:
                text = text[:low] + MASK * (high - low) + text[high:]
        return text

    def left(self, end: int) -> None:
        """Forget what was masked before ``end``: it has left."""
        if self.masks:
            self.masks = {mask for mask in self.masks if mask[1] > end}

    def is_masked(self, start: int, end: int) -> bool:
        return bool(self.masks) and any(first < end and start < last for first, last in self.masks)

    def _action(self, applied: Applied) -> Action:
        action = applied.rule.action
        return Action.BLOCK if action is Action.MASK and self.is_call else action

    def _acts(self, found: Found) -> bool:
        """Whether its text is held until a model has said; not what left at a bound."""
        return found.start >= self._forced and self._compiled.rules[found.rule].rule.action is not Action.OBSERVE

    def _act(self, action: Action, found: Found) -> None:
        if action is Action.MASK:
            self.masks.add((found.start, found.end))
        elif action is Action.BLOCK:
            self.blocked_at = min(found.start, found.start if self.blocked_at is None else self.blocked_at)
