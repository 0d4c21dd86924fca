"""Clusters and their jobs."""

import ctypes
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
from types import TracebackType
from typing import Any, Optional, TypeVar, Union

from tautline import _library
from tautline.errors import DeadlineError, InvalidError, NotFoundError, UnavailableError
from tautline.follower import Follower
from tautline.member import Member
from tautline.progress import Progress
from tautline.rules import Outer, Rule

_PACKAGE = pathlib.Path(__file__).resolve().parent
_LOOK_S = 0.1  # between two checks of a job that is waited for
_ENDED = ("DONE", "FAILED", "STOPPED")
UNBOUNDED = 2**63 - 1
Slack = Union[int, float, None]
Self = TypeVar("Self", bound="Cluster")


def program(name: str) -> str:
    """A program of Tautline: of TAUTLINE_BIN, next to the package, of a build tree, or on PATH."""
    named = os.environ.get("TAUTLINE_BIN")
    folders = [pathlib.Path(named)] if named else [
        _PACKAGE / "bin", _PACKAGE.parent.parent / "build" / "release" / "bin"]
    for folder in folders:
        path = folder / name
        if path.exists():
            return str(path)
    found = None if named else shutil.which(name)
    if found:
        return found
    raise NotFoundError(f"{name} is not in {folders[0]}{'' if named else ' and not on the PATH'}; "
                        "scripts/build builds it, TAUTLINE_BIN names its folder")


def _consistency(slack: Slack, meetings: str = "") -> str:
    """A job's consistency: 0 is BSP, None or infinity is ASYNC."""
    if slack is None or slack == float("inf"):
        return f"consistency {{ mode: ASYNC {meetings} }}"
    if int(slack) != slack or slack < 0:
        raise InvalidError(f"slack is {slack}; it must be a whole number of clocks, at least 0, or "
                           "None for no bound")
    if slack == 0:
        return f"consistency {{ mode: BSP {meetings} }}"
    return f"consistency {{ mode: SSP slack: {int(slack)} {meetings} }}"


class Job:
    """A job of a cluster. From Cluster.submit() or Cluster.job()."""

    def __init__(self, cluster: "Cluster", number: int) -> None:
        self._cluster = cluster
        self.number = number

    def member(self, name: Optional[str] = None, wait_s: float = 60.0) -> Member:
        """Joins it as a member, and waits for a place for as long as it takes.

        name  of this process among all of the cluster; None: made from the host's name and more
        """
        return Member(self._cluster.address, self._cluster.keys, self.number, name, wait_s)

    def follow(self, *, name: Optional[str] = None, bounded: bool = False,
               relay: Union[bool, str] = False) -> Follower:
        """Follows it: reads its parameters while it trains. See tautline.follow()."""
        return Follower(self._cluster.address, self._cluster.keys, self.number, name, bounded,
                        relay)

    def status(self) -> dict[str, Any]:
        """What the coordinator knows of it, as a dict: state, message, workers and more."""
        return self._cluster._status(self.number)["jobs"][0]

    @property
    def state(self) -> str:
        """SUBMITTED, RUNNING, DONE, FAILED or STOPPED."""
        return self.status()["state"]

    @property
    def slack(self) -> Slack:
        """The staleness bound in clocks, which may be set while it runs; 0: BSP, None: no bound."""
        slack = int(self.status()["slack"])
        return None if slack == UNBOUNDED else slack

    @slack.setter
    def slack(self, slack: Slack) -> None:
        _consistency(slack)
        clocks = -1 if slack is None or slack == float("inf") else int(slack)
        self._cluster._call(_library.lib.tautline_set_slack, self.number, clocks)

    def checkpoint(self) -> None:
        """Orders a checkpoint just ahead of every member."""
        self._cluster._call(_library.lib.tautline_checkpoint, self.number)

    def stop(self, discard: bool = False) -> None:
        """Stops it, after a checkpoint unless that is discarded."""
        self._cluster._call(_library.lib.tautline_stop, self.number, discard)

    def finish(self) -> None:
        """Saves it while it trains and ends it as done; its members get StoppedError."""
        self._cluster._call(_library.lib.tautline_finish_job, self.number)

    def wait(self, wait_s: Optional[float] = None, progress: Optional[bool] = None) -> str:
        """Waits until it has ended, and returns its state.

        wait_s    raises DeadlineError after this many seconds; None: never
        progress  whether a line shows the clock of the slowest member; None: in notebooks
        """
        deadline = None if wait_s is None else time.monotonic() + wait_s
        with Progress("clocks", None, progress) as line:
            while True:
                status = self.status()
                _show(line, status)
                if status["state"] in _ENDED:
                    return status["state"]
                if deadline is not None and time.monotonic() >= deadline:
                    raise DeadlineError(f"job {self.number} has not ended in {wait_s:g} s: it is "
                                        f"{status['state']}; {status['message']}")
                time.sleep(_LOOK_S)

    def __repr__(self) -> str:
        return f"<Job {self.number} at {self._cluster.address}>"


def _show(line: Progress, status: dict[str, Any]) -> None:
    """A job's state in its line."""
    clocks = [int(worker["progress"]["clock"]) for worker in status["workers"]
              if worker["state"] != "PROCESS_LOST"]
    figures: dict[str, Any] = {"state": status["state"], "members": len(clocks)}
    if status["rate"] > 0:
        figures[status["rate_unit"]] = float(status["rate"])
    line.show(max(min(clocks, default=1) - 1, 0), **figures)


