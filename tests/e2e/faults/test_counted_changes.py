"""Workers and servers join a running job and leave it without a loss: the parameters have each
update of each member once."""

import concurrent.futures
import re
import sys
import unittest

from cluster import *
from faults.counting import *

PARAMETERS = 64  # of a table
TABLES = 8
# The jobs are stopped, since nothing says how long the changes take.
CLOCKS = 1000000


class CountedChanges(CountingTest):
    def start_cluster(self, servers, workers, more=""):
        """No process must be lost, however slow the machine is.
        more  in the files of its servers and workers
        """
        self.more = more
        self.start_server("coordinator", shards=0, settings=(
            "heartbeat_limit_s: 60 replication { interval: 2 }"))
        self.started = {}
        self.start_servers(*range(servers))
        self.start_workers(*range(workers))

    def start_servers(self, *numbers):
        # Shards are never divided: one for each of four servers.
        for i in numbers:
            self.started[f"server{i}"] = self.start_daemon("server", f"server{i}", "shards: 2",
                                                           more=self.more)

    def start_workers(self, *numbers):
        for i in numbers:
            self.started[f"worker{i}"] = self.start_daemon("worker", f"worker{i}", more=self.more)

    def submit_saved(self, mode, workers, clock_ms, more=""):
        self.saved = self.folder / "saved"
        more += f' reduction: SUM checkpoint {{ folder: "{self.saved}" }}'
        return self.submit_counting(mode, CLOCKS, PARAMETERS, clock_ms, more, TABLES, workers)

    def clocks(self, job):
        """Of each member that trains."""
        return {w["name"]: int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"]
                if w["state"] == "running" and not w["progress"].get("left")}

    def wait_for_members(self, job, *names):
        """These and no others train, each of them a few clocks from now on."""
        wait_until(lambda: self.clocks(job).keys() == set(names), 60, what=f"{names} as members")
        before = self.clocks(job)

        def have_trained():
            clocks = self.clocks(job)
            return all(clocks.get(name, 0) > before[name] + 5 for name in names)

        wait_until(have_trained, 60, what=f"clocks of {names}")

    def hosts(self, job):
        return {shard["server"] for shard in self.running(job)["shards"]}

    def wait_for_hosts(self, job, *names):
        """Each of these and no other server has shards, and each shard a backup."""
        wait_until(lambda: self.hosts(job) == set(names) and self.is_protected(job), 60,
                   what=f"protected shards on {names}")

    def drain(self, *names):
        """Drains processes at the same time, and waits until they have ended."""
        with concurrent.futures.ThreadPoolExecutor(len(names)) as threads:
            answers = list(threads.map(lambda name: self.ask("drain", name, timeout=120), names))
        for name, answer in zip(names, answers):
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(self.started[name].wait(60 * SLOWER), 0, name)

    def stop(self, job):
        """Stops the job, which is saved with every clock that was trained; the checkpoint."""
        answer = self.ask("stop", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        message = self.wait_for_job(job, "STOPPED", 90)["message"]
        self.assertRegex(message, r"saved at clock \d+")
        return self.saved / f"tiny_iter_{re.search('saved at clock ([0-9]+)', message)[1]}"

    def assert_each_update_counts_once(self, job, checkpoint, workers, left):
        """left  the names of the members that have left before the end; no member was lost"""
        log = (self.folder / "coordinator.log").read_text()
        self.assertNotIn("was declared lost", log)
        self.assertEqual(set(re.findall(r'worker "(\w+)" has left at clock', log)), set(left))
        members = self.members(checkpoint)
        for one in members:
            # What a worker has written itself is complete a moment after the job's end.
            clocks = one.leave - one.join
            wait_until(lambda: self.recorded_clocks(job, one.name) >= clocks,
                       what=f"the records of {one}")
            self.assertEqual(self.recorded_clocks(job, one.name), clocks, one)
        updates = self.updates_until(checkpoint, workers)
        for counts in self.counts(checkpoint, PARAMETERS, TABLES, workers):
            self.assertEqual(counts, updates, members)
        print(f"{sum(updates)} updates of {len(members)} members applied, each once: {updates}",
              file=sys.stderr)

    def test_each_update_counts_once_where_workers_and_servers_come_and_go(self):
        self.start_cluster(servers=2, workers=2)
        job = self.submit_saved("SSP", workers=8, clock_ms=20 * SLOWER, more="min_workers: 2")
        self.wait_for_protected_clocks(job)
        self.start_servers(2)
        self.start_workers(2, 3, 4)
        self.start_servers(3)
        self.start_workers(5, 6, 7)
        self.wait_for_members(job, *(f"worker{i}" for i in range(8)))
        self.wait_for_hosts(job, *(f"server{i}" for i in range(4)))
        # The first ones leave; those that remain have joined while it ran.
        self.drain("worker0", "server0", "worker1")
        self.wait_for_hosts(job, "server1", "server2", "server3")
        self.drain("worker2", "worker3", "server1")
        self.wait_for_hosts(job, "server2", "server3")
        self.drain("worker4")
        self.wait_for_members(job, "worker5", "worker6", "worker7")
        self.assert_each_update_counts_once(job, self.stop(job), 8,
                                            [f"worker{i}" for i in range(5)])

    def check_signals_with_notice(self, mode):
        """A worker and a server get SIGTERM at the same time, and leave before they must."""
        self.start_cluster(servers=2, workers=2, more="preemption_notice_s: 60")
        job = self.submit_saved(mode, workers=2, clock_ms=5 * SLOWER)
        self.wait_for_protected_clocks(job)
        for name in ("worker0", "server0"):
            self.started[name].send_signal(signal.SIGTERM)
        for name in ("worker0", "server0"):
            self.assertEqual(self.started[name].wait(90 * SLOWER), 0, name)
            log = (self.folder / f"{name}.log").read_text()
            self.assertIn("leaving within 60 s", log)
            self.assertIn("drained: no job needs this", log)
        self.assertEqual(self.hosts(job), {"server1"})
        self.wait_for_members(job, "worker1")
        self.assert_each_update_counts_once(job, self.stop(job), 2, ["worker0"])

    def test_no_update_is_lost_with_processes_that_get_a_signal_with_notice_in_ssp(self):
        self.check_signals_with_notice("SSP")

    def test_no_update_is_lost_with_processes_that_get_a_signal_with_notice_in_async(self):
        self.check_signals_with_notice("ASYNC")


if __name__ == "__main__":
    unittest.main()
