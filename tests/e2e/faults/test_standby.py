"""Several coordinators with their state in a real etcd of three members: one leads, and another
takes over when it is lost."""

import json
import os
import shutil
import subprocess
import time
import unittest
import urllib.request

from cluster import *

ETCD = shutil.which("etcd") or shutil.which("etcd", path="/usr/sbin:/usr/bin")


@unittest.skipUnless(ETCD, "etcd is not installed")
class Standby(ClusterTest):
    def setUp(self):
        super().setUp()
        ports = free_ports(9)
        self.clients = [f"127.0.0.1:{port}" for port in ports[:3]]
        self.peers = [f"127.0.0.1:{port}" for port in ports[3:6]]
        self.places = [f"127.0.0.1:{port}" for port in ports[6:]]
        self.coordinator = ",".join(self.places)
        self.members = [self.start_member(i) for i in range(3)]
        for client in self.clients:
            wait_until(lambda: self.is_healthy(client), 60, f"etcd at {client}")
        self.brains = [self.start_brain(i) for i in range(3)]
        self.others = []

    def start_member(self, i):
        cluster = ",".join(f"m{j}=http://{peer}" for j, peer in enumerate(self.peers))
        log = (self.folder / f"etcd{i}.log").open("ab")
        self.addCleanup(log.close)
        process = subprocess.Popen(
            [ETCD, "--name", f"m{i}", "--data-dir", self.folder / f"etcd{i}",
             "--listen-client-urls", f"http://{self.clients[i]}",
             "--advertise-client-urls", f"http://{self.clients[i]}",
             "--listen-peer-urls", f"http://{self.peers[i]}",
             "--initial-advertise-peer-urls", f"http://{self.peers[i]}",
             "--initial-cluster", cluster, "--initial-cluster-state", "new",
             "--heartbeat-interval", "100", "--election-timeout", "1000"],
            stdout=log, stderr=log)
        self.processes.append(process)
        return process

    @staticmethod
    def is_healthy(client):
        try:
            with urllib.request.urlopen(f"http://{client}/health", timeout=2) as answer:
                return json.load(answer)["health"] == "true"
        except (OSError, ValueError):
            return False

    def start_brain(self, i):
        (self.folder / f"brain{i}.log").unlink(missing_ok=True)  # of an earlier life
        etcd = " ".join(f'etcd: "{client}"' for client in self.clients)
        return self.start_daemon(
            "server", f"brain{i}", f'shards: 0 coordinator {{ address: "{self.places[i]}" {etcd} '
            f'run_folder: "{self.folder / f"runs{i}"}" }}')

    def log_of(self, i):
        return (self.folder / f"brain{i}.log").read_text()

    def leader(self):
        """The one that has begun to lead last, and has not ended."""
        for i, brain in enumerate(self.brains):
            log = self.log_of(i)
            begins = log.rfind("has become the leader")
            ends = log.rfind("is no longer the leader")
            if brain.poll() is None and begins > ends:
                return i
        return None

    def start_cluster(self, workers=2):
        self.others = [self.start_daemon("server", "server0", "shards: 2")]
        for i in range(workers):
            self.others.append(self.start_daemon("worker", f"worker{i}"))
        answer = self.ask("submit", self.job(iterations=1000000, workers=workers))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "RUNNING")

    def clock(self):
        workers = self.status()["jobs"][0]["workers"]
        return min(int(worker["progress"]["clock"]) for worker in workers)

    def assert_trains_on(self, before):
        wait_until(lambda: self.clock() > before + 20, 40, "further clocks")
        job = self.status()["jobs"][0]
        self.assertEqual(job["state"], "RUNNING")
        self.assertEqual({worker["state"] for worker in job["workers"]}, {"running"})
        for process in self.others:
            self.assertIsNone(process.poll())

    def lose_leader(self, with_member=None):
        """Kills the leader, and a member of etcd; returns the seconds until another leads."""
        before = self.clock()
        lost = wait_until(self.leader, 20, "a leader") if self.leader() is None else self.leader()
        if with_member is not None:
            self.members[with_member].kill()
        self.brains[lost].kill()
        began = time.monotonic()
        wait_until(lambda: self.leader() not in (None, lost), 60, "another leader")
        took = time.monotonic() - began
        print(f"another leader after {took:.2f} s"
              + ("" if with_member is None else ", a member of etcd lost too"))
        self.assert_trains_on(before)
        self.brains[lost].wait()
        return lost

    def test_the_next_coordinator_continues_the_job(self):
        self.start_cluster()
        lost = self.lose_leader()
        # What it knew is known: the job's number, name and definition.
        self.assertEqual(self.ask("status", "1").returncode, 0)
        # It returns and stands by; the next loss is survived too, by the state of both.
        self.brains[lost] = self.start_brain(lost)
        self.lose_leader()
        answer = self.ask("stop", "--discard", 1)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "STOPPED")

    def test_a_machine_with_a_coordinator_and_a_member_of_etcd_may_be_lost(self):
        self.start_cluster()
        member = next(i for i, client in enumerate(self.clients) if self.is_etcd_leader(client))
        self.lose_leader(with_member=member)
        self.assert_still_takes_jobs()

    def is_etcd_leader(self, client):
        request = urllib.request.Request(f"http://{client}/v3/maintenance/status", b"{}")
        with urllib.request.urlopen(request, timeout=5) as answer:
            status = json.load(answer)
        return status["leader"] == status["header"]["member_id"]

    def assert_still_takes_jobs(self):
        self.assertEqual(self.ask("stop", "--discard", 1).returncode, 0)
        self.wait_for_job(1, "STOPPED")
        answer = self.ask("submit", self.job("after.textproto", workers=2))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("job 2", answer.stdout)
        self.wait_for_job(2, "DONE")

    def test_a_stopped_leader_is_replaced_and_stands_by_afterwards(self):
        self.start_cluster()
        before = self.clock()
        stopped = self.leader()
        os.kill(self.brains[stopped].pid, signal.SIGSTOP)
        wait_until(lambda: any("has become the leader" in self.log_of(i)
                               for i in range(3) if i != stopped), 60, "another leader")
        os.kill(self.brains[stopped].pid, signal.SIGCONT)
        wait_until(lambda: "is no longer the leader" in self.log_of(stopped), 20,
                   "the end of its term")
        self.assert_trains_on(before)

    def test_without_a_majority_of_etcd_training_goes_on_and_nothing_new_is_decided(self):
        self.start_cluster()
        before = self.clock()
        for member in self.members[1:]:
            os.kill(member.pid, signal.SIGSTOP)
        time.sleep(5)  # longer than the lease
        for process in self.others:
            self.assertIsNone(process.poll())
        answer = self.tautline("submit", self.job("more.textproto"), "--coordinator",
                               self.coordinator, "--wait", "3")
        self.assertNotEqual(answer.returncode, 0)
        for member in self.members[1:]:
            os.kill(member.pid, signal.SIGCONT)
        wait_until(lambda: self.leader() is not None, 60, "a leader")
        self.assert_trains_on(before + 100)
        self.assertEqual(len(self.status()["jobs"]), 1)

