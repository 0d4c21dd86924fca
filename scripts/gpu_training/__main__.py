#!/usr/bin/env python3
"""Trains on a device with real processes, and compares the figures with their targets.

Writes its rows with --json FILE, in the form of the benches. --dry-run makes everything so small
that a CPU does it in seconds: figures of speed then mean nothing and are not judged; bits, losses
and that everything runs are. scripts/gpu_check runs this.
"""
import argparse
import json
import os
import pathlib
import sys
import types

from jobs import Jobs
from rows import Rows
from runs import Runs

SHARDS = max(1, min(12, 3 * (os.cpu_count() or 2) // 4))

ON_A_GPU = types.SimpleNamespace(
    mib=256, shards=SHARDS,
    # A product's workspace on CUDA alone is 32 MiB.
    within="40MiB",
    fashion=1500, tests=100, together=400, learned=0.75,
    # name, model, batch's shape, iterations
    alexnet=("AlexNet b256", "alexnet.prototxt", (256, 3, 227, 227), 80),
    lenet=("LeNet b64", "lenet.prototxt", (64, 1, 28, 28), 3000),
    # width, layers, iterations
    deep=(4096, 12, 12), deep_batch=1024, largest_batch=32768,
    # name, model, batch's shape, iterations, budget, least GB that it needs
    large=("ResNet-50 b256", "resnet50.prototxt", (256, 3, 224, 224), 4, 5 * 10**9, 20))

DRY_RUN = types.SimpleNamespace(
    mib=4, shards=1, within="6MiB",
    fashion=12, tests=2, together=12, learned=0.01,
    alexnet=("LeNet b4", "lenet.prototxt", (4, 1, 28, 28), 16),
    lenet=("cifar10_quick b4", "cifar10_quick.prototxt", (4, 3, 32, 32), 16),
    deep=(256, 6, 8), deep_batch=32, largest_batch=64,
    large=("cifar10_quick b32", "cifar10_quick.prototxt", (32, 3, 32, 32), 4, 6 * 10**6, 0.007))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for name in ("programs", "bench", "configs", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True, help="their folder")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="for runs and logs")
    parser.add_argument("--json", type=pathlib.Path, required=True, help="receives the rows")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--dry-run", action="store_true",
                        help="everything small, speed not judged")
    parser.add_argument("--seconds", type=float, default=240, help="for all rows together")
    parser.add_argument("--rows", action="append", choices=Rows.PARTS,
                        help="only these; may be given several times")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    output = given.output.resolve()
    places = types.SimpleNamespace(
        programs=given.programs.resolve(), bench=given.bench.resolve(),
        data=given.data.resolve(), device=given.device)
    rows = []

    def judge(what, value, reach, fine, speed=False):
        if speed and given.dry_run:
            fine = None
        rows.append({"what": what, "value": value, "reach": reach, "fine": fine})
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"{what}: {value}", flush=True)

    sizes = DRY_RUN if given.dry_run else ON_A_GPU
    if given.dry_run and given.device == "cuda":
        # Its operations take more memory than the CPU's.
        sizes.within = ON_A_GPU.within
        sizes.large = (*DRY_RUN.large[:4], 7 * 10**6, DRY_RUN.large[5])
    table = Rows(Runs(places, output, given.seconds), Jobs(given.configs.resolve(), output), sizes,
                 judge)
    for part in given.rows or Rows.PARTS:
        table.run(part)
    return 0


if __name__ == "__main__":
    sys.exit(main())
