"""What the commands of docs/SCALE.md print, with simple figures, as scripts/bench/scale keeps
it."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import pathlib
import re
import shlex
import sys
import unittest.mock

from cluster import SOURCE

BENCH = SOURCE / "scripts" / "bench"
sys.path.insert(0, str(BENCH))
import bench  # noqa: E402
from scale_commands import COMMANDS  # noqa: E402
from scale_page import kept as scale_kept  # noqa: E402

ENDED = "ended with {} after 1.5 s, 2.5 s of the processor, 345 MiB\n"
SCALING = [one.line for one in COMMANDS if one.line.startswith("scripts/bench/scaling ")]
BOTH_WAYS = "scripts/bench/lab/both_ways"
BOTH_WAYS_PRINTS = """
| cards   | one way, Mbit/s | both ways: there | back |
|---------|-----------------|------------------|------|
| 100mbit | 93              | 87               | 89   |
"""
# Of scripts/bench/lab/best_bound: a part of each command, and its stragglers.
STRAGGLERS = {"--kind bursts --seeds 2": ("bursts 4",),
              "--kind slow --kind tail": ("slow 2", "tail 1.5"),
              "--kind spread --deviation 0.1,0.3,1": ("spread 0.1", "spread 0.3", "spread 1"),
              "--kind bursts --burst-factor 2,8": ("bursts 2", "bursts 8")}
SPREADS = ["spread 0.1", "spread 0.3", "spread 1", "bursts 2", "bursts 4", "bursts 8", "tail 1.5",
           "slow 2"]
# A tautline whose sweep has two seeds without a bound and one in lock-step.
SWEEPS = r"""
for folder; do :; done
mkdir -p "$folder"
cat > "$folder/curves.csv" <<'END'
slack,workers,variant,cluster,seed,quantity,over,at,value
0,4,,this,1,train_loss,seconds,1,2.5
0,4,,this,1,test_accuracy,clocks,10,0.4
0,4,,this,1,test_accuracy,seconds,2,0.4
0,4,,this,1,test_accuracy,seconds,4,0.6
async,4,,this,1,test_accuracy,seconds,1,0.5
async,4,,this,1,test_accuracy,seconds,2,0.7
async,4,,this,2,test_accuracy,seconds,2,0.6
END
echo '{"points": [
  {"bound": "0", "seconds_to_target": null, "accuracy": {"mean": 0.6},
   "waiting_share": {"mean": 0.4}},
  {"bound": "async", "seconds_to_target": {"runs": 2, "mean": 7.5, "deviation": 0.5},
   "accuracy": {"mean": 0.7}, "waiting_share": {"mean": 0}}]}' | tr -d '\n'
"""
CURVES = """curve of bursts 8, 4, BSP: 2 40.00, 4 60.00
curve of bursts 8, 4, async: 1.5 55.00
"""

EXCHANGES = "scripts/bench/lab/exchanges "
# A way's row for each of these commands; their progress is in the same file.
EXCHANGES_PRINT = {
    "--workers 4,16,64 --gbit 1,10,100": ("1 | 4 | 9.14 (1.00) | 32.02 (3.50)* | -",
                                          "100 | 64 | 8.32 (1.00) | 29.81 (3.58)* | -"),
    "--workers 256 --gbit 1,10": ("10 | 256 | 1.44 (1.00) | 14.55 (10.13)* | -",),
    "--workers 1024 --gbit 10 --clocks 3 --limit 3000 --ways 'servers 1' 'servers 4' 'servers 16' "
    "ring halving 'two trees' 'gossip ring' 'gossip ring, async'":
        ("10 | 1024 | - | 3.21*",),
    "--net wide --workers 4,16 --gbit 1,10": ("1 | 4 | 1.10 (1.00) | 2.20 (2.00)* | -",),
    "--net wide --workers 64 --gbit 1,10 --ways 'servers 1' 'servers 4' 'servers 16' ring halving "
    "'two trees'": ("1 | 64 | 0.03 (1.00) | 0.29 (9.25)*",),
    "--workers 16,64 --per-host 4 --gbit 10 --ways 'servers 4' ring hierarchical":
        ("10 | 16 | 20.01 | 30.01 | 40.01*",)}
REAL = "scripts/bench/lab_against_real "
REAL_PRINTS = """
1 rows, about 17 minutes on a quiet machine

