"""Clusters and their jobs."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from tautline import _library
from tautline.errors import DeadlineError, InvalidError, NotFoundError, UnavailableError
from tautline.member import Member

_PACKAGE = pathlib.Path(__file__).resolve().parent
_MODES = ("BSP", "SSP", "ASYNC")
UNBOUNDED = 2**63 - 1


def _program(name):
    """A program of Tautline: of TAUTLINE_BIN, next to the package, of a build tree, or on PATH."""
    named = os.environ.get("TAUTLINE_BIN")
    folders = [named] if named else [_PACKAGE / "bin",
                                     _PACKAGE.parent.parent / "build" / "release" / "bin"]
    for folder in folders:
        path = pathlib.Path(folder) / name
        if path.exists():
            return str(path)
    found = None if named else shutil.which(name)
    if found:
        return found
    raise NotFoundError(f"{name} is not in {folders[0]}{'' if named else ' and not on the PATH'}; "
                        "scripts/build builds it, TAUTLINE_BIN names its folder")


def _consistency(slack):
    """A job's consistency: 0 is BSP, None or infinity is ASYNC."""
    if slack is None or slack == float("inf"):
        return "consistency { mode: ASYNC }"
    if int(slack) != slack or slack < 0:
        raise InvalidError(f"slack is {slack}; it must be a whole number of clocks, at least 0, or "
                           "None for no bound")
    if slack == 0:
        return "consistency { mode: BSP }"
    return f"consistency {{ mode: SSP slack: {int(slack)} }}"


class Job:
    """A job of a cluster. From Cluster.submit() or Cluster.job()."""

    def __init__(self, cluster, number):
        self._cluster = cluster
        self.number = number

    def member(self, name=None, wait_s=60.0):
        """Joins it as a member, and waits for a place as long as that takes.

        name  of this process among all of the cluster; None: made of the host's name and more
        """
        return Member(self._cluster.address, self._cluster.keys, self.number, name, wait_s)

    def status(self):
        """What the coordinator knows of it, as a dict: state, message, workers and more."""
        return self._cluster._status(self.number)["jobs"][0]

    @property
    def state(self):
        """SUBMITTED, RUNNING, DONE, FAILED or STOPPED."""
        return self.status()["state"]

    @property
    def slack(self):
        """The staleness bound in clocks, which may be set while it runs: 0 is BSP, None is none."""
        slack = int(self.status()["slack"])
        return None if slack == UNBOUNDED else slack

    @slack.setter
    def slack(self, slack):
        _consistency(slack)
        clocks = -1 if slack is None or slack == float("inf") else int(slack)
        _library.check(_library.lib.tautline_set_slack(self._cluster._handle, self.number, clocks))

    def checkpoint(self):
        """Orders a checkpoint just ahead of every member."""
        _library.check(_library.lib.tautline_checkpoint(self._cluster._handle, self.number))

    def stop(self, discard=False):
        """Stops it, after a checkpoint unless that is discarded."""
        _library.check(_library.lib.tautline_stop(self._cluster._handle, self.number, discard))

    def wait(self, wait_s=None):
        """Waits until it has ended, and returns its state.

        wait_s  raises DeadlineError after so many seconds; None: never
        """
        deadline = None if wait_s is None else time.monotonic() + wait_s
        while True:
            status = self.status()
            if status["state"] in ("DONE", "FAILED", "STOPPED"):
                return status["state"]
            if deadline is not None and time.monotonic() >= deadline:
                raise DeadlineError(f"job {self.number} has not ended in {wait_s:g} s: it is "
                                    f"{status['state']}; {status['message']}")
            time.sleep(0.1)

    def __repr__(self):
        return f"<Job {self.number} at {self._cluster.address}>"


