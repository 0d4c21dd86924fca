"""Starts trainings, and reads their records."""
import csv
import json
import os
import re
import signal
import subprocess
import time


class Failed(Exception):
    """A program that did not do what a row needs; the text is the row's value."""


class Runs:
    """Starts programs within a deadline, each with its own log and folder."""

    def __init__(self, places, output, seconds):
        self.places = places  # programs, bench, configs, data: folders; device
        self.output = output
        self.deadline = time.monotonic() + seconds

    def left(self):
        return self.deadline - time.monotonic()

    def program(self, name, words, limit):
        """What a program printed. Raises Failed."""
        limit = min(limit, self.left())
        if limit < 1:
            raise Failed("not run: no time was left")
        log = self.output / f"{name}.log"
        with open(log, "w+", encoding="utf-8", errors="replace") as out:
            child = subprocess.Popen([str(word) for word in words], stdout=out,
                                     stderr=subprocess.STDOUT, start_new_session=True)
            try:
                status = child.wait(timeout=limit)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise Failed(f"took longer than {limit:.0f} s; see {log}") from None
            out.seek(0)
            text = out.read()
        if status != 0:
            last = next((line for line in reversed(text.splitlines()) if line.strip()), "")
            raise Failed(f"{name}: status {status}: {last.strip()[:160]}")
        return text

    def bench(self, name, words, limit=60):
        return self.program(name, [self.places.bench / words[0], *words[1:]], limit)

    def served(self, name, job, *options, limit=60):
        """One run of tautline train: servers and workers as processes."""
        folder = self.output / name
        self.program(name, [self.places.programs / "tautline", "train", job, "--device",
                            self.places.device, "--output", folder, *options], limit)
        return Served(folder)

    def alone(self, name, job, *options, limit=60):
        """The same loop in one process without a server."""
        folder = self.output / name
        text = self.program(name, [self.places.programs / "tautline-worker", "--local", job,
                                   "--device", self.places.device, "--records", folder,
                                   *options], limit)
        return Alone(folder, text)


    def need_bytes(self, name, job):
        """The peak device memory of a training without a limit; tensors that are never alive
        together share memory."""
        text = self.program(f"{name}_plan", [
            self.places.programs / "tautline-worker", "--local", job,
            "--device", self.places.device, "--device-memory-budget", "1024GiB", "--plan"], 60)
        return float(re.search(r"most at once ([0-9.]+) MiB", text)[1]) * 2**20


class Clocks:
    """A worker's metrics.csv, clock by clock."""

    def __init__(self, folder):
        files = sorted(folder.glob("*/metrics.csv"))
        if not files:
            raise Failed(f"no metrics.csv in {folder}")
        with open(files[0], encoding="utf-8") as file:
            self.lines = [line for line in csv.DictReader(file) if line["loss"]]
        if len(self.lines) < 2:
            raise Failed(f"{files[0]} has {len(self.lines)} clocks")

    def steady(self):
        """Without the first quarter: libraries load, algorithms are chosen, repeats recorded."""
        return self.lines[len(self.lines) // 4:]

    def seconds(self):
        """Of one clock, the median: other processes in between do not count."""
        taken = sorted(float(line["compute_s"]) + float(line["wait_s"]) for line in self.steady())
        return taken[len(taken) // 2]

    def images_per_second(self):
        return float(self.lines[0]["images"]) / self.seconds()

    def waiting_share(self):
        """The share of its time that the compute thread waited for parameters and data."""
        waited = sum(float(line["wait_s"]) for line in self.steady())
        return waited / (waited + sum(float(line["compute_s"]) for line in self.steady()))

    def losses(self):
        return [float(line["loss"]) for line in self.lines]


class Served:
    def __init__(self, folder):
        self.clocks = Clocks(folder)
        self.summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))

    def digest(self):
        return self.summary["parameters_sha256"]

    def accuracy(self):
        return self.summary["evaluations"][-1]["accuracy"]


class Alone:
    def __init__(self, folder, text):
        self.clocks = Clocks(folder)
        self.text = text

    def digest(self):
        return re.search(r"parameters sha256: ([0-9a-f]{64})", self.text)[1]

    def moved_bytes(self):
        """In each iteration, to the device and back, as planned."""
        found = re.search(r"moves ([0-9.]+) MiB to the device and ([0-9.]+) MiB back", self.text)
        return tuple(float(mib) * 2**20 for mib in found.groups())
