"""Figures for papers of the tables that the measuring commands print: a CSV file of the numbers and
an SVG file of their lines. Colours are those of Okabe and Ito, distinguishable with any colour
vision; lines differ in their marks and dashes, too."""

import csv
import math
import pathlib
import xml.sax.saxutils

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BELOW = 64, 170, 44, 48
PANEL, GAP, MAX_IN_ROW = 250, 36, 4  # of charts next to each other
MARK = 4


def slug(title):
    """A file's name."""
    words = "".join(c.lower() if c.isalnum() else " " for c in title).split()
    return "-".join(words)


class Lines:
    """A chart of lines over numbers that grow by factors."""

    marks_each = 1  # of how many points one has a mark

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
        return picture(self.title, [self])

    def bottom(self):
        """The least value of the axis."""
        return 0

    def ticks(self):
        """The numbers on the axis below, from the first to the last."""
        return sorted({x for line in self.lines.values() for x, _ in line})

    def part(self, x):
        """Where a number is on that axis, from 0 to 1."""
        low, *_, high = [*self.ticks()[:1], *self.ticks()]
        return math.log2(x / low) / (math.log2(high / low) or 1)


class Curves(Lines):
    """A chart of lines over time, which begins at 0. Their steep start is left out, so that there
    is room for what they end with."""

    marks_each = 8

    def bottom(self):
        """Ten or less below what nine of ten points have."""
        values = sorted(y for line in self.lines.values() for _, y in line)
        return 10 * math.floor(values[len(values) // 10] / 10)

    def ticks(self):
        last = max(x for line in self.lines.values() for x, _ in line)
        step = nice_above(last / 5)
        return [step * i for i in range(math.ceil(last / step) + 1)]

    def part(self, x):
        return x / self.ticks()[-1]


def picture(title, charts):
    """An SVG of charts in rows, with one scale of values and one legend."""
    panel = WIDTH - LEFT - RIGHT if len(charts) == 1 else PANEL
    in_row = min(len(charts), MAX_IN_ROW)
    width = LEFT + in_row * (panel + GAP) - GAP + RIGHT
    height = HEIGHT * math.ceil(len(charts) / in_row)
    bottom = min(chart.bottom() for chart in charts)
    top = bottom + nice_above(max(y for chart in charts for line in chart.lines.values()
                                  for _, y in line) - bottom)
    names = list(dict.fromkeys(name for chart in charts for name in chart.lines))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
             'role="img" font-family="sans-serif" font-size="12">',
             f"<title>{escaped(title)}</title>",
             '<rect width="100%" height="100%" fill="#ffffff"/>',
             text(LEFT, TOP - 26, title), text(14, TOP - 8, charts[0].y_label)]
    for number, chart in enumerate(charts):
        row, column = divmod(number, in_row)
        left = LEFT + column * (panel + GAP)
        parts.append(f'<g transform="translate(0 {row * HEIGHT})">')
        if len(charts) > 1:
            parts.append(text(left + panel / 2, TOP - 8, chart.title, "middle"))
        parts += [*drawn_panel(chart, names, left, panel, (bottom, top), is_first=column == 0),
                  "</g>"]
    for number, name in enumerate(names):
        y = TOP + 16 * number
        parts += [mark(number, COLOURS[number % len(COLOURS)], width - RIGHT + 16, y),
                  text(width - RIGHT + 26, y + 4, name)]
    return "\n".join([*parts, "</svg>"]) + "\n"


def drawn_panel(chart, names, left, width, values, is_first):
    """The lines of one chart over its axes.  values  the least and the largest of its axis"""
    bottom, top = values

    def place(x, y):
        return (left + chart.part(x) * width,
                TOP + (top - y) / (top - bottom) * (HEIGHT - TOP - BELOW))

    parts = [text(left + width / 2, HEIGHT - 10, chart.x_label, "middle")]
    for i in range(6):
        value = bottom + (top - bottom) * i / 5
        y = place(chart.ticks()[0], value)[1]
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + width}" y2="{y:.1f}" '
                     'stroke="#cccccc" stroke-width="0.5"/>')
        if is_first:
            parts.append(text(left - 6, y + 4, f"{value:.3g}", "end"))
    for x in chart.ticks():
        parts.append(text(place(x, bottom)[0], HEIGHT - BELOW + 16, f"{x:,g}", "middle"))
    for name, line in chart.lines.items():
        places = [place(x, y) for x, y in sorted(line) if y >= bottom]
        parts += drawn(names.index(name), name, places, chart.marks_each)
    return parts


def write_panels(folder, name, title, charts):
    """NAME.csv and NAME.svg of charts next to each other, each with its title above it. Returns
    their paths."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    table, image = folder / f"{name}.csv", folder / f"{name}.svg"
    with table.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["panel", "line", charts[0].x_label, charts[0].y_label])
        for chart in charts:
            for line, points in chart.lines.items():
                rows.writerows([chart.title, line, f"{x:g}", f"{y:.6g}"] for x, y in points)
    image.write_text(picture(title, charts), encoding="utf-8")
    return table, image


def drawn(number, name, places, marks_each):
    """One line and its marks; the last point has one."""
    colour = COLOURS[number % len(COLOURS)]
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    parts = []
    if not name.endswith("(quoted)"):
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{way}" fill="none" stroke="{colour}" stroke-width="2"'
                     f'{f" stroke-dasharray={chr(34)}{dash}{chr(34)}" if dash else ""}/>')
    return parts + [mark(number, colour, x, y) for x, y in places[::-1][::marks_each][::-1]]


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
