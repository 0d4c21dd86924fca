"""A budget of device memory, kept by real processes."""

import json
import random
import re
import unittest

from cluster import *

# The net of cluster.py takes about 20 KiB when it trains alone; its largest step, the update of
# ip1's weights, needs 12 KiB at once.
BUDGET = "14KiB"
TOO_SMALL = "8KiB"


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
    def lenet(self, workers=1, extra=""):
        data = self.folder / "images"
        if not data.exists():
            data.mkdir()
            draw = random.Random(3)
            for stem, count in (("train", 256), ("t10k", 128)):
                write_idx(data / f"{stem}-images-idx3-ubyte.gz", (count, 28, 28),
                          draw.randbytes(count * 28 * 28))
                write_idx(data / f"{stem}-labels-idx1-ubyte.gz", (count,),
                          bytes(draw.randrange(10) for _ in range(count)))
        net = (SOURCE / "configs" / "models" / "lenet.prototxt").read_text()
        net = self.file("lenet.prototxt", net.replace("batch_size: 100", "batch_size: 64"))
        return self.file("lenet.textproto", LENET % (workers, data, net) + extra)

    def quarter_of_need(self, job):
        """A quarter of what a training takes where everything has a place of its own."""
        planned = self.tautline("plan", job, "--budget", "1GiB")
        self.assertEqual(planned.returncode, 0, planned.stderr)
        return int(float(re.search(r"needs ([0-9.]+) MiB", planned.stdout)[1]) / 4 * 1024 * 1024)

    def test_lenet_in_a_quarter_of_its_need_ends_in_the_same_bits(self):
        job = self.lenet()
        budget = self.quarter_of_need(job)
        free = self.run_program("tautline-worker", "--local", job)
        self.assertEqual(free.returncode, 0, free.stderr)
        kept = self.run_program("tautline-worker", "--local", job, "--device-memory-budget", budget)
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(digest_of(kept.stdout), digest_of(free.stdout))
        self.assertEqual(re.search(r"test loss.*", kept.stdout)[0],
                         re.search(r"test loss.*", free.stdout)[0])

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
            self.assertIn("each iteration moves", (run / "worker0.log").read_text())
            if same:
                self.assertEqual(digests[0], digests[1])

    def test_a_budget_changes_no_bit_of_a_training_without_a_server(self):
        job = self.job(iterations=30)
        free = self.run_program("tautline-worker", "--local", job)
        self.assertEqual(free.returncode, 0, free.stderr)
        kept = self.run_program("tautline-worker", "--local", job, "--device-memory-budget", BUDGET)
        self.assertEqual(kept.returncode, 0, kept.stderr)
        self.assertEqual(digest_of(kept.stdout), digest_of(free.stdout))
        self.assertRegex(kept.stdout, r"device memory: .* of a budget of .* each iteration moves ")
        self.assertNotIn("device memory", free.stdout)

    def test_a_budget_changes_no_bit_of_a_served_training(self):
        job = self.job(workers=2, extra="consistency { mode: BSP }\n")
        digests = set()
        for name, options in (("free", []), ("kept", ["--device-memory-budget", BUDGET])):
            run = self.folder / name
            trained = self.tautline("train", job, "--output", run, *options)
            self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
            digests.add(json.loads((run / "summary.json").read_text())["parameters_sha256"])
            log = (run / "worker0.log").read_text()
            self.assertEqual("device memory:" in log, name == "kept", log)
        self.assertEqual(len(digests), 1)

    def test_a_budget_that_cannot_work_is_refused_in_one_line(self):
        refused = self.run_program("tautline-worker", "--local", self.job(),
                                   "--device-memory-budget", TOO_SMALL)
        self.assertEqual(refused.returncode, 1)
        said = [line for line in refused.stderr.splitlines() if "device_memory_budget" in line]
        self.assertEqual(len(said), 1, refused.stderr)
        self.assertRegex(said[0], r"needs \d+ bytes at once, device_memory_budget is 8192 bytes; its "
                                  r"largest tensor is \w+ '.*ip1.*' with 4096 bytes")

    def test_a_budget_that_cannot_work_ends_a_served_training_with_the_reason(self):
        trained = self.tautline("train", self.job(), "--output", self.folder / "run",
                                "--device-memory-budget", "4KiB")
        self.assertEqual(trained.returncode, 1, trained.stdout)
        self.assertIn("device_memory_budget is 4096 bytes", trained.stdout + trained.stderr)

    def test_a_budget_s_plan_is_shown_without_training(self):
        planned = self.tautline("plan", self.job(), "--budget", BUDGET)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertRegex(planned.stdout, r"update into parameter ip1")
        self.assertRegex(planned.stdout, r"gradient +\d+\.\d+ MiB, of which")
        self.assertIn("each iteration moves", planned.stdout)
        self.assertNotIn("images/s", planned.stdout)
        refused = self.tautline("plan", self.job(), "--budget", TOO_SMALL)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("device_memory_budget is 8192 bytes", refused.stderr)
        self.assertEqual(self.tautline("plan", self.job()).returncode, 2)
        self.assertEqual(self.tautline("plan", self.job(), "--budget", "lots").returncode, 2)


if __name__ == "__main__":
    unittest.main()
