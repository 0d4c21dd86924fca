"""The figures of docs/SCALE.md, each from the rows of its table, the headings first."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import accuracy_curves  # noqa: E402
import figures  # noqa: E402
from figure_grid import Grid  # noqa: E402
from soonest import soonest  # noqa: E402

from scale_page.page_table import number  # noqa: E402


class Charts:
    """Charts next to each other, by their titles."""

    def __init__(self, x_label, y_label):
        self.labels = (x_label, y_label)
        self.charts = {}

    def add(self, panel, line, x, y):
        """x, y  cells of a table; one without a number is no point"""
        if number(x) is not None and number(y) is not None:
            chart = self.charts.setdefault(panel, figures.Lines(panel, *self.labels))
            chart.add(line, number(x), number(y))

    def write(self, folder, table):
        """Nothing: there are no points."""
        charts = [chart for chart in self.charts.values() if chart.lines]
        return figures.write_panels(folder, table.name, table.title, charts) if charts else ()


def efficiency(rows, folder, table):
    """Weak and strong scaling: a panel for each mode or rate, a line for each net."""
    head, *rows = rows
    charts = Charts("workers", "efficiency")
    for row in rows:
        net, workers = row[0].split(", ")
        for column, name in enumerate(head):
            if name.endswith(": records/s"):
                panel = name.removesuffix(": records/s")
                charts.add(panel, net, workers, row[column + 1])
                if "quoted" in head:
                    charts.add(panel, f"{net} (quoted)", workers, row[head.index("quoted")])
    return charts.write(folder, table)


def grid(rows, folder, table):
    """Efficiencies over links or servers, which the headings count."""
    head, *rows = rows
    charts = Charts(head[-1].split(" ", 1)[1], "efficiency")
    for name, *cells in rows:
        net, mode = name.split(", ")
        for column, cell in zip(head[1:], cells):
            charts.add(mode, net, column, cell)
    return charts.write(folder, table)


def epoch(rows, folder, table):
    head, *rows = rows
    charts = Charts("workers", "minutes")
    for workers, quoted, *cells in rows:
        for column, cell in zip(head[2:], cells):
            mode, rate = column.split(", ")
            charts.add(rate, mode, workers, cell)
            charts.add(rate, "a survey (quoted)", workers, quoted)
    return charts.write(folder, table)


def modes(*lines, y_label, skip=()):
    """A figure of a table over workers whose headings are "MODE: LINE", and then the other lines'
    names alone: a panel for each mode."""
    def draw(rows, folder, table):
        head, *rows = rows
        charts = Charts("workers", y_label)
        for row in rows:
            for column, name in enumerate(head):
                if name.endswith(f": {lines[0]}"):
                    for offset, line in enumerate(lines):
                        if line not in skip:
                            charts.add(name.split(":")[0], line, row[0], row[column + offset])
        return charts.write(folder, table)
    return draw


def exchanges(rows, folder, table):
    head, *rows = rows
    charts = Charts("workers", "clocks a second")
    for gbps, workers, *cells in rows:
        for way, cell in zip(head[2:], cells):
            charts.add(f"{gbps} Gbit/s", way, workers, cell)
    return charts.write(folder, table)


def bounds(rows, folder, table):
    """Two figures: the time under each bound, and which is soonest over workers and spread, the
    tightest of those that are equally soon."""
    head, *rows = rows
    names = head[1:-1]
    charts = Charts("workers", "virtual seconds")
    best = Grid("The bound that is soonest, over spread and workers", "stragglers", "workers",
                names)
    for name, *cells, _ in rows:
        kind, workers = name.split(", ")
        best.add(kind, workers, (soonest(names, cells) or ["none"])[0])
        for bound, cell in zip(names, cells):
            if " of " not in cell:  # runs that reached the target, where not all did
                charts.add(kind, bound, workers, cell)
    return (*charts.write(folder, table), *best.write(folder, "best-bound"))


def curves(outputs, folder):
    """Accuracy over virtual time: a figure for each kind and size of stragglers."""
    found = {}
    for output in outputs:
        found |= accuracy_curves.in_text(output.text)
    return accuracy_curves.write(folder, found)


def control(rows, folder, table):
    head, *rows = rows
    charts = Charts("workers", "messages a second")
    for row in rows:
        cells = dict(zip(head[:5], row))
        panel = f"{cells['servers']} servers"
        charts.add(panel, "the lab", cells["workers"], cells["in a second"])
        charts.add(panel, "formula", cells["workers"], cells["formula"])
    return charts.write(folder, table)


def laws(rows, folder, table):
    """Messages of a worker's clock at the servers, and the formulas."""
    head, *rows = rows
    charts = Charts("workers", "messages")
    for row in rows:
        cells = dict(zip(head, row))
        for panel, mode in (("BSP", 0), ("ASYNC", 1)):
            both = cells["messages in: BSP, ASYNC"].split(", ")
            charts.add(panel, "in", cells["workers"], both[mode])
            charts.add(panel, "out", cells["workers"], cells[f"out, {panel}"])
        charts.add("BSP", "in, formula", cells["workers"], cells["formula: slices"])
        charts.add("BSP", "out, formula", cells["workers"], row[head.index("out, BSP") + 1])
        charts.add("ASYNC", "in, formula", cells["workers"], cells["formula: slices"])
        charts.add("ASYNC", "out, formula", cells["workers"], cells["formula: slices"])
    return charts.write(folder, table)


def memory(rows, folder, table):
    """A panel for each size of the parameters."""
    head, *rows = rows
    charts = Charts("workers", "MB")
    for row in rows:
        workers, mode = row[0].split(", ")
        for column, line in ((2, "server, own"), (4, "server, shared"), (6, "worker, own"),
                             (8, "worker, shared")):
            charts.add(f"{row[1]} MB of parameters", f"{line}, {mode}", workers, row[column])
    return charts.write(folder, table)


def coordinator(rows, folder, table):
    """A panel for each number of shards."""
    charts = Charts("workers", "MB")
    for workers, shards, own, formula in rows[1:]:
        charts.add(f"{shards} shards", "a real coordinator", workers, own)
        charts.add(f"{shards} shards", "formula", workers, formula)
    return charts.write(folder, table)


def bottleneck(rows, folder, table):
    """Over links and over servers, which the headings name, one of them both."""
    charts = {unit: figures.Lines(f"over {of}", unit, "efficiency")
              for unit, of in (("Gbit/s", "links"), ("servers", "servers"))}
    for name, cell in zip(*rows):
        for part in name.split(", "):
            value, unit = part.split(" ")
            unit = {"server": "servers"}.get(unit, unit)
            if number(cell) is not None:
                charts[unit].add("16 workers, BSP", float(value), number(cell))
    drawn = [chart for chart in charts.values() if chart.lines]
    return figures.write_panels(folder, table.name, table.title, drawn) if drawn else ()
