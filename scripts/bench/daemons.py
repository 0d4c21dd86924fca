"""A cluster of daemons on this machine, for measurements in which processes come and go."""

import json
import pathlib
import re
import subprocess
import time

from bench import ROOT, give_up, program, run

LIMIT_S = 2  # heartbeat_limit_s
PATIENCE_S = 300
DATA = "/usr/share/datasets/fashion-mnist"


class Cluster:
    """A coordinator without shards, servers and workers.
    replication  its interval, or its fields as text; 0: no shard has a backup
    state     the coordinator keeps its jobs in a folder, so that it can be restarted
    more      settings of every server and worker
    metrics   "true": workers record every clock
    shards    of each of these servers
    preempts  jobs of higher priority get the workers of others
    cpus      processors that its processes are bound to, as taskset names them; None: all
    """

    def __init__(self, options, folder, servers, replication, workers=2, state=False, more="",
                 metrics="false", shards=1, preempts=False, cpus=None):
        self.options, self.folder, self.processes = options, pathlib.Path(folder), {}
        self.bound = ["taskset", "-c", cpus] if cpus else []
        self.address, self.more, self.metrics = "127.0.0.1:0", more, metrics
        if isinstance(replication, int):
            replication = f"interval: {replication}"
        state_folder = self.folder / "state" if state else ""
        self.coordinator_settings = (
            f'shards: 0 coordinator {{ heartbeat_limit_s: {LIMIT_S} state_folder: "{state_folder}" '
            f'run_folder: "" replication {{ {replication} }} '
            f'scheduling {{ preemption: {str(preempts).lower()} }} }}')
        self.start("server", "coordinator", self.coordinator_settings)
        ready = (self.folder / "coordinator.ready").read_text(encoding="utf-8")
        self.address = re.search(r"coordinator (\S+)", ready)[1]
        for i in range(servers):
            self.start("server", f"server{i}", f"shards: {shards}")
        for i in range(workers):
            self.start("worker", f"worker{i}")

    def start(self, role, name, settings="", wait=True):
        config = self.folder / f"{name}.textproto"
        config.write_text(f'coordinator_address: "{self.address}"\n'
                          f'{role} {{ name: "{name}" {settings} }}\nheartbeat_interval_s: 0.1\n'
                          f'log {{ file: "{self.folder}/{name}.log" }}\n'
                          f'records {{ folder: "{self.folder}/records" metrics: {self.metrics} }}\n'
                          f"{'' if name == 'coordinator' else self.more}\n", encoding="utf-8")
        ready = self.folder / f"{name}.ready"
        ready.unlink(missing_ok=True)
        self.processes[name] = subprocess.Popen(
            [*self.bound, program(self.options, f"tautline-{role}"), "--config", config,
             "--ready-file", ready],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if wait:
            wait_for(ready.exists, f"{name} to be ready")

    def restart_coordinator(self):
        self.kill("coordinator")
        self.start("server", "coordinator", self.coordinator_settings)

    def kill(self, name):
        self.processes[name].kill()
        self.processes[name].wait()

    def tautline(self, *arguments):
        return run([program(self.options, "tautline"), *map(str, arguments), "--coordinator",
                    self.address])

    def job(self):
        return json.loads(self.tautline("status", "--json"))["jobs"][0]

    def clocks(self):
        """How many clocks each worker has ended, by its name."""
        return {worker["name"]: int(worker["progress"].get("clock", 0))
                for worker in self.job()["workers"]}

    def clock(self):
        return min(self.clocks().values())

    def is_protected(self):
        shards = self.job().get("shards", [])
        return shards and all(shard.get("is_protected") for shard in shards)

    def end(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()


def wait_for(condition, what):
    """Seconds until it is so."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > PATIENCE_S:
            give_up(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.02)
    return time.monotonic() - began


def lenet_job(folder, consistency, clocks, workers=2, min_workers=0, base_lr=0.01, data=DATA):
    """LeNet on Fashion-MNIST. min_workers  0: the job does not name it"""
    elastic = f"min_workers: {min_workers}\n" if min_workers > 0 else ""
    path = pathlib.Path(folder) / "job.textproto"
    path.write_text(f"""
name: "lenet"
net: "{ROOT}/configs/models/lenet.prototxt"
solver_param {{ base_lr: {base_lr:g} lr_policy: "fixed" momentum: 0.9 max_iter: {clocks}
               snapshot_after_train: false }}
data {{ folder: "{data}" }}
consistency {{ {consistency} }}
workers: {workers}
{elastic}""", encoding="utf-8")
    return path


def wide_job(folder, mebibytes, more="", frozen="", mode="mode: SSP slack: 1", clocks=1000000,
             data=DATA):
    """Two hidden layers, so that the weights between them are of about this size.
    frozen  of the layer between them, e.g. "param { lr_mult: 0 }"
    """
    width = int((mebibytes * 2**20 / 4) ** 0.5)
    path = pathlib.Path(folder) / "job.textproto"
    path.write_text(f"""
name: "loss"
net_param {{
  name: "wide"
  layer {{ name: "data" type: "Data" top: "data" top: "label"
          transform_param {{ scale: 0.00390625 }} data_param {{ batch_size: 8 backend: IDX }} }}
  layer {{ name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
          inner_product_param {{ num_output: {width} weight_filler {{ type: "xavier" }} }} }}
  layer {{ name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }}
  layer {{ name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2" {frozen}
          inner_product_param {{ num_output: {width} weight_filler {{ type: "xavier" }} }} }}
  layer {{ name: "relu2" type: "ReLU" bottom: "ip2" top: "ip2" }}
  layer {{ name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
          inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }} }}
  layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" }}
}}
solver_param {{ base_lr: 0.001 lr_policy: "fixed" max_iter: {clocks}
                snapshot_after_train: false }}
data {{ folder: "{data}" }}
consistency {{ {mode} }}
workers: 2
{more}
""", encoding="utf-8")
    return path


__all__ = ["DATA", "LIMIT_S", "Cluster", "lenet_job", "wait_for", "wide_job"]
