"""What a job may do about staleness beside its bound, with real processes."""

import csv
import json

from cluster import *


class Policies(ClusterTest):
    def train(self, consistency, *arguments, workers=3, iterations=40, extra=""):
        job = self.job(workers=workers, iterations=iterations,
                       extra=f"consistency {{ {consistency} }}\n{extra}")
        answer = self.tautline("train", job, "--output", self.folder / "run", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(summary["state"], "done")
        return summary

    def clocks_of(self, worker):
        with open(self.folder / f"run/job1-{worker}/metrics.csv") as lines:
            return [int(line["clock"]) for line in csv.DictReader(lines)
                    if line["compute_s"]]

    def assert_learned(self, summary):
        tests = summary["evaluations"]
        self.assertGreater(tests[-1]["accuracy"], max(0.5, tests[0]["accuracy"]), tests)

    def test_with_a_backup_worker_a_straggler_is_left_behind_and_catches_up(self):
        summary = self.train("mode: BSP backup_workers: 1", "--clock-time", 10,
                             extra="straggler { worker: 2 slowdown: 6 }")
        self.assert_learned(summary)
        whole = list(range(40))
        self.assertEqual(self.clocks_of("worker0"), whole)
        self.assertEqual(self.clocks_of("worker1"), whole)
        slow = self.clocks_of("worker2")
        self.assertLess(len(slow), 25)
        self.assertEqual(slow, sorted(set(slow)))
        # The others waited for each other alone.
        waited = {worker["name"]: worker["wait_s"] for worker in summary["workers"]}
        self.assertLess(waited["worker0"], 1.0)

    def test_updates_that_count_by_their_staleness_still_learn(self):
        self.assert_learned(self.train("mode: ASYNC staleness_learning_rate: true",
                                       "--clock-time", 5, "--straggler",
                                       "worker: 1 slowdown: 4"))

    def test_compensated_gradients_still_learn(self):
        for decay in (0, 0.95):
            self.assert_learned(self.train(
                f"mode: SSP slack: 4 delay_compensation {{ strength: 0.04 decay: {decay} }}",
                "--clock-time", 5, "--straggler", "worker: 1 slowdown: 4"))

    def test_the_example_jobs_are_valid(self):
        examples = sorted((SOURCE / "configs/jobs/policies").glob("*.textproto"))
        self.assertGreaterEqual(len(examples), 3)
        answer = self.tautline("validate", *examples)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_a_policy_that_does_not_fit_ends_with_one_line(self):
        for consistency, words in (
                ("mode: SSP backup_workers: 1", ("backup_workers needs mode: BSP", "SSP")),
                ("mode: BSP backup_workers: 3", ("backup_workers 3 of 3 workers", "at most 2")),
                ("mode: BSP staleness_learning_rate: true",
                 ("staleness_learning_rate needs mode: SSP or ASYNC",)),
                ("mode: ASYNC delay_compensation { strength: 0 }",
                 ("delay_compensation.strength is 0", "above 0"))):
            job = self.job(workers=3, extra=f"consistency {{ {consistency} }}")
            self.assert_fails(self.tautline("train", job), *words)
