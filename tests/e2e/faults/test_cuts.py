"""The network drops what one process sends to another one, in one direction alone, for longer than
the heartbeat limit: no update that counts is lost or applied twice, and training continues without
a process that starts again."""

import csv
import re
import sys
import time
import unittest

from cluster import *
from faults.counting import *
from faults.routed_network import *

PORT = 7600
CUT_S = 2.7
# With these heartbeat limits a process that is cut off from the coordinator is lost, and none gives
# up one that it waits for: it would after twice the limit. TCP doubles its pauses, and may repeat
# what a cut has dropped 1 s after the cut.
COORDINATOR_LIMIT_S = 1
OTHER_LIMIT_S = 2.5
# So that a process that was lost takes part again before the job ends.
COORDINATOR_CLOCKS = 700
OTHER_CLOCKS = 400
TABLES = 6
PARAMETERS = 64  # of a table
SLACKS = {"BSP": 0, "SSP slack: 2": 2}


def both_ways(pairs):
    return [way for one, other in pairs for way in ((one, other), (other, one))]


class Cuts(CountingTest):
    def setUp(self):
        super().setUp()
        if reason := missing():
            self.skipTest(reason)
        self.network = RoutedNetwork()
        self.addCleanup(self.network.close)
        self.addCleanup(self.kill_all)
        self.network.open()
        self.network.add_host("control")

    def command(self, program, arguments):
        """Every daemon has its own host, commands have another one."""
        words = super().command(program, arguments)
        host = "control" if program == "tautline" else arguments[1].stem
        return self.network.command(host, words)

    def start_cluster(self, limit_s, servers=2, replication=""):
        self.network.add_host("coordinator")
        address = self.network.addresses["coordinator"]
        self.coordinator = f"{address}:{PORT}"
        self.start_daemon("server", "coordinator", (
            f'shards: 0 listen: "{address}" coordinator {{ heartbeat_limit_s: {limit_s} '
            f"replication {{ interval: 2 {replication} }} }}"))
        self.servers = [f"server{i}" for i in range(servers)]
        for name in self.servers:
            self.start_daemon("server", name, (
                f'listen: "{self.network.add_host(name)}" shared_memory: false'))
        self.workers = ["worker0", "worker1"]
        for name in self.workers:
            self.network.add_host(name)
            self.start_daemon("worker", name, "shared_memory: false")

    def log(self):
        """Of the coordinator, since the last job was submitted."""
        return (self.folder / "coordinator.log").read_text()[self.log_begin:]

    def is_logged(self, pattern):
        return re.search(pattern, self.log())

    def saved(self, job):
        return self.folder / f"saved job {job}"

    def submit_any(self, mode, clocks, counts, clock_ms=10):
        log = self.folder / "coordinator.log"
        self.log_begin = len(log.read_text())
        self.jobs = getattr(self, "jobs", 0) + 1
        if not counts:
            job = self.submit(mode, clocks, clock_ms)
        else:
            job = self.submit_counting(mode, clocks, PARAMETERS, clock_ms, tables=TABLES, more=(
                f'reduction: SUM checkpoint {{ folder: "{self.saved(self.jobs)}" }}'))
        self.assertEqual(job, self.jobs)
        return job

    def wait_for_end(self, job):
        wait_until(lambda: self.is_logged(rf"job {job}: (DONE|FAILED|STOPPED)"), 60,
                   what=f"the end of job {job}")
        return self.wait_for_job(job, "DONE")

    def wait_for_everyone(self):
        """Every process lives, and the coordinator can give it work."""
        def are_back():
            status = self.status()
            return ([one["name"] for one in status["servers"] if one["state"] == "live"
                     and int(one["shards"]) > 0] == self.servers
                    and sorted(one["name"] for one in status["workers"]
                               if one["state"] == "idle") == self.workers)
        wait_until(are_back, what="every server and worker")
        for process in self.processes:
            self.assertIsNone(process.poll())

    def assert_counts(self, job, clocks, slack):
        """Every update of each member is applied once; of the clocks at which no worker had a share
        there are none. A worker that is lost leaves at the lowest clock that any shard has of it,
        and what others have applied beyond that stays."""
        left = re.findall(rf'job {job}: worker "(\w+)" has left at clock (\d+)', self.log())
        joined = dict(re.findall(rf'job {job}: worker "(\w+)" has joined as \d+ from clock (\d+)',
                                 self.log()))
        self.assertLessEqual(len(left), 1)
        expected = 2 * clocks - sum(int(joined.get(name, clocks)) - int(clock)
                                    for name, clock in left)
        checkpoint = self.saved(job) / f"tiny_iter_{clocks}"
        updates = self.updates_until(checkpoint)
        self.assertEqual(sum(updates), expected)
        shares = [one.share for one in self.members(checkpoint) if one.leave < clocks]
        counted = self.counts(checkpoint, PARAMETERS, TABLES)
        for counts in counted:
            for share, count in enumerate(counts):
                beyond = (slack + 1) * shares.count(share)
                self.assertGreaterEqual(count, updates[share], (updates, counted))
                self.assertLessEqual(count, updates[share] + beyond, (updates, counted))
        most = max(map(sum, counted))
        return (f"{expected} updates applied, each once" if most == expected
                else f"{expected} to {most:g} updates applied")

    def longest_pause(self, job):
        """In which no worker has ended a clock."""
        times = []
        for file in (self.folder / "records").glob(f"job{job}-*/metrics.csv"):
            with file.open() as lines:
                times += [float(row["unix_time_s"]) for row in csv.DictReader(lines)]
        times.sort()
        return max(later - sooner for sooner, later in zip(times, times[1:]))

    def is_behind(self, job):
        """Whether the servers miss images or confirmations."""
        lags = [float(backup.get("behind_s", 0)) for shard in self.running(job)["shards"]
                for backup in shard.get("backups", [])]
        return self.is_logged("is given up as a backup") or max(lags, default=0) > 1

    def cut(self, job, sender, receiver, seconds=CUT_S):
        """Until a process that is cut off from the coordinator is lost, or a backup is behind, too.
        """
        self.wait_for_protected_clocks(job)
        begin = time.monotonic()
        self.network.cut(sender, receiver)
        time.sleep(seconds)
        if "coordinator" in (sender, receiver):
            wait_until(lambda: self.is_logged("was declared lost"), what="the loss")
        if sender in self.servers and receiver in self.servers:
            wait_until(lambda: self.is_behind(job), what="a backup that is behind")
        self.network.heal(sender, receiver)
        return time.monotonic() - begin

    def run_with(self, mode, sender, receiver, clocks, undisturbed):
        """undisturbed  the parameters' SHA-256 of a job without a cut"""
        other = receiver if sender == "coordinator" else sender
        of_coordinator = "coordinator" in (sender, receiver)
        loses_worker = of_coordinator and other in self.workers
        counts = mode != "BSP" or loses_worker
        job = self.submit_any(mode, clocks, counts)
        took = self.cut(job, sender, receiver)
        ended = self.wait_for_end(job)
        lost = re.findall(r'(?:server|worker) "(\w+)".* was declared lost', self.log())
        self.assertEqual(lost, [other] if of_coordinator else [])
        if loses_worker:
            self.assertTrue(self.is_logged(rf'job {job}: worker "{other}" has joined as 2'))
            found = self.assert_counts(job, clocks, SLACKS[mode])
        else:
            self.assertFalse(self.is_logged("has left at clock"))
            self.assertEqual(ended["parameters_sha256"], undisturbed)
            found = "the bits of the undisturbed run"
        if of_coordinator and not loses_worker:
            self.assertTrue(self.is_logged(rf'job {job}: shard \d moves to server "{other}"'))
        self.wait_for_everyone()
        given_up = "; a backup is given up" if self.is_logged("is given up as a backup") else ""
        print(f"{mode}: {sender} to {receiver}, cut for {took:.1f} s: "
              f"{'lost and back' if lost else 'none is lost'}{given_up}; no clock for "
              f"{self.longest_pause(job):.2f} s; {found}", file=sys.stderr)
        if counts and not loses_worker:  # the last checkpoint has the same parameters
            self.assert_counts(job, clocks, SLACKS[mode])

    def check(self, mode, pairs, limit_s, clocks, **cluster):
        self.start_cluster(limit_s, **cluster)
        job = self.submit_any(mode, clocks, mode != "BSP", clock_ms=0)
        undisturbed = self.wait_for_end(job)["parameters_sha256"]
        for sender, receiver in both_ways(pairs):
            with self.subTest(f"{sender} to {receiver}"):
                self.run_with(mode, sender, receiver, clocks, undisturbed)

    def check_every_pair_of_the_coordinator(self, mode, replication):
        self.check(mode, [("coordinator", one) for one in (
            "server0", "server1", "server2", "worker0", "worker1")], COORDINATOR_LIMIT_S,
            COORDINATOR_CLOCKS, servers=3, replication=replication)

    def check_every_other_pair(self, mode, replication):
        servers = ["server0", "server1", "server2"]
        pairs = [(server, other) for i, server in enumerate(servers)
                 for other in (*servers[i + 1:], "worker0", "worker1")]
        self.check(mode, pairs, OTHER_LIMIT_S, OTHER_CLOCKS, servers=3, replication=replication)

    def test_one_way_cuts_from_and_to_the_coordinator_change_no_result(self):
        self.check("BSP", [("coordinator", "server0"), ("coordinator", "worker0")],
                   COORDINATOR_LIMIT_S, COORDINATOR_CLOCKS)

    def test_one_way_cuts_between_servers_and_workers_change_no_result(self):
        self.check("BSP", [("server0", "server1"), ("server0", "worker0")], OTHER_LIMIT_S,
                   OTHER_CLOCKS)

    def test_a_worker_that_a_one_way_cut_separates_from_a_server_for_longer_gets_the_next_job(
            self):
        mode, clocks, cut_s = "SSP slack: 2", 300, 4
        self.start_cluster(limit_s=1)
        for sender, receiver in both_ways([("server1", "worker0")]):
            job = self.submit_any(mode, clocks, True)
            self.cut(job, sender, receiver, cut_s)
            self.wait_for_end(job)
            self.assertTrue(self.is_logged(
                rf'job {job}: worker "worker0": .* has not answered for 2\.\d s'))
            self.assertFalse(self.is_logged("was declared lost"))
            self.wait_for_everyone()
            found = self.assert_counts(job, clocks, SLACKS[mode])
            print(f"{mode}: {sender} to {receiver}, cut for {cut_s} s: worker0 leaves the job; no "
                  f"clock for {self.longest_pause(job):.2f} s; {found}", file=sys.stderr)
            self.wait_for_end(self.submit_any(mode, clocks, True, clock_ms=0))
            self.assert_counts(self.jobs, clocks, SLACKS[mode])

    def test_one_way_cuts_between_the_coordinator_and_each_process_in_bsp(self):
        self.check_every_pair_of_the_coordinator("BSP", "limit_s: 1")

    def test_one_way_cuts_between_the_coordinator_and_each_process_in_ssp(self):
        self.check_every_pair_of_the_coordinator("SSP slack: 2", "limit_s: 1")

    def test_one_way_cuts_between_the_coordinator_and_each_process_with_logged_updates(self):
        self.check_every_pair_of_the_coordinator("SSP slack: 2", "limit_s: 1 durability: SYNC")

    def test_one_way_cuts_between_every_server_and_the_other_processes_in_bsp(self):
        self.check_every_other_pair("BSP", "limit_s: 1")

    def test_one_way_cuts_between_every_server_and_the_other_processes_in_ssp(self):
        self.check_every_other_pair("SSP slack: 2", "limit_s: 1")

    def test_one_way_cuts_between_every_server_and_the_other_processes_with_logged_updates(self):
        self.check_every_other_pair("SSP slack: 2", "limit_s: 1 durability: SYNC")


if __name__ == "__main__":
    unittest.main()
