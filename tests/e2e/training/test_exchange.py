"""Workers that sum their gradients among themselves."""

import csv
import json
import re
import socket
import unittest

from cluster import *

ALGORITHMS = ("RING", "HALVING", "DOUBLE_TREE", "HIERARCHICAL")


def exchange(algorithm="RING", interval=10):
    return f"exchange {{ type: ALLREDUCE algorithm: {algorithm} interval: {interval} }}\n"


def gossip(graph="RING", interval=20, more=""):
    return f"exchange {{ type: GOSSIP graph: {graph} interval: {interval} {more} }}\n"


class ExchangeTest(ClusterTest):
    def train(self, job, *arguments):
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "run/summary.json").read_text())

    def wait_for_clock(self, clock):
        def reached():
            workers = self.status()["jobs"][0]["workers"]
            return max((int(w["progress"].get("clock", 0)) for w in workers), default=0) >= clock
        wait_until(reached, 30, f"clock {clock}")


class Exchange(ExchangeTest):

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

    def test_a_worker_listens_for_others_where_its_configuration_says(self):
        self.start_server()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.start_daemon("worker", "worker0", f'rank_listen: "127.0.0.1:{port}"')
        self.start_daemon("worker", "worker1")
        job = self.job(iterations=200, workers=2, extra=exchange() + "clock_time_ms: 10\n")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.wait_for_clock(5)
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
            self.assertEqual(stream.recv(1), b"\xff")  # a ZeroMQ socket greets
        self.wait_for_job(1, "DONE")

    def test_an_address_that_a_worker_cannot_listen_at_is_named(self):
        self.start_server()
        self.start_daemon("worker", "worker0", 'rank_listen: "192.0.2.1:0"')
        self.start_daemon("worker", "worker1")
        job = self.job(iterations=20, workers=2, extra=exchange())
        self.assertEqual(self.ask("submit", job).returncode, 0)
        log = self.folder / "worker0.log"
        wait_until(lambda: "worker.rank_listen: " in log.read_text(), 20, "the error")
        self.assertIn("192.0.2.1:0", log.read_text())

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
                ("consistency { mode: ASYNC }", "ALLREDUCE is BSP among workers and cannot be "
                                                "combined with consistency { mode: ASYNC }; omit "
                                                "one"),
                ("consistency { backup_workers: 1 }", "consistency { backup_workers }"),
                ("balance: true", "ALLREDUCE cannot be combined with balance; omit one"),
                ("compression { push { scheme: FP16 } }", "omit compression"),
                ("reduction: SUM", "takes the mean; omit reduction: SUM")):
            answer = self.tautline("train", self.job(workers=2, extra=exchange() + extra))
            self.assert_fails(answer, words)
            self.assertRegex(answer.stderr, r"job.textproto:\d+:\d+: ", extra)
        answer = self.tautline("train", self.job(workers=2, extra=exchange(interval=0)))
        self.assert_fails(answer, "interval is 0; it must be from 1 to 1000000")


