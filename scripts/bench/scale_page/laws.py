"""The tables of laws: messages, bytes and memory next to their formulas, from what
scripts/bench/scaling and scripts/bench/lab/memory print."""

from scale_commands import LAWS, REAL_MEMORY

from scale_page import drawings
from scale_page.nets import NAMES
from scale_page.page_table import PageTable, lines_of

MESSAGES = "messages and bytes of servers and the coordinator"
SLICES = {"lenet": 9, "alexnet": 244}
SHARDS = 8  # of a server
# The columns of `scripts/bench/scaling laws`, from the second on.
OF_LAWS = ("in", "out", "MB in", "MB out", "again", "before", "before: out", "memory")
OF_MEMORY = lines_of(REAL_MEMORY)[:1]


def first_table(kept, line):
    output = kept.output(line)
    return output.tables[0] if output and output.tables else None


def line_of(table, net):
    """The first: that of one number of servers."""
    return next(line for line in lines_of(LAWS, MESSAGES) if f" {table} --net {net} " in line)


def rows_of_laws(kept, line):
    """Mode, workers and servers, and the cells by the names of their columns."""
    table = first_table(kept, line)
    for name, *cells in table.rows if table else ():
        mode, workers, servers = name.split(", ")
        yield mode, int(workers), int(servers), dict(zip(OF_LAWS, cells))


def other_messages(slices, shards, workers):
    """Of a worker before its first clock: it greets each shard, opens the tables there, which the
    first worker repeats with their names, and reads the slices, those of one shard together."""
    return 2 * shards + min(slices, shards) + shards / workers


def laws(net):
    """A worker's clock at the servers, and what is no clock's."""
    def build(kept, _):
        slices = SLICES[net]
        modes = {}
        for mode, workers, _, cells in rows_of_laws(kept, line_of("laws", net)):
            modes.setdefault(workers, {})[mode] = cells
        rows = [["workers", "messages in: BSP, ASYNC", "formula: slices", "out, ASYNC",
                 "formula: slices", "out, BSP", "formula: 2 x slices - slices / workers", "MB in",
                 "MB out: BSP, ASYNC", "the lab's memory, BSP"]]
        for workers, of in modes.items():
            bsp, unbound = of["BSP"], of["ASYNC"]
            rows.append([str(workers), f"{bsp['in']}, {unbound['in']}", str(slices),
                         unbound["out"], str(slices), bsp["out"],
                         f"{2 * slices - slices / workers:.2f}", bsp["MB in"],
                         f"{bsp['MB out']}, {unbound['MB out']}", bsp["memory"]])
        return rows
    return build


def laws_of_shards(kept, _):
    """What depends on the number of shards, in lock-step: each net's runs, once each."""
    found = {}
    for net, line in ((net, line) for net in SLICES for line in lines_of(LAWS, MESSAGES)
                      if f" laws --net {net} " in line):
        for mode, workers, servers, cells in rows_of_laws(kept, line):
            if mode == "BSP":
                found[net, servers, workers] = cells
    rows = [["net, workers", "servers", "shards", "a clock's messages in", "formula: slices",
             "of these sent again", "other messages in",
             "formula: 2 shards + min(slices, shards) + shards / workers", "the lab's memory"]]
    for (net, servers, workers), cells in sorted(
            found.items(), key=lambda one: (list(SLICES).index(one[0][0]), *one[0][1:])):
        shards = servers * SHARDS
        rows.append([f"{NAMES[net]}, {workers}", str(servers), str(shards), cells["in"],
                     str(SLICES[net]), cells["again"], cells["before"],
                     f"{other_messages(SLICES[net], shards, workers):.2f}", cells["memory"]])
    return rows


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
    PageTable("laws-shards", tuple(line for line in lines_of(LAWS, MESSAGES) if " laws " in line),
              laws_of_shards),
    PageTable("control", (line_of("control", "lenet"),), control, drawings.control,
              "Messages of the coordinator"),
    PageTable("coordinator-memory", lines_of(LAWS, "memory of a real coordinator"), coordinator,
              drawings.coordinator, "Memory of a real coordinator"),
    PageTable("bottleneck", lines_of(LAWS, "the first bottleneck"), bottleneck,
              drawings.bottleneck, "Efficiency of LeNet over links and servers"),
    PageTable("memory", OF_MEMORY, memory, drawings.memory, "Memory of real processes"),
    PageTable("more-memory", lines_of(REAL_MEMORY)[1:], more_memory),
)
