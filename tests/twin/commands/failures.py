#!/usr/bin/env python3
"""Makes each call of CUDA's runtime and libraries fail: at its first, its middle and its last time,
as a refusal, as memory that ran out, and as a device that is lost. The training must end with an
error or go on, and never leave other numbers at a shard."""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

DEADLINE_S = 120


class Runner:
    def __init__(self, build, scenario, folder):
        root = pathlib.Path(__file__).resolve().parents[3]
        self.command = [str(root / "scripts/twin"), "--build", str(build),
                        str(build / "tests/taut_twin_schedules")]
        self.environment = dict(os.environ, TAUTLINE_TWIN_SCENARIO=scenario,
                                TAUTLINE_TWIN_REFERENCE=str(folder / f"{scenario}.reference"))

    def run(self, test, **more):
        return subprocess.run([*self.command, test], env={**self.environment, **more}, check=False,
                              capture_output=True, text=True, errors="replace", timeout=DEADLINE_S)

    def outcome(self, failure):
        """went on, ended, or what is wrong."""
        try:
            done = self.run("[.failure]", TAUTLINE_TWIN_FAIL=failure)
        except subprocess.TimeoutExpired:
            return "WAITS FOR EVER"
        if "is made to fail" not in done.stderr:
            return "not met"
        if done.returncode < 0 or "rule" in done.stderr or "check failed" in done.stderr.lower():
            return "CRASHED: " + (done.stderr.strip().splitlines() or ["?"])[-1][:100]
        if done.returncode != 0:
            return "OTHER NUMBERS: " + done.stdout[-300:].replace("\n", " ")
        return "ended" if "\nended: " in "\n" + done.stdout else "went on"


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
    options = parser.parse_args()
    bad = []
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        for scenario in options.scenario or ["served", "sequences", "NCCL"]:
            runner = Runner(options.build, scenario, folder)
            if runner.run("[.reference]").returncode != 0:
                sys.exit(f"{scenario}: no training without a failure")
            failures = []
            for call, count in sorted(counts_of(runner, folder).items()):
                if options.calls and not call.startswith(options.calls):
                    continue
                for at in sorted({1, (count + 1) // 2, count}):
                    failures += [f"{call} {at} {kind}" for kind in ("refused", "memory", "lost")]
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                outcomes = list(pool.map(runner.outcome, failures))
            tally = {}
            for failure, outcome in zip(failures, outcomes):
                tally.setdefault(failure.split()[0], []).append(outcome)
                if outcome[0].isupper():
                    bad.append(f"{scenario}: {failure}: {outcome}")
            print(f"{scenario}: {len(failures)} failures of {len(tally)} calls")
            for call, found in tally.items():
                print(f"  {call:<52} ended {found.count('ended'):>2}, "
                      f"went on {found.count('went on'):>2}, not met {found.count('not met'):>2}")
    for line in bad:
        print(line)
    print(f"{len(bad)} failures left something wrong")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
