"""Trainings by whole processes on the device twin."""

import csv
import json
import os
import pathlib
import sys

from cluster import *

BUILD = BIN.parent
MODULE = BUILD / "twin" / "libtautline_cuda_twin.so"
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
sys.path.insert(0, str(SOURCE / "scripts" / "gpu_training"))


class Trained:
    def __init__(self, folder):
        self.folder = folder
        self.summary = json.loads((folder / "summary.json").read_text())

    def losses(self, worker):
        with open(next(self.folder.glob(f"*{worker}/metrics.csv")), newline="") as file:
            return [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]

    def digest(self):
        return self.summary["parameters_sha256"]

    def accuracy(self):
        return self.summary["evaluations"][-1]["accuracy"]


class TwinTest(ClusterTest):
    """Every process that it starts finds the twin in place of a GPU, as with scripts/twin."""

    def setUp(self):
        super().setUp()
        self.set_variable("TAUTLINE_CUDA_MODULE", str(MODULE))
        self.set_variable("TAUTLINE_CACHE", "off")
        # Two schedules meet the same libraries.
        self.set_variable("TAUTLINE_TWIN_LIBRARIES", "1")
        self.set_variable("LD_LIBRARY_PATH", str(BUILD / "twin"))

    def set_variable(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name, None) if before is None
                        else os.environ.__setitem__(name, before))

    def lenet(self, name, iterations, batch, tests=1, extra=""):
        """LeNet on Fashion-MNIST by deterministic algorithms, as scripts/gpu_training writes it.
        tests  batches of 100 images at the end
        extra  of the job's text"""
        import jobs
        path = jobs.Jobs(SOURCE / "configs", self.folder).fashion(name, iterations, tests, "")
        net = self.folder / f"{name}.prototxt"
        net.write_text(net.read_text().replace("batch_size: 64", f"batch_size: {batch}", 1))
        path.write_text(path.read_text() + extra)
        return path

    def train(self, name, job, *options, device="cuda", seed=1, timeout=110):
        self.set_variable("TAUTLINE_TWIN_SEED", str(seed))
        folder = self.folder / name
        answer = self.tautline("train", job, "--output", folder, "--device", device, "--data", DATA,
                               *options, timeout=timeout)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return Trained(folder)


__all__ = ["BUILD", "DATA", "MODULE", "Trained", "TwinTest"]
