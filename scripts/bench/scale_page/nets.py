"""The tables of nets over workers, links and servers, from what scripts/bench/scaling prints."""

import dataclasses
import re

from scale_commands import MESSAGES, NETS

from scale_page import drawings
from scale_page.page_table import PageTable, count, lines_of

NAMES = {"lenet": "LeNet", "cifar10_quick": "cifar10_quick", "lstm": "LSTM",
         "resnet50": "ResNet-50", "alexnet": "AlexNet"}
MODES = ("BSP", "SSP 3", "ASYNC")
OF_POINTS = re.compile(r"(\w+), batch \d+ at \d+, .*; ([\d.e+]+) Gbit/s, (\d+) servers")
OF_FORMULA = re.compile(r"(\w+), batch \d+, by the formula; [\d.e+]+ Gbit/s, (\d+) servers")
WEAK, WEAK_64 = "weak scaling", "weak scaling with 64 servers"
FORMULA = "the closed formula"
COSTS = "with messages as measured"
SERVED = "one worker, and a real one of an H100"
OF_COSTS = re.compile(r"(\w+), BSP, batch \d+; ")


@dataclasses.dataclass(frozen=True)
class Point:
    """A net in one mode with a number of workers, as in its table."""
    net: str
    workers: int
    mode: str
    gbps: float
    servers: int
    clocks: int
    rate: str
    efficiency: str
    minutes: str  # of an epoch
    quoted: str
    quoted_minutes: str


def points_of(kept, lines):
    """Rows of weak and strong scaling; of those that several commands have, the one with the most
    clocks."""
    best = {}
    for _, output in kept.those_of(lines):
        for table in output.tables:
            if found := OF_POINTS.match(table.title):
                for point in points_in(table, found):
                    key = (point.net, point.workers, point.mode, point.gbps, point.servers)
                    if key not in best or best[key].clocks < point.clocks:
                        best[key] = point
    return list(best.values())


def points_in(table, found):
    modes = [head.removesuffix(": records/s") for head in table.head
             if head.endswith(": records/s")]
    for row in table.dicts():
        for mode in modes:
            yield Point(found[1], int(row["workers"]), mode, float(found[2]), int(found[3]),
                        int(row["clocks"]), row[f"{mode}: records/s"], row[f"{mode}: efficiency"],
                        row.get(f"{mode}: minutes an epoch", ""), row.get("quoted", ""),
                        row.get("quoted minutes", ""))


def rows_by_net(points, groups, cells_of):
    """A row for each net and number of workers, and last the clocks of each group's point.
    groups    names one point of such a row each, by what distinguishes it
    cells_of  of a group's point"""
    rows = []
    for net in NAMES:
        for workers in sorted({point.workers for point in points if point.net == net}):
            those = [next((point for point in points if point.net == net and
                           point.workers == workers and is_of(point)), None) for is_of in groups]
            cells = [cell for i, point in enumerate(those) for cell in cells_of(i, point)]
            clocks = [str(point.clocks) for point in those if point]
            same = clocks[:1] if len(set(clocks)) == 1 else clocks
            rows.append([f"{NAMES[net]}, {count(workers)}", *cells, " / ".join(same)])
    return rows


def scaling(kept, lines):
    groups = [lambda point, mode=mode: point.mode == mode for mode in MODES]
    rows = rows_by_net(points_of(kept, lines), groups,
                       lambda _, point: [point.rate, point.efficiency] if point else ["", ""])
    return [["net, workers", *(f"{mode}: records/s" if i == 0 else "efficiency"
                               for mode in MODES for i in range(2)), "clocks"], *rows]


def weak(kept, _):
    """With what surveys quote, before the clocks."""
    lines = lines_of(NETS, WEAK)
    quoted = {f"{NAMES[point.net]}, {count(point.workers)}": point.quoted
              for point in points_of(kept, lines)}
    head, *rows = scaling(kept, lines)
    return [[*head[:-1], "quoted", head[-1]],
            *([*row[:-1], quoted[row[0]], row[-1]] for row in rows)]


