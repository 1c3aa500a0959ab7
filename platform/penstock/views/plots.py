"""A plan as a picture: replicas over traffic, as SVG."""

from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT, EDGE = 640, 360, 48
"""Pixels; the edge holds the numbers."""


def replicas(points: Sequence[tuple[float, int]], planned: tuple[float, int], title: str) -> str:
    title = escape(title)
    most_x, most_y = max(x for x, _ in points), max(y for _, y in points)

    def at(x: float, y: float) -> str:
        across = EDGE + x / most_x * (WIDTH - 2 * EDGE)
        up = HEIGHT - EDGE - y / most_y * (HEIGHT - 2 * EDGE)
        return f"{across:.1f},{up:.1f}"

    corners, before = [at(0, points[0][1])], points[0][1]
    for x, y in points:
        corners += [at(x, before), at(x, y)]
        before = y
    mark = at(*planned).split(",")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-size="12">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{EDGE}" y="20">{title}</text>',
        f'<polyline fill="none" stroke="#888" points="{at(0, most_y)} {at(0, 0)} {at(most_x, 0)}"/>',
        f'<polyline fill="none" stroke="#1f77b4" stroke-width="2" points="{" ".join(corners)}"/>',
        f'<circle cx="{mark[0]}" cy="{mark[1]}" r="4" fill="#d62728"/>',
        f'<text x="{WIDTH - EDGE}" y="{HEIGHT - 16}" text-anchor="end">{most_x:,.4g} requests/s</text>',
        f'<text x="8" y="{EDGE - 8}">{most_y:,} replicas</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"