class Cluster:
    """A connection to a coordinator. From connect() or local(); a context manager. Threads may
    share it and its jobs: their calls follow one another."""

    def __init__(self, address: str, keys: Optional[str] = None, wait_s: float = 10.0) -> None:
        self.address = address
        self.keys = keys
        self._handle = _library.Handle(
            _library.lib.tautline_disconnect,
            f"this connection to {address} was closed; connect again")
        _library.check(_library.lib.tautline_connect(
            _library.text(address), _library.text(keys), wait_s,
            ctypes.byref(self._handle.pointer)))
        self._call = self._handle.call

    def submit(self, rule: Union[Rule, Outer], workers: int, slack: Slack = 1, *,
               min_workers: int = 0, name: Optional[str] = None, seed: int = 1,
               reduction: str = "MEAN", resume: Union[str, os.PathLike, None] = None,
               checkpoint: Optional[dict[str, Any]] = None, more: str = "") -> Job:
        """Submits a job whose members are programs, and returns it.

        rule         what is done with gradients, such as tautline.SGD(lr=0.1); or
                     tautline.Outer(interval=100) for members that train on their own and meet
        workers      the maximum number of members; each has a share of the data
        slack        how many clocks members may drift apart: 0 is BSP, None is without a bound;
                     counts meetings with an Outer
        min_workers  starts it once this many have joined; 0: all
        reduction    "MEAN": updates are divided by the number of members; "SUM": they are not
        resume       a checkpoint's folder to continue from, as the servers see it
        checkpoint   {"folder": ..., "every": clocks, "keep": number}; None: none is written
        more         further fields, as in a job's file
        """
        lines = ["external_members: true", f"workers: {workers}", f"min_workers: {min_workers}",
                 f'name: {json.dumps(name or "python")}', f"seed: {seed}",
                 f"reduction: {reduction}", rule.solver(),
                 _consistency(slack, rule.meetings() if isinstance(rule, Outer) else "")]
        if resume:
            lines.append(f"resume: {json.dumps(str(resume))}")
        if checkpoint is not None:
            fields = " ".join(f"{field}: {json.dumps(value, default=os.fspath)}"
                              for field, value in checkpoint.items())
            lines.append(f"checkpoint {{ {fields} }}")
        number = ctypes.c_uint64()
        self._call(_library.lib.tautline_submit, "\n".join([*lines, more]).encode(),
                   ctypes.byref(number))
        return Job(self, number.value)

    def job(self, number: int) -> Job:
        """A job that was submitted before."""
        job = Job(self, number)
        job.status()
        return job

    def status(self) -> dict[str, Any]:
        """What the coordinator knows: jobs, servers, workers, as dicts."""
        return self._status(0)

    def _status(self, job: int) -> dict[str, Any]:
        text = ctypes.c_void_p()
        self._call(_library.lib.tautline_status, job, ctypes.byref(text))
        return _library.take_json(text)

    def close(self) -> None:
        """Ends the connection, after the current call of another thread."""
        self._handle.close()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cluster at {self.address}>"


class LocalCluster(Cluster):
    """Servers on this machine, on ports that the system chooses, which end with this object."""

    def __init__(self, servers: int = 1, shards: int = 1, wait_s: float = 30.0) -> None:
        if servers < 1:
            raise InvalidError(f"servers is {servers}; it must be at least 1")
        self._folder = tempfile.TemporaryDirectory(prefix="tautline-")
        self.folder = pathlib.Path(self._folder.name)
        self._servers: list[subprocess.Popen[str]] = []
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

    def _start(self, name: str, coordinator: str, shards: int, wait_s: float,
               more: str = "") -> str:
        config = self.folder / f"{name}.textproto"
        log = self.folder / f"{name}.log"
        ready = self.folder / f"{name}.ready"
        config.write_text(f'coordinator_address: "{coordinator}"\nheartbeat_interval_s: 0.2\n'
                          f'server {{ name: "{name}" shards: {shards} {more} }}\n'
                          f'log {{ file: {json.dumps(str(log))} }}\n')
        # They end with this process even if it is killed; with the thread that starts them, in
        # fact, so that only the main thread may ask for it.
        ends_too = ["--end-with-parent"] * (threading.current_thread() is threading.main_thread())
        server = subprocess.Popen(
            [program("tautline-server"), "--config", str(config), "--ready-file", str(ready),
             *ends_too],
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
                said = server.stderr.read().strip() if server.stderr is not None else ""
                raise UnavailableError(f"{name} ended at its start: {said}")
            if time.monotonic() > deadline:
                raise DeadlineError(f"{name} was not ready in {wait_s:g} s; its log: {log}")
            time.sleep(0.02)
        for line in ready.read_text().splitlines():
            kind, address = line.split(" ", 1)
            if kind == "coordinator":
                return address
        return coordinator

    def _end_servers(self) -> None:
        for server in self._servers:
            if server.poll() is None:
                server.terminate()
        for server in self._servers:
            try:
                server.wait(5)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
            if server.stderr is not None:
                server.stderr.close()
        self._servers = []
        self._folder.cleanup()

    def close(self) -> None:
        """Ends the connection and the servers."""
        super().close()
        self._end_servers()

    def __del__(self) -> None:
        if getattr(self, "_servers", None):
            self.close()


def connect(address: str, keys: Optional[str] = None, wait_s: float = 10.0) -> Cluster:
    """Connects to a coordinator.

    address  "host:port", or several, separated by commas
    keys     the folder of the key to prove yourself with; None: TAUTLINE_KEYS or your own; "": none
    """
    return Cluster(address, keys, wait_s)


def local(servers: int = 1, shards: int = 1) -> LocalCluster:
    """Starts servers on this machine and connects to them; they end with the block."""
    return LocalCluster(servers, shards)
