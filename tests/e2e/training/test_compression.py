"""Updates that are encoded on their way to the servers."""

import json
import unittest

from cluster import *

SCHEMES = ("FP16", "BF16", "INT8")


def compression(scheme, values=1):
    return f"compression {{ push {{ scheme: {scheme} min_values: {values} }} }}\n"


class Compression(ClusterTest):
    def train(self, extra, mode="bsp"):
        answer = self.tautline("train", self.job(workers=2, extra=extra), "--output",
                               self.folder / "run", "--force", "--mode", mode)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "run/summary.json").read_text())

    def test_bsp_ends_in_the_same_bits_each_time_with_each_scheme(self):
        bits = {self.train("")["parameters_sha256"]}
        for scheme in SCHEMES:
            once, again = (self.train(compression(scheme)) for _ in range(2))
            self.assertEqual(once["parameters_sha256"], again["parameters_sha256"], scheme)
            self.assertGreater(once["evaluations"][-1]["accuracy"], 0.5, scheme)
            bits.add(once["parameters_sha256"])
        self.assertEqual(len(bits), 1 + len(SCHEMES))

    def test_ssp_and_async_train_with_updates_of_a_byte(self):
        for mode in ("ssp", "async"):
            summary = self.train(compression("INT8"), mode)
            self.assertEqual(summary["state"], "done")
            self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.5, mode)

    def test_a_compression_that_cannot_work_is_refused_with_line_and_column(self):
        for extra, column, what in (
                (compression("INT8", 0), 35, "compression.push[0].min_values: must be at least 1"),
                ("consistency { mode: BSP periodic_averaging {} } " + compression("FP16"), 70,
                 "compression.push[0].scheme: FP16 does not go with consistency")):
            job = self.job(workers=2, extra=extra)
            line = len(job.read_text().splitlines())
            answer = self.tautline("train", job, "--output", self.folder / "run", "--force")
            self.assertNotEqual(answer.returncode, 0)
            self.assertIn(f"{job}:{line}:{column}: {what}", answer.stdout + answer.stderr)


if __name__ == "__main__":
    unittest.main()
