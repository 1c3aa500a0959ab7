"""A topology as SVG text: fixed places, no randomness, so the same graph is the same file."""

from html import escape

from infra.picture.topology import Box, Topology

WIDTH, GAP_X, GAP_Y, LINE, PAD, HEAD = 230, 90, 24, 16, 10, 60

TIP = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="#8a93a3"/></marker></defs>'
)


def draw(title: str, picture: Topology) -> str:
    """The picture as an SVG document."""
    places, width, height = _places(picture)
    frame = f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {frame}>',
        TIP,
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{PAD}" y="32" font-size="20" fill="#1d2733">{escape(title)}</text>',
    ]
    parts += [_arrow(places[one], places[other]) for one, other in picture.arrows]
    parts += [_box(box, places[box.name]) for layer in picture.layers for box in layer]
    return "\n".join([*parts, "</svg>", ""])


Place = tuple[int, int, int]


def _places(picture: Topology) -> tuple[dict[str, Place], int, int]:
    places: dict[str, Place] = {}
    bottom = HEAD
    for column, layer in enumerate(picture.layers):
        top = HEAD
        for box in layer:
            tall = PAD * 2 + LINE * (len(box.holds) + 2)
            places[box.name] = (PAD + column * (WIDTH + GAP_X), top, tall)
            top += tall + GAP_Y
        bottom = max(bottom, top)
    return places, PAD * 2 + len(picture.layers) * (WIDTH + GAP_X) - GAP_X, bottom


def _box(box: Box, place: Place) -> str:
    left, top, tall = place
    lines = [f'<text x="{left + PAD}" y="{top + 20}" font-weight="bold" fill="#1d2733">{escape(box.name)}</text>']
    lines.append(f'<text x="{left + PAD}" y="{top + 20 + LINE}" fill="#5b6675">{escape(box.kind)}</text>')
    for index, held in enumerate(box.holds):
        lines.append(f'<text x="{left + PAD}" y="{top + 20 + LINE * (index + 2)}" fill="#1d2733">{escape(held)}</text>')
    frame = f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{tall}" rx="6" fill="#f3f6fa" stroke="#7f8ea3"/>'
    return "\n".join([frame, *lines])


def _arrow(one: Place, other: Place) -> str:
    start_x, start_y = one[0] + WIDTH, one[1] + one[2] // 2
    end_x, end_y = other[0], other[1] + other[2] // 2
    bend = max((end_x - start_x) // 2, 40)
    path = f"M{start_x} {start_y} C{start_x + bend} {start_y} {end_x - bend} {end_y} {end_x} {end_y}"
    return f'<path d="{path}" fill="none" stroke="#8a93a3" marker-end="url(#tip)"/>'
