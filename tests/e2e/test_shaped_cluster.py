"""`scripts/shaped_cluster`: the daemons in network namespaces whose cards have a given speed."""

import json
import os
import pathlib
import re
import shutil
import subprocess

from cluster import *

SCRIPT = SOURCE / "scripts/shaped_cluster"

# On one host: receives from another one, and prints how many bytes arrived in how many seconds.
RECEIVE = """
import os, socket, subprocess, sys, time
SEND = '''import os, socket
socket.create_connection((os.environ["HOST0"], 5555)).sendall(bytes(2_000_000))'''
listener = socket.create_server(("0.0.0.0", 5555))
listener.settimeout(20)
sender = subprocess.Popen(["ip", "netns", "exec", os.environ["SHAPED"] + "host1", sys.executable,
                           "-c", SEND])
connection, _ = listener.accept()
begin, got = time.monotonic(), 0
while data := connection.recv(1 << 20):
    got += len(data)
print(got, time.monotonic() - begin)
sender.wait()
"""


def can_make_namespaces():
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("tc"):
        return False
    added = subprocess.run(["ip", "netns", "add", "taut-probe"], capture_output=True)
    subprocess.run(["ip", "netns", "delete", "taut-probe"], capture_output=True)
    return added.returncode == 0


class ShapedCluster(ClusterTest):
    def script(self, *arguments, **how):
        return subprocess.run([SCRIPT, "--bin", BIN, *map(str, arguments)], cwd=self.folder,
                              capture_output=True, text=True, timeout=90, **how)

    def require_namespaces(self):
        if not can_make_namespaces():
            self.skipTest("network namespaces need root, ip and tc")

    def namespaces_of(self, pid):
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
        return [line for line in listed.splitlines() if line.startswith(f"taut{pid}-")]

    def test_over_slow_cards_auto_chooses_fewer_bytes(self):
        self.require_namespaces()
        def job(scheme):
            one = f"{{ scheme: {scheme} min_values: 1 }}"
            return self.job(f"{scheme}.textproto", workers=2, extra="consistency { mode: BSP } "
                            f"compression {{ push {one} pull {one} }}")
        answer = self.script("--rate", "10mbit", "--workers", 2, "--folder", self.folder / "run",
                             "--job", job("AUTO"))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        shown = re.search(r"AUTO is push INT8, pull INT8: .*; measured: ([\d.]+) Mbit/s",
                          (self.folder / "run/server0.log").read_text())
        self.assertIsNotNone(shown)
        # The server's card is divided between two workers, and may let a little more pass at first.
        self.assertGreater(float(shown[1]), 2)
        self.assertLess(float(shown[1]), 12)
        named = self.tautline("train", job("INT8"), "--output", self.folder / "named")
        self.assertEqual(named.returncode, 0, named.stdout + named.stderr)
        digest = json.loads((self.folder / "named/summary.json").read_text())["parameters_sha256"]
        self.assertIn(f"parameters sha256: {digest}\n", answer.stdout)

    def test_a_job_trains_over_shaped_cards(self):
        self.require_namespaces()
        answer = self.script("--rate", "100mbit", "--workers", 2, "--folder", self.folder / "run",
                             "--job", self.job(workers=2))
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("job 1 done", answer.stdout)
        self.assertRegex(answer.stdout, r"parameters sha256: [0-9a-f]{64}\n")
        self.assertIn("10.77.0.1:7600", (self.folder / "run/worker1.textproto").read_text())
        # What the daemons save is theirs, and not in the folder that this was started from.
        self.assertTrue((self.folder / "run/tautline-state").exists())
        self.assertFalse((self.folder / "tautline-state").exists())
        self.assertFalse((self.folder / "records").exists())

    def test_a_card_is_as_slow_as_configured(self):
        self.require_namespaces()
        receive = self.file("receive.py", RECEIVE)
        for options, least, most in ((("--rate", "8mbit"), 1.5, 60),
                                     (("--rate", "none", "--rate-of", "host1=8mbit"), 1.5, 60),
                                     (("--rate", "none"), 0, 1.5)):
            answer = self.script(*options, "--servers", 0, "--workers", 0, "--hosts", 2, "--",
                                 "bash", "-c",
                                 f"exec ip netns exec ${{SHAPED}}host0 python3 {receive}")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            got, seconds = answer.stdout.split()
            self.assertEqual(int(got), 2_000_000)
            self.assertTrue(least <= float(seconds) <= most, f"{options}: {seconds} s")

    def test_hosts_have_the_congestion_control_that_is_asked_for(self):
        self.require_namespaces()
        asked = "ip netns exec ${SHAPED}host0 sysctl -n net.ipv4.tcp_congestion_control"
        answer = self.script("--congestion", "reno", "--servers", 0, "--workers", 0, "--hosts", 1,
                             "--", "bash", "-c", asked)
        self.assertEqual((answer.returncode, answer.stdout), (0, "reno\n"), answer.stderr)

    def test_a_signal_takes_everything_down(self):
        self.require_namespaces()
        mark = self.folder / "running"
        for number in (signal.SIGINT, signal.SIGTERM):
            mark.unlink(missing_ok=True)
            process = subprocess.Popen([SCRIPT, "--bin", BIN, "--folder", self.folder / "run", "--",
                                        "bash", "-c", f"touch {mark}; sleep 60"], cwd=self.folder)
            self.processes.append(process)
            wait_until(mark.exists, what="the command")
            daemons = [pid for pid, _ in children_of(process.pid)]
            self.assertEqual(len(daemons), 3)
            process.send_signal(number)
            self.assertEqual(self.assert_ends(process, 10), 128 + number)
            self.assertEqual(self.namespaces_of(process.pid), [])
            self.assertFalse(any(alive(pid) for pid in daemons))

    def test_leftovers_of_a_killed_cluster_are_removed_by_the_next_one(self):
        self.require_namespaces()
        mark = self.folder / "running"
        process = subprocess.Popen([SCRIPT, "--bin", BIN, "--", "bash", "-c",
                                    f"touch {mark}; sleep 60"], cwd=self.folder)
        self.processes.append(process)
        wait_until(mark.exists, what="the command")
        daemons = [pid for pid, _ in children_of(process.pid)]
        process.kill()
        process.wait()
        self.assertTrue(self.namespaces_of(process.pid))
        wait_until(lambda: not any(alive(pid) for pid in daemons), what="the daemons' end")
        self.assertEqual(self.script("--servers", 0, "--workers", 0, "--", "true").returncode, 0)
        self.assertEqual(self.namespaces_of(process.pid), [])

    def test_the_status_is_the_commands(self):
        self.require_namespaces()
        answer = self.script("--servers", 0, "--workers", 0, "--", "bash", "-c", "exit 7")
        self.assertEqual(answer.returncode, 7)

    def test_bad_input_ends_with_one_line(self):
        for arguments, words in (
                (("--rate", "fast", "--", "true"), ('"fast" is no rate', "100mbit")),
                (("--rate", "0mbit", "--", "true"), ('"0mbit" is no rate',)),
                (("--mtu", "10", "--", "true"), ('"10" is no number of bytes',)),
                (("--congestion", "none", "--", "true"), ('"none" is not allowed', "reno")),
                (("--workers", "many", "--", "true"), ('"many" is no number',)),
                (("--rate-of", "worker0", "--", "true"), ("worker0", "HOST=RATE")),
                (("--servers", 0, "--", "true"), ("workers need a server",)),
                ((), ("COMMAND", "--job"))):
            answer = self.script(*arguments)
            self.assert_fails(answer, *words, status=2)

    def test_a_host_that_is_not_there_is_named(self):
        self.require_namespaces()
        answer = self.script("--rate-of", "worker7=1mbit", "--", "true")
        self.assert_fails(answer, "worker7", "there are server0, worker0, worker1")

    def test_without_root_it_reports_it(self):
        if os.geteuid() != 0:
            self.skipTest("is not root")
        copy = pathlib.Path(shutil.copy(SCRIPT, self.folder / "shaped_cluster"))
        self.folder.chmod(0o755)
        answer = subprocess.run([copy, "--bin", BIN, "--servers", "0", "--workers", "0", "--",
                                 "true"], cwd="/", capture_output=True, text=True, timeout=60,
                                user=65534, group=65534, extra_groups=[])
        self.assert_fails(answer, "need root", "sudo")
