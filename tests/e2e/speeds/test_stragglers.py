"""Workers that an experiment slows down, and a network that it makes worse."""

import csv
import json
import statistics

from cluster import *


class Stragglers(ClusterTest):
    def train(self, *arguments, extra=""):
        job = self.job(workers=2, iterations=20, extra=extra)
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force",
                               *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "run/summary.json").read_text())

    def compute_of(self, worker):
        with open(self.folder / f"run/job1-{worker}/metrics.csv") as lines:
            return [float(line["compute_s"]) for line in csv.DictReader(lines)
                    if line["compute_s"]]

    def test_padded_clocks_last_as_long_as_configured(self):
        self.train("--clock-time", 30, "--slack", 4)
        for worker in ("worker0", "worker1"):
            # How long backward will take is known from the clock before: one that a busy machine
            # held up is followed by one that is as much shorter.
            took = self.compute_of(worker)
            self.assertGreater(statistics.mean(took), 0.028, took)
            self.assertGreater(statistics.median(took), 0.028, took)

    def test_a_straggler_is_slow_in_its_bursts_and_the_other_waits_for_it(self):
        summary = self.train("--clock-time", 20, "--slack", 0, "--straggler",
                             "worker: 1 slowdown: 4 burst { period: 10 length: 5 }")
        slow = self.compute_of("worker1")
        self.assertTrue(all(took > 0.05 for took in slow[0:5] + slow[10:15]), slow)
        self.assertLess(sorted(slow[5:10] + slow[15:20])[2], 0.075)
        waited = {worker["name"]: worker["wait_s"] for worker in summary["workers"]}
        self.assertGreater(waited["worker0"], 0.3)

    def test_a_job_survives_a_network_that_delays_and_loses(self):
        summary = self.train(extra="network { delay_ms: 5 jitter_ms: 5 loss: 0.01 }")
        self.assertEqual(summary["state"], "done")

    def test_bsp_ends_in_the_same_bits_over_a_worse_network(self):
        plain = self.train("--mode", "bsp")
        worse = self.train("--mode", "bsp", extra="straggler { worker: 0 delay_ms: 3 rate: 0.5 } "
                           "network { delay_ms: 2 jitter_ms: 2 }")
        self.assertEqual(plain["parameters_sha256"], worse["parameters_sha256"])

    def test_a_bad_straggler_ends_with_one_line(self):
        # The job itself can be trained: what was typed is the mistake.
        for arguments, words, status in (
                (("--straggler", "worker: 2 slowdown: 2"), ("names worker 2", "has 2"), 2),
                (("--straggler", "slowdwn: 2"), ("--straggler: TEXT:1:1", "slowdown"), 2),
                (("--straggler", "slowdown: 0.5"), ("slowdown is 0.5", "between 1"), 2),
                (("--clock-time", -1), ("--clock-time: must be a number, at least 0",), 2)):
            answer = self.tautline("train", self.job(workers=2), *arguments)
            self.assert_fails(answer, *words, status=status)
        config = self.file("worker.textproto", "worker { straggler { rotate: 2 } }")
        self.assert_fails(self.run_program("tautline-worker", "--config", config),
                          "worker.textproto: worker.straggler[0]", "rotate")
