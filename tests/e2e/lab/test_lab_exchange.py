"""`tautline lab` where workers exchange among themselves: sums and averages."""

import json
import re
import unittest

from cluster import *

from training.test_exchange import ALGORITHMS, exchange, gossip

ONE_EACH = """
host { name: "server" cores: 2 workers: 0 servers: 1 link: "card" }
host { name: "node" count: 8 workers: 1 link: "card" }
link { name: "card" gbit_per_s: 1 latency_us: 50 jitter_us: 400 }
compute { clock_ms: 2 spread: LOGNORMAL deviation: 0.4 }
"""
ONE_HOST = """
host { name: "host" cores: 4 workers: 4 servers: 1 link: "card" }
link { name: "card" gbit_per_s: 1 latency_us: 50 }
compute { clock_ms: 2 }
"""


class LabExchange(ClusterTest):
    def lab(self, job, *arguments, cluster=ONE_EACH):
        path = self.folder / "cluster.textproto"
        path.write_text(cluster)
        answer = self.tautline("lab", job, "--cluster", path, "--output", self.folder / "lab",
                               "--force", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "lab/summary.json").read_text())

    def assert_bits_of_processes(self, job, **options):
        virtual = self.lab(job, **options)
        answer = self.tautline("train", job, "--output", self.folder / "real", "--force")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        real = json.loads((self.folder / "real/summary.json").read_text())
        self.assertRegex(virtual["parameters_sha256"], r"^[0-9a-f]{64}$")
        self.assertEqual(virtual["parameters_sha256"], real["parameters_sha256"], job.read_text())
        self.assertEqual(virtual["evaluations"], real["evaluations"])

    def test_sums_at_workers_in_the_lab_end_in_the_bits_of_processes(self):
        for algorithm in ALGORITHMS:
            # Which ranks share a host decides the order of its sums.
            cluster = ONE_HOST if algorithm == "HIERARCHICAL" else ONE_EACH
            self.assert_bits_of_processes(self.job(workers=3, extra=exchange(algorithm)),
                                          cluster=cluster)

    def test_averages_with_neighbours_in_the_lab_end_in_the_bits_of_processes(self):
        for graph in ("RING", "EXPONENTIAL"):
            self.assert_bits_of_processes(self.job(workers=4, extra=gossip(graph)))

    def test_a_large_exchange_in_the_lab_takes_the_same_virtual_time_each_time(self):
        # Many enough for the machine to need longer than the times of the group's own.
        job = self.job(workers=150, iterations=4, extra=exchange("RING"))
        cluster = ONE_EACH.replace("count: 8", "count: 150")
        one, two = (self.lab(job, "--no-learning", cluster=cluster) for _ in range(2))
        self.assertEqual(one, two)

    def test_averages_without_a_common_clock_repeat_in_the_lab(self):
        job = self.job(workers=4, extra=gossip(more="asynchronous: true"))
        one, two = self.lab(job), self.lab(job)
        self.assertEqual(one, two)
        self.assertGreater(one["evaluations"][-1]["accuracy"], 0.5)
        other = self.lab(job, "--seed", 2)
        self.assertNotEqual(one["parameters_sha256"], other["parameters_sha256"])

    def test_a_slow_worker_in_the_lab_delays_those_without_a_common_clock_less(self):
        slow = ONE_EACH.replace("count: 8", "count: 3").replace("clock_ms: 2 ", "clock_ms: 20 ") + (
            'host { name: "slow" workers: 1 link: "card" speed: 0.2 }\n')
        def waiting(more):
            job = self.job(workers=4, iterations=100, extra=gossip(interval=1000, more=more))
            return self.lab(job, cluster=slow)["workers"][0]["waiting_share"]
        self.assertLess(waiting("asynchronous: true"), 0.5 * waiting(""))

    def test_the_formula_of_an_exchange_is_near_what_the_lab_has(self):
        path = self.folder / "cluster.textproto"
        path.write_text(ONE_EACH.replace("clock_ms: 2 ", "clock_ms: 20 "))
        for extra in (exchange("RING"), exchange("HALVING"), exchange("DOUBLE_TREE"), gossip()):
            answer = self.tautline("lab", "plan", self.job(workers=4, extra=extra), "--cluster",
                                   path, "--workers", "2,4,8", "--check")
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            self.assertEqual(answer.stderr, "")
            errors = [float(of) for of in re.findall(r"([+-][\d.]+) %$", answer.stdout, re.M)]
            self.assertEqual(len(errors), 3, answer.stdout)
            self.assertLess(max(map(abs, errors)), 12, answer.stdout)
        refused = self.tautline("lab", "plan", self.job(workers=4, extra=gossip()), "--cluster",
                                path, "--slack", "0,2")
        self.assert_fails(refused, "exchange among themselves, without slack; omit it")

    def test_a_ring_in_the_lab_carries_the_bytes_of_its_formula(self):
        summary = self.lab(self.job(workers=3, iterations=20, extra=exchange(interval=20)))
        values = 16 * 64 + 16 + 10 * 16 + 10
        sums = 4 * 4 * (20 * (values + 1) + 3 * 6)
        meetings = 4 * 3 * values
        sent = sum(worker["pushed_bytes"] for worker in summary["workers"])
        self.assertEqual(sent, sums + meetings)

    def test_a_host_that_goes_away_in_the_lab_leaves_the_sums(self):
        outage = 'outage { host: "node1" at_s: 0.6 }\ncontrol { heartbeat_limit_s: 1 }\n'
        summary = self.lab(self.job(workers=3, iterations=300, extra=exchange(interval=50)),
                           cluster=ONE_EACH + outage)
        self.assertEqual(len(summary["lab"]["hosts_lost"]), 1)
        ended = [worker["clock"] for worker in summary["workers"] if worker["name"] != "worker1"]
        self.assertEqual(ended, [300, 300])
        self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.5)

    def test_without_learning_an_exchange_in_the_lab_takes_its_time_all_the_same(self):
        job = self.job(workers=4, iterations=20, extra=exchange())
        with_values = self.lab(job)["lab"]["virtual_s"]
        without = self.lab(job, "--no-learning")["lab"]["virtual_s"]
        self.assertAlmostEqual(without / with_values, 1, delta=0.3)


if __name__ == "__main__":
    unittest.main()
