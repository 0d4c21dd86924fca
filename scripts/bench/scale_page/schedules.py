"""The tables of many jobs, from what `tautline lab schedule` prints."""

import shlex

from scale_commands import GAVEL, LENT, ORDERINGS, SEEDS, TRACES, TYPES

from scale_page.kept import aligned_in
from scale_page.page_table import PageTable, by_hand, lines_of

LARGE_TITLE = "80,000 jobs: the processor's time, and that of a decision"
MEANS, OF_TRACES = "mean completion time under the policies", "the traces that are there"
LOADED = f"{GAVEL} --load 1 --hosts 16x4"
RACKS = f"{LOADED} --rack-hosts 4 --policy network,network-blind,fifo"
HETEROGENEOUS = f"{GAVEL} --load %s {TYPES}"
LOAN = f"{GAVEL} --load 1 {LENT}"
# What is published, and where its figures are: the commands without their seeds, the column, and
# the policies by the names that the row gives them; the first has none.
ROWS = (
    ("Tiresias over FIFO", LOADED, "mean", {"": "tiresias", "FIFO": "fifo"}),
    ("Muri over FIFO", LOADED, "mean", {"": "muri", "FIFO": "fifo"}),
    ("Gavel over the blind, load 0.9", HETEROGENEOUS % 0.9, "mean",
     {"": "gavel", "blind": "gavel-blind"}),
    ("the same, load 0.7", HETEROGENEOUS % 0.7, "mean", {"": "gavel", "blind": "gavel-blind"}),
    ("the same, load 0.5", HETEROGENEOUS % 0.5, "mean", {"": "gavel", "blind": "gavel-blind"}),
    ("Lyra with T4 on loan over its own devices", LOAN % ":T4", "mean",
     {"": "lyra", "own": "lyra-own"}),
    ("the same with V100 on loan", LOAN % "", "mean", {"": "lyra", "own": "lyra-own"}),
    ("Themis on fairness: that of the job treated worst", LOADED, "fair max",
     {"": "themis", "Gandiva": "gandiva", "Tiresias": "tiresias", "FIFO": "fifo"}),
    ("placement on makespan", RACKS, "makespan",
     {"": "network", "blind": "network-blind", "FIFO": "fifo"}),
)
SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "": 1}


def policies_of(output):
    """The cells of each policy by their columns."""
    table = aligned_in(output.text, "policy")
    return {row["policy"]: row for row in table.dicts()} if table else {}


def with_units(cells):
    """ "2.84, 2.28 d": the unit once where they share it."""
    numbers, units = zip(*(cell.partition(" ")[::2] for cell in cells))
    if len(set(units)) == 1:
        return " ".join(filter(None, (", ".join(numbers), units[0])))
    return ", ".join(cells)


def seconds(cell):
    value, _, unit = cell.partition(" ")
    return float(value) * SECONDS[unit]


def cells_of(kept, line, column, policy):
    """One of each seed; empty where an output has none."""
    found = []
    for seed in SEEDS:
        output = kept.output(f"{line} --seed {seed}")
        cell = policies_of(output).get(policy, {}).get(column) if output else None
        found += [cell] if cell else []
    return found


def orderings(kept, old):
    """The last column is written by hand; where the figures contradict it their verdict precedes
    it."""
    verdicts = by_hand(old, 1, 2)
    rows = []
    for name, line, column, policies in ROWS:
        of_policy = {label: cells_of(kept, line, column, policy)
                     for label, policy in policies.items()}
        text = "; ".join(f"{label} {with_units(cells)}".strip()
                         for label, cells in of_policy.items() if cells)
        verdict = verdicts.get((name,), "")
        first, *others = of_policy.values()
        if all(len(cells) == len(SEEDS) for cells in (first, *others)):
            holds = all(seconds(one) < seconds(other) for cells in others
                        for one, other in zip(first, cells))
            said = {True: "yes", False: "no"}[holds]
            if not verdict.startswith(said):
                verdict = f"{said}; before: {verdict}" if verdict else said
        rows.append([name, text, verdict])
    return [["published", "figures of the three seeds", "reproduced"], *rows]


def large(kept, _):
    rows = []
    for line, output in kept.those_of(lines_of(ORDERINGS, LARGE_TITLE)):
        words = shlex.split(line)
        policies = policies_of(output)
        took = [f"{output.processor_s:.1f}", str(output.mib)] if policies else ["", ""]
        rows.append([words[words.index("--policy") + 1].replace(",", ", "),
                     words[words.index("--load") + 1] if "--load" in words else "0.8",
                     *took,
                     ", ".join(row["ms/decision"] for row in policies.values()),
                     ", ".join(row["max ms"] for row in policies.values())])
    return [["policies", "load", "s of the processor", "MiB", "ms/decision", "max ms"], *rows]


def traces(kept, _):
    heads = {f"{TRACES}/muri-trace1.csv.gz --hosts 8x8": "Muri",
             f"{TRACES}/tiresias-60.csv --hosts 15x4": "Tiresias"}
    columns = ("mean", "p95", "makespan", "fair max", "used %", "idle+queue %", "MWh")
    found = {line: policies_of(output) for line, output in kept.those_of(list(heads))}
    names = list(dict.fromkeys(name for policies in found.values() for name in policies))
    return [["policy", *(f"{heads[line]}: {column}" for line in found for column in columns)],
            *([f"`{name}`", *(policies.get(name, {}).get(column, "")
                              for policies in found.values() for column in columns)]
              for name in names)]


TABLES = (
    PageTable("orderings", lines_of(ORDERINGS, MEANS), orderings, written=2),
    PageTable("traces", lines_of(ORDERINGS, OF_TRACES), traces),
    PageTable("large", lines_of(ORDERINGS, LARGE_TITLE), large),
)