def strong(kept, _):
    return scaling(kept, lines_of(NETS, "strong scaling"))


def weak_64(kept, _):
    rows = rows_by_net(points_of(kept, lines_of(NETS, WEAK_64)), [lambda point: True],
                       lambda _, point: [point.rate, point.efficiency, point.minutes, point.quoted])
    return [["net, workers", "BSP: records/s", "efficiency", "minutes an epoch", "quoted",
             "clocks"], *rows]


def h100(kept, _):
    groups = [lambda point, gbps=gbps: point.gbps == gbps for gbps in (100, 200)]

    def cells(i, point):
        if point is None:
            return [""] * 3
        return [point.rate, point.efficiency, (point.minutes, point.quoted)[i]]

    return [["net, workers", "100 Gbit/s: records/s", "efficiency", "minutes an epoch",
             "200 Gbit/s: records/s", "efficiency", "quoted", "clocks"],
            *rows_by_net(points_of(kept, lines_of(NETS, "with the rate of an H100")), groups,
                         cells)]


def epoch_lines():
    return (*(line for line in lines_of(NETS, WEAK) if "--net resnet50 --workers 1,2," in line),
            *lines_of(NETS, "minutes of an epoch"))


def epoch(kept, _):
    minutes, quoted, workers = {}, {}, []
    for line in epoch_lines():
        for point in points_of(kept, [line]):
            minutes[point.workers, point.mode, "--gflops" in line] = point.minutes
            quoted[point.workers] = point.quoted_minutes
    workers = sorted(quoted)
    columns = [(mode, is_fitted) for is_fitted in (True, False) for mode in MODES
               if mode != "ASYNC" or not is_fitted]
    return [["workers", "quoted", *(f"{mode}, {'2.28 Tflop/s fitted' if is_fitted else '8 Tflop/s'}"
                                    for mode, is_fitted in columns)],
            *([str(one), quoted[one], *(minutes.get((one, *column), "") for column in columns)]
              for one in workers)]


def formula(kept, _):
    """Of 1,024 workers in lock-step, next to the lab's."""
    points = {(point.net, point.servers): point
              for point in points_of(kept, lines_of(NETS, WEAK, WEAK_64))
              if point.workers == 1024 and point.mode == "BSP"}
    found = {}
    for _, output in kept.those_of(lines_of(NETS, FORMULA)):
        for table in output.tables:
            of = OF_FORMULA.match(table.title)
            for row in table.dicts() if of else ():
                if row["workers"] == "1024":
                    found[of[1], int(of[2])] = [row[f"BSP: {what}"]
                                                for what in ("records/s", "efficiency", "limit")]
    rows = [["BSP, 1,024 workers", "servers", "formula: records/s", "efficiency", "limit",
             "the lab", "efficiency", "quoted"]]
    for net in NAMES:
        for servers in sorted(servers for one, servers in found if one == net):
            lab = points.get((net, servers))
            rows.append([NAMES[net], str(servers), *found[net, servers],
                         *([lab.rate, lab.efficiency, lab.quoted] if lab else ["", "", ""])])
    return rows


def grid(kept, lines, what, corner):
    """A row for each net and mode of what `links` and `servers` print.
    what  the beginning of its title"""
    rows, columns = {}, []
    for _, output in kept.those_of(lines):
        for table in output.tables:
            if table.title.startswith(what):
                columns = list(dict.fromkeys([*columns, *table.head[1:]]))
                rows |= {row["net, mode"]: row for row in table.dicts()}
    order = [f"{net}, {mode}" for net in NAMES for mode in MODES]
    return [[corner, *(re.sub(r"^1 servers$", "1 server", column) for column in columns)],
            *([f"{NAMES[name.split(', ')[0]]}, {name.split(', ')[1]}",
               *(rows[name].get(column, "") for column in columns)]
              for name in order if name in rows)]


