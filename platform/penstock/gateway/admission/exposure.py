"""The exposure of a budget: the money that running answers may take beyond their holds. Pure.

Far from its end a budget is reserved by expected use. Near its end, if all running requests together could take more
than is left, a request holds its worst case, or a quarter of the rest if that is less: so no caller's habits decide how
far the budget is exceeded, and no single wish shuts out the others.

Trade-off: near the end fewer requests run than would probably fit, and those with less than their worst case can exceed
the budget until they are topped up or ended. Other gateways' requests are not known here, only what they left.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock.domain.tenancy.limits import Draw, MeterKind

MOST_REMEMBERED = 4096
PART_OF_WHAT_IS_LEFT = 4


class Exposure:
    """Amounts are in the meters' own unit, micro-dollars. A meter that was never asked is near its end."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._left: OrderedDict[str, int] = OrderedDict()

    def hold(self, wanted: tuple[Draw, ...], worst: int) -> tuple[Draw, ...]:
        """Return what a request should draw that probably takes ``wanted``, and of money ``worst`` at most."""
        least, left, is_near = 0, worst * PART_OF_WHAT_IS_LEFT, False
        for draw in wanted:
            if draw.kind is MeterKind.BUDGET:
                has = self._left.get(draw.key)
                least, left = draw.amount, left if has is None else min(left, has)
                is_near = is_near or has is None or has - worst < self._open.get(draw.key, 0)
        return less(wanted, least, left) if is_near else wanted

    def saw(self, wanted: Sequence[Draw], remaining: Sequence[int]) -> None:
        """Take in what a decision said that is left."""
        for draw, left in zip(wanted, remaining, strict=True):
            if draw.kind is MeterKind.BUDGET:
                self._left[draw.key] = left
                self._left.move_to_end(draw.key)
        if len(self._left) > MOST_REMEMBERED:
            self._left.popitem(last=False)

    def change(self, drawn: Iterable[Draw], beyond: int) -> None:
        """Add the micro-dollars that a request may take beyond its hold; negative if it ended or holds more."""
        for draw in drawn:
            if draw.kind is MeterKind.BUDGET:
                now = self._open.get(draw.key, 0) + beyond
                if now:
                    self._open[draw.key] = now
                else:
                    self._open.pop(draw.key, None)


def money(drawn: Iterable[Draw]) -> int | None:
    """Return the micro-dollars among these draws; None if no budget is drawn on."""
    for draw in drawn:
        if draw.kind is MeterKind.BUDGET:
            return draw.amount
    return None


def left(wanted: Sequence[Draw], remaining: Sequence[int]) -> int:
    """Return the least rest of any of these budgets, 0 if there is none."""
    pairs = zip(wanted, remaining, strict=True)
    return min((has for draw, has in pairs if draw.kind is MeterKind.BUDGET), default=0)


def less(wanted: Iterable[Draw], least: int, has: int) -> tuple[Draw, ...]:
    """Return the same draws with a part of the money that there is, and ``least`` at least."""
    amount = max(least, has // PART_OF_WHAT_IS_LEFT)
    return tuple(replace(draw, amount=amount) if draw.kind is MeterKind.BUDGET else draw for draw in wanted)
