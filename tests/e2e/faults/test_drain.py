"""A server or a worker leaves without a loss: on a request, or on a signal with notice."""

import importlib.machinery
import importlib.util
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types
import unittest

from cluster import *


class Drain(ServersTest):
    def start_cluster(self, workers=2, servers=2, more=""):
        self.start_server("coordinator", shards=0,
                          settings="heartbeat_limit_s: 2 replication { interval: 2 }")
        self.servers = {i: self.start_daemon("server", f"server{i}", more=more)
                        for i in range(servers)}
        self.workers = {i: self.start_daemon("worker", f"worker{i}", more=more)
                        for i in range(workers)}

    def clock(self, job):
        return max((int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"]),
                   default=0)

    def wait_for_clocks(self, job, count):
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + count, 60, what=f"{count} more clocks")

    def hosts(self, job):
        return [shard["server"] for shard in self.running(job)["shards"]]

    def wait_for_backups(self, job):
        wait_until(lambda: all(shard.get("is_protected") for shard in self.running(job)["shards"]),
                   60, what="a whole backup of each shard")

    def drain(self, name):
        answer = self.ask("drain", name)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f'no job needs "{name}" any longer', answer.stdout)

    def test_a_drained_server_hands_its_shard_over_and_gets_it_back_with_the_same_bits(self):
        self.start_cluster()
        reference = self.wait_for_job(self.submit("BSP", 600), "DONE", 120)["parameters_sha256"]
        job = self.submit("BSP", 600, clock_ms=20)
        self.wait_for_clocks(job, 5)
        self.drain("server1")
        self.assertEqual(self.servers[1].wait(30), 0)
        self.assertEqual(self.hosts(job), ["server0", "server0"])
        self.wait_for_clocks(job, 5)
        self.servers[1] = self.start_daemon("server", "server1")
        wait_until(lambda: sorted(self.hosts(job)) == ["server0", "server1"], 60,
                   what="a shard at the server that came back")
        self.wait_for_backups(job)
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)
        self.assertIn("moves to server", (self.folder / "coordinator.log").read_text())

    def test_a_drained_worker_leaves_its_job_and_another_takes_its_place(self):
        self.start_cluster()
        job = self.submit("SSP", 1000000)
        self.wait_for_clocks(job, 20)
        self.drain("worker1")
        self.assertEqual(self.workers[1].wait(30), 0)
        states = {w["name"]: w for w in self.running(job)["workers"]}
        self.assertTrue(states["worker1"]["progress"]["left"])
        self.wait_for_clocks(job, 20)
        self.start_daemon("worker", "worker2")
        wait_until(lambda: any(w["name"] == "worker2" and int(w["progress"].get("clock", 0)) > 0
                               for w in self.running(job)["workers"]), 60, what="worker2's clocks")
        self.assertIn("left", self.ask("status", job).stdout)

    def test_a_job_starts_with_its_least_workers_and_grows_and_shrinks(self):
        self.start_cluster(workers=1)
        job = self.submit("SSP", 400, clock_ms=20 * SLOWER, workers=4, more="min_workers: 1")
        self.wait_for_clocks(job, 5)
        self.assertEqual(self.running(job)["message"], "1 of 4 workers; others join while it runs")
        for i in range(1, 5):  # one more than there are shares
            self.workers[i] = self.start_daemon("worker", f"worker{i}")

        def at_work():
            return [w["name"] for w in self.running(job)["workers"]
                    if int(w["progress"].get("clock", 0)) > 0 and not w["progress"].get("left")]

        wait_until(lambda: len(at_work()) == 4, 60, what="four workers that train")
        for i in (0, 1):
            self.drain(f"worker{i}")
            self.assertEqual(self.workers[i].wait(30), 0)
        wait_until(lambda: len(at_work()) == 3, 60, what="the fifth worker in a free share")
        self.wait_for_clocks(job, 5)
        self.wait_for_job(job, "DONE", 120)

    def rolling_restart(self, *options):
        """The script's answer. What it starts outlives it, and is ended after the test."""
        self.addCleanup(self.kill_successors)
        starts = [word for role in ("server", "worker") for word in (
            f"--start-{role}", f"{BIN}/tautline-{role} --config {{old}}.textproto --name {{name}}")]
        return subprocess.run(
            [SOURCE / "scripts/rolling_restart", "--tautline", BIN / "tautline", "--coordinator",
             self.coordinator, *starts, *options], cwd=self.folder, capture_output=True, text=True,
            timeout=90 * SLOWER)

    def kill_successors(self):
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "cwd").samefile(self.folder):
                    os.kill(int(entry.name), signal.SIGKILL)
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue

    def test_every_process_of_a_bsp_job_is_replaced_by_one_command_with_the_same_bits(self):
        self.coordinator = f"127.0.0.1:{free_ports(1)[0]}"
        self.start_cluster()
        # What the user's own supervisor would do.
        brain = self.processes[0]
        again = self.file("again", f"""#!/bin/sh
kill {brain.pid}
while [ -e coordinator.lives ]; do sleep 0.05; done
{BIN}/tautline-server --config coordinator.textproto >coordinator.out 2>&1 &
""")
        again.chmod(0o755)
        lives = self.file("coordinator.lives", "")
        threading.Thread(target=lambda: (brain.wait(), lives.unlink()), daemon=True).start()
        reference = self.wait_for_job(self.submit("BSP", 700), "DONE", 120)["parameters_sha256"]
        job = self.submit("BSP", 700, clock_ms=20)
        self.wait_for_clocks(job, 5)
        answer = self.rolling_restart("--restart-coordinator", again)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout.splitlines(), [
            line for role in ("server", "worker") for i in (0, 1)
            for line in (f"{role}{i}-2 has joined", f"{role}{i} has left")
        ] + ["the coordinator has restarted", "done"])
        for process in (brain, *self.servers.values(), *self.workers.values()):
            self.assertEqual(process.wait(30), 0)
        self.wait_for_clocks(job, 5)
        self.assertEqual({w["name"] for w in self.running(job)["workers"]
                          if w["state"] == "running"}, {"worker0-2", "worker1-2"})
        self.assertEqual(sorted(self.hosts(job)), ["server0-2", "server1-2"])
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)

    def test_a_rolling_restart_ends_with_a_reason_and_costs_nothing(self):
        self.start_cluster(servers=1)
        job = self.submit("SSP", 1000000)
        self.wait_for_clocks(job, 5)
        kept = ("--keep", "server0")
        absent = self.rolling_restart(*kept, "--start-worker", "/absent/worker {name}")
        self.assertEqual((absent.returncode, absent.stderr), (
            1, "rolling_restart: worker0-2 does not start: /absent/worker: No such file or "
            "directory\n"))
        refused = self.rolling_restart(*kept, "--start-worker",
                                       f"{BIN}/tautline-worker --name {{name}}")
        self.assertEqual(refused.returncode, 1)
        self.assertRegex(refused.stderr,
                         "^rolling_restart: worker0-2 does not start, status 2: .*\n$")
        silent = self.rolling_restart(*kept, "--start-worker", "true {name}", "--patience", "1")
        self.assertEqual((silent.returncode, silent.stderr),
                         (1, "rolling_restart: worker0-2 has not joined within 1 s\n"))
        same = self.rolling_restart("--start-worker", "tautline-worker --name worker0")
        self.assertEqual(same.returncode, 2)
        self.assertIn("a successor has another name", same.stderr)
        self.wait_for_clocks(job, 5)
        self.assertEqual({w["name"] for w in self.status()["workers"]}, {"worker0", "worker1"})

    def held(self):
        """The jobs that wait, and whether they are held."""
        return {int(one["job"]): one.get("held", False) for one in self.status()["jobs"]
                if one["state"] == "SUBMITTED"}

    def test_jobs_that_wait_are_held_during_a_rolling_restart_and_start_on_no_successor(self):
        self.start_cluster(servers=1)
        job = self.submit("SSP", 1000000, clock_ms=5)
        self.wait_for_clocks(job, 5)
        waiting, kept_back = (self.submit("SSP", 1000000, workers=1) for _ in range(2))
        self.assertEqual(self.ask("hold", kept_back).returncode, 0)
        begin = f"held until the workers are replaced: job {waiting}"
        end = f"released: job {waiting}"
        after = {waiting: False, kept_back: True}
        kept = ("--keep", "server0")
        failed = self.rolling_restart(*kept, "--start-worker", "true {name}", "--patience", "1")
        self.assertEqual((failed.returncode, failed.stdout.splitlines()), (1, [begin, end]))
        self.assertEqual(self.held(), after)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            script = subprocess.Popen(
                [SOURCE / "scripts/rolling_restart", "--tautline", BIN / "tautline",
                 "--coordinator", self.coordinator, "--start-worker", "true {name}"],
                cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.processes.append(script)
            self.assertEqual(script.stdout.readline(), begin + "\n")
            self.assertEqual(self.held(), {waiting: True, kept_back: True})
            script.send_signal(number)
            self.assertEqual((script.wait(30), script.stdout.read()), (status, end + "\n"))
            self.assertEqual(self.held(), after)
        answer = self.rolling_restart(*kept)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout.splitlines(), [
            begin, *(line for i in (0, 1)
                     for line in (f"worker{i}-2 has joined", f"worker{i} has left")), end, "done"])
        self.assertEqual({w["name"] for w in self.running(job)["workers"]
                          if w["state"] == "running"}, {"worker0-2", "worker1-2"})
        self.assertEqual(self.held(), after)
        self.assertEqual(self.ask("stop", job, "--discard").returncode, 0)
        self.wait_for_job(waiting, "RUNNING")

    def test_a_signal_with_notice_drains_first(self):
        self.start_cluster(more="preemption_notice_s: 60")
        job = self.submit("ASYNC", 1000000)
        self.wait_for_clocks(job, 20)
        self.workers[0].send_signal(signal.SIGTERM)
        self.servers[0].send_signal(signal.SIGTERM)
        self.assertEqual(self.workers[0].wait(45), 0)
        self.assertEqual(self.servers[0].wait(45), 0)
        self.assertEqual(self.hosts(job), ["server1", "server1"])
        self.wait_for_clocks(job, 20)
        log = (self.folder / "server0.log").read_text()
        self.assertIn("leaving within 60 s", log)
        self.assertIn("drained: no job needs this server", log)

    def test_what_cannot_be_drained_is_refused_with_the_way_out(self):
        self.start_cluster(servers=1)
        job = self.submit("SSP", 1000000)
        self.wait_for_clocks(job, 5)
        refused = self.ask("drain", "absent")
        self.assertEqual(refused.returncode, 1)
        self.assertIn('no such server or worker: "absent"', refused.stderr)
        refused = self.ask("drain", "server0")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("whose shards have no backups", refused.stderr)
        self.assertIn(f"tautline stop {job}", refused.stderr)
        self.wait_for_clocks(job, 5)


