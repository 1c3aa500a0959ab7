"""The exposure of a budget: the money that running answers may cost beyond their holds. Pure.

If all running requests together could cost more than a budget's rest, a request holds the smaller of its worst case and
a quarter of the rest.

Trade-off: near the end fewer requests run than would probably fit, and the budget can be exceeded until requests are
topped up or ended.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.domain.tenancy.limits import Draw, MeterKind

MOST_REMEMBERED = 4096
PART_OF_WHAT_IS_LEFT = 4


class Exposure:
    """Micro-dollars by budget meter; a meter that was never read counts as nearly spent."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._left: OrderedDict[str, int] = OrderedDict()

    def hold(self, wanted: tuple[Draw, ...], worst: int) -> tuple[Draw, ...]:
        """Return the draws to reserve: ``wanted``, or for a nearly spent budget money up to ``worst``."""
        least, left, is_near = 0, worst * PART_OF_WHAT_IS_LEFT, False
        for draw in wanted:
            if draw.kind is MeterKind.BUDGET:
                has = self._left.get(draw.key)
                least, left = draw.amount, left if has is None else min(left, has)
                is_near = is_near or has is None or has - worst < self._open.get(draw.key, 0)
        return less(wanted, least, left) if is_near else wanted

    def saw(self, wanted: Sequence[Draw], remaining: Sequence[int]) -> None:
        for draw, left in zip(wanted, remaining, strict=True):
            if draw.kind is MeterKind.BUDGET:
                self._left[draw.key] = left
                self._left.move_to_end(draw.key)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)

    def change(self, drawn: Iterable[Draw], beyond: int) -> None:
        """Negative if the request ended or holds more."""
        for draw in drawn:
            if draw.kind is MeterKind.BUDGET:
                now = self._open.get(draw.key, 0) + beyond
                if now:
                    self._open[draw.key] = now
                else:
                    self._open.pop(draw.key, None)


def money(drawn: Iterable[Draw]) -> int | None:
    for draw in drawn:
        if draw.kind is MeterKind.BUDGET:
            return draw.amount
    return None


def left(wanted: Sequence[Draw], remaining: Sequence[int]) -> int:
    pairs = zip(wanted, remaining, strict=True)
    return min((has for draw, has in pairs if draw.kind is MeterKind.BUDGET), default=0)


def less(wanted: Iterable[Draw], least: int, has: int) -> tuple[Draw, ...]:
    """Return the draws with money reduced to a quarter of the meter's rest ``has``, at least ``least``."""
    amount = max(least, has // PART_OF_WHAT_IS_LEFT)
    return tuple(replace(draw, amount=amount) if draw.kind is MeterKind.BUDGET else draw for draw in wanted)
