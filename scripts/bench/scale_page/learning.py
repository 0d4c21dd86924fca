"""The tables of exchanges, of bounds on staleness, and of the lab against real runs."""

import itertools
import re

from scale_commands import BOUNDS, COMMANDS, EXCHANGES

from scale_page import drawings
from scale_page.drawings import soonest
from scale_page.kept import tables_in
from scale_page.page_table import PageTable, count, lines_of

REAL = "scripts/bench/lab_against_real"
KINDS = ("spread", "bursts", "tail", "slow")  # of stragglers
ACCURACY = lines_of("Accuracy in the lab and in real runs")
BOTH_WAYS = ("scripts/bench/lab/both_ways",)
ON_LINKS = tuple(one.line for one in COMMANDS if one.line.startswith(REAL) and
                 "--rate 1gbit --congestion reno" in one.line)
RENO = tuple(one.line for one in COMMANDS if one.line.startswith(REAL) and
             "--rate 100mbit --congestion reno" in one.line)
MATRIX = next(one.line for one in COMMANDS if one.line.startswith(f"{REAL} --matrix"))
MODES = ("BSP", "SSP 1", "SSP 3", "ASYNC")
# The links, workers and stragglers of the matrix.
LINKS, WORKERS, STRAGGLERS = ("none", "1gbit", "100mbit"), ("1", "2", "4"), ("-", "x 3")
OF_EXCHANGES = lines_of(EXCHANGES, "servers, sums and averages")
OF_WIDE = lines_of(EXCHANGES, "a wide net")
OF_HOSTS = lines_of(EXCHANGES, "four workers a host")


def exchanges(lines):
    """All commands' rows by Gbit/s and workers, without the size, which is that of their net. A way
    that a command leaves out has a dash."""
    def build(kept, _):
        ways, rows = {}, {}
        for _, output in kept.those_of(lines):
            for table in output.tables:
                of_table = table.head[3:]
                ways |= dict.fromkeys(of_table)
                rows |= {(float(gbit), int(workers)): (gbit, dict(zip(of_table, cells)))
                         for _, gbit, workers, *cells in table.rows}
        return [["Gbit/s", "workers", *ways],
                *([gbit, count(workers), *(cells.get(way, "-") for way in ways)]
                  for (_, workers), (gbit, cells) in sorted(rows.items()))]
    return build


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
    """The soonest are those that have the shortest time here."""
    head, rows = bound_tables(kept, "virtual seconds to ")
    return [head, *([name, *cells, ", ".join(soonest(head[1:], cells)) or "none"]
                    for name, *cells, _ in in_order(rows))]


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


def curves(kept, folder):
    return drawings.curves([output for _, output in kept.those_of(lines_of(BOUNDS))], folder)


def measured(kept):
    """The headings and the rows of the matrix, as far as it got, by links, workers, mode and
    straggler. A row is in its file as soon as it is measured; what was not is printed only."""
    tables = [*tables_in(kept.appended(MATRIX)), *tables_in(kept.printed(MATRIX))]
    rows = {}
    for table in tables:
        for row in whole(table):
            rows.setdefault(tuple(row[:4]), row)
    return tables[0].head if tables else [], rows


def whole(table):
    """The rows. A shorter one ends with why it was not measured: its last cell says so."""
    for row in table.rows:
        if len(row) == len(table.head):
            yield row
        elif len(row) > 1:
            *cells, why = row
            yield [*cells, *[""] * (len(table.head) - len(row)), f"not measured: {why}"]


def real(kept, _):
    head, rows = measured(kept)
    return [head, *([in_words(key[0]), *rows[key][1:]] for key in sorted(rows, key=lambda key: (
        LINKS.index(key[0]), int(key[1]), key[3], MODES.index(key[2]))))]


def not_measured(kept):
    """What the matrix has no row of, whose sentence below the table is written by hand."""
    _, rows = measured(kept)
    places = []
    for links, workers, slow in itertools.product(LINKS, WORKERS, STRAGGLERS):
        modes = [mode for mode in MODES if (links, workers, mode, slow) not in rows]
        if modes:
            places.append(f"{in_words(links)}, {workers} workers, straggler {slow}: "
                          f"{', '.join(modes)}")
    return [f"not measured yet, for the sentence below it: {'; '.join(places)}"] if places else []


def reno(kept, _):
    """Rates of several workers at 100 Mbit/s: BBR, which is this machine's, next to Reno."""
    _, rows = measured(kept)
    with_reno = {tuple(row[:4]): row for _, output in kept.those_of(RENO)
                 for table in output.tables for row in whole(table)}
    places = sorted({key for key in (*rows, *with_reno)
                     if key[0] == "100mbit" and key[1] != "1" and key[3] == "-"},
                    key=lambda key: (int(key[1]), MODES.index(key[2])))
    return [["workers", "mode", "real, BBR", "lab, MESSAGES", "error", "real, Reno", "lab, FAIR",
             "error"],
            *([*key[1:3], *rows.get(key, [""] * 7)[4:7], *with_reno.get(key, [""] * 7)[4:7]]
              for key in places)]


def in_words(rate):
    """ "100 Mbit/s", of "100mbit"."""
    found = re.fullmatch(r"([\d.]+)([mg])bit", rate)
    return f"{found[1]} {found[2].upper()}bit/s" if found else rate


def of_links(lines):
    """The table of one command, whose first cells are rates."""
    def build(kept, _):
        for _, output in kept.those_of(lines):
            for table in output.tables:
                return [table.head, *([in_words(row[0]), *row[1:]] for row in whole(table))]
        return []
    return build


def accuracy(kept, _):
    """With the bounds' names; a row's first cell names a run's folder, e.g. "slack3-workers2"."""
    head, rows = [], []
    for _, output in kept.those_of(ACCURACY):
        for table in output.tables:
            head = table.head
            for name, *cells in table.rows:
                bound = name.split("-")[0].replace("slack", "SSP ")
                rows.append([{"SSP 0": "BSP", "async": "ASYNC"}.get(bound, bound),
                             *(cell.replace("+-", "±") for cell in cells)])
    return [head, *sorted(rows, key=lambda row: MODES.index(row[0]))]


TABLES = (
    PageTable("exchanges", OF_EXCHANGES, exchanges(OF_EXCHANGES), drawings.exchanges,
              "Clocks a second of servers, sums and averages"),
    PageTable("exchanges-wide", OF_WIDE, exchanges(OF_WIDE), drawings.exchanges,
              "Clocks a second of a wide net"),
    PageTable("exchanges-hosts", OF_HOSTS, exchanges(OF_HOSTS), drawings.exchanges,
              "Clocks a second with four workers a host"),
    PageTable("bounds", lines_of(BOUNDS), bounds, drawings.bounds,
              "Virtual seconds to 80 % under each bound", ("bounds", "best-bound")),
    PageTable("bound-ends", lines_of(BOUNDS), bound_ends, title="Over virtual time",
              pictures=("accuracy-*",), draw_kept=curves),
    PageTable("accuracy", ACCURACY, accuracy),
    PageTable("real", (MATRIX,), real, notes=not_measured),
    PageTable("reno", (MATRIX, *RENO), reno),
    PageTable("both-ways", BOTH_WAYS, of_links(BOTH_WAYS)),
    PageTable("real-on-links", ON_LINKS, of_links(ON_LINKS)),
)
