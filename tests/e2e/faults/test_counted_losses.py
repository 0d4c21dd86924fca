"""Servers are lost or hang one after the other, and no worker is: each update counts once."""

import sys
import time
import unittest

from cluster import *
from faults.counting import *

BSP_CLOCKS = 500
CLOCK_MS = 10


class CountedLosses(CountingTest):
    def start_cluster(self, servers):
        self.start_server("coordinator", shards=0, settings=(
            "heartbeat_limit_s: 1 replication { interval: 4 }"))
        self.servers = {f"server{i}": self.start_daemon("server", f"server{i}")
                        for i in range(servers)}
        self.workers = [self.start_daemon("worker", f"worker{i}") for i in range(2)]

    def submit_saved(self, mode, clocks, parameters, clock_ms):
        """A job that counts; its number, and the folder of its last checkpoint."""
        folder = self.folder / f"saved {mode}"
        job = self.submit_counting(mode, clocks, parameters, clock_ms, more=(
            f'reduction: SUM checkpoint {{ folder: "{folder}" }}'))
        return job, folder

    def shards(self, job):
        return self.running(job)["shards"]

    def taken_over(self, server):
        """How many shards a server has taken over."""
        log = (self.folder / "coordinator.log").read_text()
        return log.count(f'is taken over by server "{server}"')

    def wait_for_clocks(self, job, count, what):
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + count, what=what)
        self.assertEqual(self.running(job)["state"], "RUNNING")

    def assert_workers_never_ended(self, ended):
        self.assertEqual([w["state"] for w in ended["workers"]], ["finished", "finished"])
        for i, worker in enumerate(self.workers):
            self.assertIsNone(worker.poll())
            self.assertEqual((self.folder / f"worker{i}.log").read_text().count("joined the"), 1)


class BackupThenPrimary(CountedLosses):
    """The server with a shard's backup is killed, and once another one is whole the primary is."""

    def is_protected_without(self, job, lost):
        """Whether each shard has a whole backup, and none counts on a server that was lost."""
        used = {server for shard in self.shards(job)
                for server in (shard["server"], *(b["server"] for b in shard["backups"]))}
        return lost not in used and self.is_protected(job)

    def kill_backup_then_primary(self, job, mode):
        self.wait_for_protected_clocks(job)
        shard = self.shards(job)[0]
        primary, backup = shard["server"], shard["backups"][0]["server"]
        third = (self.servers.keys() - {primary, backup}).pop()
        self.servers[backup].kill()
        began = time.monotonic()
        wait_until(lambda: self.is_protected_without(job, backup), what="protection again")
        took = time.monotonic() - began
        shard = self.shards(job)[0]
        self.assertEqual((shard["server"], [b["server"] for b in shard["backups"]]),
                         (primary, [third]))
        self.wait_for_clocks(job, 10, "clocks with the other backup")
        before = self.taken_over(third)
        self.servers[primary].kill()
        wait_until(lambda: self.taken_over(third) > before, what="the take-over")
        self.wait_for_clocks(job, 10, "clocks after the take-over")
        self.assertEqual({shard["server"] for shard in self.shards(job)}, {third})
        print(f"{mode}: protected again {took:.2f} s after the backup was killed", file=sys.stderr)

    def test_bsp_ends_in_the_same_bits_after_a_backup_and_then_its_primary_are_lost(self):
        self.start_cluster(servers=3)
        undisturbed = self.wait_for_job(self.submit("BSP", BSP_CLOCKS), "DONE", 60)
        job = self.submit("BSP", BSP_CLOCKS, clock_ms=CLOCK_MS)
        self.kill_backup_then_primary(job, "BSP")
        ended = self.wait_for_job(job, "DONE", 60)
        self.assertEqual(ended["parameters_sha256"], undisturbed["parameters_sha256"])
        self.assert_workers_never_ended(ended)

    def check_counts(self, mode):
        clocks, parameters = 400, 600000  # a slice on each server
        self.start_cluster(servers=3)
        job, folder = self.submit_saved(mode, clocks, parameters, CLOCK_MS)
        self.kill_backup_then_primary(job, mode)
        ended = self.wait_for_job(job, "DONE", 60)
        self.assertEqual(self.applied(folder, clocks, parameters), [clocks, clocks])
        self.assert_workers_never_ended(ended)

    def test_ssp_counts_each_update_once_after_a_backup_and_then_its_primary_are_lost(self):
        self.check_counts("SSP")

    def test_async_counts_each_update_once_after_a_backup_and_then_its_primary_are_lost(self):
        self.check_counts("ASYNC")