| links | workers | mode | straggler | iterations/s real | lab | error | waiting real | lab \
| staleness real | lab | verdict |
|---|---|---|---|---|---|---|---|---|---|---|---|
| 100mbit | 2 | SSP 1 | - | {} | 3.6 | +44.9 % | 95.7 % | 96.1 % | 0.50 | 0.50 | rate +44.9 % |
| none | 2 | BSP | - | 42.8 | 42.3 | -1.2 % | 5.0 % | 5.9 % | 0.00 | 0.00 | met |
| 1gbit | 2 | ASYNC | - | other processes took the machine |
"""
ACCURACY_PRINTS = """
| bound           | real: accuracy in % | lab           | difference | seeds with the same |
|-----------------|---------------------|---------------|------------|---------------------|
| async-workers2  | 74.17 +- 0.60       | 74.17 +- 0.60 | +0.00      | 1 of 5              |
| slack0-workers2 | 74.17 +- 0.60       | 74.17 +- 0.60 | +0.00      | 5 of 5              |
| slack3-workers2 | 74.72 +- 1.23       | 74.51 +- 1.54 | -0.21      | 0 of 5              |
"""
LAB_PRINTS = """fashion_lenet: 8 servers, 250 workers, in the lab, run folder /tmp/run
iteration 0 of 20  loss -  0 images/s  apart 0

Summary
  wall time        6.7 s, the job itself 6.2 s

waiting: 16.2 % of the workers' time, mean staleness 0.000
virtual time: 6.720 s, computed in 3.1 s, 803,842 events
busiest link: server0 out, 98.9 % of the time, 6348.8 MiB in 15,158 messages
"""
# Of `tautline lab schedule`: what the page takes of it, and one column of what it does not.
SCHEDULE_HEAD = ("policy", "mean", "p95", "makespan", "fair max", "used %", "idle+queue %", "MWh",
                 "ms/decision")
SCHEDULE_ROWS = tuple(row.split(", ") for row in (
    "fifo, 4.61 d, 5.1 min, 66.74 d, 312.09, 71.2, 22.5, 19.325, 0.1",
    "tiresias, 2.56 d, 5.1 min, 57.34 d, 16.63, 80.5, 9.1, 18.004, 0.1",
    "themis, 3.0 min, 8.6 min, 46.80 d, 4.32, 81.0, 8.8, 17.950, 2.0",
    "gandiva, 3.5 min, 8.6 min, 41.70 d, 3.77, 84.6, 3.3, 17.502, 0.5"))
PLAN_PRINTS = """workers  slack  clock ms       limit    hours   price
     32      0     32.64      server  0.0266   0.128
     32      3     32.64      server  0.0266   0.128
     32  async     32.64  stragglers  0.0266   0.128
