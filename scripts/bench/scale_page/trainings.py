"""The tables of trainings in the lab: the closed formula, thousands of workers, and memory, from
what `tautline lab plan` and `tautline lab` print."""

import re
import shlex

from scale_commands import PLAN, THOUSANDS

from scale_page import drawings
from scale_page.kept import aligned_in
from scale_page.page_table import PageTable, by_hand, count, lines_of

CHECKED = {"BSP": f"{PLAN} 0 --check", "SSP 3": f"{PLAN} 3 --check",
           "ASYNC": f"{PLAN} async --check"}
PRICED = f"{PLAN} 0,3,async --records 6000000"
BOUNDS = {"BSP": "0", "SSP 3": "3", "ASYNC": "async"}
LATE = "What 250 and 1,000 workers showed: answers that are late are not lost"
LEARNERS = "Memory of workers that learn"
OF_THOUSANDS = tuple(line for line in lines_of(THOUSANDS) if "/large.textproto " in line)
OF_TEN_THOUSAND = tuple(line for line in lines_of(THOUSANDS) if "/ten_thousand.textproto " in line)


def plan_of(kept, line):
    output = kept.output(line)
    table = aligned_in(output.text, "workers") if output else None
    return table.dicts() if table else []


def errors(kept, _):
    """Milliseconds of a clock by the formula and in the lab."""
    rows = {}
    for mode, line in CHECKED.items():
        for row in plan_of(kept, line):
            rows.setdefault(row["workers"], {})[mode] = [row["clock ms"], row["in the lab"],
                                                         row["error"]]
    return [["workers", *(f"{mode}: formula" if i == 0 else ("lab", "error")[i - 1]
                          for mode in CHECKED for i in range(3))],
            *([workers, *(cell for mode in CHECKED for cell in cells.get(mode, [""] * 3))]
              for workers, cells in rows.items())]


def soonest(kept, _):
    rows = {}
    for row in plan_of(kept, PRICED):
        rows.setdefault(row["workers"], {})[row["slack"]] = row
    return [["workers", *(f"{mode}: hours" if i == 0 else "price"
                          for mode in BOUNDS for i in range(2)), "limit in BSP"],
            *([workers, *(by_slack[slack][what] for slack in BOUNDS.values()
                          for what in ("hours", "price")), by_slack["0"]["limit"]]
              for workers, by_slack in rows.items())]


def option(line, name):
    words = shlex.split(line)
    return words[words.index(name) + 1]


def virtual(output):
    return output.first(r"virtual time: ([\d.]+ s)")


def what_it_took(output, decimals):
    """The processor's time, and the peak of memory; of a command that failed neither."""
    if output.status != 0:
        return "", ""
    return f"{output.processor_s:.{decimals}f} s", f"{output.mib:,} MiB"


def late(kept, old):
    """The rows of "before" are written by hand."""
    before = {row[0]: row for row in old[1:] if row[1] == "before"}
    rows = [["workers", "", "20 clocks, virtual", "on the busiest link", "computed in"]]
    for line, output in kept.those_of(lines_of(LATE)):
        workers = count(option(line, "--workers"))
        rows += [before[workers]] if workers in before else []
        mib = output.first(r"busiest link: .* ([\d.]+) MiB in")
        rows.append(["" if workers in before else workers, "now", virtual(output),
                     f"{float(mib) / 1024:.1f} GiB" if mib else "",
                     output.first(r"computed in ([\d.]+ s)")])
    return rows


def thousands(kept, old):
    """The processor's time before is written by hand."""
    before = by_hand(old, 1, 3)
    rows = [["workers", "2 clocks, virtual", "events", "processor's time before", "now", "memory"]]
    for line, output in kept.those_of(OF_THOUSANDS):
        workers = count(option(line, "--workers"))
        rows.append([workers, virtual(output), output.first(r"([\d,]+) events"),
                     before.get((workers,), ""), *what_it_took(output, 1)])
    return rows


def ten_thousand(kept, _):
    rows = [["clocks", "the job, virtual", "all, virtual", "events", "the lab's time",
             "processor's time", "memory"]]
    for line, output in kept.those_of(OF_TEN_THOUSAND):
        rows.append([option(line, "--max-iter"), output.first(r"the job itself ([\d.]+ s)"),
                     virtual(output), output.first(r"([\d,]+) events"),
                     output.first(r"computed in ([\d.]+ s)"), *what_it_took(output, 0)])
    return rows


def learners(kept, old):
    """What was before is written by hand."""
    peaks, times = by_hand(old, 1, 1), by_hand(old, 1, 3)
    rows = [["workers, clocks", "peak before", "peak now", "processor's time before", "now"]]
    for line, output in kept.those_of(lines_of(LEARNERS)):
        took, peak = what_it_took(output, 1)
        slack = re.search(r"--slack \d+", line)
        name = f"{count(option(line, '--workers'))}, {option(line, '--max-iter')}" + \
            (f", `{slack[0]}`" if slack else "")
        rows.append([name, peaks.get((name,), ""), peak, times.get((name,), ""), took])
    return rows


TABLES = (
    PageTable("formula-errors", tuple(CHECKED.values()), errors,
              drawings.modes("formula", "lab", y_label="ms of a clock"),
              "A clock by the formula and in the lab"),
    PageTable("soonest", (PRICED,), soonest, drawings.modes("hours", "price", y_label="price",
                                                            skip=("hours",)),
              "The price of 6,000,000 records"),
    PageTable("late", lines_of(LATE), late),
    PageTable("thousands", OF_THOUSANDS, thousands),
    PageTable("ten-thousand", OF_TEN_THOUSAND, ten_thousand),
    PageTable("learners", lines_of(LEARNERS), learners),
)