class Cluster:
    """A connection to a coordinator. From connect() or local(); a context manager."""

    def __init__(self, address, keys=None, wait_s=10.0):
        self.address = address
        self.keys = keys
        self._handle = ctypes.c_void_p()
        _library.check(_library.lib.tautline_connect(
            _library.text(address), _library.text(keys), wait_s, ctypes.byref(self._handle)))

    def submit(self, rule, workers, slack=1, *, min_workers=0, name=None, seed=1,
               reduction="MEAN", resume=None, checkpoint=None, more=""):
        """Submits a job whose members are programs, and returns it.

        rule         what is done with gradients, such as tautline.SGD(lr=0.1)
        workers      how many members at most; each has a share of the data
        slack        how many clocks members may drift apart: 0 is BSP, None is without a bound
        min_workers  starts it once so many have joined; 0: all
        reduction    "MEAN": updates are divided by the number of members; "SUM": they are not
        resume       a checkpoint's folder to continue from, as the servers see it
        checkpoint   {"folder": ..., "every": clocks, "keep": number}; None: none is written
        more         further fields, as in a job's file
        """
        lines = ["external_members: true", f"workers: {workers}", f"min_workers: {min_workers}",
                 f'name: {json.dumps(name or "python")}', f"seed: {seed}",
                 f"reduction: {reduction}", _consistency(slack), rule.solver()]
        if resume:
            lines.append(f"resume: {json.dumps(str(resume))}")
        if checkpoint is not None:
            fields = " ".join(f"{field}: {json.dumps(value)}"
                              for field, value in checkpoint.items())
            lines.append(f"checkpoint {{ {fields} }}")
        number = ctypes.c_uint64()
        _library.check(_library.lib.tautline_submit(
            self._handle, "\n".join([*lines, more]).encode(), ctypes.byref(number)))
        return Job(self, number.value)

    def job(self, number):
        """A job that was submitted before."""
        job = Job(self, number)
        job.status()
        return job

    def status(self):
        """What the coordinator knows: jobs, servers, workers, as dicts."""
        return self._status(0)

    def _status(self, job):
        text = ctypes.c_void_p()
        _library.check(_library.lib.tautline_status(self._handle, job, ctypes.byref(text)))
        try:
            return json.loads(ctypes.string_at(text))
        finally:
            _library.lib.tautline_free(text)

    def close(self):
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            _library.lib.tautline_disconnect(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        return f"<Cluster at {self.address}>"


class LocalCluster(Cluster):
    """Servers on this machine, on ports that the system chooses, which end with the cluster."""

    def __init__(self, servers=1, shards=1, wait_s=30.0):
        if servers < 1:
            raise InvalidError(f"servers is {servers}; it must be at least 1")
        self._folder = tempfile.TemporaryDirectory(prefix="tautline-")
        self.folder = pathlib.Path(self._folder.name)
        self._servers = []
        try:
            coordinator = self._start("coordinator" if servers > 1 else "server0",
                                      "127.0.0.1:0", 0 if servers > 1 else shards, wait_s,
                                      'coordinator { state_folder: "" run_folder: "" }')
            for i in range(servers if servers > 1 else 0):
                self._start(f"server{i}", coordinator, shards, wait_s)
            super().__init__(coordinator, str(self.folder / "tautline" / "keys"), wait_s)
        except BaseException:
            self._end_servers()
            raise

    def _start(self, name, coordinator, shards, wait_s, more=""):
        config = self.folder / f"{name}.textproto"
        log = self.folder / f"{name}.log"
        ready = self.folder / f"{name}.ready"
        config.write_text(f'coordinator_address: "{coordinator}"\nheartbeat_interval_s: 0.2\n'
                          f'server {{ name: "{name}" shards: {shards} {more} }}\n'
                          f'log {{ file: {json.dumps(str(log))} }}\n')
        server = subprocess.Popen(
            [_program("tautline-server"), "--config", str(config), "--ready-file", str(ready)],
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
            # Keys of this cluster alone, which the first server makes.
            env=os.environ | {"XDG_CONFIG_HOME": str(self.folder)},
            # Ctrl-C is this process's, which ends them in order.
            start_new_session=True)
        self._servers.append(server)
        deadline = time.monotonic() + wait_s
        while not ready.exists():
            if server.poll() is not None:
                raise UnavailableError(f"{name} ended at its start: {server.stderr.read().strip()}")
            if time.monotonic() > deadline:
                raise DeadlineError(f"{name} was not ready in {wait_s:g} s; its log: {log}")
            time.sleep(0.02)
        for line in ready.read_text().splitlines():
            kind, address = line.split(" ", 1)
            if kind == "coordinator":
                return address
        return coordinator

    def _end_servers(self):
        for server in self._servers:
            if server.poll() is None:
                server.terminate()
        for server in self._servers:
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            server.stderr.close()
        self._servers = []
        self._folder.cleanup()

    def close(self):
        super().close()
        self._end_servers()

    def __del__(self):
        if getattr(self, "_servers", None):
            self.close()


def connect(address, keys=None, wait_s=10.0):
    """Connects to a coordinator.

    address  "host:port", or several, separated by commas
    keys     the folder of the key to prove yourself with; None: TAUTLINE_KEYS or your own; "": none
    """
    return Cluster(address, keys, wait_s)


def local(servers=1, shards=1):
    """Starts servers on this machine and connects to them; they end with the block."""
    return LocalCluster(servers, shards)
