"""Accuracy over virtual time under each bound: as `tautline sweep` writes it, as lines of
scripts/bench/lab/best_bound's output, which scripts/bench/scale reads again, and as figures."""

import csv
import re

import figures

LINE = re.compile(r"^curve of (.+), (\d+), ([^,:]+): (.+)$", re.MULTILINE)


def of_sweep(path, without=()):
    """The mean over the seeds at each test, in seconds and %, by the bound.
    path     the sweep's curves.csv
    without  bounds, each with a seed, whose runs have not ended"""
    seeds = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (row["slack"], row["seed"]) in without:
                continue
            if (row["quantity"], row["over"]) == ("test_accuracy", "seconds"):
                seeds.setdefault(row["slack"], {}).setdefault(row["seed"], []).append(
                    (float(row["at"]), 100 * float(row["value"])))
    return {bound: [tuple(sum(values) / len(values) for values in zip(*test))
                    for test in zip(*of.values())] for bound, of in seeds.items()}


def as_line(case, workers, bound, points):
    return f"curve of {case}, {workers}, {bound}: " + ", ".join(
        f"{at:.6g} {accuracy:.2f}" for at, accuracy in points)


def in_text(text):
    """The points of all such lines, by the stragglers, the workers and the bound."""
    return {(case, int(workers), bound):
            [tuple(map(float, point.split())) for point in points.split(", ")]
            for case, workers, bound, points in LINE.findall(text)}


def write(folder, curves):
    """A figure for each kind and size of stragglers, with a panel for each number of workers.
    Returns their files.  curves  as in_text() has them"""
    files = []
    for case in dict.fromkeys(case for case, _, _ in curves):
        charts = {}
        for (of, workers, bound), points in curves.items():
            if of == case:
                chart = charts.setdefault(workers, figures.Curves(
                    f"{workers} workers", "virtual seconds", "accuracy in %"))
                for point in points:
                    chart.add(bound, *point)
        files += figures.write_panels(folder, f"accuracy-{case.replace(' ', '-')}",
                                      f"Accuracy over virtual time, {case}",
                                      [charts[workers] for workers in sorted(charts)])
    return files