def links(kept, _):
    return grid(kept, lines_of(NETS, "over links"), "efficiency of",
                "16 workers, 16 servers, against one worker on the same link")


def link_rates(kept, _):
    return grid(kept, lines_of(NETS, "over links"), "records/s of",
                "records/s of 16 workers, 16 servers")


def servers(kept, _):
    return grid(kept, lines_of(NETS, "over servers"), "efficiency of",
                "64 workers, 100 Gbit/s, against one worker with as many servers")


def server_rates(kept, _):
    return grid(kept, lines_of(NETS, "over servers"), "records/s of",
                "records/s of 64 workers, 100 Gbit/s")


def limits(kept, _):
    """What is a net's limit in lock-step, by the formula."""
    found = {}
    for _, output in kept.those_of(lines_of(NETS, FORMULA)[:1]):
        for table in output.tables:
            if of := OF_FORMULA.match(table.title):
                found[of[1]] = {row["workers"]: row["BSP: limit"] for row in table.dicts()}
    counts = list(next(iter(found.values()), {}))
    return [["BSP, 16 servers, 100 Gbit/s",
             *(f"{count(one)} worker{'s' * (one != '1')}" for one in counts)],
            *([NAMES[net], *found[net].values()] for net in NAMES if net in found)]


def with_costs(kept, lines):
    """The net and the row of each number of workers, of what `costs` prints."""
    for _, output in kept.those_of(lines):
        for table in output.tables:
            if found := OF_COSTS.match(table.title):
                for row in table.dicts():
                    yield found[1], row


def costs(kept, _):
    rows = [["net, workers", "defaults: records/s", "efficiency", "measured: records/s",
             "efficiency", "clocks"]]
    for net, row in with_costs(kept, lines_of(MESSAGES, COSTS)):
        rows.append([f"{NAMES[net]}, {count(row['workers'])}",
                     *(row[f"{name}: {what}"] for name in ("defaults", "measured")
                       for what in ("records/s", "efficiency")), row["clocks"]])
    return rows


def served(kept, _):
    rows = [["one worker in lock-step, records/s", "real", "the lab, defaults", "measured"]]
    for net, row in with_costs(kept, lines_of(MESSAGES, SERVED)):
        rows.append([NAMES[net], *(row[f"{name}: records/s"]
                                   for name in ("real", "defaults", "measured"))])
    return rows


TABLES = (
    PageTable("weak", lines_of(NETS, WEAK), weak, drawings.efficiency, "Weak scaling"),
    PageTable("weak-64", lines_of(NETS, WEAK_64), weak_64, drawings.efficiency,
              "Weak scaling in lock-step with 64 servers"),
    PageTable("formula-1024", lines_of(NETS, WEAK, WEAK_64, FORMULA), formula),
    PageTable("epoch", epoch_lines(), epoch, drawings.epoch, "Minutes of an epoch of ResNet-50"),
    PageTable("strong", lines_of(NETS, "strong scaling"), strong, drawings.efficiency,
              "Strong scaling"),
    PageTable("links", lines_of(NETS, "over links"), links, drawings.grid,
              "Efficiency of 16 workers over links"),
    PageTable("link-rates", lines_of(NETS, "over links"), link_rates),
    PageTable("servers", lines_of(NETS, "over servers"), servers, drawings.grid,
              "Efficiency of 64 workers over servers"),
    PageTable("server-rates", lines_of(NETS, "over servers"), server_rates),
    PageTable("limits", lines_of(NETS, FORMULA)[:1], limits),
    PageTable("h100", lines_of(NETS, "with the rate of an H100"), h100, drawings.efficiency,
              "Weak scaling in lock-step with the rate of an H100"),
    PageTable("costs", lines_of(MESSAGES, COSTS), costs, drawings.efficiency,
              "Weak scaling in lock-step under assumed and measured costs of messages"),
    PageTable("served", lines_of(MESSAGES, SERVED), served),
)
