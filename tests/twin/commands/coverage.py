#!/usr/bin/env python3
"""Runs the twin's tests on a CUDA backend that counts its lines, and prints which lines of cuda/
and of the CUDA engine were executed."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "scripts"))
from executed_lines import executed_lines  # noqa: E402

REQUIRED = 95.0  # per cent
# What is executed only where something fails; scripts/twin failures has all of them.
FAILURES = [("served", "cudaMemcpyAsync 20 refused"),
            ("served", "cudnnConvolutionForward 2 refused"),
            ("served", "cublasLtMatmul 5 refused"), ("served", "cudaLaunchKernel 60 refused"),
            ("served", "cudaLaunchKernel 300 lost"), ("NCCL", "ncclReduce 9 lost"),
            ("NCCL", "ncclCommInitAll 1 refused"), ("NCCL", "cudaLaunchKernel 250 lost")]


def run(words, environment, failure=""):
    done = subprocess.run(words, check=False, capture_output=True, text=True, errors="replace",
                          env=environment)
    name = " ".join([pathlib.Path(words[3]).name, *words[4:], failure])
    print(f"{name}: ended with {done.returncode}", flush=True)
    if done.returncode != 0:
        print(done.stdout[-2000:], done.stderr[-1000:])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--report", action="store_true", help="of what ran before; runs nothing")
    options = parser.parse_args()
    build = options.build.resolve()
    objects = build / "tests/twin/covered"
    if not options.report:
        subprocess.run(["cmake", "--build", build, "--target", "twin-covered"], check=True,
                       stdout=subprocess.DEVNULL)
        for data in objects.rglob("*.gcda"):
            data.unlink()
        twin = [str(ROOT / "scripts/twin"), "--build", str(build)]
        module = str(build / "twin/covered/libtautline_cuda_twin.so")
        covered = str(build / "tests/twin_covered")
        schedules = f"{covered}/taut_twin_schedules_covered"
        runs = [("taut_gpu_backend", "1"), ("taut_gpu_backend", "3"), ("taut_gpu_against_cpu", "1"),
                ("taut_gpu_training ~[nets]", "1"), ("taut_gpu_layers", "1"),
                (f"{covered}/taut_twin_kernels_covered", "1"),
                (f"{covered}/taut_twin_wrappers_covered", "1"), (schedules, "3")]
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            variables = dict(os.environ, TAUTLINE_TWIN_MODULE=module, TAUTLINE_TWIN_SEEDS="4",
                             TAUTLINE_CACHE=str(folder / "cache"))
            for words, devices in runs:
                run([*twin, *words.split()], dict(variables, TAUTLINE_TWIN_DEVICES=devices))
            for scenario, failure in FAILURES:
                of_scenario = dict(variables, TAUTLINE_TWIN_SCENARIO=scenario,
                                   TAUTLINE_TWIN_REFERENCE=str(folder / scenario))
                if not (folder / scenario).exists():
                    run([*twin, schedules, "[.reference]"], of_scenario)
                run([*twin, schedules, "[.failure]"],
                    dict(of_scenario, TAUTLINE_TWIN_FAIL=failure), failure)
    lines = executed_lines(objects, ROOT, lambda name: name.startswith(
        ("cuda/", "worker/engine/cuda/")))
    left = []
    all_lines = 0
    all_executed = 0
    print(f"{'file':<44} {'lines':>6} {'executed':>8}")
    for name, counts in sorted(lines.items()):
        text = (ROOT / name).read_text().splitlines()
        executed = sum(1 for count in counts.values() if count > 0)
        print(f"{name:<44} {len(counts):>6} {100 * executed / len(counts):>7.1f}%")
        all_lines += len(counts)
        all_executed += executed
        left += [f"{name}:{number}: {text[number - 1].strip()}"
                 for number, count in sorted(counts.items()) if count == 0]
    share = 100 * all_executed / max(all_lines, 1)
    print("not executed:")
    print("\n".join("  " + line for line in left))
    print(f"{all_executed} of {all_lines} lines, {share:.1f} %; {REQUIRED:.0f} % are required")
    sys.exit(0 if share >= REQUIRED else 1)


if __name__ == "__main__":
    main()
