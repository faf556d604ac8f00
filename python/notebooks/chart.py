"""Line charts in SVG, without another library. A notebook shows the charts, and `save` writes them
to files.
"""

import html
import math
import pathlib

#: Okabe and Ito's colours, which colour-blind people tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 300, 56, 130, 28, 44


class Chart:
    """Lines of `(x, y)` points, by name. With `log` the axis of x is logarithmic."""

    def __init__(self, title, x, y, lines, log=False):
        self.title, self.x, self.y, self.lines, self.log = title, x, y, lines, log

    def save(self, path):
        pathlib.Path(path).write_text(self.svg(), encoding="utf-8")

    def _repr_svg_(self):
        return self.svg()

    def svg(self):
        place = math.log10 if self.log else float
        xs = [place(x) for points in self.lines.values() for x, _ in points]
        low, high, top = min(xs), max(xs), max(y for points in self.lines.values() for _, y in points)
        across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def at(x, y):
            return LEFT + (place(x) - low) / (high - low or 1) * across, TOP + (1 - y / (top or 1)) * down

        def text(x, y, words, anchor="middle", colour="#333"):
            return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{html.escape(words)}</text>'

        parts = [text(LEFT, 16, self.title, "start"), text(LEFT + across / 2, HEIGHT - 8, self.x)]
        for step in range(5):
            value = top * step / 4
            _, y = at(10**low if self.log else low, value)
            parts.append(f'<path d="M{LEFT} {y:.1f}h{across}" stroke="#ddd"/>')
            parts.append(text(LEFT - 6, y + 4, f"{value:.3g}", "end"))
        for x in sorted({x for points in self.lines.values() for x, _ in points}):
            parts.append(text(at(x, 0)[0], HEIGHT - BOTTOM + 16, f"{x:g}"))
        parts.append(text(LEFT + across + 8, TOP - 10, self.y, "start"))
        for number, (name, points) in enumerate(self.lines.items()):
            colour = COLOURS[number % len(COLOURS)]
            path = "L".join("{:.1f} {:.1f}".format(*at(x, y)) for x, y in points)
            parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
            parts.append(text(LEFT + across + 8, TOP + 8 + 16 * number, name, "start", colour))
        style = 'font-family="sans-serif" font-size="11"'
        body = "\n".join(parts)
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>\n{body}\n</svg>\n'
