"""The tables of exchanges, of bounds on staleness, and of the lab against real runs."""

from scale_commands import BOUNDS, COMMANDS, EXCHANGES

from scale_page import drawings
from scale_page.kept import tables_in
from scale_page.page_table import PageTable, lines_of, number

REAL = "scripts/bench/lab_against_real"
MATRIX = "matrix.md"
KINDS = ("spread", "bursts", "tail", "slow")  # of stragglers
ACCURACY = lines_of("Accuracy in the lab and in real runs")
BOTH_WAYS = ("scripts/bench/lab/both_ways",)
ON_LINKS = tuple(one.line for one in COMMANDS if one.line.startswith(REAL) and
                 "--rate 1gbit --congestion reno" in one.line)
PARTS = tuple(one.line for one in COMMANDS if one.line.startswith(REAL) and
              "--congestion" not in one.line and "--matrix" not in one.line)


def exchanges(kept, _):
    """All commands' rows by Gbit/s and workers, without the size, which is LeNet's."""
    head, rows = [], {}
    for _, output in kept.those_of(lines_of(EXCHANGES)):
        for table in output.tables:
            head = table.head[1:]
            rows |= {(float(row[1]), int(row[2])): row[1:] for row in table.rows}
    return [head, *(rows[key] for key in sorted(rows))]


def bound_tables(kept, what):
    """The headings, and the rows of all commands, of one of the tables that best_bound prints."""
    head, rows = [], []
    for _, output in kept.those_of(lines_of(BOUNDS)):
        for table in output.tables:
            if table.title.startswith(what):
                head = table.head
                rows += table.rows
    return head, rows


def bounds(kept, _):
    head, rows = bound_tables(kept, "virtual seconds to ")
    return [head, *in_order(rows)]


def in_order(rows):
    """By kind, size and workers: "bursts 4, 16"."""
    def place(row):
        case, workers = row[0].split(", ")
        kind, size = case.split(" ")
        return KINDS.index(kind), float(size), int(workers)
    return sorted(rows, key=place)


def bound_ends(kept, _):
    """Waiting and accuracy at the end, in one table."""
    head, waits = bound_tables(kept, "share of time spent waiting")
    _, ends = bound_tables(kept, "accuracy in % at the end")
    both = [[wait[0], *(f"{share} / {accuracy}" for share, accuracy in zip(wait[1:], end[1:]))]
            for wait, end in zip(in_order(waits), in_order(ends))]
    return [["waiting in % / accuracy in % at the end", *head[1:]], *both]


def real(kept, _):
    """The matrix, as far as it got, and the rows of its parts that it does not have."""
    path = kept.folder / MATRIX
    tables = tables_in(path.read_text(encoding="utf-8")) if path.exists() else []
    for _, output in kept.those_of(PARTS):
        tables += output.tables
    rows = {}
    for table in tables:
        for row in table.rows:
            if len(row) == len(table.head):  # a shorter one says that it was not measured
                rows.setdefault(tuple(row[:4]), row)
    order = {"none": 0, "1gbit": 1, "100mbit": 2}
    modes = ["BSP", "SSP 1", "SSP 3", "ASYNC"]
    return [tables[0].head if tables else [],
            *(rows[key] for key in sorted(rows, key=lambda key: (
                order.get(key[0], len(order)), number(key[1]), key[3], modes.index(key[2]))))]


def as_it_is(kept, lines):
    for _, output in kept.those_of(lines):
        if output.tables:
            return [output.tables[0].head, *output.tables[0].rows]
    return []


TABLES = (
    PageTable("exchanges", lines_of(EXCHANGES), exchanges, drawings.exchanges,
              "Clocks a second of servers, sums and averages"),
    PageTable("bounds", lines_of(BOUNDS), bounds, drawings.bounds,
              "Virtual seconds to 80 % under each bound", ("bounds", "best-bound")),
    PageTable("bound-ends", lines_of(BOUNDS), bound_ends),
    PageTable("accuracy", ACCURACY, lambda kept, _: as_it_is(kept, ACCURACY)),
    PageTable("real", PARTS, real),
    PageTable("both-ways", BOTH_WAYS, lambda kept, _: as_it_is(kept, BOTH_WAYS)),
    PageTable("real-on-links", ON_LINKS, lambda kept, _: as_it_is(kept, ON_LINKS)),
)
