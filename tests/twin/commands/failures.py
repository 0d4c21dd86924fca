#!/usr/bin/env python3
"""Makes each call of CUDA's runtime and libraries fail: at its first, its middle and its last time
(or at the middle one alone, or at more of them), as a refusal, as memory that ran out, and as a
device that is lost. The training must end with an error or continue, and never leave other numbers
at a shard."""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

DEADLINE_S = 120
SCENARIOS = ["served", "alone", "halves", "sequences", "planned", "copying devices", "NCCL"]


class Runner:
    def __init__(self, build, scenario, folder):
        root = pathlib.Path(__file__).resolve().parents[3]
        self.command = [str(root / "scripts/twin"), "--build", str(build),
                        str(build / "tests/taut_twin_schedules")]
        self.environment = dict(os.environ, TAUTLINE_TWIN_SCENARIO=scenario,
                                TAUTLINE_TWIN_REFERENCE=str(folder / f"{scenario}.reference"),
                                # Under each seed the algorithms of the reference.
                                TAUTLINE_TWIN_LIBRARIES="1")

    def run(self, test, **more):
        return subprocess.run([*self.command, test], env={**self.environment, **more}, check=False,
                              capture_output=True, text=True, errors="replace", timeout=DEADLINE_S)

    def outcome(self, failure, seeds):
        """continued, ended, or what is wrong under one of the seeds."""
        found = [self.outcome_under(failure, seed) for seed in range(1, seeds + 1)]
        return next((one for one in found if one[0].isupper()), found[0])

    def outcome_under(self, failure, seed):
        try:
            done = self.run("[.failure]", TAUTLINE_TWIN_FAIL=failure, TAUTLINE_TWIN_SEED=str(seed))
        except subprocess.TimeoutExpired:
            return "WAITS FOR EVER"
        if "is made to fail" not in done.stderr:
            return "not met"
        if done.returncode < 0 or "rule" in done.stderr or "check failed" in done.stderr.lower():
            return "CRASHED: " + (done.stderr.strip().splitlines() or ["?"])[-1][:100]
        if done.returncode != 0:
            return "OTHER NUMBERS: " + done.stdout[-300:].replace("\n", " ")
        return "ended" if "\nended: " in "\n" + done.stdout else "continued"


def counts_of(runner, folder):
    """How often each call is made by a training without a failure."""
    path = folder / "counts"
    path.unlink(missing_ok=True)
    done = runner.run("[.failure]", TAUTLINE_TWIN_COUNTS=str(path))
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    lines = [line.split() for line in path.read_text().splitlines()]
    return {call: int(number) for call, number in lines if call != "any"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--scenario", action="append", help="served, sequences, planned, NCCL, ...")
    parser.add_argument("--calls", help="only those that begin so")
    parser.add_argument("--times", type=int, default=3,
                        help="at how many of its times each call fails")
    parser.add_argument("--seeds", type=int, default=1, help="schedules of each failure")
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        for scenario in options.scenario or SCENARIOS:
            runner = Runner(options.build, scenario, folder)
            reference = runner.run("[.reference]")
            if reference.returncode != 0:
                sys.exit(f"{scenario}: no training without a failure\n{reference.stdout}")
            # Found without failures, which would change what there is room for.
            budgets = [line.split()[1] for line in reference.stdout.splitlines()
                       if line.startswith("budget ")]
            if budgets:
                runner.environment["TAUTLINE_TWIN_BUDGET"] = budgets[0]
            failures = []
            for call, count in sorted(counts_of(runner, folder).items()):
                if options.calls and not call.startswith(options.calls):
                    continue
                steps, between = range(options.times), options.times - 1
                if options.times == 1:
                    steps, between = [1], 2
                for at in sorted({1 + (count - 1) * i // between for i in steps}):
                    failures += [f"{call} {at} {kind}" for kind in ("refused", "memory", "lost")]
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                outcomes = list(pool.map(lambda one: runner.outcome(one, options.seeds),
                                         failures))
            tally = {}
            for failure, outcome in zip(failures, outcomes):
                tally.setdefault(failure.split()[0], []).append(outcome)
                if outcome[0].isupper():
                    bad.append(f"{scenario}: {failure}: {outcome}")
            print(f"{scenario}: {len(failures)} failures of {len(tally)} calls")
            for call, found in tally.items():
                print(f"  {call:<52} ended {found.count('ended'):>2}, "
                      f"continued {found.count('continued'):>2}, "
                      f"not met {found.count('not met'):>2}")
    for line in bad:
        print(line)
    print(f"{len(bad)} failures left something wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
