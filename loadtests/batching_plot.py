"""Draws goodput over load as an SVG: a panel for each shape of load, a line for each way of batching."""

from collections.abc import Mapping, Sequence
from pathlib import Path

Line = list[tuple[float, float, float]]
"""Asked a second, in time a second, the share in time."""
_COLOURS = ("#1f77b4", "#d62728", "#7f7f7f", "#2ca02c", "#9467bd")
_WIDTH, _HEIGHT, _LEFT, _TOP = 420, 300, 60, 40


def write(path: Path, shapes: Mapping[str, Mapping[str, Line]]) -> None:
    most = max(asked for lines in shapes.values() for line in lines.values() for asked, _, _ in line)
    panels = "".join(
        _panel(name, lines, most, n * (_WIDTH + 2 * _LEFT)) for n, (name, lines) in enumerate(shapes.items())
    )
    width = len(shapes) * (_WIDTH + 2 * _LEFT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT + 3 * _TOP}"'
        f' font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>{panels}</svg>\n'
    )


def _panel(name: str, lines: Mapping[str, Line], most: float, left: float) -> str:
    def at(asked: float, good: float) -> str:
        return f"{left + _LEFT + asked / most * _WIDTH:.1f},{_TOP + _HEIGHT - good / most * _HEIGHT:.1f}"

    parts = [_text(left + _LEFT, _TOP - 15, f"{name}: answers in time a second, over asked a second")]
    parts.append(f'<polyline points="{at(0, 0)} {at(most, most)}" fill="none" stroke="#ccc" stroke-dasharray="4"/>')
    parts.append(f'<polyline points="{at(0, most)} {at(0, 0)} {at(most, 0)}" fill="none" stroke="black"/>')
    for part in (0.25, 0.5, 0.75, 1.0):
        parts.append(_text(left + _LEFT + part * _WIDTH - 10, _TOP + _HEIGHT + 18, f"{part * most:.0f}"))
        parts.append(_text(left + _LEFT - 35, _TOP + _HEIGHT - part * _HEIGHT + 4, f"{part * most:.0f}"))
    for number, (way, line) in enumerate(lines.items()):
        parts += _drawn(way, [at(asked, good) for asked, good, _ in line], number, left)
    return "".join(parts)


def _drawn(way: str, points: Sequence[str], number: int, left: float) -> list[str]:
    colour = _COLOURS[number % len(_COLOURS)]
    return [
        f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *(f'<circle cx="{p.split(",")[0]}" cy="{p.split(",")[1]}" r="3" fill="{colour}"/>' for p in points),
        _text(left + _LEFT + 12, _TOP + 16 + 16 * number, way, colour),
    ]


def _text(x: float, y: float, words: str, colour: str = "black") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{colour}">{words}</text>'
