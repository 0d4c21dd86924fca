"""A Slurm cluster of four nodes on this machine, for tests: a controller and four node daemons, all
of the user who runs the test."""

import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess

from cluster import free_ports, wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue")


def program(name):
    """Where a program is; daemons are not on every user's path."""
    return shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def missing():
    """What is not installed of it, or the reason why it cannot run; empty: nothing."""
    absent = [name for name in PROGRAMS if program(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed"
    # Node daemons start jobs as their users.
    return "" if os.geteuid() == 0 else "only root can run Slurm's node daemons"


CONFIG = """\
ClusterName=tautline
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TopologyPlugin=topology/tree
SelectType=select/linear
MpiDefault=none
ReturnToService=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=10
SlurmdTimeout=10
SchedulerParameters=batch_sched_delay=1,sched_interval=2
PartitionName=low Nodes=n[1-4] Default=YES PriorityTier=1 GraceTime=30
PartitionName=high Nodes=n[1-4] PriorityTier=10
"""

# Two switches of two nodes each.
TOPOLOGY = """\
SwitchName=left Nodes=n[1-2]
SwitchName=right Nodes=n[3-4]
SwitchName=core Switches=left,right
"""


class Slurm:
    """Started on construction. end() ends every daemon and job."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        (self.folder / "state").mkdir(parents=True)
        ports = free_ports(5)
        host = socket.gethostname().split(".")[0]
        text = CONFIG.format(host=host, user=getpass.getuser(), folder=self.folder, port=ports[0])
        for number, port in enumerate(ports[1:], 1):
            text += (f"NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
                     "CPUs=1 RealMemory=256 State=UNKNOWN\n")
        config = self.folder / "slurm.conf"
        config.write_text(text)
        (self.folder / "topology.conf").write_text(TOPOLOGY)
        self.environment = {**os.environ, "SLURM_CONF": str(config)}
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        self.run("munged", "--force", f"--key-file={key}",
                 *(f"--{what}={self.folder}/munge.{end}" for what, end in (
                     ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"),
                     ("seed-file", "seed"))))
        self.run("slurmctld", "-c")
        for number in range(1, 5):
            self.start_node(f"n{number}")
        wait_until(lambda: self.run("sinfo", "-h", "-o", "%T %D", "-p", "low").strip() == "idle 4",
                   60, "four idle nodes")

    def run(self, name, *arguments, **options):
        """A program of Slurm's; returns what it prints."""
        answer = subprocess.run([program(name), *map(str, arguments)], env=self.environment,
                                capture_output=True, text=True, timeout=60, **options)
        if answer.returncode != 0:
            raise AssertionError(f"{name} {arguments}: {answer.stderr}")
        return answer.stdout

    def start_node(self, name):
        self.run("slurmd", "-N", name)

    def pid_of(self, daemon):
        try:
            return int((self.folder / f"{daemon}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def kill_node(self, name, marks):
        """A node dies: its daemon and every process of its jobs, which contain one of `marks` in
        their command lines, with their parents."""
        os.kill(self.pid_of(f"slurmd-{name}"), signal.SIGKILL)
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                line = (entry / "cmdline").read_text()
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
            if any(mark in line for mark in marks):
                try:
                    os.kill(parent, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def submit(self, *arguments, cwd):
        return self.run("sbatch", "--parsable", *arguments, cwd=cwd).strip()

    def state(self, job):
        """"RUNNING", "PENDING", "COMPLETED" and so on."""
        words = self.run("scontrol", "show", "job", job).split()
        return next(word.split("=")[1] for word in words if word.startswith("JobState="))

    def hurry(self, job):
        """Slurm starts what was requeued after two minutes; this one after some seconds, which it
        needs to forget the job's first credential."""
        if self.state(job) == "PENDING":
            self.run("scontrol", "update", f"JobId={job}", "StartTime=now+5")

    def end(self):
        subprocess.run([program("scancel"), "--user", getpass.getuser()], env=self.environment,
                       capture_output=True, timeout=60)
        try:
            wait_until(lambda: not self.run("squeue", "-h"), 30, "the end of every job")
        except AssertionError:
            pass  # the daemons end all the same
        for daemon in ["slurmctld", *(f"slurmd-n{number}" for number in range(1, 5)), "munge"]:
            pid = self.pid_of(daemon)
            if pid:
                try:
                    os.kill(pid, signal.SIGTERM)
                    wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), 10, daemon)
                except (ProcessLookupError, AssertionError):
                    pass
