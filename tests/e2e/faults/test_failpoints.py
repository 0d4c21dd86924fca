"""A server dies, as by kill -9, at each of the places in its code at which something could be lost
or done twice; the others train on, and the parameters are those of an undisturbed run."""

import os
import re
import sys
import time
import unittest.mock

from cluster import *
from faults.counting import *

PARAMETERS = 600000
CLOCKS = 250


def failpoints():
    """Those of the servers' code."""
    text = "".join(path.read_text() for path in sorted((SOURCE / "server").rglob("*.cpp")))
    calls = re.findall(r"failpoint\(([^)]*)\)", text)
    return sorted({name for call in calls for name in re.findall(r'"([^"]+)"', call)})


# Met where updates count once their backup has them.
IN_SYNC = {"update logged"}
# No worker waits for a clock in ASYNC.
WITH_A_BOUND = {"clock applied", "read parked"}
LEFT_OUT = {"change reported",   # another shard has lost its backup, and two losses are too many
            "update postponed",  # met by chance alone
            # Of other checkpoints than this job's, or of the coordinator: test_checkpoint_ways.py.
            "checkpoint linked", "part written", "parts moved", "manifests copied",
            "manifest written", "checkpoint in place"}


class Failpoints(CountingTest):
    def start_cluster(self, durability):
        self.start_server("coordinator", shards=0, settings=(
            f"heartbeat_limit_s: 1 replication {{ interval: 2 durability: {durability} }}"))
        self.servers = {i: self.start_daemon("server", f"server{i}") for i in range(3)}
        self.workers = [self.start_daemon("worker", f"worker{i}") for i in range(2)]

    def start_victim(self, point, when):
        """Starts server1 again, to die at the failpoint once the file `when` exists."""
        self.servers[1].terminate()
        self.servers[1].wait()
        wait_until(lambda: not any(s["name"] == "server1" and s["state"] == "live"
                                   for s in self.status()["servers"]), what="server1's loss")
        armed = {"TAUTLINE_FAILPOINT": point, "TAUTLINE_FAILPOINT_WHEN": str(when)}
        with unittest.mock.patch.dict(os.environ, armed):
            self.servers[1] = self.start_daemon("server", "server1")

    def lead_to(self, point, job):
        """What has the victim get to the failpoint, where training and its end do not."""
        if point == "revision adopted":
            self.start_daemon("server", f"server{3 + job}")
        elif point in WITH_A_BOUND:
            # The other worker's reads wait for this one, which two as fast ones need not do.
            self.workers[0].send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            self.workers[0].send_signal(signal.SIGCONT)

    def submit_for(self, mode, clock_ms):
        """In BSP a net that learns: its bits depend on every update and on the order of sums. The
        other modes promise no order, so a job that counts."""
        if mode == "BSP":
            return self.submit(mode, CLOCKS, clock_ms)
        return self.submit_counting(mode, CLOCKS, PARAMETERS, clock_ms)

    def run_with(self, point, mode):
        when = self.folder / f"{mode}-{point.replace(' ', '-')}"
        self.start_victim(point, when)
        job = self.submit_for(mode, clock_ms=10)
        self.wait_for_protected_clocks(job)
        when.touch()
        self.lead_to(point, job)
        ended = self.wait_for_job(job, "DONE", 90)
        wait_until(lambda: self.servers[1].poll() is not None, 10,
                   what=f'the death of server1 at "{point}"')
        self.assertEqual(self.servers[1].returncode, -signal.SIGKILL)
        return ended["parameters_sha256"]

    def check(self, mode, durability="ASYNC"):
        self.start_cluster(durability)
        undisturbed = self.submit_for(mode, clock_ms=0)
        expected = self.wait_for_job(undisturbed, "DONE", 90)["parameters_sha256"]
        left_out = LEFT_OUT | (WITH_A_BOUND if mode == "ASYNC" else set())
        if durability != "SYNC":
            left_out |= IN_SYNC
        tried = 0
        for point in failpoints():
            if point in left_out:
                continue
            with self.subTest(point):
                self.assertEqual(self.run_with(point, mode), expected)
                self.assertTrue(all(w.poll() is None for w in self.workers), "a worker ended")
                tried += 1
                print(f"{mode}: killed at \"{point}\": the parameters of the undisturbed run",
                      file=sys.stderr)
        self.assertGreaterEqual(tried, 16 if mode == "ASYNC" else 18)

    def test_a_primary_may_die_at_every_failpoint_in_bsp(self):
        self.check("BSP")

    def test_a_primary_may_die_at_every_failpoint_in_ssp(self):
        self.check("SSP")

    def test_a_primary_may_die_at_every_failpoint_in_async(self):
        self.check("ASYNC")

    def test_a_primary_may_die_at_every_failpoint_with_updates_that_are_logged(self):
        self.check("SSP", durability="SYNC")


if __name__ == "__main__":
    unittest.main()
