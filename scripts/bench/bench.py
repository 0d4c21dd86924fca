"""What the measuring commands share: where the programs are, how a run is started and read, how a
table is printed, and what is missed of the targets."""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEFAULT_JOB = ROOT / "configs" / "jobs" / "fashion_lenet.textproto"
SKIPPED = 77
LONGEST_S = 3600  # of one run

# LeNet with the plainest update and no test phase: the work that PyTorch is compared on.
SPEED_JOB = f"""
name: "speed"
net: "{ROOT}/configs/models/lenet.prototxt"
solver_param {{ base_lr: 0.01 lr_policy: "fixed" max_iter: 1000 }}
"""


def parser(description):
    options = argparse.ArgumentParser(description=description.strip(),
                                      formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release",
                         help="folder of the build to measure (default: build/release)")
    return options


def program(options, name, folder="bin"):
    path = options.build / folder / name
    if not os.access(path, os.X_OK):
        give_up(f"{path} does not exist: build it with scripts/build, or name another --build")
    return str(path.resolve())


def give_up(why):
    print(f"{pathlib.Path(sys.argv[0]).name}: {why}", file=sys.stderr)
    sys.exit(1)


def machine():
    """Cores, model and the widest vector instructions, e.g. "2 cores, AMD EPYC, AVX-512"."""
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in text.split("\n\n")[0].splitlines() if ":" in line)
    fields = {name.strip(): value.strip() for name, value in fields.items()}
    flags = fields.get("flags", "").split()
    vector = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"))
                   if flag in flags), "no AVX2")
    return f"{os.cpu_count()} cores, {fields.get('model name', 'unknown')}, {vector}"


def print_head():
    command = shlex.join([os.path.relpath(sys.argv[0], ROOT), *sys.argv[1:]])
    load = os.getloadavg()[0]
    print(f"$ {command}\n{datetime.date.today()}; {machine()}; load average before: {load:.1f}\n",
          flush=True)


def print_table(rows):
    """rows  the first holds the headings; cells are text"""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |"
             for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    print("\n".join(lines), flush=True)


def at_most(what, figure, limit, form=".2f"):
    """A target: whether it is reached, and which it is. form  of both numbers"""
    return figure <= limit, f"{what}: {figure:{form}}, at most {limit:{form}} is required"


def at_least(what, figure, limit, form=".2f"):
    return figure >= limit, f"{what}: {figure:{form}}, at least {limit:{form}} is required"


def exit_status(targets):
    """1 if a target is missed, and then a line on stderr for each that is; else 0."""
    missed = [what for is_reached, what in targets if not is_reached]
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if missed else 0


def run(command, statuses=(0,)):
    """The standard output of a command that must end, with one of these statuses."""
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S,
                              check=False)
    except subprocess.TimeoutExpired:
        give_up(f"{shlex.join(command)} did not end within {LONGEST_S} s")
    if done.returncode not in statuses:
        give_up(f"{shlex.join(command)} ended with {done.returncode}:\n"
                f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def train(options, *arguments, cpus=None, folder=None):
    """Runs `tautline train`; returns what it left in summary.json.
    cpus    processors that its processes start on; workers may be moved with --pin
    folder  the run's folder, kept; else one that is thrown away"""
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return train(options, *arguments, cpus=cpus, folder=temporary)
    command = [program(options, "tautline"), "train", *map(str, arguments), "--output", str(folder)]
    if cpus is not None:
        command = ["taskset", "-c", cpus, *command]
    run(command)
    return json.loads((pathlib.Path(folder) / "summary.json").read_text(encoding="utf-8"))


def train_alone(options, job, *arguments, cpus=None):
    """Runs the loop without a server; returns its lines as a dictionary."""
    command = [program(options, "tautline-worker"), "--local", str(job), *map(str, arguments)]
    if cpus is not None:
        command = ["taskset", "-c", cpus, *command]
    return dict(line.split(": ", 1) for line in run(command).splitlines() if ": " in line)


def stalest_read(summary):
    return max((entry["staleness"] for entry in summary["staleness"]), default=0)
