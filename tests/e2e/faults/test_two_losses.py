"""A server with parameters and a worker die at the same moment: of the updates that a worker has
read none is lost where they are logged, and without that no more than is documented."""

import re
import sys

from cluster import *
from faults.counting import *

CLOCKS = 400
PARAMETERS = 64  # one slice, so one shard
INTERVAL = 8
# Clocks by which the lost worker may be ahead of the other one, or an image on its way.
AHEAD = 2


class TwoLosses(CountingTest):
    def start_cluster(self, durability):
        self.start_server("coordinator", shards=0, settings=(
            f"heartbeat_limit_s: 1 replication {{ interval: {INTERVAL} "
            f"durability: {durability} }}"))
        self.servers = {f"server{i}": self.start_daemon("server", f"server{i}") for i in range(2)}
        self.workers = [self.start_daemon("worker", f"worker{i}") for i in range(2)]

    def lose_both(self, mode):
        """Kills the shard's server and worker1 while they train. Returns how many of worker1's
        updates were read before, at least, and how many the parameters have in the end."""
        folder = self.folder / f"saved {mode}"
        job = self.submit_counting(mode, CLOCKS, PARAMETERS, clock_ms=5, more=(
            f'reduction: SUM checkpoint {{ folder: "{folder}" }}'))
        self.wait_for_protected_clocks(job)
        primary = self.running(job)["shards"][0]["server"]
        self.servers[primary].kill()
        self.workers[1].kill()
        ended = self.wait_for_job(job, "DONE", 90)
        applied = self.applied(folder, CLOCKS, PARAMETERS)
        shares = {one.name: one.share for one in self.members(folder / f"tiny_iter_{CLOCKS}")}
        self.assertEqual(applied[shares["worker0"]], CLOCKS)
        kept = applied[shares["worker1"]]
        reads = self.read_of_others(job, "worker0", PARAMETERS)
        self.assertEqual(len(reads), CLOCKS)
        lost = next(w for w in ended["workers"] if w["name"] == "worker1")
        self.assertEqual(lost["state"], "lost")
        # Nothing of it was applied twice: what the parameters have are its first clocks.
        log = (self.folder / "coordinator.log").read_text()
        left = re.findall(rf'job {job}: worker "worker1" has left at clock (\d+)', log)
        self.assertEqual([int(clock) for clock in left], [kept])
        # Its last report is of a clock that has read what it had pushed before.
        read = max(*reads, int(lost["progress"]["clock"]) - 1)
        print(f"{mode}: read {read:g} updates of the lost worker, {kept:g} are kept",
              file=sys.stderr)
        self.servers[primary] = self.start_daemon("server", primary)
        self.workers[1] = self.start_daemon("worker", "worker1")
        return read, kept, reads

    def test_no_logged_update_is_lost_with_a_server_and_a_worker(self):
        self.start_cluster("SYNC")
        for mode in ("BSP", "SSP", "ASYNC"):
            with self.subTest(mode):
                read, kept, reads = self.lose_both(mode)
                self.assertGreaterEqual(kept, read)
                self.assertEqual(reads, sorted(reads), "a read has less than one before it")

    def test_updates_of_an_interval_at_most_are_lost_with_a_server_and_a_worker(self):
        self.start_cluster("ASYNC")
        for mode in ("BSP", "SSP", "ASYNC"):
            with self.subTest(mode):
                read, kept, _ = self.lose_both(mode)
                self.assertGreaterEqual(kept, read - INTERVAL - AHEAD)
