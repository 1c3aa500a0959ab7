"""Whose an engine's time is: each step's, in equal parts, of the sequences that were in it. Pure.

In it are those that it brought something, and those whose prompts are still read: they have brought nothing yet. So all
parts together are never more than the time in which the engine had work. Trade-off: of the prompts inside nobody knows
which the step read; doors keep the engine's own queue short, so all of them have a part.
"""

from collections.abc import Callable, Sequence

Charge = Callable[[float], None]
"""Takes the seconds that are a request's."""


class StepTime:
    """Takes the moments at which work came and steps ended, in monotonic seconds of this machine."""

    __slots__ = ("_each_s", "_given_s", "_last_at", "_most", "_reading", "_since")

    def __init__(self, most: int) -> None:
        self._most = most
        self._since = self._last_at = self._each_s = self._given_s = 0.0
        self._reading: dict[str, Charge] = {}

    def begins(self, at: float) -> None:
        """Work came to an engine that had none."""
        self._since, self._given_s = at, 0.0
        self._reading.clear()

    def reads(self, request: str, charge: Charge) -> None:
        """A prompt came: its parts are charged until something comes of it."""
        self._reading[request] = charge

    def each(self, at: float, outputs: Sequence[str], inside: int) -> float:
        """Return the seconds of each of these outputs of the step that ended at ``at``; charge who is still read.

        Of a step in lots nobody knows how many outputs come, so all that are ``inside`` have a part.
        """
        for request in outputs:
            self._reading.pop(request, None)
        if at != self._last_at:
            is_whole, sequences = len(outputs) < self._most, len(outputs) + len(self._reading)
            self._each_s = self._open_s(at) / max(1, sequences if is_whole else max(sequences, inside))
            self._last_at, self._given_s = at, 0.0
            if is_whole:
                for charge in self._reading.values():
                    charge(self._each_s)
        return self._each_s

    def leaves(self, request: str, at: float, inside: int) -> None:
        """A request is gone: where nothing had come of it, it is charged its part of the time since the last step."""
        if (charge := self._reading.pop(request, None)) is not None:
            part_s = self._open_s(at) / max(1, inside)
            self._given_s += part_s
            charge(part_s)

    def _open_s(self, at: float) -> float:
        """Return the seconds since the last step's end that are nobody's yet."""
        return max(0.0, at - max(self._since, self._last_at) - self._given_s)
