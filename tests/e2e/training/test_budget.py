"""A budget of device memory, kept by real processes."""

import json
import re
import unittest

from cluster import *

TOO_SMALL = "2MiB"

# Caffe's LeNet, on made-up images of its size; the test's batch is as large as the training's.
LENET = """
name: "lenet"
workers: %d
data { folder: "%s" }
net: "%s"
solver_param { base_lr: 0.01 momentum: 0.9 max_iter: 6 test_iter: 2 test_interval: 3 }
"""


def digest_of(text):
    return re.search(r"parameters sha256: ([0-9a-f]{64})", text)[1]


class Budget(ClusterTest):
    def lenet(self, workers=1, test_batch=64, extra=""):
        data = write_random_images(self.folder / "images")
        net = (SOURCE / "configs" / "models" / "lenet.prototxt").read_text()
        net = self.file("lenet.prototxt", net.replace("batch_size: 100",
                                                        f"batch_size: {test_batch}"))
        return self.file("lenet.textproto", LENET % (workers, data, net) + extra)

    def quarter_of_need(self, job):
        """A quarter of a training's memory if no memory is shared."""
        planned = self.tautline("plan", job, "--budget", "1GiB")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        return int(float(re.search(r"needs ([0-9.]+) MiB", planned.stdout)[1]) / 4 * 1024 * 1024)

    def test_lenet_in_a_quarter_of_its_need_ends_in_the_same_bits(self):
        job = self.lenet()
        free = self.run_program("tautline-worker", "--local", job)
        self.assertEqual(free.returncode, 0, free.stderr)
        kept = self.run_program("tautline-worker", "--local", job, "--device-memory-budget",
                                self.quarter_of_need(job))
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(digest_of(kept.stdout), digest_of(free.stdout))
        self.assertEqual(re.search(r"test loss.*", kept.stdout)[0],
                         re.search(r"test loss.*", free.stdout)[0])
        self.assertRegex(kept.stdout, r"device memory: .* of a budget of .* each iteration moves ")
        self.assertNotIn("device memory", free.stdout)

    def test_served_lenet_trains_in_a_quarter_of_its_need_under_bsp_and_ssp(self):
        budget = self.quarter_of_need(self.lenet())
        for mode, same in (("BSP", True), ("SSP slack: 1", False)):
            job = self.lenet(workers=2, extra=f"consistency {{ mode: {mode} }}\n")
            digests = []
            for name, options in (("free", []), ("kept", ["--device-memory-budget", budget])):
                run = self.folder / (name + mode[:3])
                trained = self.tautline("train", job, "--output", run, *options)
                self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
                digests.append(json.loads((run / "summary.json").read_text())["parameters_sha256"])
                self.assertEqual("device memory:" in (run / "worker0.log").read_text(),
                                 name == "kept")
            if same:
                self.assertEqual(digests[0], digests[1])

    def test_a_budget_that_cannot_work_is_refused_in_one_line(self):
        refused = self.run_program("tautline-worker", "--local", self.lenet(),
                                   "--device-memory-budget", TOO_SMALL)
        self.assertEqual(refused.returncode, 1)
        said = [line for line in refused.stderr.splitlines() if "device_memory_budget" in line]
        self.assertEqual(len(said), 1, refused.stderr)
        self.assertRegex(said[0], r"needs \d+ bytes at once, device_memory_budget is 2097152 "
                                  r"bytes; its largest tensor is activation 'conv1' with 2949120 "
                                  r"bytes")

    def test_a_test_phase_that_does_not_fit_is_refused_before_the_training(self):
        budget = self.quarter_of_need(self.lenet())
        refused = self.run_program("tautline-worker", "--local", self.lenet(test_batch=100),
                                   "--device-memory-budget", budget)
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr, r"'pooling forward into pool1' needs \d+ bytes at once")
        self.assertNotIn("iteration", refused.stderr + refused.stdout)

    def test_a_budget_that_cannot_work_ends_a_served_training_with_the_reason(self):
        trained = self.tautline("train", self.lenet(), "--output", self.folder / "run",
                                "--device-memory-budget", TOO_SMALL)
        self.assertEqual(trained.returncode, 1, trained.stdout)
        self.assertIn("device_memory_budget is 2097152 bytes", trained.stdout + trained.stderr)

    def test_a_budget_s_plan_is_shown_without_training(self):
        job = self.lenet()
        planned = self.tautline("plan", job, "--budget", self.quarter_of_need(job))
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertRegex(planned.stdout, r"update into parameter ip1")
        for kind in ("parameter", "gradient", "activation", "workspace"):
            self.assertRegex(planned.stdout, kind + r" +\d+\.\d+ MiB, of which")
        self.assertIn("each iteration moves", planned.stdout)
        self.assertNotIn("images/s", planned.stdout)
        refused = self.tautline("plan", job, "--budget", TOO_SMALL)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("device_memory_budget is 2097152 bytes", refused.stderr)
        self.assertEqual(self.tautline("plan", job).returncode, 2)
        self.assertEqual(self.tautline("plan", job, "--budget", "lots").returncode, 2)


if __name__ == "__main__":
    unittest.main()
