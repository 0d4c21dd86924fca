"""Tables of results: pandas' if it is installed, otherwise a light one with the same interface."""

import csv
import html
import pathlib
from typing import Any, Iterator, Union

# Columns that name things, even if all names look like numbers.
_WORDS = ("slack", "variant", "state", "failure")


class Frame:
    """A table if pandas is not installed, with the part of a DataFrame's interface that is needed:
    frame["loss"] is a column, a list; len(frame) counts rows; frame.groupby("slack") splits it;
    records() has each row as a dict; str() and notebooks show it. A value that is missing is None.
    """

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._columns = columns

    @property
    def columns(self) -> list[str]:
        """The columns' names."""
        return list(self._columns)

    def __getitem__(self, name: str) -> list[Any]:
        if name not in self._columns:
            raise KeyError(f"no column is named {name!r}; there are {', '.join(self._columns)}")
        return self._columns[name]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def records(self) -> Iterator[dict[str, Any]]:
        """Row by row."""
        for row in zip(*self._columns.values()):
            yield dict(zip(self._columns, row))

    def groupby(self, name: str, sort: bool = False) -> Iterator[tuple[Any, "Frame"]]:
        """The rows of each value of a column, with the value, in the order of their first rows.

        sort  as in pandas: in the order of the values
        """
        values = list(dict.fromkeys(self[name]))
        for value in sorted(values) if sort else values:
            rows = [i for i, one in enumerate(self[name]) if one == value]
            yield value, Frame({of: [column[i] for i in rows]
                                for of, column in self._columns.items()})

    def _cells(self) -> list[list[str]]:
        def shown(value: Any) -> str:
            if isinstance(value, float):
                return f"{value:.6g}"
            return "" if value is None else str(value)
        return [self.columns, *([shown(one) for one in row.values()] for row in self.records())]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[i]) for row in cells) for i in range(len(self._columns))]
        return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths))
                         for row in cells)

    def __repr__(self) -> str:
        return f"<Frame of {len(self)} rows: {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        head, *rows = self._cells()
        lines = ["".join(f"<th>{html.escape(cell)}</th>" for cell in head)]
        lines += ["".join(f"<td>{html.escape(cell)}</td>" for cell in row) for row in rows]
        return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _value(name: str, text: str) -> Any:
    if name in _WORDS:
        return text
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def read_csv(path: Union[str, pathlib.Path]) -> Any:
    """A CSV file with a line of names: a DataFrame of pandas, or a Frame where that is missing."""
    try:
        import pandas
    except ImportError:
        pass
    else:
        frame = pandas.read_csv(path, dtype={name: str for name in _WORDS},
                                keep_default_na=False, na_values=[""])
        words = [name for name in _WORDS if name in frame]
        frame[words] = frame[words].fillna("")
        return frame
    with open(path, newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    return Frame({name: [_value(name, row[i]) for row in rows] for i, name in enumerate(head)})


def records(frame: Any) -> list[dict[str, Any]]:
    """The rows of either kind of table, as dicts."""
    return list(frame.records()) if isinstance(frame, Frame) else frame.to_dict("records")