soonest: 32 workers, slack 0: 0.0266 hours, price 0.128
"""


def scaling():
    """The command, as a module."""
    path = str(BENCH / "scaling")
    loader = importlib.machinery.SourceFileLoader("scaling_under_test", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    with unittest.mock.patch.object(sys, "dont_write_bytecode", True):
        loader.exec_module(module)
    return module


def lab_run(command):
    """What `tautline lab` prints with --json, whose figures are simple."""
    job = pathlib.Path(command[2]).read_text(encoding="utf-8")
    workers, clocks = (int(re.search(rf"{name}: (\d+)", job)[1])
                       for name in ("workers", "max_iter"))
    links = [{"name": f"server0 {way}", "busy_share": 0.5} for way in ("in", "out")]
    coordinator = dict.fromkeys(("messages_in", "messages_out", "bytes_in", "bytes_out"), clocks)
    servers = {"messages_in": workers * (7 + 9 * clocks), "messages_out": 8 * workers * clocks,
               "bytes_in": 3000 * workers * clocks, "bytes_out": 4000 * workers * clocks}
    return json.dumps({"lab": {
        "events": 1, "steady_clocks_per_s": 2.0, "virtual_s": float(clocks), "links": links,
        "coordinator": coordinator, "servers": servers},
        "workers": [{"resent_requests": 2 * clocks}] * workers}) + "\n", 1024


def tautline(command):
    """What the other commands of tautline print."""
    if "summary" in command:
        return json.dumps({"flops": 6.4e9, "layers": [{"tops": [{"shape": [64]}]}]})
    counts = command[command.index("--workers") + 1].split(",")
    return "\n".join(["workers  clock ms   limit",
                      *(f"{count:>7}     20.00  server" for count in counts)])


def keep(folder, line, printed, status=0):
    path = folder / scale_kept.file_name(line)
    path.write_text(f"$ {line}\n{printed}{ENDED.format(status)}", encoding="utf-8")


def keep_bounds(folder):
    """With 64 workers no bound is soonest, with 4 a slack of 1, with 16 both are; BSP is 1 of 2
    runs' only. Every case has two curves with 4 and with 16 workers."""
    bounds = [one.line for one in COMMANDS if "/best_bound " in one.line]
    for line in bounds:
        cases = next(cases for part, cases in STRAGGLERS.items() if part in line)
        rows = [f"| {case}, {workers} | 1 of 2 | {40 + workers}.5 | "
                f"{56.5 if workers == 16 else 99.0} | {'slack 1' if workers == 4 else 'async'} |"
                for case in cases for workers in (4, 16, 64)]
        ends = [f"| {case}, {workers} | 84.5 | 84.0 | 85.3 |" for case in cases
                for workers in (4, 16, 64)]
        head = "| kind, workers | BSP | slack 1 | async |"
        keep(folder, line, "\nvirtual seconds to 80 %; batch 4 at each worker\n\n"
             f"{head} soonest |\n|---|---|---|---|---|\n" + "\n".join(rows)
             + f"\n\ndeviation of those seconds\n\n{head}\n"
             + "\n".join(f"| {case}, 64 | - | 2.5 | 3.5 |" for case in cases)
             + f"\n\naccuracy in % at the end; batch 4\n\n{head}\n" + "\n".join(ends)
             + f"\n\nshare of time spent waiting, in %\n\n{head}\n" + "\n".join(ends)
             + "\n\naccuracy in % over virtual seconds\n\n"
             + "".join(f"curve of {case}, {workers}, {bound}: 1.5 20.00, 3 60.00, 100 85.25\n"
                       for case in cases for workers in (16, 4) for bound in ("BSP", "slack 1")))


def keep_schedules(folder):
    """All traces and seeds have one table."""
    rows = (SCHEDULE_HEAD, *SCHEDULE_ROWS)
    widths = [max(map(len, column)) for column in zip(*rows)]
    printed = "".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) + "\n"
                      for row in rows)
    for line in (one.line for one in COMMANDS if one.line.startswith("tautline lab schedule ")):
        keep(folder, line, f"poisson: 2000 jobs over 3 d, on 16 hosts with 64 devices\n{printed}")


def keep_scaling(folder):
    """Runs every command of scripts/bench/scaling, without a build, and keeps its output."""
    module = scaling()
    with unittest.mock.patch.object(bench, "program", lambda options, name: name), \
            unittest.mock.patch.object(bench, "run", tautline), \
            unittest.mock.patch.object(module, "run", lab_run):
        for line in SCALING:
            printed = io.StringIO()
            with unittest.mock.patch.object(sys, "argv", [str(BENCH / "scaling"),
                                                          *shlex.split(line)[1:]]), \
                    contextlib.redirect_stdout(printed), \
                    contextlib.redirect_stderr(io.StringIO()):
                module.main()
            keep(folder, line, printed.getvalue())
