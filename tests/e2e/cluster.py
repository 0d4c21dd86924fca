"""Starts real Tautline processes for a test, on free ports of the loopback, and ends them all."""

import gzip
import json
import os
import pathlib
import random
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ["TAUTLINE_BIN"])
SOURCE = pathlib.Path(os.environ["TAUTLINE_SOURCE"])

# A small net over 8x8 images: a test of processes, not of learning.
NET = """
net_param {
  name: "tiny"
  layer { name: "data" type: "Data" top: "data" top: "label"
          transform_param { scale: 0.00390625 }
          data_param { batch_size: 8 backend: IDX } }
  layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
          inner_product_param { num_output: 16 weight_filler { type: "xavier" } } }
  layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
          inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
  layer { name: "accuracy" type: "Accuracy" bottom: "ip2" bottom: "label" top: "accuracy"
          include { phase: TEST } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" bottom: "label" top: "loss" }
}
"""

SOLVER = """
solver_param { base_lr: 0.1 momentum: 0.9 max_iter: %d test_iter: 4 test_interval: %d }
"""


def write_random_images(folder):
    """Images of MNIST's size with labels, the same each time: 256 to train on and 128 to test."""
    if folder.exists():
        return folder
    folder.mkdir()
    draw = random.Random(3)
    for stem, count in (("train", 256), ("t10k", 128)):
        write_idx(folder / f"{stem}-images-idx3-ubyte.gz", (count, 28, 28),
                  draw.randbytes(count * 28 * 28))
        write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", (count,),
                  bytes(draw.randrange(10) for _ in range(count)))
    return folder


def write_idx(path, extents, data):
    """An IDX file of bytes, gzip."""
    head = struct.pack(">BBBB", 0, 0, 8, len(extents)) + struct.pack(f">{len(extents)}I", *extents)
    with gzip.GzipFile(path, "wb", mtime=0) as out:
        out.write(head + data)


def write_data(folder, train=200, test=40):
    """A data set that can be learned: class c lights up its own pixels of an 8x8 image."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    for stem, count in (("train", train), ("t10k", test)):
        labels = bytes(draw.randrange(10) for _ in range(count))
        images = bytearray()
        for label in labels:
            image = bytearray(draw.randrange(40) for _ in range(64))
            for pixel in range(label * 6, label * 6 + 6):
                image[pixel] = 200 + draw.randrange(55)
            images += image
        write_idx(folder / f"{stem}-images-idx3-ubyte.gz", (count, 8, 8), bytes(images))
        write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", (count,), labels)
    return folder


def free_ports(count):
    """Ports of the loopback that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def state_of(pid):
    """The letter of a process's state, e.g. "T" for stopped; "" if it does not exist."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid):
    """Whether a process exists and is no zombie."""
    return state_of(pid) not in ("", "Z")


def children_of(pid):
    """(pid, name) of a process's children, e.g. (123, "worker0")."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) != pid:
                continue
            arguments = (entry / "cmdline").read_text().split("\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if "--config" in arguments:
            config = pathlib.Path(arguments[arguments.index("--config") + 1])
            found.append((int(entry.name), config.stem))
    return sorted(found, key=lambda child: child[1])


def documented(heading):
    """The names in the first columns of the tables under a heading of docs/reference/metrics.md, in
    a list for each table."""
    text = (SOURCE / "docs/reference/metrics.md").read_text()
    section = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.M | re.S)[1]
    tables = re.findall(r"(?:^\|.*\n)+", section, re.M)
    return [re.findall(r"`([^`]+)`", "\n".join(row.split(" | ")[0] for row in table.splitlines()))
            for table in tables]


# How much slower than usual the programs are: sanitizers cost that.
SLOWER = int(os.environ.get("TAUTLINE_SLOWER", "1"))


def wait_until(condition, seconds=20, what="the condition"):
    seconds *= SLOWER
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not happen in {seconds} s")


