"""Puts tables and pictures into docs/SCALE.md: below each marker `<!-- table: NAME -->` its table,
and below that its pictures, as far as they exist. Nothing else of the page changes."""

import os
import re

from scale_page import learning, laws, nets, schedules, trainings
from scale_page.kept import cells_of

TABLES = {table.name: table for module in (schedules, trainings, nets, learning, laws)
          for table in module.TABLES}
MARKER = re.compile(r"<!-- table: ([\w-]+) -->")
PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\.svg\)")
MAY_BE_EMPTY = ("quoted", "minutes an epoch", "processor's time before", "peak before")
# What a builder raises where an output has other rows or columns.
NOT_AS_EXPECTED = (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError,
                   ValueError)
# Numbers that may be figures of a run: with a fraction, of three digits and more, or with a unit.
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
FIGURE = re.compile(r"\d[\d,]*\.\d+|\d{1,3}(?:,\d{3})+|\b\d{3,}\b|"
                    r"\b\d+(?= (?:%|s|ms|us|h|hours|minutes|points|times|MB|GB|KiB|MiB|GiB)\b)|"
                    r"\b\d+(?= %)")


class Page:
    """The page's lines."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.gone = set()  # figures that tables no longer have

    def markers(self):
        """The names in the page's order."""
        return [found[1] for line in self.lines if (found := MARKER.fullmatch(line))]

    def block_of(self, name):
        """The rows below a marker, and from which line on to which its table and pictures are."""
        first = 1 + next(i for i, line in enumerate(self.lines)
                         if (found := MARKER.fullmatch(line)) and found[1] == name)
        rows, last, i = [], first, first
        while i < len(self.lines):
            line = self.lines[i]
            if line.startswith("|") and (not rows or self.lines[i - 1].startswith("|")):
                if not re.fullmatch(r"[|\-]+", line):
                    rows.append(cells_of(line))
                last = i + 1
            elif PICTURE.fullmatch(line):
                last = i + 1
            elif line:
                break
            i += 1
        return rows, first, last

    def write(self, name, rows, pictures):
        """Replaces a table.  pictures  the lines that show them"""
        old, first, last = self.block_of(name)
        new = ["", *as_markdown(rows)]
        for line in pictures:
            new += ["", line]
        self.lines[first:last] = new
        if self.lines[first + len(new):first + len(new) + 1] not in ([], [""]):
            self.lines.insert(first + len(new), "")
        self.gone |= figures_of(old[1:]) - figures_of(rows[1:])

    def tables_without_markers(self):
        """The numbers of the lines where they start."""
        marked = set()
        for name in self.markers():
            _, first, last = self.block_of(name)
            marked |= set(range(first, last))
        return [i + 1 for i, line in enumerate(self.lines) if line.startswith("|") and
                i not in marked and not self.lines[i - 1].startswith("|")]

    def sentences(self):
        """The lines outside of tables, headings and commands with figures, by their numbers, each
        with those of its figures that tables no longer have."""
        quoting, is_code = {}, False
        for i, line in enumerate(self.lines):
            if line.startswith("```"):
                is_code = not is_code
            elif not is_code and not line.startswith(("|", "#", "<!--", "![")):
                found = FIGURE.findall(DATE.sub("", line))
                if found:
                    quoting[i + 1] = [one for one in found if one in self.gone and
                                      is_telling(one)]
        return quoting

    def dates(self):
        """The numbers of the lines with the dates of figures."""
        return [i + 1 for i, line in enumerate(self.lines)
                if DATE.search(line) and not line.startswith("|")]

    def text(self):
        return "\n".join(self.lines) + "\n"


def figures_of(rows):
    return {one for row in rows for cell in row for one in FIGURE.findall(cell)}


def is_telling(figure):
    """Whether it has enough digits to be unambiguous: 4.8, but not 0.1."""
    return len(re.sub(r"\D", "", figure).strip("0")) > 1


def as_markdown(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    lines.insert(1, "|" + "---|" * len(rows[0]))
    return [re.sub(r"  +\|", " |", line) for line in lines]


def empty_cells(rows):
    """But for what surveys quote, an epoch of nets whose data set has none, and names that are that
    of the row above."""
    return sum(cell == "" and head not in MAY_BE_EMPTY for row in rows[1:]
               for head, cell in zip(rows[0][1:], row[1:]))


def pictures_of(table, folder, page_path):
    """The lines that show a table's pictures, of those that are in the folder."""
    lines = []
    for name in table.picture_names():
        for path in sorted(folder.glob(f"{name}.svg")):
            link = os.path.relpath(path, page_path.parent)
            lines.append(f"![{title_of(table, path.stem)}]({link})")
    return lines


def title_of(table, name):
    return table.title if name == table.name else f"{table.title}: {name.replace('-', ' ')}"


def rows_of(table, kept, old):
    """The table's rows; or none, and why.  old  the page's"""
    try:
        rows = table.build(kept, old)
    except NOT_AS_EXPECTED as error:
        return [], f"its commands' outputs are not as its builder expects: {error!r}"
    if not any(cell for row in rows[1:] for cell in row[1:]):
        return [], "its commands' outputs have no such table"
    if other := next((row for row in rows if len(row) != len(rows[0])), None):
        return [], f"it has {len(rows[0])} headings, and a row has other cells: {other}"
    return rows, None


def write_tables(kept, text, page_path, pictures):
    """The page with every table whose commands have all ended. Returns it and what to check by
    hand, a line each.  pictures  the folder with the figures"""
    page, notes = Page(text), []
    for name in page.markers():
        table = TABLES.get(name)
        if table is None:
            notes.append(f"{name}: no such table; see {', '.join(TABLES)}")
            continue
        if missing := kept.missing(table.lines):
            notes.append(f"{name}: left as it is, as {len(missing)} of {len(table.lines)} commands "
                         f"have no output: {missing[0]}")
            continue
        notes += [f"{name}: has no figures of what failed: {line}"
                  for line in kept.failed(table.lines)]
        rows, why = rows_of(table, kept, page.block_of(name)[0])
        if why:
            notes.append(f"{name}: left as it is: {why}")
            continue
        page.write(name, rows, pictures_of(table, pictures, page_path))
        notes += [f"{name}: {note}" for note in (table.notes(kept) if table.notes else ())]
        if empty := empty_cells(rows):
            notes.append(f"{name}: {empty} cells are empty")
        if table.written is not None:
            notes += [f"{name}: written by hand, with figures: {row[0]}: {row[table.written]}"
                      for row in rows[1:] if FIGURE.search(row[table.written])]
    notes += [f"{name}: the page has no marker of it" for name in TABLES
              if name not in page.markers()]
    return page, notes


def draw(kept, folder):
    """The figures of the tables whose commands have all ended. Returns their files, and a line for
    each table that has none."""
    files, notes = [], []
    for table in TABLES.values():
        if not (table.draw or table.draw_kept):
            continue
        drawn, why = (), "no figures"
        if missing := kept.missing(table.lines):
            why = f"{len(missing)} of {len(table.lines)} commands have no output"
        else:
            rows, misfit = rows_of(table, kept, [])
            if misfit:
                why = misfit
            else:
                drawn = (*(table.draw(rows, folder, table) if table.draw else ()),
                         *(table.draw_kept(kept, folder) if table.draw_kept else ()))
        files += drawn
        if not drawn:
            notes.append(f"{table.name}: not drawn: {why}")
    return files, notes


def unplaced(kept, commands):
    """The outputs that no table has: their figures are in sentences."""
    used = {line for table in TABLES.values() for line in table.lines}
    return [line for line, _ in kept.those_of([one.line for one in commands])
            if line not in used]
