"""Several coordinators with their state in a real etcd of three members: one leads, and another
takes over when it is lost."""

import base64
import collections
import json
import os
import re
import shutil
import subprocess
import threading
import time
import unittest
import urllib.error
import urllib.request

from cluster import *

ETCD = shutil.which("etcd") or shutil.which("etcd", path="/usr/sbin:/usr/bin")

# Of a member, which a test fills.
QUOTA_BYTES = 16 << 20

# Seconds until another coordinator leads: the lease and a look at it, and before that an election
# of etcd where its leader is lost too. Half as long again is allowed, as other programs run.
LIMIT_S = 3
LIMIT_WITH_ELECTION_S = 6
ALLOWED = 1.5


class Submitter(threading.Thread):
    """Submits one job after the other until it is ended.
    wait_s       for each answer
    prioritizes  it changes the priority of each, too"""

    # number, priority  None: not confirmed
    Try = collections.namedtuple("Try", "name clocks begun ended number priority error")

    def __init__(self, test, name, wait_s, prioritizes):
        super().__init__()
        self.test, self.name, self.wait_s, self.prioritizes = test, name, wait_s, prioritizes
        self.tries = []
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.wait(0.05):
            self.tries.append(self.submit(len(self.tries)))

    def submit(self, i):
        name, clocks = f"{self.name} {i}", 1000 + i
        path = self.test.job(f"{self.name}.textproto", clocks, workers=2)
        path.write_text(path.read_text().replace('name: "tiny"', f'name: "{name}"', 1))
        begun = time.monotonic()
        answer = self.test.ask("submit", path, "--wait", self.wait_s)
        ended = time.monotonic()
        number, priority = None, None
        if answer.returncode == 0:
            number = int(re.search(r"job (\d+)", answer.stdout)[1])
            if self.prioritizes:
                changed = self.test.ask("priority", number, i + 1, "--wait", self.wait_s)
                priority = i + 1 if changed.returncode == 0 else None
        return self.Try(name, clocks, begun, ended, number, priority, answer.stderr)

    def confirmed(self, begin=0):
        """Its submissions from one on that were confirmed."""
        return [one for one in self.tries[begin:] if one.number is not None]

    def end(self):
        self.is_over.set()
        self.join()


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
             "--heartbeat-interval", "100", "--election-timeout", "1000",
             "--auto-compaction-retention", "1h", "--quota-backend-bytes", str(QUOTA_BYTES)],
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

    def leaders(self):
        """Those that have begun to lead, and have not ended."""
        return [i for i, brain in enumerate(self.brains) if brain.poll() is None and
                self.log_of(i).rfind("has become the leader") >
                self.log_of(i).rfind("is no longer the leader")]

    def leader(self):
        return next(iter(self.leaders()), None)

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
        member = None
        if with_member is not None:
            leads = self.is_etcd_leader(self.clients[with_member])
            member = "leader" if leads else "follower"
            self.members[with_member].kill()
        self.brains[lost].kill()
        began = time.monotonic()
        wait_until(lambda: self.leader() not in (None, lost), 60, "another leader")
        self.assert_soon(began, f", etcd's {member} lost too" if member else "",
                         LIMIT_WITH_ELECTION_S if member == "leader" else LIMIT_S)
        self.assert_trains_on(before)
        self.brains[lost].wait()
        return lost

    def assert_soon(self, began, what, limit_s):
        """Another coordinator leads now."""
        took = time.monotonic() - began
        self.without_leader = began + took / 2
        print(f"another leader after {took:.2f} s{what}")
        self.assertLess(took, limit_s * ALLOWED * SLOWER)

    def test_the_next_coordinator_continues_the_job(self):
        self.start_cluster()
        lost = self.lose_leader()
        # What it knew is known: the job's number, name and definition.
        self.assertEqual(self.ask("status", "1").returncode, 0)
        # It returns as a standby; the next loss is survived too, by the state of both.
        self.brains[lost] = self.start_brain(lost)
        self.lose_leader()
        answer = self.ask("stop", "--discard", 1)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "STOPPED")

    def test_a_machine_with_a_coordinator_and_a_member_of_etcd_may_be_lost(self):
        self.start_cluster()
        self.lose_leader(with_member=self.a_member(leads=True))
        self.assert_still_takes_jobs()

    def a_member(self, leads):
        """One that leads etcd, or one that follows."""
        return next(i for i, client in enumerate(self.clients)
                    if self.is_etcd_leader(client) == leads)

    @staticmethod
    def ask_etcd(client, path, request):
        request = urllib.request.Request(f"http://{client}/v3/{path}", json.dumps(request).encode())
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def is_etcd_leader(self, client):
        status = self.ask_etcd(client, "maintenance/status", {})
        return status["leader"] == status["header"]["member_id"]

    def check_submissions(self, leads):
        """The leader is lost together with etcd's leader or a follower, while jobs are submitted,
        some with a long wait for an answer and others with a short one."""
        self.start_cluster()
        submitters = self.start_submitters()
        member = self.a_member(leads)
        self.lose_leader(with_member=member)
        self.wait_for_confirmed(submitters, 5)
        self.end_submitters(submitters, self.clients[member - 1])

    def start_submitters(self):
        submitters = [Submitter(self, "patient", 30 * SLOWER, prioritizes=False),
                      Submitter(self, "hasty", 1, prioritizes=True)]
        for submitter in submitters:
            submitter.start()
            self.addCleanup(submitter.end)
        self.wait_for_confirmed(submitters, 5)
        return submitters

    def end_submitters(self, submitters, client):
        """Nothing that was confirmed is lost, as the coordinator and a member of etcd say."""
        for submitter in submitters:
            submitter.end()
        tries = [one for submitter in submitters for one in submitter.tries]
        confirmed = [one for submitter in submitters for one in submitter.confirmed()]
        # A coordinator that has just begun to lead refuses jobs until a server has joined again.
        self.assertTrue(any(one.begun < self.without_leader < one.ended for one in tries))
        self.assert_known_once(tries, confirmed)
        self.assert_written_once(confirmed, client)
        print(f"{len(tries)} submissions, {len(confirmed)} of them confirmed")

    @staticmethod
    def wait_for_confirmed(submitters, count):
        """A number of further ones of each."""
        begins = [(submitter, len(submitter.tries)) for submitter in submitters]
        wait_until(lambda: all(len(submitter.confirmed(begin)) >= count
                               for submitter, begin in begins), 60, "confirmed submissions")

    def assert_known_once(self, tries, confirmed):
        """What was confirmed is known under its number, as it was submitted and changed; what was
        not confirmed is known at most once. Numbers rise."""
        jobs = self.status()["jobs"]
        known = {int(job["job"]): job for job in jobs}
        self.assertEqual(len(known), len(jobs))
        names = collections.Counter(job["name"] for job in jobs)
        for one in tries:
            self.assertLessEqual(names[one.name], 1, one)
        for one in confirmed:
            job = known[one.number]
            self.assertEqual((job["name"], int(job["max_iter"])), (one.name, one.clocks))
            if one.priority is not None:
                self.assertEqual(job["priority"], one.priority, one)
            later = [other.number for other in confirmed if other.begun > one.ended]
            self.assertGreater(min(later, default=one.number + 1), one.number)
        self.assertEqual(len({one.number for one in confirmed}), len(confirmed))

    def assert_written_once(self, confirmed, client):
        """etcd has each definition in the version in which it was first written."""
        found = self.ask_etcd(client, "kv/range", {
            "key": self.base64("tautline/definitions/"),
            "range_end": self.base64("tautline/definitions0")})["kvs"]
        written = {int(base64.b64decode(one["key"]).decode().rsplit("/", 1)[1]): one
                   for one in found}
        for one in confirmed:
            definition = written[one.number]
            self.assertEqual(definition["version"], "1", one)
            self.assertIn(one.name.encode(), base64.b64decode(definition["value"]))
        revisions = [int(written[number]["create_revision"]) for number in sorted(written)]
        self.assertEqual(revisions, sorted(revisions))

    @staticmethod
    def base64(text):
        return base64.b64encode(text.encode()).decode()

    def test_no_confirmed_job_is_lost_with_a_coordinator_and_a_member_of_etcd_that_follows(self):
        self.check_submissions(leads=False)

    def test_no_confirmed_job_is_lost_with_a_coordinator_and_the_leader_of_etcd(self):
        self.check_submissions(leads=True)

    def make_etcd_leader(self, member):
        status = [self.ask_etcd(client, "maintenance/status", {}) for client in self.clients]
        leader = next(i for i, one in enumerate(status)
                      if one["leader"] == one["header"]["member_id"])
        if leader == member:
            return
        self.ask_etcd(self.clients[leader], "maintenance/transfer-leadership",
                      {"targetID": status[member]["header"]["member_id"]})
        wait_until(lambda: self.is_etcd_leader(self.clients[member]), what="etcd's other leader")

    def key_of_leader(self, client):
        [key] = self.ask_etcd(client, "kv/range", {"key": self.base64("tautline/leader")})["kvs"]
        return key["create_revision"], base64.b64decode(key["value"]).decode()

    def check_silence(self, leads):
        """The leader and the member of etcd that each coordinator asks first are silent until
        another coordinator leads, as on a machine that vanishes: connections to them are accepted,
        and nothing is answered. Then both continue from where they were."""
        self.make_etcd_leader(0 if leads else 1)
        self.start_cluster()
        submitters = self.start_submitters()
        before = self.clock()
        lost = self.leader()
        silent = self.brains[lost], self.members[0]
        for process in silent:
            os.kill(process.pid, signal.SIGSTOP)
        began = time.monotonic()
        wait_until(lambda: len(self.leaders()) > 1, 60, "another leader")
        [newer] = set(self.leaders()) - {lost}
        answer = self.tautline("status", "--coordinator", self.places[newer])
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assert_soon(began, f", etcd's {'leader' if leads else 'follower'} silent too",
                         LIMIT_WITH_ELECTION_S if leads else LIMIT_S)
        self.wait_for_confirmed(submitters, 5)
        self.assert_trains_on(before)
        key = self.key_of_leader(self.clients[1])
        self.assertEqual(key[1], self.places[newer])
        before = self.clock()
        for process in silent:
            os.kill(process.pid, signal.SIGCONT)
        wait_until(lambda: self.leaders() == [newer], 20, "the end of the silent leader's term")
        wait_until(lambda: self.is_healthy(self.clients[0]), 20, "the silent member")
        self.wait_for_confirmed(submitters, 5)
        self.assert_trains_on(before)
        self.assertEqual(self.leaders(), [newer])
        self.assertEqual(self.log_of(lost).count("has become the leader"), 1)
        # The member that was silent has what was written without it, and in no other version.
        self.end_submitters(submitters, self.clients[0])
        self.assertEqual(self.key_of_leader(self.clients[0]), key)
        # The one that was silent knows which leads: what is asked of it is answered by that one.
        answer = self.tautline("status", "--json", "--coordinator", self.places[lost])
        self.assertEqual(answer.returncode, 0, answer.stderr)
        names = [{job["name"] for job in jobs}
                 for jobs in (json.loads(answer.stdout)["jobs"], self.status()["jobs"])]
        self.assertEqual(names[0], names[1])

    def test_a_coordinator_and_a_member_of_etcd_that_follows_are_silent_and_return(self):
        self.check_silence(leads=False)

    def test_a_coordinator_and_the_leader_of_etcd_are_silent_and_return(self):
        self.check_silence(leads=True)

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
        answer = self.tautline("submit", self.job("more.textproto"), "--coordinator",
                               self.coordinator, "--wait", "3")
        self.assertNotEqual(answer.returncode, 0)
        self.assert_workers_train(1, "worker0", "worker1")
        for process in self.others:
            self.assertIsNone(process.poll())
        for member in self.members[1:]:
            os.kill(member.pid, signal.SIGCONT)
        wait_until(lambda: self.leader() is not None, 60, "a leader")
        self.assert_trains_on(before + 100)
        self.assertEqual(len(self.status()["jobs"]), 1)

    def fill_etcd(self):
        """Puts revisions of a key until none more is stored."""
        filler = {"key": self.base64("filler"), "value": self.base64("x" * (1 << 20))}
        with self.assertRaisesRegex(urllib.error.HTTPError, "429"):
            for _ in range(4 * QUOTA_BYTES >> 20):
                self.ask_etcd(self.clients[0], "kv/put", filler)
        wait_until(lambda: all(self.alarms(client) for client in self.clients), what="the alarm")

    def alarms(self, client):
        return self.ask_etcd(client, "maintenance/alarm", {"action": "GET"}).get("alarms", [])

    def make_room(self):
        """What docs/guide/failures.md says, by etcd's own interface."""
        newest = self.ask_etcd(self.clients[0], "kv/range", {"key": self.base64("filler")})
        self.ask_etcd(self.clients[0], "kv/compaction",
                      {"revision": newest["header"]["revision"], "physical": True})
        for client in self.clients:
            self.ask_etcd(client, "maintenance/defragment", {})
        for alarm in self.alarms(self.clients[0]):
            self.ask_etcd(self.clients[0], "maintenance/alarm", {"action": "DEACTIVATE", **alarm})
        for client in self.clients:
            status = self.ask_etcd(client, "maintenance/status", {})
            self.assertLess(int(status["dbSize"]), QUOTA_BYTES / 2)

    def submit_named(self, name, *options):
        path = self.job("named.textproto", workers=2)
        path.write_text(path.read_text().replace('name: "tiny"', f'name: "{name}"', 1))
        return self.ask("submit", path, *options)

    def names(self):
        return [job["name"] for job in self.status()["jobs"]]

    def test_while_etcd_is_full_training_continues_and_what_is_confirmed_stays(self):
        self.start_cluster()
        self.assertEqual(self.submit_named("early").returncode, 0)
        leader, before = self.leader(), self.clock()
        self.fill_etcd()
        refused = self.submit_named("late", "--wait", "2")
        self.assertEqual(refused.returncode, 1, refused.stdout)
        reason = "etcd at [^ ]*: status 429: etcdserver: mvcc: database space exceeded"
        self.assertRegex(refused.stderr, f"confirms nothing that it cannot save: {reason}; ")
        self.assertRegex(self.ask("status").stdout, f"nothing new is confirmed: {reason}")
        self.assertRegex(self.log_of(leader), f"state cannot be saved, so nothing .*: {reason}")
        self.assertNotEqual(self.ask("priority", 2, 5, "--wait", "1").returncode, 0)
        self.assert_trains_on(before)
        # Its lease is kept alive.
        self.assertEqual(self.leaders(), [leader])
        self.make_room()
        # It does what was requested meanwhile.
        wait_until(lambda: self.names() == ["tiny", "early", "late"], what="the refused job")
        self.assertNotIn("nothing new is confirmed", self.ask("status").stdout)
        self.assertEqual(self.submit_named("after").returncode, 0)
        self.lose_leader()
        self.assertEqual(self.names(), ["tiny", "early", "late", "after"])
        self.assertEqual(self.status()["jobs"][1]["priority"], 5)

    def test_a_leader_that_is_lost_while_etcd_is_full_is_replaced_once_there_is_room(self):
        self.start_cluster()
        self.assertEqual(self.submit_named("early").returncode, 0)
        before = self.clock()
        self.fill_etcd()
        self.assertEqual(self.submit_named("late", "--wait", "1").returncode, 1)
        self.brains[self.leader()].kill()
        fails = "which coordinator leads cannot be settled: etcd at"
        wait_until(lambda: any(fails in self.log_of(i) for i in range(3)), 20,
                   "an election that fails")
        self.assertIsNone(self.leader())
        self.assert_workers_train(1, "worker0", "worker1")
        for process in self.others:
            self.assertIsNone(process.poll())
        self.make_room()
        wait_until(lambda: self.leaders(), 60, "another leader")
        self.assert_trains_on(before)
        # What was not confirmed has ended with the one that knew it.
        self.assertEqual(self.names(), ["tiny", "early"])
