"""Divides an engine's time: each step's seconds in equal parts among the sequences in it. Pure.

A step contains the sequences with output and the prompts in prefill. All parts together never exceed the engine's busy
time. Trade-off: the prompts that a step actually processed are unknown; the gate keeps the engine's queue short, so
each prompt inside is charged a part.
"""

from collections.abc import Callable, Sequence

Charge = Callable[[float], None]
"""Called with the engine seconds of a request."""


class StepTime:
    __slots__ = ("_each_s", "_given_s", "_last_at", "_most", "_reading", "_since")

    def __init__(self, most: int) -> None:
        self._most = most
        self._since = self._last_at = self._each_s = self._given_s = 0.0
        self._reading: dict[str, Charge] = {}

    def begins(self, at: float) -> None:
        self._since, self._given_s = at, 0.0
        self._reading.clear()

    def reads(self, request: str, charge: Charge) -> None:
        self._reading[request] = charge

    def each(self, at: float, outputs: Sequence[str], inside: int) -> float:
        """Seconds per output of the step that ended at ``at``; prompts in prefill are charged the same. If a step's
        outputs arrive in several batches, their number is unknown: all ``inside`` count as outputs.
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
        if (charge := self._reading.pop(request, None)) is not None:
            part_s = self._open_s(at) / max(1, inside)
            self._given_s += part_s
            charge(part_s)

    def _open_s(self, at: float) -> float:
        return max(0.0, at - max(self._since, self._last_at) - self._given_s)
