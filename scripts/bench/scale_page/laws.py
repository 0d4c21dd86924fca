"""The tables of laws: messages, bytes and memory next to their formulas, from what
scripts/bench/scaling and scripts/bench/lab/memory print."""

from scale_commands import LAWS, REAL_MEMORY

from scale_page import drawings
from scale_page.page_table import PageTable, lines_of

MESSAGES = "messages and bytes of servers and the coordinator"
SLICES = {"lenet": 9, "alexnet": 244}
OF_MEMORY = lines_of(REAL_MEMORY)[:1]


def first_table(kept, line):
    output = kept.output(line)
    return output.tables[0] if output and output.tables else None


def line_of(table, net):
    """The first: what others with fewer servers print is in the text."""
    return next(line for line in lines_of(LAWS, MESSAGES) if f" {table} --net {net} " in line)


def laws(net):
    """A worker's clock at the servers, and what is no clock's."""
    def build(kept, _):
        slices = SLICES[net]
        table = first_table(kept, line_of("laws", net))
        modes = {}
        for name, *cells in table.rows if table else ():
            mode, workers = name.split(", ")
            modes.setdefault(int(workers), {})[mode] = cells
        rows = [["workers", "messages in: BSP, ASYNC", "formula: slices", "out, ASYNC",
                 "formula: slices", "out, BSP", "formula: 2 x slices - slices / workers", "MB in",
                 "MB out: BSP, ASYNC", "other messages in, BSP", "the lab's memory, BSP"]]
        for workers, of in modes.items():
            bsp, unbound = of["BSP"], of["ASYNC"]
            rows.append([str(workers), f"{bsp[0]}, {unbound[0]}", str(slices), unbound[1],
                         str(slices), bsp[1], f"{2 * slices - slices / workers:.2f}", bsp[2],
                         f"{bsp[3]}, {unbound[3]}", bsp[4], bsp[6]])
        return rows
    return build


def control(kept, _):
    table = first_table(kept, line_of("control", "lenet"))
    return [table.head, *table.rows] if table else [["workers"]]


def sizes_of(kept, lines):
    """Servers, shards of each, workers, slack and MB of parameters, and the cells by their
    headings, of each run."""
    for line in lines:
        table = first_table(kept, line)
        for row in table.dicts() if table else ():
            words = row[table.head[0]].split(", ")
            servers, shards = words[0].split(" x ")
            yield int(servers), int(shards), int(words[1]), words[2], float(words[3]), row


def coordinator(kept, _):
    rows = {}
    for servers, shards, workers, _, _, row in sizes_of(
            kept, lines_of(LAWS, "memory of a real coordinator")):
        both = servers * shards
        rows[both, workers] = [str(workers), str(both), row["coordinator: own"],
                               f"{2.35 + 0.053 * workers + 0.002 * both:.1f}"]
    return [["workers", "shards of both servers", "coordinator's own MB",
             "formula: 2.35 + 0.053 workers + 0.002 shards"],
            *(rows[key] for key in sorted(rows))]


def bottleneck(kept, _):
    """One row: the efficiency of 16 workers of LeNet over links, and over servers."""
    cells = {}
    for line in lines_of(LAWS, "the first bottleneck"):
        if table := first_table(kept, line):
            cells |= dict(zip(table.head[1:], table.rows[0][1:]))
    names = {"1 Gbit/s": "1 Gbit/s", "10 Gbit/s": "10 Gbit/s",
             "100 Gbit/s": "100 Gbit/s, 16 servers", "4 servers": "4 servers",
             "1 servers": "1 server"}
    return [list(names.values()), [cells.get(name, "") for name in names]]


def memory(kept, _):
    rows = [["W, mode", "P", "server's own", "formula: P + 3.4", "shared", "in BSP: (W + 1) P",
             "a worker's own, mean", "formula: (2 + 1 / W) P + 5.9", "shared", "in BSP: 2 P"]]
    for _, _, workers, slack, size, row in sizes_of(kept, OF_MEMORY):
        mode = {"0": "BSP", "async": "ASYNC"}.get(slack, f"SSP {slack}")
        rows.append([f"{workers}, {mode}", f"{size:g}", row["server: own"], f"{size + 3.4:.1f}",
                     row["server: shared"], f"{(workers + 1) * size:g}", row["worker: own"],
                     f"{(2 + 1 / workers) * size + 5.9:.1f}", row["worker: shared"],
                     f"{2 * size:g}"])
    return rows


def more_memory(kept, _):
    """With more shards, and with two servers."""
    tables = [first_table(kept, line) for line in lines_of(REAL_MEMORY) if line not in OF_MEMORY]
    tables = [table for table in tables if table]
    return [tables[0].head, *(row for table in tables for row in table.rows)] if tables else []


TABLES = (
    PageTable("laws-lenet", (line_of("laws", "lenet"),), laws("lenet"), drawings.laws,
              "Messages of a clock of LeNet"),
    PageTable("laws-alexnet", (line_of("laws", "alexnet"),), laws("alexnet"), drawings.laws,
              "Messages of a clock of AlexNet"),
    PageTable("control", (line_of("control", "lenet"),), control, drawings.control,
              "Messages of the coordinator"),
    PageTable("coordinator-memory", lines_of(LAWS, "memory of a real coordinator"), coordinator,
              drawings.coordinator, "Memory of a real coordinator"),
    PageTable("bottleneck", lines_of(LAWS, "the first bottleneck"), bottleneck,
              drawings.bottleneck, "Efficiency of LeNet over links and servers"),
    PageTable("memory", OF_MEMORY, memory, drawings.memory, "Memory of real processes"),
    PageTable("more-memory", lines_of(REAL_MEMORY)[1:], more_memory),
)
