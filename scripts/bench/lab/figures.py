"""Figures for papers of the tables that the measuring commands print: a CSV file of the numbers and
an SVG file of their lines. Colours are those of Okabe and Ito, which are told apart with any colour
vision; lines differ in their marks and dashes, too."""

import csv
import math
import pathlib
import xml.sax.saxutils

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BELOW = 64, 170, 44, 48
MARK = 4


def slug(title):
    """A file's name."""
    words = "".join(c.lower() if c.isalnum() else " " for c in title).split()
    return "-".join(words)


class Lines:
    """A chart of lines over numbers that grow by factors."""

    def __init__(self, title, x_label, y_label):
        self.title, self.x_label, self.y_label = title, x_label, y_label
        self.lines = {}  # by name: the points

    def add(self, name, x, y):
        """A point; names that end with "(quoted)" are drawn without a line."""
        if x > 0 and y is not None:
            self.lines.setdefault(name, []).append((x, y))

    def write(self, folder):
        """TITLE.csv and TITLE.svg. Returns their paths."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / slug(self.title)
        table, picture = path.with_suffix(".csv"), path.with_suffix(".svg")
        with table.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow(["line", self.x_label, self.y_label])
            for name, points in self.lines.items():
                rows.writerows([name, f"{x:g}", f"{y:.6g}"] for x, y in points)
        picture.write_text(self.svg(), encoding="utf-8")
        return table, picture

    def svg(self):
        points = [point for line in self.lines.values() for point in line]
        low, high = min(x for x, _ in points), max(x for x, _ in points)
        top = nice_above(max(y for _, y in points))
        span = math.log2(high / low) or 1

        def place(x, y):
            return (LEFT + math.log2(x / low) / span * (WIDTH - LEFT - RIGHT),
                    TOP + (1 - y / top) * (HEIGHT - TOP - BELOW))

        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
                 'role="img" font-family="sans-serif" font-size="12">',
                 f"<title>{escaped(self.title)}</title>",
                 '<rect width="100%" height="100%" fill="#ffffff"/>',
                 text(LEFT, TOP - 22, self.title),
                 text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, self.x_label, "middle"),
                 text(14, TOP - 8, self.y_label)]
        for i in range(6):
            value = top * i / 5
            y = place(low, value)[1]
            parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" '
                         'stroke="#cccccc" stroke-width="0.5"/>')
            parts.append(text(LEFT - 6, y + 4, f"{value:.3g}", "end"))
        for x in sorted({x for x, _ in points}):
            parts.append(text(place(x, 0)[0], HEIGHT - BELOW + 16, f"{x:,g}", "middle"))
        for number, (name, line) in enumerate(self.lines.items()):
            parts += drawn(number, name, [place(x, y) for x, y in sorted(line)])
        return "\n".join([*parts, "</svg>"]) + "\n"


def drawn(number, name, places):
    """One line, its marks, and its name at the right."""
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    parts = []
    if not name.endswith("(quoted)"):
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"'
                     f'{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')
    parts += [mark(number, colour, x, y) for x, y in places]
    y = TOP + 16 * number
    return [*parts, mark(number, colour, WIDTH - RIGHT + 16, y),
            text(WIDTH - RIGHT + 26, y + 4, name)]


def mark(number, colour, x, y):
    """A circle, a square, a triangle or a diamond."""
    shapes = (None, ((-1, -1), (1, -1), (1, 1), (-1, 1)), ((0, -1.2), (1.2, 1), (-1.2, 1)),
              ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)))
    shape = shapes[number % len(shapes)]
    if shape is None:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{MARK}" fill="{colour}"/>'
    corners = " ".join(f"{x + MARK * dx:.1f},{y + MARK * dy:.1f}" for dx, dy in shape)
    return f'<polygon points="{corners}" fill="{colour}"/>'


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escaped(words)}</text>'


def escaped(words):
    return xml.sax.saxutils.escape(words)


def nice_above(value):
    """A round number that is at least as large."""
    if value <= 0:
        return 1.0
    unit = 10.0 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 1.2, 1.5, 2, 3, 5, 8, 10) if unit * step >= value)
