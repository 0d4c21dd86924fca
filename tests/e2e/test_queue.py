"""Several jobs on one cluster: side by side, held, reordered, and making room for each other."""

import re
import unittest

from cluster import *


class Queue(ServersTest):
    def start_cluster(self, workers, settings=""):
        self.start_server("coordinator", shards=0, settings=settings)
        for i in range(2):
            self.start_daemon("server", f"server{i}")
        for i in range(workers):
            self.start_daemon("worker", f"worker{i}")

    def state(self, job):
        return self.running(job)["state"]

    def wait_for_clocks(self, job, count=5):
        wait_until(lambda: max((int(w["progress"].get("clock", 0))
                                for w in self.running(job)["workers"]), default=0) > count,
                   60, what=f"clocks of job {job}")

    def sha256(self, job):
        return self.wait_for_job(job, "DONE", 120)["parameters_sha256"]

    def test_two_jobs_train_side_by_side_and_get_the_bits_that_each_gets_alone(self):
        self.start_cluster(4)
        alone = self.sha256(self.submit("BSP", 300))
        first = self.submit("BSP", 300, clock_ms=10)
        second = self.submit("BSP", 300, clock_ms=10)
        self.wait_for_clocks(first)
        self.wait_for_clocks(second)
        self.assertEqual((self.state(first), self.state(second)), ("RUNNING", "RUNNING"))
        lines = self.ask("queue").stdout
        self.assertIn("4 workers busy, 0 idle", lines)
        self.assertRegex(lines, rf"{first} +tiny +running +0 +2")
        lines = self.ask("top", second, "--frames", 1).stdout
        self.assertIn(f"jobs that run too: {first} (tautline top JOB)", lines)
        self.assertIn(f"job {second}", lines)
        self.assertIn("job 99 does not exist", self.ask("top", 99, "--frames", 1).stdout)
        answer = self.ask("checkpoint")
        self.assertIn(f"jobs {first}, {second} are running: name one", answer.stderr)
        answer = self.ask("checkpoint", first)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(self.sha256(first), alone)
        self.assertEqual(self.sha256(second), alone)

    def test_a_server_that_dies_is_survived_by_every_job(self):
        self.start_cluster(4, "heartbeat_limit_s: 1 replication { interval: 2 }")
        alone = self.sha256(self.submit("BSP", 300))
        jobs = [self.submit("BSP", 300, clock_ms=20) for _ in range(2)]
        for job in jobs:
            wait_until(lambda: all(shard.get("is_protected")
                                   for shard in self.running(job)["shards"]) and
                       self.running(job)["shards"], 60, what="a whole backup of each shard")
        self.processes[1].kill()
        for job in jobs:
            self.assertEqual(self.sha256(job), alone)

    def test_a_held_job_waits_and_the_higher_priority_goes_first(self):
        self.start_cluster(2)
        first = self.submit("SSP", 100000)
        second, third = self.submit("SSP", 20), self.submit("SSP", 20)
        self.assertEqual(self.ask("hold", second).stdout, f"job {second} is held\n")
        answer = self.ask("hold", first)
        self.assertIn("only a job that waits can be held or released", answer.stderr)
        self.assertEqual(self.ask("priority", third, 7).stdout,
                         f"job {third} has priority 7 instead of 0\n")
        lines = self.ask("queue").stdout.splitlines()
        self.assertRegex(lines[-2], rf"^ *{third} +tiny +waiting +7 +2 +waits for job {first}")
        self.assertRegex(lines[-1], rf"^ *{second} +tiny +held +0 +2 +is held; tautline release")
        self.ask("stop", first, "--discard")
        self.wait_for_job(third, "DONE")
        self.assertEqual(self.state(second), "SUBMITTED")
        self.assertEqual(self.ask("release", second).returncode, 0)
        self.wait_for_job(second, "DONE")

    def test_a_job_makes_room_for_one_of_higher_priority_and_ends_with_the_same_bits(self):
        self.start_cluster(2, "scheduling { preemption: true }")
        alone = self.sha256(self.submit("BSP", 300))
        low = self.submit("BSP", 300, clock_ms=20)
        self.wait_for_clocks(low)
        high = self.submit("BSP", 30, more="priority: 5")
        self.wait_for_job(high, "DONE")
        stopped = self.running(low)
        self.assertEqual(stopped["state"], "STOPPED")
        self.assertIn("makes room for a job of higher priority; saved at clock",
                      stopped["message"])
        self.assertEqual(self.sha256(int(stopped["restarted_as"])), alone)

    def test_negative_priorities_and_wrong_ones(self):
        self.start_cluster(1)
        job = self.submit("SSP", 100000, workers=1)
        answer = self.ask("priority", job, -5)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("has priority -5 instead of 0", answer.stdout)
        self.assert_fails(self.ask("priority", job, 5000), "from -1000 to 1000", status=2)
        self.assert_fails(self.ask("priority", job, "1.5"), 'whole number', 'is "1.5"', status=2)
        self.assert_fails(self.ask("release", 99), "job 99 does not exist")


if __name__ == "__main__":
    unittest.main()