class Zombie(CountedLosses):
    """A primary hangs until another server has its shard, and continues: what it holds of its term
    counts no update again, and no worker reads from it."""

    def hang(self, job, meanwhile):
        """Stops the primary, and lets it continue after this many clocks without it."""
        self.wait_for_protected_clocks(job)
        zombie = self.shards(job)[0]["server"]
        other = (self.servers.keys() - {zombie}).pop()
        log = self.folder / f"{zombie}.log"
        joined, taken_over = log.read_text().count("joined the"), self.taken_over(other)
        self.servers[zombie].send_signal(signal.SIGSTOP)
        wait_until(lambda: self.taken_over(other) > taken_over, what="the take-over")
        if meanwhile:
            self.wait_for_clocks(job, meanwhile, "clocks without the primary")
            self.assertEqual({shard["server"] for shard in self.shards(job)}, {other})
        self.servers[zombie].send_signal(signal.SIGCONT)
        wait_until(lambda: log.read_text().count("joined the") > joined, what="its return")
        self.assertRegex(log.read_text(), rf'server "{zombie}".* was silent for ')
        self.wait_for_clocks(job, 10, "clocks with the zombie")

    def check_counts(self, mode):
        clocks, parameters = 600, 64  # few enough for an exact loss
        self.start_cluster(servers=2)
        reference, job = (self.submit_counting(mode, clocks, parameters, clock_ms,
                                               more="reduction: SUM")
                          for clock_ms in (0, CLOCK_MS))
        undisturbed = self.wait_for_job(reference, "DONE", 60)
        for meanwhile in (20, 0, 20):
            self.hang(job, meanwhile)
        ended = self.wait_for_job(job, "DONE", 60)
        self.assertEqual(ended["parameters_sha256"], undisturbed["parameters_sha256"])
        for worker in ("worker0", "worker1"):
            reads = self.read_of_others(job, worker, parameters)
            self.assertEqual(len(reads), clocks)
            self.assertEqual(reads, sorted(reads), f"{worker} read less than before")
        self.assert_workers_never_ended(ended)
        for server in self.servers.values():
            self.assertIsNone(server.poll())

    def test_a_primary_that_hangs_and_wakes_counts_nothing_twice_in_ssp(self):
        self.check_counts("SSP")

    def test_a_primary_that_hangs_and_wakes_counts_nothing_twice_in_async(self):
        self.check_counts("ASYNC")


class MovedShard(CountedLosses):
    """A shard moves to a server that had none of the job. The job's last checkpoint was ordered
    before, when it started."""

    def test_a_checkpoint_has_a_shard_that_moved_after_it_was_ordered(self):
        clocks, parameters = 400, 600000
        self.start_cluster(servers=2)
        job, folder = self.submit_saved("SSP", clocks, parameters, CLOCK_MS)
        self.wait_for_protected_clocks(job)
        victim = self.shards(job)[0]["server"]
        self.servers[victim].kill()
        self.servers[victim].wait()
        other = (self.servers.keys() - {victim}).pop()
        wait_until(lambda: self.taken_over(other), what="the take-over")
        self.servers[victim] = self.start_daemon("server", victim)
        wait_until(lambda: victim in {shard["server"] for shard in self.shards(job)},
                   what="a shard at the server that returned")
        self.wait_for_job(job, "DONE", 60)
        self.assertEqual(self.applied(folder, clocks, parameters), [clocks, clocks])


if __name__ == "__main__":
    unittest.main()
