"""A table of docs/SCALE.md: where its cells come from."""

import dataclasses
import re
import typing

from scale_commands import COMMANDS


@dataclasses.dataclass(frozen=True)
class PageTable:
    """A table, and its figures.

    name      that the page's marker has: `<!-- table: NAME -->`
    lines     the commands
    build     the rows, the headings first, given the outputs and the page's rows, of which it
              keeps what is written by hand
    draw      writes the figures, given the rows, a folder and this; returns their files
    draw_kept writes figures of what is in no cell, given the outputs and a folder; returns their
              files
    title     of the figures
    pictures  the figures' names, if they differ from the table's; * matches anything
    written   the column whose cells are written by hand and may quote figures
    notes     what to check by hand in the text below the table, given the outputs"""

    name: str
    lines: tuple
    build: typing.Callable
    draw: typing.Callable = None
    title: str = ""
    pictures: tuple = ()
    written: int = None
    draw_kept: typing.Callable = None
    notes: typing.Callable = None

    def picture_names(self):
        return self.pictures or ((self.name,) if self.draw else ())


def lines_of(section, *titles):
    """The commands of a section, or of those titles in it."""
    return tuple(one.line for one in COMMANDS if one.section == section and
                 (not titles or one.title in titles))


def number(cell):
    """The number that a cell starts with; None if it has none."""
    found = re.match(r"[-+]?\d[\d,]*(\.\d+)?", cell.replace("*", ""))
    return float(found[0].replace(",", "")) if found else None


def count(workers):
    return f"{int(workers):,}"


def by_hand(old, key_columns, column):
    """The cells of a column that is written by hand, by the rows' first cells."""
    return {tuple(row[:key_columns]): row[column] for row in old[1:] if column < len(row)}
