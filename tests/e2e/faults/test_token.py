"""A plain data plane: `data_security: TOKEN`, over real daemons whose payloads travel as bytes."""

import base64
import json
import os
import re
import socket
import subprocess
import threading
import time
import unittest

from cluster import *
from training.python_members import interpreter_with, package_environment
import zmtp

# Reads two versions of a job, and says how much it has passed on.
READ = """
import sys, tautline
job = tautline.connect(sys.argv[1]).job(int(sys.argv[2]))
with tautline.follow(job, name=sys.argv[3], relay="127.0.0.1:0") as follower:
    for line in sys.stdin:
        print(follower.pull(at_least=int(line), wait_s=30).version, follower.passed_on(),
              flush=True)
"""


class Sniffer:
    """What passes the loopback, while its block runs."""

    def __enter__(self):
        self.packets = []
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self._socket.bind(("lo", 0))
        self._socket.settimeout(0.1)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()
        return self

    def _listen(self):
        while not self._ends.is_set():
            try:
                self.packets.append(self._socket.recv(1 << 17))
            except TimeoutError:
                pass

    def __exit__(self, *_):
        self._ends.set()
        self._thread.join()
        self._socket.close()

    def found(self, pattern):
        """The first group of each match."""
        return {match[1] for packet in self.packets
                for match in re.finditer(pattern, packet, re.DOTALL)}


