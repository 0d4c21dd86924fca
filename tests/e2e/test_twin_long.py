"""Trainings on the device twin that take minutes."""

import json
import subprocess
import sys
import unittest

from cluster import *
from twin import BUILD, DATA, MODULE, TwinTest

TIMEOUT_S = 1500


@unittest.skipUnless(MODULE.exists(), "no device twin is built")
@unittest.skipUnless(DATA.is_dir(), "the package dataset-fashion-mnist is not installed")
class LongTwin(TwinTest):
    def test_lenet_on_the_twin_reaches_the_accuracy_of_the_cpu(self):
        job = self.lenet("lenet", iterations=300, batch=32, tests=20)
        found = self.train("twin", job, "--workers", 1, timeout=TIMEOUT_S)
        expected = self.train("cpu", job, "--workers", 1, device="cpu")
        self.assertGreater(expected.accuracy(), 0.6)
        self.assertAlmostEqual(found.accuracy(), expected.accuracy(), delta=0.005)

    def test_the_rows_of_gpu_training_are_reached_on_the_twin(self):
        rows = self.folder / "rows.json"
        trained = subprocess.run(
            [sys.executable, "-B", SOURCE / "scripts/gpu_training", "--programs", BIN, "--bench",
             BUILD / "bench", "--configs", SOURCE / "configs", "--data", DATA, "--output",
             self.folder / "out", "--json", rows, "--dry-run", "--device", "cuda", "--seconds",
             str(TIMEOUT_S)], capture_output=True, text=True, timeout=TIMEOUT_S + 60)
        self.assertEqual(trained.returncode, 0, trained.stdout + trained.stderr)
        missed = [row for row in json.loads(rows.read_text()) if row["fine"] is False]
        self.assertEqual(missed, [])


if __name__ == "__main__":
    unittest.main()