class ClusterTest(unittest.TestCase):
    """A test with its own folder and its own user's keys; every process that it starts is ended
    after it."""

    insecure = False  # daemons and commands use no keys

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tautline-e2e-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.addCleanup(self.kill_all)
        self.processes = []
        self.coordinator = None
        before = os.environ.get("XDG_CONFIG_HOME", "")  # tests/e2e/CMakeLists.txt sets it
        os.environ["XDG_CONFIG_HOME"] = str(self.folder / ".config")
        self.addCleanup(os.environ.__setitem__, "XDG_CONFIG_HOME", before)

    def kill_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream:
                    stream.close()

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def mount_small_disk(self, name, size):
        """A file system of a size such as "256k" in the test's folder; skips the test where none
        can be mounted."""
        disk = self.folder / name
        disk.mkdir()
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk],
                               capture_output=True, text=True)
        if mount.returncode != 0:
            self.skipTest(f"no small file system can be mounted here: {mount.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", disk], check=True)
        return disk

    def job(self, name="job.textproto", iterations=30, workers=1, data=None, extra=""):
        if data is None:
            data = self.folder / "data"
            if not data.exists():
                write_data(data)
        return self.file(name, f'name: "tiny"\nworkers: {workers}\ndata {{ folder: "{data}" }}\n'
                         + NET + SOLVER % (iterations, iterations) + extra)

    def command(self, program, arguments):
        """The command line of a program of ours."""
        return [BIN / program, *map(str, arguments)]

    def run_program(self, program, *arguments, timeout=60):
        """Runs a program of ours to its end."""
        return subprocess.run(self.command(program, arguments), cwd=self.folder,
                              capture_output=True, text=True, timeout=timeout * SLOWER)

    def tautline(self, *arguments, timeout=60):
        return self.run_program("tautline", *arguments, timeout=timeout)

    def start(self, program, *arguments):
        process = subprocess.Popen(self.command(program, arguments), cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def start_daemon(self, role, name, settings="", wait=True, more="", options=()):
        """A daemon with its own config and log; waits until it is ready.
        options  on its command line"""
        section = f'{role} {{ name: "{name}" {settings} }}'
        address = self.coordinator or "127.0.0.1:0"
        log = self.folder / f"{name}.log"
        config = self.file(f"{name}.textproto", f'coordinator_address: "{address}"\n{section}\n'
                           f'log {{ file: "{log}" }}\nheartbeat_interval_s: 0.1\n{more}\n'
                           + ("insecure: true\n" if self.insecure else ""))
        ready = self.folder / f"{name}.ready"
        ready.unlink(missing_ok=True)
        process = self.start(f"tautline-{role}", "--config", config, "--ready-file", ready,
                             *options)
        if wait:
            wait_until(lambda: ready.exists() or process.poll() is not None, what=f"{name} ready")
            self.assertIsNone(process.poll(), f"{name} ended: {log.read_text()}")
        return process

    def addresses(self, name):
        """A daemon's ready file: {"coordinator": [address], "shard": [...]}."""
        found = {}
        for line in (self.folder / f"{name}.ready").read_text().splitlines():
            kind, address = line.split(" ", 1)
            found.setdefault(kind, []).append(address)
        return found

    def start_server(self, name="server0", shards=1, settings=""):
        server = self.start_daemon("server", name, f"shards: {shards} coordinator {{ {settings} }}")
        self.coordinator = self.addresses(name)["coordinator"][0]
        return server

    def start_worker(self, name="worker0", settings=""):
        return self.start_daemon("worker", name, settings)

    def ask(self, *arguments, **options):
        """A command of the control plane."""
        unproved = ["--insecure"] if self.insecure else []
        return self.tautline(*arguments, "--coordinator", self.coordinator, *unproved, **options)

    def token(self, right="change"):
        """What a program sends to be let in to the daemons' HTTP."""
        answer = self.tautline("page", "--token", right)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.strip()

    def page_link(self, address):
        """What a browser opens to be let in to a page."""
        answer = self.tautline("page", address)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout.strip()

    def status(self):
        answer = self.ask("status", "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)

    def wait_for_job(self, job, state, seconds=30):
        def reached():
            states = {int(j["job"]): j for j in self.status()["jobs"]}
            return states[job] if states[job]["state"] == state else None
        return wait_until(reached, seconds, f"job {job} {state}")

    def recorded_clocks(self, job, worker, since=0):
        """How many clocks a worker has ended since a Unix time, as it has written on its own disk.
        """
        path = self.folder / f"records/job{job}-{worker}/metrics.csv"
        text = path.read_text() if path.exists() else ""
        lines = text.rpartition("\n")[0].splitlines()[1:]  # without one that is being written
        return sum(float(line.split(",")[1]) > since for line in lines)

    def assert_workers_train(self, job, *workers):
        """Each of them ends clocks from now on, whether or not a coordinator answers."""
        begin = time.time()
        for worker in workers:
            wait_until(lambda: self.recorded_clocks(job, worker, begin) > 50, 60,
                       what=f"further clocks of {worker}")

    def assert_still_trains(self):
        """The running cluster takes a job and finishes it."""
        answer = self.ask("submit", self.job("after.textproto"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        number = int(answer.stdout.split()[1])
        return self.wait_for_job(number, "DONE")

    def assert_ends(self, process, seconds=5):
        """The process ends by itself within the time; returns its status."""
        try:
            return process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"pid {process.pid} was still there after {seconds} s")

    def assert_fails(self, answer, *words, status=1):
        """One line that holds each of the words, and the exit status."""
        self.assertEqual(answer.returncode, status, answer.stdout + answer.stderr)
        for word in words:
            self.assertIn(word, answer.stderr)


class ServersTest(ClusterTest):
    """Jobs of two workers, for clusters whose processes come and go."""

    def submit(self, mode, iterations, clock_ms=0, workers=2, more=""):
        answer = self.ask("submit", self.job(
            iterations=iterations, workers=workers,
            extra=f"consistency {{ mode: {mode} }} clock_time_ms: {clock_ms} {more}"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(re.search(r"job (\d+)", answer.stdout)[1])

    def running(self, job):
        return next(one for one in self.status()["jobs"] if int(one["job"]) == job)


__all__ = ["BIN", "NET", "SLOWER", "SOLVER", "SOURCE", "ClusterTest", "ServersTest", "alive",
           "children_of", "documented", "free_ports", "signal", "state_of", "wait_until",
           "write_data", "write_idx", "write_random_images"]