class Gossip(ExchangeTest):
    def test_workers_that_average_learn_over_each_graph_and_end_in_the_same_bits(self):
        for graph in ("RING", "TORUS", "HYPERCUBE", "EXPONENTIAL"):
            job = self.job(workers=4, extra=gossip(graph))
            once, again = (self.train(job) for _ in range(2))
            self.assertEqual(once["parameters_sha256"], again["parameters_sha256"], graph)
            self.assertGreater(once["evaluations"][-1]["accuracy"], 0.5, graph)
            self.assert_apart(once)

    def assert_apart(self, summary):
        errors = [worker["consensus_error"] for worker in summary["workers"]]
        self.assertGreater(min(errors), 0)
        self.assertAlmostEqual(summary["consensus_error"], sum(errors) / len(errors))

    def test_lines_of_metrics_say_how_far_workers_are_apart(self):
        summary = self.train(self.job(workers=3, iterations=30, extra=gossip(interval=10)))
        self.assert_apart(summary)
        for file in (self.folder / "run").glob("*/metrics.csv"):
            with file.open() as lines:
                rows = [row for row in csv.DictReader(lines) if row["loss"]]
            self.assertEqual([row["consensus_error"] != "" for row in rows],
                             [int(row["clock"]) >= 10 for row in rows])
            # At the first clock, and at those after a meeting, all had the same.
            distances = [row["neighbour_distance"] for row in rows]
            for clock, distance in enumerate(distances[1:], start=1):
                if clock % 10 == 1:
                    self.assertEqual(float(distance), 0, clock)
                else:
                    self.assertGreater(float(distance), 0, clock)

    def test_workers_without_gradients_stay_the_same(self):
        job = self.job(workers=3, iterations=20, extra=gossip(interval=10))
        job.write_text(job.read_text().replace("base_lr: 0.1", "base_lr: 0"))
        summary = self.train(job)
        self.assertEqual([worker["consensus_error"] for worker in summary["workers"]], [0] * 3)

    def test_a_clock_sends_the_parameters_once_for_each_neighbour(self):
        self.start_server()
        for name in ("worker0", "worker1", "worker2"):
            self.start_daemon("worker", name, "shared_memory: false")
        job = self.job(iterations=20, workers=3, extra=gossip(interval=20))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        workers = self.wait_for_job(1, "DONE")["workers"]
        values = 16 * 64 + 16 + 10 * 16 + 10
        # Each has two neighbours; at first 6 numbers of each rank, which go around twice but for a
        # third; and at the end a push of each worker.
        averages = 4 * 3 * 2 * 20 * values + 4 * 4 * 3 * 6
        sent = sum(int(worker["progress"]["pushed_bytes"]) for worker in workers)
        self.assertEqual(sent, averages + 4 * 3 * values)

    def test_a_killed_worker_is_left_out_and_replaced_where_workers_average(self):
        self.start_server(settings="heartbeat_limit_s: 2")
        workers = {name: self.start_daemon("worker", name, "clock_time_ms: 10")
                   for name in ("worker0", "worker1", "worker2")}
        job = self.job(iterations=600, workers=3, extra=gossip(interval=50))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.wait_for_clock(60)
        self.assert_fails(self.ask("set-slack", 1, 2), "GOSSIP is BSP among workers")
        workers["worker1"].kill()
        log = self.folder / "worker0.log"
        wait_until(lambda: "of 2 workers that average among themselves" in log.read_text(), 30,
                   "a group without the lost worker")
        self.start_daemon("worker", "worker3", "clock_time_ms: 10")
        ended = self.wait_for_job(1, "DONE", 60)
        self.assertGreater(ended["evaluations"][-1]["accuracy"], 0.5)
        new = (self.folder / "worker3.log").read_text()
        self.assertRegex(new, r"rank \d of 3 workers that average among themselves, from clock "
                              r"\d\d")
        clocks = {worker["name"]: int(worker["progress"]["clock"]) for worker in ended["workers"]}
        self.assertEqual([clocks[f"worker{i}"] for i in (0, 2, 3)], [600] * 3)

    def test_a_hypercube_of_which_a_worker_is_lost_trains_to_the_end(self):
        self.start_server(settings="heartbeat_limit_s: 2")
        workers = {f"worker{i}": self.start_daemon("worker", f"worker{i}", "clock_time_ms: 10")
                   for i in range(4)}
        job = self.job(iterations=400, workers=4, extra=gossip("HYPERCUBE", 50))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.wait_for_clock(60)
        workers["worker1"].kill()
        ended = self.wait_for_job(1, "DONE", 90)
        self.assertGreater(ended["evaluations"][-1]["accuracy"], 0.5)
        self.assertIn("of 3 workers that average", (self.folder / "worker0.log").read_text())

    def test_workers_without_a_common_clock_learn_over_each_graph(self):
        for graph in ("RING", "TORUS", "HYPERCUBE", "EXPONENTIAL"):
            extra = gossip(graph, more="asynchronous: true")
            summary = self.train(self.job(workers=4, extra=extra))
            self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.5, graph)
            self.assert_apart(summary)

    def test_a_slow_worker_delays_no_other_between_meetings(self):
        self.start_server()
        for name, settings in (("worker0", ""), ("worker1", ""), ("worker2", "clock_time_ms: 300")):
            self.start_daemon("worker", name, settings)
        extra = gossip(interval=50, more="asynchronous: true")
        job = self.job(iterations=50, workers=3, extra=extra)
        self.assertEqual(self.ask("submit", job).returncode, 0)

        def clocks():
            workers = self.status()["jobs"][0]["workers"]
            return {w["name"]: int(w["progress"].get("clock", 0)) for w in workers}
        # In a path of three the middle one is passive; wherever the slow one is, others pass it.
        wait_until(lambda: sorted(clocks().values())[1:] >= [40, 40] and
                   clocks()["worker2"] < 30, 30, "workers that do not wait for the slow one")
        self.assertGreater(self.wait_for_job(1, "DONE", 90)["evaluations"][-1]["accuracy"], 0.5)

    def test_a_killed_worker_is_left_out_where_workers_have_no_common_clock(self):
        self.start_server(settings="heartbeat_limit_s: 2")
        workers = {f"worker{i}": self.start_daemon("worker", f"worker{i}", "clock_time_ms: 10")
                   for i in range(4)}
        extra = gossip(interval=50, more="asynchronous: true")
        job = self.job(iterations=400, workers=4, extra=extra)
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.wait_for_clock(60)
        workers["worker1"].kill()
        log = self.folder / "worker0.log"
        wait_until(lambda: "of 3 workers that average among themselves" in log.read_text(), 30,
                   "a group without the lost worker")
        self.start_daemon("worker", "worker4", "clock_time_ms: 10")
        ended = self.wait_for_job(1, "DONE", 90)
        self.assertGreater(ended["evaluations"][-1]["accuracy"], 0.5)
        self.assertIn("of 4 workers that average", (self.folder / "worker4.log").read_text())

    def test_a_job_whose_workers_average_is_resumed_to_the_bit(self):
        job = self.job(workers=3, iterations=30,
                       extra=gossip(interval=7) + "checkpoint { every: 14 keep: 0 }\n")
        whole = self.train(job, "--clock-time", 30)
        kept = self.folder / "kept"
        (self.folder / "run/checkpoints/tiny_iter_14").rename(kept)
        resumed = self.train(job, "--resume", kept)
        self.assertEqual(resumed["parameters_sha256"], whole["parameters_sha256"])

    def test_what_does_not_go_with_gossip_is_refused_at_its_place(self):
        ring = gossip()
        for extra, words in (
                (ring + "consistency { mode: ASYNC }",
                 "GOSSIP is BSP among workers and cannot be combined with consistency { mode: "
                 "ASYNC }; omit one"),
                (gossip(more="asynchronous: true") + "consistency { slack: 3 }",
                 "GOSSIP has its workers meet as in BSP and cannot be combined with consistency { "
                 "mode: SSP }; omit one"),
                (ring + "balance: true", "GOSSIP cannot be combined with balance; omit one"),
                (ring + "compression { push { scheme: FP16 } }",
                 "GOSSIP averages float32 alone; omit compression"),
                (ring + "reduction: SUM", "takes the mean; omit reduction: SUM"),
                (gossip(interval=0), "interval is 0; it must be from 1 to 1000000"),
                (gossip(more="algorithm: RING"), "type GOSSIP does not read algorithm; omit it or "
                                                 "choose type: ALLREDUCE"),
                ("exchange { type: ALLREDUCE graph: RING }",
                 "type ALLREDUCE does not read graph; omit it or choose type: GOSSIP"),
                ("exchange { graph: TORUS }", "type SERVERS does not read graph"),
                ("exchange { type: ALLREDUCE asynchronous: true }",
                 "type ALLREDUCE does not read asynchronous; omit it or choose type: GOSSIP"),
                (gossip("HYPERCUBE"),
                 "graph HYPERCUBE needs 2, 4, 8 ... workers, and workers is 3"),
                (gossip("TORUS"), "graph TORUS needs rows and columns, and workers is 3, a prime")):
            answer = self.tautline("train", self.job(workers=3, extra=extra))
            self.assert_fails(answer, words)
            self.assertRegex(answer.stderr, r"job.textproto:\d+:\d+: ", extra)


if __name__ == "__main__":
    unittest.main()
