"""A figure of a grid of cells, e.g. the best bound of each spread and number of workers: an SVG
file and a CSV file. The colours are cividis', from blue to yellow, distinguishable with any
colour vision, and each cell has its value in words, too."""

import csv
import pathlib

from figures import escaped, text

CIVIDIS = ((0, 34, 78), (67, 78, 108), (125, 124, 120), (188, 174, 108), (254, 232, 56))
NONE = "#dddddd"
LEFT, TOP, CELL_WIDTH, CELL_HEIGHT, BELOW = 130, 64, 90, 28, 24


class Grid:
    """Cells whose values are words with an order."""

    def __init__(self, title, row_label, column_label, values):
        self.title, self.row_label, self.column_label = title, row_label, column_label
        self.values = list(values)  # from the first colour to the last
        self.cells = {}  # by row and column

    def add(self, row, column, value):
        """A value that is not one of the grid's has no colour."""
        self.cells[row, column] = value

    def write(self, folder, name):
        """NAME.csv and NAME.svg. Returns their paths."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        table, image = folder / f"{name}.csv", folder / f"{name}.svg"
        with table.open("w", newline="", encoding="utf-8") as file:
            rows = csv.writer(file, lineterminator="\n")
            rows.writerow([self.row_label, self.column_label, "value"])
            rows.writerows([*place, value] for place, value in self.cells.items())
        image.write_text(self.svg(), encoding="utf-8")
        return table, image

    def svg(self):
        rows = list(dict.fromkeys(row for row, _ in self.cells))
        columns = list(dict.fromkeys(column for _, column in self.cells))
        width = LEFT + len(columns) * CELL_WIDTH + 16
        height = TOP + len(rows) * CELL_HEIGHT + BELOW
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {max(width, 420)} '
                 f'{height}" role="img" font-family="sans-serif" font-size="12">',
                 f"<title>{escaped(self.title)}</title>",
                 '<rect width="100%" height="100%" fill="#ffffff"/>',
                 text(16, 20, self.title),
                 text(16, TOP - 8, f"{self.row_label} \\ {self.column_label}")]
        for number, column in enumerate(columns):
            parts.append(text(LEFT + (number + 0.5) * CELL_WIDTH, TOP - 8, str(column), "middle"))
        for number, row in enumerate(rows):
            parts.append(text(16, TOP + (number + 0.65) * CELL_HEIGHT, str(row)))
        for (row, column), value in self.cells.items():
            parts += self.cell(LEFT + columns.index(column) * CELL_WIDTH,
                               TOP + rows.index(row) * CELL_HEIGHT, value)
        return "\n".join([*parts, "</svg>"]) + "\n"

    def cell(self, x, y, value):
        colour, ink = NONE, "#000000"
        if value in self.values:
            part = self.values.index(value) / max(1, len(self.values) - 1)
            colour, ink = colour_of(part), "#000000" if part > 0.5 else "#ffffff"
        return [f'<rect x="{x}" y="{y}" width="{CELL_WIDTH - 2}" height="{CELL_HEIGHT - 2}" '
                f'fill="{colour}"/>',
                text(x + CELL_WIDTH / 2, y + CELL_HEIGHT * 0.65, value, "middle")
                .replace("<text ", f'<text fill="{ink}" ')]


def colour_of(part):
    """A colour of cividis.  part  from 0 to 1"""
    place = part * (len(CIVIDIS) - 1)
    below = min(int(place), len(CIVIDIS) - 2)
    mixed = (round(a + (b - a) * (place - below))
             for a, b in zip(CIVIDIS[below], CIVIDIS[below + 1]))
    return "#" + "".join(f"{one:02x}" for one in mixed)
