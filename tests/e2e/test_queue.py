"""Several jobs on one cluster: side by side, held, reordered, and making room for each other."""

import getpass
import re
import time
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
        ended = self.wait_for_job(job, "DONE", 120)
        # With a worker less a job ends too, in other bits.
        self.assertNotIn("lost", ended.get("message", ""))
        return ended["parameters_sha256"]

    def test_two_jobs_train_side_by_side_and_get_the_bits_that_each_gets_alone(self):
        self.start_cluster(4)
        alone = self.sha256(self.submit("BSP", 300))
        first = self.submit("BSP", 300, clock_ms=10 * SLOWER)
        second = self.submit("BSP", 300, clock_ms=10 * SLOWER)
        self.wait_for_clocks(first)
        self.wait_for_clocks(second)
        self.assertEqual((self.state(first), self.state(second)), ("RUNNING", "RUNNING"))
        lines = self.ask("queue").stdout
        self.assertIn("4 workers busy, 0 idle", lines)
        self.assertRegex(lines, rf" {first} +tiny +owner +running +0 +2 +worker0, worker1")
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
        self.assertRegex(lines[-2], rf"^ *1 +{third} +tiny +owner +waiting +7 +2 +"
                         f"waits for job {first}")
        self.assertRegex(lines[-1], rf"^ *{second} +tiny +owner +held +0 +2 +"
                         "is held; tautline release")
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
        saved = re.search(r"makes room for a job of higher priority; saved at clock (\d+)",
                          stopped["message"])
        # No clock is trained twice.
        self.assertEqual([one["progress"]["clock"] for one in stopped["workers"]],
                         [int(saved[1])] * 2)
        self.assertEqual(self.sha256(int(stopped["restarted_as"])), alone)

    def test_a_job_that_is_stopped_is_saved_with_every_clock_that_was_trained(self):
        self.start_cluster(2)
        for mode in ("BSP", "SSP", "ASYNC"):
            job = self.submit(mode, 100000, clock_ms=7)
            self.wait_for_clocks(job, 30)
            self.assertIn("is saved, then stopped", self.ask("stop", job).stdout)
            self.wait_for_job(job, "STOPPED")
            stopped = self.running(job)
            saved = int(re.search(r"saved at clock (\d+)", stopped["message"])[1])
            self.assertEqual([int(one["progress"]["clock"]) for one in stopped["workers"]],
                             [saved, saved], mode)

    def workers_of(self, job):
        return [one["name"] for one in self.running(job)["workers"]
                if one["state"] == "running"]

    def wait_for_workers(self, job, count, seconds=30):
        wait_until(lambda: len(self.workers_of(job)) == count, seconds,
                   what=f"{count} workers of job {job}")

    def test_a_job_shrinks_for_one_of_higher_priority_and_gets_its_workers_back(self):
        self.start_cluster(3)
        low = self.submit("SSP", 100000, clock_ms=20, workers=3, more="min_workers: 1")
        self.wait_for_clocks(low)
        self.wait_for_workers(low, 3)
        high = self.submit("SSP", 100000, clock_ms=20, workers=2, more="priority: 1")
        self.wait_for_clocks(high)
        self.assertEqual(self.state(low), "RUNNING")
        self.assertEqual(len(self.workers_of(low)), 1)
        lines = self.ask("queue").stdout
        self.assertRegex(lines, rf" {low} +tiny +owner +running +0 +1 of 3 +worker\d")
        self.assertRegex(lines, rf" {high} +tiny +owner +running +1 +2 +worker\d, worker\d")
        log = "\n".join(line["text"] for line in self.status()["log"])
        self.assertIn("shrinks to 1 worker for a job of higher priority", log)
        clock = max(int(w["progress"]["clock"]) for w in self.running(low)["workers"])
        self.ask("stop", high, "--discard")
        self.wait_for_workers(low, 3)
        self.wait_for_clocks(low, clock + 20)
        # Nothing was saved or lost on the way.
        self.assertEqual(self.running(low).get("checkpoints", []), [])
        self.ask("stop", low, "--discard")
        self.wait_for_job(low, "STOPPED")

    def test_a_job_gets_workers_of_one_rack(self):
        self.start_cluster(0)
        for i, rack in enumerate(("left", "right", "left", "right", "left")):
            self.start_daemon("worker", f"worker{i}", options=("--rack", rack))
        job = self.submit("SSP", 100000, clock_ms=20, workers=2)
        self.wait_for_clocks(job)
        # The rack with exactly that many; the other one is left whole.
        self.assertEqual(self.workers_of(job), ["worker1", "worker3"])
        self.assertEqual({one["name"]: one["host"].split("/")[0]
                          for one in self.status()["workers"] if one["name"] == "worker3"},
                         {"worker3": "right"})
        answer = self.run_program("tautline-worker", "--config", "none", "--rack", "a/b")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertIn("--rack", answer.stderr)
        self.assertIn("must be 1 to 64 letters, digits, '.', '_' or '-'", answer.stderr)

    def test_a_job_waits_at_most_a_second_for_its_place(self):
        self.start_cluster(2)
        first = self.submit("SSP", 100000)
        self.wait_for_clocks(first)
        second = self.submit("SSP", 20)
        self.ask("stop", first, "--discard")
        began = time.monotonic()
        self.wait_for_job(first, "STOPPED")
        wait_until(lambda: self.state(second) != "SUBMITTED", 20, what=f"start of job {second}")
        self.assertLess(time.monotonic() - began, 5)
        lines = [line for line in self.status()["log"]
                 if line["text"].startswith((f"job {first}: STOPPED", f"job {second}: starts"))]
        ended, started = [float(line["unix_time_s"]) for line in lines]
        print(f"{started - ended:.3f} s from the end of a job to the start of the next")
        self.assertLess(started - ended, 1)

    def submit_as(self, user, priority=0):
        folder = self.folder / f"keys-{user}"
        if not folder.exists():
            answer = self.tautline("keys", "add", user, "--role", "submit")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            folder.mkdir(mode=0o700)
            key = self.folder / ".config/tautline/keys" / f"{user}.key"
            key.rename(folder / key.name)
            # Servers read who is admitted once in a while.
            wait_until(lambda: self.ask("status", "--keys", folder).returncode == 0, 10,
                       what=f"{user}'s admission")
        answer = self.ask("submit", self.job(iterations=100000, extra=f"priority: {priority}"),
                          "--keys", folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(re.search(r"job (\d+)", answer.stdout)[1])

    def test_the_quota_of_a_user_is_that_of_the_key_and_holds_up_no_other(self):
        self.start_cluster(3, 'scheduling { quota { user: "alice" jobs: 1 } quota { workers: 2 } }')
        first, second = self.submit_as("alice"), self.submit_as("alice", priority=9)
        third = self.submit_as("bob")
        self.wait_for_clocks(third)
        self.assertEqual((self.state(first), self.state(second)), ("RUNNING", "SUBMITTED"))
        lines = self.ask("queue").stdout.splitlines()
        self.assertRegex(lines[-1], rf"^ *1 +{second} +tiny +alice +waiting +9 +1 +"
                         'user "alice" has 1 job running, and the quota is 1$')
        self.assertRegex("\n".join(lines), rf" {third} +tiny +bob +running +0 +1 +worker\d")
        fourth = self.submit("SSP", 10, workers=3)
        self.assertEqual(self.running(fourth)["message"],
                         'requires 3 workers, and the quota of user "owner" is 2: it cannot start')
        self.ask("stop", first, "--discard")
        self.wait_for_clocks(second)

    def test_a_job_waits_for_memory_and_devices_that_no_worker_has(self):
        self.start_server("coordinator", shards=0)
        self.start_daemon("server", "server0", "memory_limit: 1073741824")
        for i in range(2):
            self.start_worker(f"worker{i}", "memory: 4294967296")
        gib = 2**30
        first = self.submit("SSP", 100000, workers=1,
                            more=f"resources {{ memory: {3 * gib} server_memory: {gib // 2} }}")
        self.wait_for_clocks(first)
        waits = {
            "resources { devices: 1 }":
                "waits for 1 more worker with 1 GPU: 1 required, 0 of 2 joined have that; the "
                "most that one has is 0 GPUs",
            f"resources {{ memory: {8 * gib} }}":
                "waits for 1 more worker with 8.0 GiB of memory: 1 required, 0 of 2 joined have "
                "that; the most that one has is 4.0 GiB",
            f"resources {{ server_memory: {3 * gib // 4} }}":
                "waits for 0.8 GiB of the servers' memory; there is room for tables of 0.5 GiB of "
                "1.0 GiB",
            f"resources {{ server_memory: {2 * gib} }}":
                "requires 2.0 GiB of the servers' memory, which has room for tables of 1.0 GiB: it "
                "cannot start before more servers join"}
        jobs = {text: self.submit("SSP", 10, workers=1, more=text) for text in waits}
        for text, job in jobs.items():
            self.assertEqual(self.running(job)["message"], waits[text])
            self.assertIn(waits[text], self.ask("queue").stdout)
        # They hold up no other, and one of them starts when there is room.
        self.wait_for_job(self.submit("SSP", 10, workers=1), "DONE")
        self.ask("stop", first, "--discard")
        self.wait_for_job(jobs[f"resources {{ server_memory: {3 * gib // 4} }}"], "DONE")

    def test_negative_priorities_and_wrong_ones(self):
        self.start_cluster(1)
        job = self.submit("SSP", 100000, workers=1)
        answer = self.ask("priority", job, -5)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("has priority -5 instead of 0", answer.stdout)
        self.assert_fails(self.ask("priority", job, 5000), "from -1000 to 1000", status=2)
        self.assert_fails(self.ask("priority", job, "1.5"), 'whole number', 'is "1.5"', status=2)
        self.assert_fails(self.ask("release", 99), "job 99 does not exist")


class InsecureQueue(ServersTest):
    insecure = True

    def test_without_keys_the_user_is_the_one_of_the_machine(self):
        self.start_server(settings="scheduling { quota { jobs: 1 } }")
        self.start_worker("worker0")
        self.start_worker("worker1")
        self.submit("SSP", 100000, workers=1)
        second = self.submit("SSP", 100000, workers=1)
        self.assertEqual(self.running(second)["message"], f'user "{getpass.getuser()}" has 1 job '
                         "running, and the quota is 1")


if __name__ == "__main__":
    unittest.main()
