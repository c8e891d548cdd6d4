"""Drawings of the support report as SVG: the map of the states and the worst episodes."""

from html import escape

import numpy as np
from numpy.typing import NDArray

from gridcount.policy.projection import Map
from gridcount.policy.support import Episode

WIDTH, HEIGHT = 560, 420
LEFT, TOP, BOTTOM = 70, 14, 46


def map_drawing(found: Map, walls: NDArray[np.float64] | None = None) -> str:
    """The map: green where the log has the policy's actions, red where it does not. `walls` [walls, 4] are
    boxes (x, y, width, height)."""
    inner_width, inner_height = WIDTH - LEFT - 10, HEIGHT - TOP - BOTTOM
    (x_low, x_high), (y_low, y_high) = found.x_range, found.y_range
    sides = len(found.rows)
    cell_width, cell_height = inner_width / sides, inner_height / sides
    parts = []
    for i, line in enumerate(found.supported):
        for j, share in enumerate(line):
            if share is None:
                continue
            x, y = LEFT + j * cell_width, TOP + (sides - 1 - i) * cell_height
            said = f"{found.rows[i][j]:,} states, {share:.0%} of the policy's actions in the log"
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{cell_width + 0.3:.1f}"'
                f' height="{cell_height + 0.3:.1f}" '
                f'fill="{_colour(share)}"><title>{said}</title></rect>'
            )
    for x, y, width, height in [] if walls is None else walls:
        left, right = (LEFT + (edge - x_low) / (x_high - x_low) * inner_width for edge in (x, x + width))
        top, bottom = (TOP + (y_high - edge) / (y_high - y_low) * inner_height for edge in (y + height, y))
        left, right = (min(max(edge, LEFT), WIDTH - 10) for edge in (left, right))
        top, bottom = (min(max(edge, TOP), HEIGHT - BOTTOM) for edge in (top, bottom))
        if right > left and bottom > top:
            parts.append(
                f'<rect class="wall" x="{left:.1f}" y="{top:.1f}" width="{right - left:.1f}"'
                f' height="{bottom - top:.1f}"/>'
            )
    frame = f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{inner_width}" height="{inner_height}"/>'
    return _svg("Map of the states", HEIGHT, [*parts, frame, *_labels(found)])


def episode_drawing(found: Episode) -> str:
    """Uncertainty along an episode: at 1 the log has nothing like it."""
    height = 130
    inner_width, inner_height = WIDTH - LEFT - 10, height - TOP - BOTTOM
    last = max(len(found.uncertainty) - 1, 1)
    points = " ".join(
        f"{LEFT + step / last * inner_width:.1f},{TOP + (1 - value) * inner_height:.1f}"
        for step, value in enumerate(found.uncertainty)
    )
    floor = TOP + inner_height
    parts = [
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{inner_width}" height="{inner_height}"/>',
        f'<polyline class="line" points="{points}"/>',
        f'<text x="{LEFT - 8}" y="{TOP + 8}" text-anchor="end">1</text>',
        f'<text x="{LEFT - 8}" y="{floor}" text-anchor="end">0</text>',
        f'<text x="{LEFT}" y="{floor + 18}">step 0</text>',
        f'<text x="{WIDTH - 10}" y="{floor + 18}" text-anchor="end">{last:,}</text>',
    ]
    return _svg(f"Uncertainty along episode {found.episode}", height, parts)


def _labels(found: Map) -> list[str]:
    floor = HEIGHT - BOTTOM
    middle = (LEFT + WIDTH - 10) / 2
    return [
        f'<text x="{LEFT}" y="{floor + 16}">{found.x_range[0]:.4g}</text>',
        f'<text x="{WIDTH - 10}" y="{floor + 16}" text-anchor="end">{found.x_range[1]:.4g}</text>',
        f'<text x="{middle}" y="{floor + 34}" text-anchor="middle">{escape(found.x)}</text>',
        f'<text x="{LEFT - 6}" y="{TOP + 10}" text-anchor="end">{found.y_range[1]:.4g}</text>',
        f'<text x="{LEFT - 6}" y="{floor}" text-anchor="end">{found.y_range[0]:.4g}</text>',
        f'<text transform="translate(14 {(TOP + floor) / 2}) rotate(-90)"'
        f' text-anchor="middle">{escape(found.y)}</text>',
    ]


def _svg(title: str, height: int, parts: list[str]) -> str:
    label = escape(title)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _colour(share: float) -> str:
    """From red, 0, over yellow to green, 1, in colours that differ in lightness too."""
    stops = np.array([[178, 24, 43], [253, 219, 119], [27, 120, 85]], np.float64)
    place = share * 2
    first = min(int(place), 1)
    mixed = stops[first] + (place - first) * (stops[first + 1] - stops[first])
    return "#" + "".join(f"{round(float(part)):02x}" for part in mixed)
