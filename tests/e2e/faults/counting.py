"""Jobs whose parameters count the updates that were applied."""

import array
import csv
import re

from cluster import *
from tensors import *

# Every update subtracts the same power of two from each parameter: the sum does not depend on the
# order, and one update more or less changes it.
NET_THAT_COUNTS = """
net_param {
  name: "counting"
  layer { name: "data" type: "Data" top: "data" top: "label"
          data_param { batch_size: 2 backend: IDX } }
  layer { name: "ignored" type: "Silence" bottom: "data" bottom: "label" }
%s
}
solver_param { base_lr: 0.0009765625 lr_policy: "fixed" max_iter: %d }
"""
TABLE = """
  layer { name: "%s" type: "Parameter" top: "%s" parameter_param { shape { dim: %d } } }
  layer { name: "%s" type: "Reduction" bottom: "%s" top: "%s" loss_weight: 1 }
"""
STEP = 2.0 ** -10


def net_that_counts(parameters, clocks, tables):
    names = [("w" + end, "loss" + end)
             for end in ("" if tables == 1 else str(i) for i in range(tables))]
    return NET_THAT_COUNTS % ("".join(TABLE % (w, w, parameters, loss, w, loss)
                                      for w, loss in names), clocks)


class CountingTest(ServersTest):
    def submit_counting(self, mode, clocks, parameters, clock_ms, more="", tables=1):
        """Two workers; returns the job's number.
        parameters  of each of the tables
        """
        job = self.job(iterations=clocks, workers=2, extra=(
            f"consistency {{ mode: {mode} }} clock_time_ms: {clock_ms} {more}"))
        text = job.read_text()
        begin, end = text.index("net_param {"), text.index("consistency {")
        job.write_text(text[:begin] + net_that_counts(parameters, clocks, tables) + text[end:])
        answer = self.ask("submit", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(re.search(r"job (\d+)", answer.stdout)[1])

    def clock(self, job):
        return max((int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"]),
                   default=0)

    def is_protected(self, job):
        shards = self.running(job).get("shards", [])
        return shards and all(shard.get("is_protected") for shard in shards)

    def wait_for_protected_clocks(self, job):
        wait_until(lambda: self.clock(job) > 10 and self.is_protected(job), 60,
                   what="clocks, and a whole backup of each shard")

    def applied(self, folder, clocks, parameters):
        """How many updates the parameters of the last checkpoint have, of which none is missing."""
        files = (folder / f"tiny_iter_{clocks}").glob("shard*.safetensors")
        tensors = [array.array("f", data) for file in files
                   for data in read_safetensors(file)[0].values()]
        self.assertEqual(sum(map(len, tensors)), parameters, "numbers in the checkpoint")
        values = set().union(*tensors)
        self.assertEqual(len(values), 1, values)
        return -values.pop() / STEP

    def read_of_others(self, job, worker, parameters):
        """How many of the other worker's updates each of a worker's reads had, at least: the loss
        counts both workers' updates, and of its own it has pushed one a clock."""
        with (self.folder / f"records/job{job}-{worker}/metrics.csv").open() as file:
            return [-float(row["loss"]) / (STEP * parameters) - int(row["clock"])
                    for row in csv.DictReader(file)]


__all__ = ["STEP", "CountingTest"]
