#!/usr/bin/env python3
"""Builds the planted bugs, runs the schedules on each until one of 50 seeds finds it, and prints a
table."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

# A planted bug may make a wait endless: that finds it too.
DEADLINE_S = 300


def cause_of(text, code):
    """What found it, in a few words."""
    rule = re.search(r"device twin: rule (\S+) is broken", text)
    if rule:
        return f"rule {rule.group(1)}"
    check = re.search(r"check failed[^\n]*", text, re.I)
    if check:
        return check.group(0)[:60]
    if "agree(" in text or "CHECK( found )" in text:
        return "other numbers"
    if "has diverged" in text:
        return "the training diverges"
    thrown = re.search(r"(CUDA device[^\n]{0,60}|terminate called[^\n]{0,60})", text)
    if thrown:
        return thrown.group(1)
    return f"ended with {code}"


def run(twin, program, bug, seeds):
    """The seed that finds it and how, or None."""
    environment = dict(os.environ, TAUTLINE_TWIN_SEEDS=str(seeds))
    text = bug.read_text()
    failing = re.search(r"^found by: (.+)$", text, re.M)
    if failing:
        return run_failures(twin, program, failing.group(1), seeds)
    try:
        done = subprocess.run([*twin, program, "[schedules]"], env=environment, timeout=DEADLINE_S,
                              capture_output=True, text=True, errors="replace", check=False)
    except subprocess.TimeoutExpired as late:
        shown = (late.stdout or b"").decode(errors="replace")
        return last_seed(shown), "waits for ever"
    text = done.stdout + done.stderr
    return None if done.returncode == 0 else (last_seed(text), cause_of(text, done.returncode))


def run_failures(twin, program, scenario, seeds):
    """A device is lost when the host asks it how far it is, and what the shards have is looked at:
    an exchange of the same clock may be pending, and is aborted. No thread waits for any device but
    the first."""
    environment = dict(os.environ, TAUTLINE_TWIN_SCENARIO=scenario, TAUTLINE_TWIN_LIBRARIES="1",
                       TAUTLINE_TWIN_REFERENCE=f"{program}.reference")
    subprocess.run([*twin, program, "[.reference]"], env=environment, capture_output=True,
                   check=True)
    for seed in range(1, seeds + 1):
        environment.update(TAUTLINE_TWIN_SEED=str(seed),
                           TAUTLINE_TWIN_FAIL=f"cudaEventQuery {3 * seed} lost")
        try:
            done = subprocess.run([*twin, program, "[.failure]"], env=environment, check=False,
                                  timeout=DEADLINE_S, capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            return seed, "waits for ever"
        if done.returncode != 0:
            return seed, cause_of(done.stdout + done.stderr, done.returncode)
    return None


def last_seed(text):
    """"first": the training that the others are compared with, under which all runs at once."""
    seeds = re.findall(r"\bseed (\d+)", text)
    return int(seeds[-1]) if seeds else "first"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("names", nargs="*", help="planted bugs; all of them if none is named")
    options = parser.parse_args()
    root = pathlib.Path(__file__).resolve().parents[3]
    bugs = {bug.stem: bug for bug in sorted((root / "tests/twin/schedules/mutants").glob("*.bug"))}
    names = options.names or list(bugs)
    targets = [f"taut_twin_mutant_{name}" for name in names]
    subprocess.run(["cmake", "--build", options.build, "--target", *targets], check=True,
                   stdout=subprocess.DEVNULL)
    twin = [str(root / "scripts/twin"), "--build", str(options.build)]
    missed = []
    print(f"{'planted bug':<26} {'seed':>5} {'s':>4}  found by")
    for name in names:
        begin = time.monotonic()
        program = options.build / "tests/twin_mutants" / f"taut_twin_mutant_{name}"
        found = run(twin, str(program), bugs[name], options.seeds)
        took = time.monotonic() - begin
        if found is None:
            missed.append(name)
            print(f"{name:<26} {'-':>5} {took:>4.0f}  not found in {options.seeds} seeds",
                  flush=True)
        else:
            print(f"{name:<26} {found[0]:>5} {took:>4.0f}  {found[1]}", flush=True)
    print(f"{len(names) - len(missed)} of {len(names)} planted bugs were found")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
