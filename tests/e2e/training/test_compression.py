"""Updates that are encoded on their way to the servers."""

import json
import re
import unittest
import urllib.request

from cluster import *

VALUES = 64 * 16 + 16 + 16 * 10 + 10  # of the tiny net
SCHEMES = ("FP16", "BF16", "INT8", "ONE_BIT", "TOP_K", "RANDOM_K")


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

    def test_a_submitted_job_shows_the_bytes_that_it_saves(self):
        self.start_server(shards=2)
        http = 'http { metrics: "127.0.0.1:0" open_metrics: true }'
        for name in ("worker0", "worker1"):
            self.start_daemon("worker", name, more=http)
        long = self.job("long.textproto", iterations=1000000, workers=2,
                        extra=compression("FP16"))
        self.assertEqual(self.ask("submit", long).returncode, 0)
        shown = r"[\d.]+ MB of updates in place of [\d.]+ MB: 50.0 % saved by compression"
        wait_until(lambda: re.search(shown, self.ask("status").stdout), what="bytes that are saved")
        address = self.addresses("worker0")["http"][0]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            scraped = answer.read().decode()
        saved = re.search(r'tautline_worker_saved_bytes_total{job="1",worker="worker0"} (\S+)',
                          scraped)
        self.assertGreater(float(saved[1]), 0)
        self.assertEqual(self.ask("stop", 1).returncode, 0)
        self.wait_for_job(1, "STOPPED")
        job = self.job(iterations=40, workers=2, extra=compression("FP16"))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        for worker in self.wait_for_job(2, "DONE")["workers"]:
            self.assertEqual(int(worker["progress"]["pushed_bytes"]), 40 * 2 * VALUES)
            self.assertEqual(int(worker["progress"]["saved_bytes"]), 40 * 2 * VALUES)

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
