"""Shares of the batch that follow the workers' speeds."""

import csv
import json

from cluster import *

# Wide enough that the time of a batch is its records'.
NET = """
net_param {
  name: "wide"
  layer { name: "data" type: "Data" top: "data" top: "label"
          transform_param { scale: 0.00390625 } data_param { batch_size: 64 backend: IDX } }
  layer { name: "ip1" type: "InnerProduct" bottom: "data" top: "ip1"
          inner_product_param { num_output: 512 weight_filler { type: "xavier" } } }
  layer { name: "relu1" type: "ReLU" bottom: "ip1" top: "ip1" }
  layer { name: "ip2" type: "InnerProduct" bottom: "ip1" top: "ip2"
          inner_product_param { num_output: 512 weight_filler { type: "xavier" } } }
  layer { name: "relu2" type: "ReLU" bottom: "ip2" top: "ip2" }
  layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
          inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
  layer { name: "accuracy" type: "Accuracy" bottom: "ip3" bottom: "label" top: "accuracy"
          include { phase: TEST } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip3" bottom: "label" top: "loss" }
}
"""
SOLVER = """
solver_param { base_lr: 0.05 momentum: 0.9 max_iter: %d test_iter: 1 test_interval: %d }
"""
SLOW = "straggler { worker: 1 slowdown: 3 }\n"


class Balance(ClusterTest):
    def wide_job(self, iterations, extra=""):
        data = self.folder / "data"
        if not data.exists():
            write_data(data, train=640, test=64)
        return self.file("job.textproto", 'name: "wide"\nworkers: 2\nbalance: true\n'
                         f'data {{ folder: "{data}" }}\n' + NET
                         + SOLVER % (iterations, iterations) + extra)

    def train(self, iterations, *arguments, extra=""):
        job = self.wide_job(iterations, extra)
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force",
                               "--threads", 1, *arguments, timeout=240)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "run/summary.json").read_text())

    def images_of(self, worker):
        with open(self.folder / f"run/job1-{worker}/metrics.csv") as lines:
            return [int(line["images"]) for line in csv.DictReader(lines) if line["compute_s"]]

    def test_a_slow_worker_gets_fewer_records_and_each_batch_is_whole(self):
        for mode in (("--mode", "bsp"), ("--slack", 2)):
            summary = self.train(1200, *mode, extra=SLOW)
            self.assertEqual(summary["state"], "done")
            fast, slow = sorted(summary["workers"], key=lambda worker: worker["name"])
            self.assertEqual(fast["share"] + slow["share"], 128)
            self.assertGreater(fast["share"], 1.6 * slow["share"])
            shares = list(zip(self.images_of("worker0"), self.images_of("worker1")))
            self.assertEqual(shares[0], (64, 64))
            self.assertEqual({a + b for a, b in shares}, {128})
            self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.9)

    def test_equal_workers_end_in_the_bits_of_one_process(self):
        # Shorter than it takes to measure a speed.
        served = self.train(20, "--mode", "bsp")
        local = self.run_program("tautline-worker", "--local", self.wide_job(
            20, "consistency { mode: BSP }"), "--replicas", 2, "--threads", 1)
        self.assertEqual(local.returncode, 0, local.stderr)
        self.assertIn(served["parameters_sha256"], local.stdout)

    def test_what_does_not_go_with_it_is_refused_with_its_place(self):
        job = self.wide_job(20, "consistency { mode: BSP backup_workers: 1 }")
        self.assert_fails(self.tautline("validate", job), "job.textproto:3:1: balance",
                          "backup_workers")
        budget = self.tautline("train", self.wide_job(20), "--output", self.folder / "budget",
                               "--device-memory-budget", 100000000)
        self.assert_fails(budget, "balance: memory is planned for one size of batches")
