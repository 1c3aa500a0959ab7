"""Small plots as SVG text: axes, bars, dots, steps and a bound. No library, no script, nothing fetched at view time."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 860, 250
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 40
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A8200", "#555555")
"""Told apart by colour-blind people too (Okabe and Ito)."""
BOUND_COLOUR = "#B00020"
TICKS = 6
LEAST = 1e-3


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A named axis from ``low`` to ``high``; logarithmic on request, and then above 0."""

    name: str
    low: float
    high: float
    log: bool = False

    def part(self, value: float) -> float:
        """Return a value's position, from 0 to 1; a value outside is at the edge."""
        low, high, at = (self._scaled(x) for x in (self.low, self.high, min(max(value, self.low), self.high)))
        return (at - low) / (high - low) if high > low else 0.0

    def ticks(self) -> Iterator[float]:
        if self.log:
            for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
                yield from (x for x in (10.0**power, 3 * 10.0**power) if self.low <= x <= self.high)
            return
        step = _round_step((self.high - self.low) / TICKS)
        first = math.ceil(self.low / step - 1e-9)
        yield from (n * step for n in range(first, math.floor(self.high / step + 1e-9) + 1))

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value


def axis(name: str, values: Sequence[float], *, log: bool = False) -> Axis:
    """Return an axis that all values fit on; a linear one begins at 0, and no logarithmic one below a thousandth."""
    above = [value for value in values if value > 0] or [1.0]
    if log:
        low = max(LEAST, 10 ** math.floor(math.log10(min(above))))
        return Axis(name=name, low=low, high=max(max(above) * 1.2, 10 * low), log=True)
    return Axis(name=name, low=0.0, high=max(above) * 1.05)


def _round_step(least: float) -> float:
    power: float = 10.0 ** math.floor(math.log10(least))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least * 0.999)


@dataclass
class Plot:
    """One plot; what is drawn later lies above. ``says`` is read out by what shows no pictures."""

    says: str
    x: Axis
    y: Axis
    _parts: list[str] = field(default_factory=list)

    def bar(self, at: tuple[float, float], height: tuple[float, float], colour: str) -> None:
        """Fill from one x to another, from one y to another."""
        left, right = (self._x(value) for value in at)
        low, high = (self._y(value) for value in height)
        size = f'width="{max(0.5, right - left - 1):.1f}" height="{max(0.0, low - high):.1f}"'
        self._parts.append(f'<rect x="{left:.1f}" y="{high:.1f}" {size} fill="{colour}"/>')

    def dots(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        self._parts.extend(
            f'<circle cx="{self._x(x):.1f}" cy="{self._y(y):.1f}" r="2.2" fill="{colour}" fill-opacity=".55"/>'
            for x, y in points
        )

    def line(self, points: Sequence[tuple[float, float]], colour: str) -> None:
        drawn = " ".join(f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in points)
        self._parts.append(f'<polyline points="{drawn}" fill="none" stroke="{colour}" stroke-width="1.8"/>')

    def bound(self, *, x: float | None = None, y: float | None = None) -> None:
        """Draw a promise as a dashed line."""
        ends = (
            (self._x(x), TOP, self._x(x), HEIGHT - BOTTOM)
            if x is not None
            else (LEFT, self._y(y or 0.0), WIDTH - RIGHT, self._y(y or 0.0))
        )
        where = " ".join(f'{name}="{value:.1f}"' for name, value in zip(("x1", "y1", "x2", "y2"), ends, strict=True))
        self._parts.append(f'<line {where} stroke="{BOUND_COLOUR}" stroke-width="1.4" stroke-dasharray="6 4"/>')

    def text(self) -> str:
        head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.says)}">'
        return "\n".join([head, *self._grid(), *self._parts, "</svg>"])

    def _grid(self) -> Iterator[str]:
        for tick in self.y.ticks():
            at = self._y(tick)
            yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#e4e4e4"/>'
            yield f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
        for tick in self.x.ticks():
            yield f'<text x="{self._x(tick):.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{tick:g}</text>'
        centre, middle = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
        yield f'<text x="{centre}" y="{HEIGHT - 6}" text-anchor="middle">{escape(self.x.name)}</text>'
        yield f'<text transform="translate(14 {middle}) rotate(-90)" text-anchor="middle">{escape(self.y.name)}</text>'

    def _x(self, value: float) -> float:
        return LEFT + self.x.part(value) * (WIDTH - LEFT - RIGHT)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self.y.part(value) * (HEIGHT - TOP - BOTTOM)
