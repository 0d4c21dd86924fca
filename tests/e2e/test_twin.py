"""Whole processes on the device twin: they name it wherever they name a device, and end when it
fails."""

import json
import os
import unittest

from cluster import *

BUILD = BIN.parent
MODULE = BUILD / "twin" / "libtautline_cuda_twin.so"


@unittest.skipUnless(MODULE.exists(), "no device twin is built")
class Twin(ClusterTest):
    def setUp(self):
        super().setUp()
        # As scripts/twin sets them.
        added = {"TAUTLINE_CUDA_MODULE": str(MODULE),
                 "LD_LIBRARY_PATH": str(BUILD / "twin")}
        for name, value in added.items():
            self.set_variable(name, value)

    def set_variable(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name, None) if before is None
                        else os.environ.__setitem__(name, before))

    def test_the_device_twin_is_named_in_log_status_and_summary(self):
        run = self.folder / "run"
        trained = self.tautline("train", self.job(iterations=3), "--output", run, "--device",
                                "cuda", timeout=120)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        self.assertIn("device twin", (run / "worker0.log").read_text())
        summary = json.loads((run / "summary.json").read_text())
        self.assertIn("device twin", summary["workers"][0]["device"])
        self.start_server()
        self.start_worker(settings="device: CUDA")
        wait_until(lambda: "device twin" in json.dumps(self.status()),
                   what="the twin in the status")

    def test_a_worker_whose_device_has_failed_for_good_ends(self):
        self.set_variable("TAUTLINE_TWIN_FAIL", "cudaLaunchKernel 100 lost")
        self.start_server()
        worker = self.start_worker(settings="device: CUDA")
        self.assertEqual(self.ask("submit", self.job(iterations=1000)).returncode, 0)
        self.assertNotEqual(worker.wait(timeout=60), 0)
        log = (self.folder / "worker0.log").read_text()
        self.assertIn("the device has failed, so this worker ends", log)


if __name__ == "__main__":
    unittest.main()
