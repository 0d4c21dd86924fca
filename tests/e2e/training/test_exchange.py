"""Workers that sum their gradients among themselves."""

import json
import re
import unittest

from cluster import *

ALGORITHMS = ("RING", "HALVING", "DOUBLE_TREE", "HIERARCHICAL")


def exchange(algorithm="RING", interval=10):
    return f"exchange {{ type: ALLREDUCE algorithm: {algorithm} interval: {interval} }}\n"


class Exchange(ClusterTest):
    def train(self, job, *arguments):
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "run/summary.json").read_text())

    def test_workers_that_sum_end_in_the_same_bits_each_time_with_each_algorithm(self):
        for algorithm in ALGORITHMS:
            job = self.job(workers=3, extra=exchange(algorithm))
            once, again = (self.train(job) for _ in range(2))
            self.assertEqual(once["parameters_sha256"], again["parameters_sha256"], algorithm)
            self.assertGreater(once["evaluations"][-1]["accuracy"], 0.5, algorithm)

    def test_a_ring_sends_the_bytes_of_its_formula(self):
        self.start_server()
        for name in ("worker0", "worker1", "worker2"):
            self.start_daemon("worker", name, "shared_memory: false")
        job = self.job(iterations=20, workers=3, extra=exchange(interval=20))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        workers = self.wait_for_job(1, "DONE")["workers"]
        values = 16 * 64 + 16 + 10 * 16 + 10
        # At each clock the gradients and their weight, at first 6 numbers of each rank, which go
        # around twice but for a third; and at the end a push of each worker.
        sums = 4 * 4 * (20 * (values + 1) + 3 * 6)
        meetings = 4 * 3 * values
        sent = sum(int(worker["progress"]["pushed_bytes"]) for worker in workers)
        self.assertEqual(sent, sums + meetings)

    def test_a_killed_worker_is_replaced_where_workers_sum(self):
        self.start_server(settings="heartbeat_limit_s: 2")
        workers = {name: self.start_daemon("worker", name, "clock_time_ms: 10")
                   for name in ("worker0", "worker1", "worker2")}
        job = self.job(iterations=600, workers=3, extra=exchange(interval=50))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.wait_for_clock(60)
        self.assert_fails(self.ask("set-slack", 1, 2), "ALLREDUCE is BSP among workers")
        workers["worker1"].kill()
        log = self.folder / "worker0.log"
        wait_until(lambda: "of 2 workers that sum among themselves" in log.read_text(), 30,
                   "a group without the lost worker")
        self.start_daemon("worker", "worker3", "clock_time_ms: 10")
        ended = self.wait_for_job(1, "DONE", 60)
        self.assertGreater(ended["evaluations"][-1]["accuracy"], 0.5)
        new = (self.folder / "worker3.log").read_text()
        self.assertRegex(new, r"rank \d of 3 workers that sum among themselves, from clock \d\d")
        clocks = {worker["name"]: int(worker["progress"]["clock"]) for worker in ended["workers"]}
        self.assertEqual([clocks[f"worker{i}"] for i in (0, 2, 3)], [600] * 3)

    def test_a_drained_worker_leaves_the_sums_of_the_others(self):
        self.start_server()
        for name in ("worker0", "worker1"):
            self.start_daemon("worker", name, "clock_time_ms: 5")
        job = self.job(iterations=400, workers=2, extra=exchange(interval=20))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.wait_for_clock(30)
        self.assertEqual(self.ask("drain", "worker1").returncode, 0)
        ended = self.wait_for_job(1, "DONE", 60)
        left = next(w for w in ended["workers"] if w["name"] == "worker1")["progress"]
        self.assertEqual(int(left["clock"]) % 20, 0)
        self.assertIn("rank 0 of 1 workers", (self.folder / "worker0.log").read_text())

    def test_a_job_whose_workers_sum_is_resumed_to_the_bit(self):
        job = self.job(workers=2, iterations=30,
                       extra=exchange(interval=7) + "checkpoint { every: 14 keep: 0 }\n")
        whole = self.train(job, "--clock-time", 30)
        kept = self.folder / "kept"
        (self.folder / "run/checkpoints/tiny_iter_14").rename(kept)
        resumed = self.train(job, "--resume", kept)
        self.assertEqual(resumed["parameters_sha256"], whole["parameters_sha256"])
        # A worker that is new has what the others have.
        more = self.train(job, "--workers", 3, "--resume", kept)
        self.assertEqual(more["iterations"], 30)

    def test_what_does_not_go_with_sums_at_workers_is_refused_at_its_place(self):
        for extra, words in (
                ("consistency { mode: ASYNC }", "ALLREDUCE is BSP among workers and does not go "
                                                "with consistency { mode: ASYNC }; omit one"),
                ("consistency { backup_workers: 1 }", "consistency { backup_workers }"),
                ("balance: true", "ALLREDUCE does not go with balance; omit one"),
                ("compression { push { scheme: FP16 } }", "omit compression"),
                ("reduction: SUM", "takes the mean; omit reduction: SUM")):
            answer = self.tautline("train", self.job(workers=2, extra=exchange() + extra))
            self.assert_fails(answer, words)
            self.assertRegex(answer.stderr, r"job.textproto:\d+:\d+: ", extra)
        answer = self.tautline("train", self.job(workers=2, extra=exchange(interval=0)))
        self.assert_fails(answer, "interval is 0; it must be from 1 to 1000000")
        answer = self.tautline("lab", self.job(workers=2, extra=exchange()))
        self.assert_fails(answer, "the lab has no ALLREDUCE")

    def wait_for_clock(self, clock):
        def reached():
            workers = self.status()["jobs"][0]["workers"]
            return max((int(w["progress"].get("clock", 0)) for w in workers), default=0) >= clock
        wait_until(reached, 30, f"clock {clock}")


if __name__ == "__main__":
    unittest.main()
