"""One running text of an answer and what its policy found in it. Pure."""

from collections.abc import Iterator, Sequence

from penstock.filters.hold import Compiled, Tail
from penstock.filters.pack import Action, Applied, Found
from penstock.filters.whole import ESCAPE

MASK = "*"


class Channel:
    __slots__ = (
        "_compiled",
        "_forced",
        "_seen",
        "_tail",
        "_unescaped",
        "blocked_at",
        "is_call",
        "masks",
        "safe",
        "total",
    )

    def __init__(self, compiled: Compiled, *, is_call: bool = False) -> None:
        self._compiled = compiled
        self._tail = Tail(compiled)
        self._unescaped: Tail | None = None
        self._seen: set[tuple[int, int]] = set()
        self.masks: set[tuple[int, int]] = set()
        self._forced = 0
        self.blocked_at: int | None = None
        self.is_call = is_call
        self.total = self.safe = 0
        """The characters that came, and that may leave."""

    @property
    def held(self) -> int:
        return self.total - self.safe

    def feed(self, text: str, *, is_last: bool = False) -> Sequence[tuple[Applied, Action, int]]:
        """Return each new match: its rule, the action taken, its position."""
        if self._unescaped is None and ESCAPE in text:
            self._unescaped = self._tail.unescaped()
        found = self._tail.feed(text, is_last=is_last)
        if self._unescaped is not None:
            found = [*found, *self._unescaped.feed(text, is_last=is_last)]
        self.total += len(text)
        if not found and self._unescaped is None and not self._forced and self.blocked_at is None:
            self.safe = self._tail.safe
            return ()
        new = list(self._in(found))
        self._settle()
        return new

    def _settle(self) -> None:
        safe = self._tail.safe if self._unescaped is None else min(self._tail.safe, self._unescaped.safe)
        safe = max(safe, self._forced)
        self.safe = safe if self.blocked_at is None else min(safe, self.blocked_at)

    def _in(self, every: Sequence[Found]) -> Iterator[tuple[Applied, Action, int]]:
        for found in every:
            applied = self._compiled.rules[found.rule]
            action = self._action(applied)
            self._act(action, found)
            if (found.rule, found.start) not in self._seen:
                self._seen.add((found.rule, found.start))
                yield applied, action, found.start

    def force(self) -> None:
        self._forced = self.total
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

    def _act(self, action: Action, found: Found) -> None:
        if action is Action.MASK:
            self.masks.add((found.start, found.end))
        elif action is Action.BLOCK:
            self.blocked_at = min(found.start, found.start if self.blocked_at is None else self.blocked_at)
