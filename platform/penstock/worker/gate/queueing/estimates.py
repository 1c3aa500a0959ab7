"""How fast the engine works, how long it keeps a request: measured, never configured.

Only what it does while somebody waits tells what it can do: with two requests inside it is slow by lack of work. Other
times may show that it is faster than believed, never that it is slower.
"""

import math

FOLD_S = 0.25
"""Shortest span that makes a sample."""

REMEMBERED = 0.98
"""What a request's stay counts for after the next one: the last fifty make the average."""

FIRST_PACE = 500.0
"""Tokens of service, or of prompts, per second that an engine is believed to do before it was seen at work."""

MOST_PREFILL_S = 2.0
"""A prompt whose first token nobody sees is in others' way no longer than this."""


class Pace:
    """Tokens of service per second of a full engine, as an average that forgets with a half-life."""

    def __init__(self, *, initial: float, half_life_s: float = 10.0) -> None:
        self._rate = initial
        self._half_life_s = half_life_s
        self._done = 0.0
        self._since: float | None = None
        self._is_full = True

    @property
    def per_s(self) -> float:
        """The present estimate; never zero."""
        return max(self._rate, 1.0)

    def busy(self, now: float) -> None:
        """The engine has work from now on."""
        if self._since is None:
            self._since, self._done, self._is_full = now, 0.0, True

    def idle(self, now: float) -> None:
        """The engine has nothing left: idle time must not count as slowness."""
        self._fold(now)
        self._since = None

    def did(self, cost: float, now: float, *, full: bool) -> None:
        """The engine did so many tokens of service; ``full`` while more work waits for it."""
        self._done += cost
        self._is_full = self._is_full and full
        if self._since is not None and now - self._since >= FOLD_S:
            self._fold(now)

    def _fold(self, now: float) -> None:
        if self._since is None or now <= self._since or self._done == 0.0:
            return
        span, sample = now - self._since, self._done / (now - self._since)
        keep = math.exp2(-span / self._half_life_s)
        if self._is_full or sample > self._rate:
            self._rate = keep * self._rate + (1 - keep) * sample
        self._done, self._since, self._is_full = 0.0, now, True


class Stay:
    """Seconds that a request spends in the engine, by its expected cost; 0 until one has been seen."""

    def __init__(self) -> None:
        self._seconds = self._cost = 0.0

    def learn(self, seconds: float, cost: float) -> None:
        """A request of this expected cost was so long in the engine."""
        self._seconds = REMEMBERED * self._seconds + seconds
        self._cost = REMEMBERED * self._cost + cost

    def of(self, cost: float) -> float:
        """Return how long a request of this expected cost will probably be in the engine."""
        return cost * self._seconds / self._cost if self._cost else 0.0


class Prefill:
    """Seconds until an engine that took a prompt has been through it: what tells, where no first token does.

    Streams show it exactly, and so does an answer that comes as a whole and says how long it was decoded. One that says
    nothing shows only that its prompt took no longer than all of it.
    """

    def __init__(self) -> None:
        self._tokens, self._seconds = FIRST_PACE, 1.0

    def learn(self, tokens: int, seconds: float, *, exact: bool) -> None:
        """A prompt of so many tokens was through after so long; ``exact`` where its first token said so."""
        if seconds <= 0.0 or not (exact or tokens / seconds > self._tokens / self._seconds):
            return
        self._tokens = REMEMBERED * self._tokens + tokens
        self._seconds = REMEMBERED * self._seconds + seconds

    def of(self, tokens: int) -> float:
        """Return after how many seconds so many prompt tokens are through, probably."""
        return min(MOST_PREFILL_S, tokens * self._seconds / max(1.0, self._tokens))
