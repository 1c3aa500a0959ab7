"""What the copies to one candidate have taken of late, against their caps. Pure."""

from penstock.domain.shadow import ShadowCaps


class Level:
    """What is left of a rate: it fills by the second, up to one second's, and may be overdrawn once."""

    __slots__ = ("_at", "_left")

    def __init__(self) -> None:
        """Begin with something left."""
        self._left, self._at = 1.0, float("-inf")

    def has(self, per_s: float, now: float) -> bool:
        """Tell whether anything is left (monotonic seconds)."""
        if not per_s:
            return False
        self._left = min(max(1.0, per_s), self._left + (now - self._at) * per_s)
        self._at = now
        return self._left > 0.0

    def spend(self, amount: float) -> None:
        """Take so much, also more than is left."""
        self._left -= amount


class Taken:
    """The copies of one route."""

    __slots__ = ("_copies", "_scores", "_tokens", "at_once")

    def __init__(self) -> None:
        """Begin with nothing taken."""
        self._copies, self._tokens, self._scores = Level(), Level(), Level()
        self.at_once = 0

    def has_room(self, caps: ShadowCaps, now: float) -> bool:
        """Tell whether one more may go."""
        free = self.at_once < caps.at_once
        return free and self._copies.has(caps.per_s, now) and self._tokens.has(caps.tokens_per_s, now)

    def sent(self, tokens: int) -> None:
        """One more goes; ``tokens`` are those of the answered request, and probably its own."""
        self.at_once += 1
        self._copies.spend(1.0)
        self._tokens.spend(tokens)

    def may_score(self, caps: ShadowCaps, now: float) -> bool:
        """Tell whether one more answer may be scored."""
        return self._scores.has(caps.scored_per_s, now)

    def scored(self) -> None:
        """One more is scored."""
        self._scores.spend(1.0)