def spellings(secret):
    """How a file could have some bytes: as they are, as hex digits, base64, or escaped as in
    protobuf's texts."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex().upper().encode()
    for shift in range(3):  # in the middle of what is encoded: without what neighbours share
        yield base64.b64encode(bytes(shift) + secret)[4:-4]
    short = {10: "\\n", 13: "\\r", 9: "\\t", 34: '\\"', 39: "\\'", 92: "\\\\"}
    yield "".join(short.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")
                  for byte in secret).encode()


class TokenTest(ServersTest):
    security = "data_security: TOKEN"

    def start_daemon(self, role, name, settings="", wait=True, more=""):
        settings += " shared_memory: false"
        return super().start_daemon(role, name, settings, wait, self.security + "\n" + more)

    def start_cluster(self, servers=2, workers=2, more="", limit=2):
        self.start_daemon("server", "coordinator",
                          f"shards: 0 coordinator {{ heartbeat_limit_s: {limit} }}")
        self.coordinator = self.addresses("coordinator")["coordinator"][0]
        self.servers = [self.start_daemon("server", f"server{i}", more=more)
                        for i in range(servers)]
        self.workers = [self.start_daemon("worker", f"worker{i}", more=more)
                        for i in range(workers)]

    def clock(self, job):
        return min((int(one["progress"].get("clock", 0)) for one in self.running(job)["workers"]
                    if one["state"] == "running"), default=0)

    def logs(self):
        return "".join(log.read_text() for log in self.folder.glob("*.log"))


class Training(TokenTest):
    def digest(self, security, more=""):
        self.security = security
        self.coordinator = None
        self.start_cluster(more=more)
        job = self.submit("BSP", 60)
        digest = self.wait_for_job(job, "DONE", 60)["parameters_sha256"]
        self.kill_all()
        return digest

    def test_under_token_a_training_ends_in_the_bits_that_it_has_under_curve(self):
        encrypted = self.digest("")
        self.assertRegex(encrypted, "^[0-9a-f]{64}$")
        self.assertEqual(self.digest("data_security: TOKEN"), encrypted)
        self.assertNotIn("dropped a message", self.logs())
        # Nor is anything lost or reordered where several threads send and receive.
        self.assertEqual(self.digest("data_security: TOKEN", "io_threads: 4"), encrypted)
        self.assertEqual(self.digest("", "io_threads: 4"), encrypted)
        self.assertNotIn("dropped a message", self.logs())

    def test_under_token_a_lost_server_is_taken_over_and_no_bit_changes(self):
        self.start_cluster(servers=3)
        reference = self.wait_for_job(self.submit("BSP", 200), "DONE", 60)["parameters_sha256"]
        job = self.submit("BSP", 200, clock_ms=20)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        wait_until(lambda: all(shard.get("is_protected")
                               for shard in self.running(job)["shards"]), what="whole backups")
        self.servers[1].kill()
        self.assertEqual(self.wait_for_job(job, "DONE", 90)["parameters_sha256"], reference)
        self.assertIn("is taken over by server", self.logs())

    def test_under_token_a_worker_that_was_declared_lost_comes_back_as_another_member(self):
        self.start_cluster(limit=1)
        job = self.submit("SSP", 400, clock_ms=20)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.workers[0].send_signal(signal.SIGSTOP)
        wait_until(lambda: "declared lost" in self.logs(), what="the loss")
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + 10, what="clocks without it")
        self.workers[0].send_signal(signal.SIGCONT)
        log = self.folder / "worker0.log"
        wait_until(lambda: "member 2" in log.read_text(), what="the worker's new place")
        self.wait_for_job(job, "DONE", 60)
        self.assertIsNone(self.workers[0].poll())

    def test_under_token_the_links_of_a_cluster_are_examined(self):
        self.start_cluster()
        answer = self.ask("doctor", "--cluster", "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        findings = {one["about"]: one for one in json.loads(answer.stdout)["findings"]}
        self.assertIn("6 links", findings["links"]["found"])
        self.assertEqual(findings["links"]["verdict"], "ok")


    def reader(self, job, name):
        reader = subprocess.Popen(
            [interpreter_with("numpy"), "-c", READ, self.coordinator, str(job), name],
            env=package_environment(), cwd=self.folder, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(reader)
        self.addCleanup(reader.stdin.close)
        return reader

    def pull(self, reader, at_least):
        reader.stdin.write(f"{at_least}\n")
        reader.stdin.flush()
        line = reader.stdout.readline()
        self.assertTrue(line, line or reader.stderr.read())
        version, passed = line.split()
        self.assertGreaterEqual(int(version), at_least)
        return int(passed)

    def test_under_token_followers_read_from_the_servers_and_from_each_other(self):
        interpreter_with("numpy")
        self.start_cluster()
        job = self.submit("SSP", 1000000, clock_ms=5)
        wait_until(lambda: self.clock(job) > 5, what="clocks")
        first = self.reader(job, "first")
        self.pull(first, 5)
        second = self.reader(job, "second")
        self.pull(second, 10)
        wait_until(lambda: self.pull(first, 20) + self.pull(second, 20) > 0,
                   what="models that pass from one to the other")
        self.assertNotIn("dropped a message", self.logs())


class Strangers(TokenTest):
    def test_no_secret_and_a_thousand_wrong_ones_get_nobody_in(self):
        self.start_cluster(servers=1, workers=1)
        shard = self.addresses("server0")["shard"][0]
        job = self.submit("SSP", 1000000, workers=1)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        admitted = 0
        for i in range(1000):
            # As long as a real one, and shorter; under its user's name, and another.
            secret = os.urandom(93 if i % 2 else 40)
            admitted += zmtp.shows_secret(shard, secret, b"tautline" if i % 3 else b"owner")
        self.assertEqual(admitted, 0)
        for _ in range(20):
            with self.assertRaises(ConnectionError):
                zmtp.Dealer(shard)
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + 20, what="clocks after the strangers")

    def test_a_revoked_workers_secret_is_good_for_nothing_within_a_second(self):
        keys = self.folder / "keys"

        def make(*arguments):
            answer = self.tautline("keys", *arguments, "--keys", keys)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        make("init")
        for name, role in (("coordinator", "server"), ("server0", "server"),
                           ("worker0", "worker")):
            make("add", name, "--role", role)
        self.security += f'\nkeys: "{keys}"'
        os.environ["TAUTLINE_KEYS"] = str(keys)
        self.addCleanup(os.environ.pop, "TAUTLINE_KEYS")
        # Not because it is declared lost, as the coordinator does not hear it either.
        self.start_cluster(servers=1, workers=1, limit=60)
        job = self.submit("SSP", 1000000, workers=1)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        make("revoke", "worker0")
        revoked = time.monotonic()

        def version():
            return int(self.running(job).get("clocks", {}).get("version", 0))
        time.sleep(1 * SLOWER)
        at_once = version()
        # The shard's report is up to a heartbeat old.
        time.sleep(0.5)
        later = version()
        time.sleep(1)
        self.assertEqual(version(), later, f"after {time.monotonic() - revoked:.1f} s")
        self.assertGreater(at_once, 0)
        self.assertIn("not, or no longer, admitted", (self.folder / "server0.log").read_text())


    @unittest.skipIf(os.geteuid() != 0, "needs root, to see what the loopback carries")
    def test_no_secret_is_in_a_file(self):
        with Sniffer() as sniffer:
            self.start_cluster(servers=2, workers=2)
            job = self.submit("SSP", 60)
            self.wait_for_job(job, "DONE", 60)
            self.assertEqual(self.ask("doctor", "--cluster").returncode, 0)
            self.kill_all()
        # What the handshake shows, and what an answer starts with: docs/WIRE.md, section 1.
        macs = {shown[61:] for shown in sniffer.found(rb"\x05HELLO\x08tautline\x5d(.{93})")}
        macs |= sniffer.found(rb"\x01\x20(.{32})[\x00-\x03].{1,8}?TAUT")
        self.assertGreaterEqual(len(macs), 6, "of members, servers and checks, and answers'")
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        kinds = {path.suffix for path in files}
        self.assertLessEqual({".log", ".csv", ".textproto"}, kinds)
        self.assertTrue(any("_iter_60" in str(path) for path in files), files)
        for path in files:
            text = path.read_bytes()
            for mac in macs:
                for spelling in spellings(mac):
                    self.assertNotIn(spelling, text, path)


class Settings(TokenTest):
    def refused(self, role, name, security):
        config = self.file(f"{name}.textproto", f'coordinator_address: "{self.coordinator}"\n'
                           f'{role} {{ name: "{name}" }}\n{security}\n')
        return self.run_program(f"tautline-{role}", "--config", config, timeout=30)

    def test_a_daemon_that_lacks_the_setting_is_refused_with_one_clear_line(self):
        self.start_cluster(servers=1, workers=0)
        for role in ("worker", "server"):
            answer = self.refused(role, "other", "")
            self.assert_fails(answer, f'{role} "other" has data_security: CURVE and the '
                              "coordinator has data_security: TOKEN", "all daemons")
            last = answer.stderr.strip().splitlines()[-1]
            self.assertTrue(last.startswith(f"tautline-{role}: the coordinator at "), last)
        self.kill_all()
        self.security, self.coordinator = "", None
        self.start_cluster(servers=1, workers=0)
        self.assert_fails(self.refused("worker", "other", "data_security: TOKEN"),
                          'worker "other" has data_security: TOKEN and the coordinator has '
                          "data_security: CURVE")
        self.start_daemon("worker", "worker0")
        self.assert_still_trains()

    def test_settings_that_cannot_be_are_reported_with_line_and_column(self):
        for text, *words in (
                ("worker {}\ndata_security: TOKEN\ninsecure: true\n",
                 ":2:1: data_security: TOKEN", "insecure: true"),
                ("\n  data_security: TOKENS\n", ":2:18:", "TOKENS", "TOKEN"),
                ("io_threads: 2\n# more\nworker {} io_threads: 3\n", ":3:11:", "io_threads"),
                ("worker {}\n   io_threads: 65\n", ":2:4: io_threads must be from 0 to 64, is 65")):
            config = self.file("bad.textproto", text)
            for program in ("tautline-worker", "tautline-server"):
                self.assert_fails(self.run_program(program, "--config", config), "bad.textproto",
                                  *words)


if __name__ == "__main__":
    unittest.main()
