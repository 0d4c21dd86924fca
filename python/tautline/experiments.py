"""Sweeps: one training under several bounds, settings and seeds, and their results."""

import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from typing import Any, Iterable, Optional, Union

from tautline.cluster import Slack, program
from tautline.errors import InvalidError, NotFoundError, TautlineError
from tautline.frame import read_csv, records
from tautline.progress import Progress

_END_WAIT_S = 30.0  # after an interrupt
_FINISHED = re.compile(r"^\s*\d+/\d+ ")  # a run's line in what the command prints
Path = Union[str, os.PathLike]
One = Union[int, float, str, None]


class Sweep:
    """A sweep that has run. From sweep(), or Sweep(folder) of one that ran before.

    folder  where all of it is: report.html, and a folder with logs and metrics for each run
    runs    a row for each run: its bound, settings and seed, how it ended, time and clocks to the
            target, its last and its best value, rate, waiting, staleness
    points  a row for each bound and setting: means and standard deviations over the seeds
    curves  every test of every run: rows of `quantity`, such as test_accuracy, `over` seconds or
            clocks, `at` where, and `value`

    Frames are pandas' where it is installed; otherwise tautline.frame.Frame has the columns.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = pathlib.Path(folder)
        if not (self.folder / "points.csv").exists():
            raise NotFoundError(f"{self.folder} has no points.csv: no sweep has ended there")
        self.runs = read_csv(self.folder / "runs.csv")
        self.points = read_csv(self.folder / "points.csv")
        self.curves = read_csv(self.folder / "curves.csv")

    @property
    def report(self) -> pathlib.Path:
        """The page about it, which needs no network."""
        return self.folder / "report.html"

    def plot(self) -> Any:
        """A figure of matplotlib: the tests over time, and the time to the target of each point."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise NotFoundError("matplotlib is not installed; install python3-matplotlib, or open "
                                f"{self.report}, which has the charts") from None
        figure = Figure(figsize=(11, 4), layout="constrained")
        left, right = figure.subplots(1, 2)
        rows = [row for row in records(self.curves)
                if row["over"] == "seconds" and row["quantity"].startswith("test_")]
        axes = [name for name in self.points.columns[:self._axes()]
                if len(set(self.points[name])) > 1]
        labels = [_label(row, axes) for row in records(self.points)]
        for label in labels:
            for number, seed in enumerate(sorted({row["seed"] for row in rows})):
                own = [row for row in rows if _label(row, axes) == label and row["seed"] == seed]
                left.plot([row["at"] for row in own], [row["value"] for row in own],
                          color=f"C{labels.index(label)}", label="" if number else label)
        left.set(xlabel="seconds", ylabel=rows[0]["quantity"].replace("_", " ") if rows else "")
        left.legend()
        # A point that has not reached the target has no bar.
        heights, errors = ([math.nan if value is None else value for value in self.points[name]]
                           for name in ("seconds_to_target_mean", "seconds_to_target_sd"))
        right.bar(labels, heights, yerr=errors, color=[f"C{i}" for i in range(len(labels))])
        right.set(ylabel="seconds to the target")
        return figure

    def _axes(self) -> int:
        """How many columns identify the point of a row."""
        return list(self.points.columns).index("runs")

    def __repr__(self) -> str:
        return f"<Sweep of {len(self.points)} points, {len(self.runs)} runs, in {self.folder}>"


def _label(row: dict[str, Any], axes: list[str]) -> str:
    """"slack 2", or "slack 2, workers 4" where several axes vary."""
    return ", ".join(f"{name} {row[name]}" for name in axes) or "all"


def _words(values: Union[One, Iterable[One]]) -> list[str]:
    """One value or several, as a command's words; None is no bound, and True is true."""
    several = values if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    return ["async" if value is None or value == float("inf") else
            str(value).lower() if isinstance(value, bool) else str(value) for value in several]


def _counted(values: Union[One, Iterable[One]]) -> str:
    words = _words(values)
    if not words:
        raise InvalidError("an axis of the sweep has no value; omit it, or give one")
    return ",".join(words)


def _files(files: Union[Path, Iterable[Path]]) -> str:
    """One file or several, as a command's word."""
    several = [files] if isinstance(files, (str, os.PathLike)) else files
    return ",".join(str(os.fspath(file)) for file in several)


