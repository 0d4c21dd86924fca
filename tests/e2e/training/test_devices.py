"""Several devices in one worker: with replicas on the CPU."""

import json
import unittest

from cluster import *


class Devices(ClusterTest):
    def train(self, run, *options):
        run = self.folder / run
        trained = self.tautline("train", self.job(workers=2), "--output", run, "--device", "cpu",
                                *options)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        return json.loads((run / "summary.json").read_text()), (run / "worker0.log").read_text()

    def test_two_devices_of_a_worker_share_its_batch_and_learn_as_one(self):
        alone, log = self.train("alone", "--mode", "bsp")
        self.assertNotIn("share the batch", log)
        shared, log = self.train("shared", "--mode", "bsp", "--device-index", "0,1")
        self.assertIn("2 devices share the batch", log)
        self.assertAlmostEqual(shared["evaluations"][-1]["accuracy"],
                               alone["evaluations"][-1]["accuracy"], delta=0.05)
        again, _ = self.train("again", "--mode", "bsp", "--device-index", "0,1")
        self.assertEqual(shared["parameters_sha256"], again["parameters_sha256"])
        stale, log = self.train("stale", "--slack", "2", "--device-index", "0,1:0")
        self.assertIn("2 devices share the batch", log)
        self.assertNotIn("share the batch", (self.folder / "stale" / "worker1.log").read_text())
        self.assertAlmostEqual(stale["evaluations"][-1]["accuracy"],
                               alone["evaluations"][-1]["accuracy"], delta=0.15)

    def test_devices_of_more_workers_than_there_are_are_refused(self):
        refused = self.tautline("train", self.job(workers=2), "--output", self.folder / "run",
                                "--device-index", "0:1:2")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("devices of 3 workers, the job has 2", refused.stdout + refused.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_devices_that_cannot_divide_the_batch_are_refused_with_the_numbers(self):
        refused = self.tautline("train", self.job(), "--output", self.folder / "run", "--device",
                                "cpu", "--device-index", "0,1,2")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("a batch of 8 cannot be split over 3", refused.stdout + refused.stderr)

    def test_a_budget_over_several_devices_is_refused_with_the_way_out(self):
        refused = self.tautline("train", self.job(), "--output", self.folder / "run",
                                "--device-index", "0,1", "--device-memory-budget", "64MiB")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("start a worker for each", refused.stdout + refused.stderr)

    def test_a_device_that_is_no_number_is_a_usage_mistake(self):
        for given in ("a", "0,,1", "-1", ":0"):
            refused = self.tautline("train", self.job(), f"--device-index={given}")
            self.assertNotEqual(refused.returncode, 0, given)
            self.assertIn("--device-index", refused.stderr)


if __name__ == "__main__":
    unittest.main()
