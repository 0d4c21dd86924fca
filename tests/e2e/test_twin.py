"""Whole processes on the device twin: they name it wherever they name a device, and end when it
fails."""

import json
import unittest

from cluster import *
from twin import DATA, MODULE, TwinTest


@unittest.skipUnless(MODULE.exists(), "no device twin is built")
class Twin(TwinTest):
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

    def test_an_exchange_that_waits_for_a_lost_device_ends_the_worker(self):
        self.set_variable("TAUTLINE_TWIN_DEVICES", "2")
        self.set_variable("TAUTLINE_TWIN_FAIL", "ncclGroupEnd 9 hangs")
        run = self.folder / "run"
        trained = self.tautline("train", self.job(iterations=50), "--output", run, "--device",
                                "cuda", "--device-index", "0,1", "--workers", 1, timeout=60)
        self.assertEqual(trained.returncode, 1, trained.stdout + trained.stderr)

    def test_a_worker_whose_device_has_failed_for_good_ends(self):
        self.set_variable("TAUTLINE_TWIN_FAIL", "cudaLaunchKernel 100 lost")
        self.start_server()
        worker = self.start_worker(settings="device: CUDA")
        self.assertEqual(self.ask("submit", self.job(iterations=1000)).returncode, 0)
        self.assertNotEqual(worker.wait(timeout=60), 0)
        log = (self.folder / "worker0.log").read_text()
        self.assertIn("the device has failed, so this worker ends", log)

    @unittest.skipUnless(DATA.is_dir(), "the package dataset-fashion-mnist is not installed")
    def test_100_clocks_of_lenet_on_the_twin_follow_the_cpus_under_two_schedules(self):
        job = self.lenet("lenet", iterations=100, batch=4)
        options = ["--workers", 2, "--mode", "bsp"]
        here = self.train("cpu", job, *options, device="cpu")
        first = self.train("first", job, *options, seed=1)
        for worker in ("worker0", "worker1"):
            self.assertIn("the device reads values in servers' memory",
                          (first.folder / f"{worker}.log").read_text())
            expected, found = here.losses(worker), first.losses(worker)
            self.assertEqual(len(found), 100)
            for clock, (one, other) in enumerate(zip(expected, found, strict=True)):
                self.assertAlmostEqual(one, other, delta=0.02, msg=f"{worker}, clock {clock}")
        second = self.train("second", job, *options, seed=2)
        self.assertEqual(first.digest(), second.digest())

    def assert_follows_the_cpu(self, name, extra):
        """Two workers on devices under two schedules, next to two on the CPU."""
        job = self.lenet(name, iterations=20, batch=4, extra=extra)
        options = ["--workers", 2, "--mode", "bsp"]
        here = self.train(f"{name}-cpu", job, *options, device="cpu")
        first = self.train(f"{name}-1", job, *options, seed=1)
        for worker in ("worker0", "worker1"):
            for one, other in zip(here.losses(worker), first.losses(worker), strict=True):
                self.assertAlmostEqual(one, other, delta=0.02)
        second = self.train(f"{name}-2", job, *options, seed=2)
        self.assertEqual(first.digest(), second.digest())

    @unittest.skipUnless(DATA.is_dir(), "the package dataset-fashion-mnist is not installed")
    def test_workers_on_devices_sum_among_themselves_as_on_the_cpu(self):
        self.assert_follows_the_cpu("sums", "exchange { type: ALLREDUCE algorithm: RING }\n")

    @unittest.skipUnless(DATA.is_dir(), "the package dataset-fashion-mnist is not installed")
    def test_devices_encode_updates_as_the_cpu_does(self):
        for scheme in ("DGC warm_up: 10", "POWER_SGD rank: 2"):
            with self.subTest(scheme):
                name = scheme.split()[0].lower()
                self.assert_follows_the_cpu(
                    name, f"compression {{ push {{ scheme: {scheme} }} }}\n")

    @unittest.skipUnless(DATA.is_dir(), "the package dataset-fashion-mnist is not installed")
    def test_one_worker_on_two_devices_learns_as_on_one(self):
        self.set_variable("TAUTLINE_TWIN_DEVICES", "2")
        job = self.lenet("lenet", iterations=20, batch=8)
        alone = self.train("alone", job, "--workers", 1)
        shared = self.train("shared", job, "--workers", 1, "--device-index", "0,1")
        for one, other in zip(alone.losses("worker0"), shared.losses("worker0"), strict=True):
            self.assertAlmostEqual(one, other, delta=0.02)
        self.assertIn("2 devices share the batch", (shared.folder / "worker0.log").read_text())


if __name__ == "__main__":
    unittest.main()