def _command(job: Path, options: dict[str, Any], vary: dict[str, Any]) -> list[str]:
    words = [program("tautline"), "sweep", str(job)]
    for name, value in options.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    for field, values in vary.items():
        words += ["--vary", f"{field}={_counted(values)}"]
    return words


def _watch(process: "subprocess.Popen[str]", progress: Optional[bool]) -> Optional[pathlib.Path]:
    """Shows a sweep's runs until its output ends. Returns its folder, if it has begun."""
    assert process.stdout is not None
    # "NAME: 4 points with 2 seeds each, 8 runs, folder ...", perhaps behind what is read before.
    heads = (re.search(r" ([\d,]+) runs?, folder (.*)$", line) for line in process.stdout)
    count = next(filter(None, heads), None)
    total = int(count[1].replace(",", "")) if count else None
    with Progress("runs", total, progress) as bar:
        done = 0
        for line in process.stdout:
            done += bool(_FINISHED.search(line))
            bar.show(done)
    return pathlib.Path(count[2]) if count else None


def sweep(job: Path, *, slack: Union[Slack, Iterable[Slack], str] = "", workers: Any = None,
          seeds: Optional[int] = None, vary: Optional[dict[str, Any]] = None, over: str = "",
          name: Optional[str] = None, folder: Optional[Path] = None, metric: Optional[str] = None,
          target: Optional[float] = None, lab: Optional[Union[Path, Iterable[Path]]] = None,
          data: Optional[Path] = None, draws: Optional[int] = None,
          parallel: Optional[int] = None, limit_s: Optional[float] = None,
          progress: Optional[bool] = None) -> Sweep:
    """Trains a job under several bounds, one run of real processes after another, and returns
    what was measured as data frames. An interrupted sweep continues where it stopped, and one that
    has run is not run again.

        sweep = tautline.sweep("configs/jobs/fashion_lenet.textproto", slack=[0, 2, None], seeds=3,
                               workers=4, over="solver_param { max_iter: 200 }")
        sweep.points[["slack", "seconds_to_target_mean"]]

    job       a job's file, or a sweep's
    slack     the bounds, one or several: 0 is BSP, None is without a bound. Not given: those of a
              sweep's file; the job's own where fields vary; or else 0, 1, 2, 4, 8 and None
    workers   numbers of workers, one or several
    seeds     runs of each point
    vary      fields of the job with their values: {"solver.base_lr": [0.01, 0.1]}
    over      fields that replace the job's in every run, as in a job's file; of a sweep's file
              they replace the same ones of its `over`
    name      of the sweep; not given: the sweep's file's, or that of the job's file with -sweep
    folder    where it is kept; not given: runs/NAME
    metric    "accuracy", "loss", "perplexity" or an output of the test net
    target    the metric's value whose time is compared; not given: the best that every run reached
    lab       a cluster's file, or several: runs are in the lab's virtual time, on each of them
    data      the folder of the data set
    draws     how many combinations of the varied values are drawn at random
    parallel  runs at the same time
    limit_s   a run that takes longer has failed
    progress  whether a line shows each run; None: in notebooks
    """
    path = pathlib.Path(job).absolute()
    if not path.exists():
        raise NotFoundError(f"{path} does not exist; name a job's file, or a sweep's")
    options = {"output": folder, "name": name, "over": over or None,
               "slack": None if slack == "" else _counted(slack),
               "workers": None if workers is None else _counted(workers), "seeds": seeds,
               "metric": metric, "target": target,
               "lab": None if lab is None else _files(lab), "data": data, "draws": draws,
               "parallel": parallel, "limit": limit_s}
    with tempfile.TemporaryDirectory(prefix="tautline-sweep-") as temporary:
        errors = pathlib.Path(temporary) / "errors"
        with open(errors, "w", encoding="utf-8") as file:
            process = subprocess.Popen(
                _command(path, options, vary or {}), stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=file, text=True,
                start_new_session=True)  # Ctrl-C is this process's, and sent on
        try:
            place = _watch(process, progress)
            code = process.wait()
            said = errors.read_text(encoding="utf-8").strip()
        except BaseException:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(_END_WAIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
    if place is None or not (place / "points.csv").exists() or code == 2:
        lines = said.splitlines() or [f"tautline sweep ended with {code}"]
        raise (InvalidError if code == 2 else TautlineError)(lines[-1])
    if code != 0:
        print(said, file=sys.stderr)
    return Sweep(place)
