"""Submits a job to TAUTLINE_COORDINATOR, waits for its end, and writes down when each of its tests
was seen, from the moment it ran, what its workers exchanged, and how fast they trained: with all
that came before the first clock, and from its beginning on (`trained_clocks_per_s`); and the job's
rate as the coordinator counts it, first clock to last (`images_per_s`). For commands that run
inside of scripts/shaped_cluster.

usage: watch_job.py JOB OUT.json [--insecure, where the cluster has no keys]
"""

import json
import pathlib
import subprocess
import sys
import time

PAUSE_S = 0.2
LONGEST_S = 3600


def ask(*words):
    # What follows the job and the output is passed to each command.
    done = subprocess.run(["tautline", *words, *sys.argv[3:]], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"tautline {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def main():
    job = int(ask("submit", sys.argv[1]).split()[1])
    begun, seen, end = None, {}, time.monotonic() + LONGEST_S
    while True:
        status = next(one for one in json.loads(ask("status", "--json"))["jobs"]
                      if int(one["job"]) == job)
        now = time.monotonic()
        if begun is None and status["state"] == "RUNNING":
            begun = now
        for test in status.get("evaluations", []):
            clock = int(test["clock"])
            if clock > 0 and clock not in seen:
                seen[clock] = {"clock": clock, "at_s": round(now - (begun or now), 2),
                               "loss": test["loss"]}
        if status["state"] in ("DONE", "FAILED", "STOPPED"):
            break
        if now > end:
            sys.exit(f"the job has not ended within {LONGEST_S} s")
        time.sleep(PAUSE_S)
    if status["state"] != "DONE":
        sys.exit(f"the job is {status['state']}: {status['message']}")
    progress = [worker["progress"] for worker in status["workers"]]
    total = sum(int(one.get("pushed_bytes", 0)) + int(one.get("read_bytes", 0))
                for one in progress)
    clocks = int(progress[0]["clock"])
    trained = max(one.get("trained_s", 0.0) for one in progress)
    pathlib.Path(sys.argv[2]).write_text(json.dumps(
        {"trained_clocks_per_s": clocks / max(trained, 1e-9),
         "images_per_s": float(status.get("rate", 0)),
         "chosen": status.get("compression", {}).get("text", ""),
         "tests": [seen[clock] for clock in sorted(seen)], "bytes": total,
         "clocks_per_s": clocks / max(time.monotonic() - begun, 1e-9)}), encoding="utf-8")


if __name__ == "__main__":
    main()