class RollingRestart(unittest.TestCase):
    def script(self):
        loader = importlib.machinery.SourceFileLoader("rolling_restart",
                                                      str(SOURCE / "scripts/rolling_restart"))
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader(
            loader.name, loader))
        before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            loader.exec_module(script)
        finally:
            sys.dont_write_bytecode = before
        return script

    def test_a_rolling_restart_leaves_external_members_alone(self):
        script = self.script()
        status = {"servers": [{"name": "coordinator", "state": "idle", "shards": 0},
                              {"name": "server0", "state": "idle", "shards": 1}],
                  "workers": [{"name": "worker0", "state": "idle", "device": "CPU, 2 threads"},
                              {"name": "worker1", "state": "lost", "device": "CPU, 2 threads"},
                              {"name": "player0", "state": "running",
                               "device": "an external program"}]}
        self.assertEqual(set(script.present(status, "server")), {"server0"})
        self.assertEqual(set(script.present(status, "worker")), {"worker0"})

    def test_a_rolling_restart_waits_for_processes_that_a_coordinator_knows_from_its_state(self):
        script = self.script()
        script.BETWEEN_LOOKS_S = 0.01
        cluster = script.Cluster(types.SimpleNamespace(
            tautline="tautline", coordinator=None, config=None, keys=None, insecure=False,
            patience=30, restart_coordinator=["true"]))
        begin = time.monotonic()
        looks = []

        def status():
            # The first look is before the restart, after which server0 reports late.
            looks.append(time.monotonic())
            silent_s = looks[-1] - begin if 1 < len(looks) < 5 else 0.0
            return {"servers": [{"name": "server0", "state": "live", "shards": 1,
                                 "silent_s": silent_s}],
                    "workers": [{"name": "worker0", "state": "running", "device": "CPU",
                                 "silent_s": 0.0}]}

        cluster.status = cluster.require_status = status
        script.restart_coordinator(cluster)
        self.assertEqual(len(looks), 5)


if __name__ == "__main__":
    unittest.main()
