"""`tautline doctor` on this machine: obstacles are reported, and nothing hangs."""

import json
import os
import re
import signal
import socket
import time

from cluster import *


class Doctor(ClusterTest):
    def look(self, *arguments, status=0, **more):
        """The findings of `doctor --json`, which must end with the status."""
        answer = self.tautline("doctor", "--json", *arguments, **more)
        self.assertEqual(answer.returncode, status, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout.count("\n"), 1)
        report = json.loads(answer.stdout)
        self.assertEqual(report["verdict"] == "trouble", status == 1)
        return report["findings"]

    def of(self, findings, about, part=""):
        """The one finding about something that holds `part`."""
        found = [f for f in findings if f["about"] == about and part in f["found"]]
        self.assertEqual(len(found), 1, f"{about} {part}: {findings}")
        return found[0]

    def config(self, text):
        return self.file("doctor.textproto", text)

    def test_the_doctor_sees_a_cluster_its_clock_and_its_ports(self):
        self.start_server(shards=2)
        self.start_worker()
        config = self.config(f'coordinator_address: "{self.coordinator}"\n'
                             'server { shards: 2 coordinator {} } worker {}\n')
        findings = self.look("--config", config)
        self.assertIn("1 server, 1 worker", self.of(findings, "coordinator")["found"])
        clock = self.of(findings, "clock")
        self.assertEqual(clock["verdict"], "ok")
        # One machine's clock next to itself.
        self.assertLess(float(clock["found"].split(" is ")[1].split(" ms")[0]), 1000)
        port = self.of(findings, "port", self.coordinator)
        self.assertEqual(port["verdict"], "ok")
        self.assertIn("tautline-server (process", port["found"])
        self.assertEqual(self.of(findings, "shared memory")["verdict"], "ok")
        for name in ("tautline-server", "tautline-worker", "ZeroMQ"):
            self.assertEqual(self.of(findings, "version", name)["verdict"], "ok")

    def look_at_cluster(self, *arguments, status=0):
        answer = self.ask("doctor", "--cluster", "--json", *arguments)
        self.assertEqual(answer.returncode, status, answer.stdout + answer.stderr)
        return json.loads(answer.stdout)["findings"]

    def start_cluster(self, settings=""):
        self.start_server(shards=2)
        self.start_daemon("server", "server1")
        for name in ("worker0", "worker1"):
            self.start_daemon("worker", name, more=settings)

    def test_a_cluster_is_examined_for_a_job(self):
        self.start_cluster()
        findings = self.look_at_cluster(self.job(), "--path", self.folder)
        # A busy machine is right to be warned of its rates; unit tests judge given ones.
        judged = {one["verdict"] for one in findings if one["about"] != "rates"}
        self.assertEqual(judged, {"ok"}, findings)
        self.assertIn("4 processes of 1 host", self.of(findings, "nodes")["found"])
        # Each worker reaches three shards; a server, those of the other one.
        self.assertIn("9 links", self.of(findings, "links")["found"])
        rates = self.of(findings, "rates")["found"]
        self.assertRegex(rates, r"9 links measured.* at \d+ MB/s.*updates of tiny take 0\.\d+ s")
        self.assertGreater(int(re.search(r"at (\d+) MB/s", rates)[1]), 1)
        self.assertLess(float(re.search(r"at most ([\d.]+) ms",
                                        self.of(findings, "clocks")["found"])[1]), 1000)
        self.assertIn("admit the same", self.of(findings, "keys")["found"])
        self.assertIn("is the same for 2 processes", self.of(findings, "paths", "data ")["found"])
        self.assertIn("is the same for 4 processes", self.of(findings, "paths", "shared ")["found"])
        # 64 x 16 + 16 + 16 x 10 + 10 floats, and as many of a momentum.
        self.assertIn("2 servers with backups", self.of(findings, "memory")["found"])
        # The cluster trains afterwards, and the same is found while it does.
        answer = self.ask("submit", self.job("long.textproto", iterations=100000, workers=2))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "RUNNING")
        self.look_at_cluster("--transfer", "1MiB")
        self.assertEqual(self.status()["jobs"][0]["state"], "RUNNING")

    def test_a_cluster_with_faults_has_a_line_for_each(self):
        (self.folder / "other").mkdir()
        self.start_cluster(f'allowed_folders: "{self.folder}/other"')
        stopped = self.start_daemon("worker", "worker2")
        stopped.send_signal(signal.SIGSTOP)
        key_folder = self.folder / ".config/tautline/keys"
        key_folder.chmod(0o755)
        self.addCleanup(key_folder.chmod, 0o700)
        answer = self.ask("doctor", "--cluster", self.job(), "--keys", key_folder)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("other users", answer.stdout + answer.stderr)
        key_folder.chmod(0o700)
        began = time.monotonic()
        findings = self.look_at_cluster(self.job(), status=1)
        self.assertLess(time.monotonic() - began, 50 * SLOWER)
        self.assertIn("1 of 5 processes have not answered within 40 s: worker2",
                      self.of(findings, "nodes", "not answered")["found"])
        data = self.of(findings, "paths", "data ")
        self.assertEqual(data["verdict"], "trouble")
        self.assertIn("worker0", data["found"])
        self.assertIn("allowed_folders", data["advice"])
        self.assertEqual(self.of(findings, "links")["verdict"], "ok")

    def test_what_only_a_cluster_is_examined_for_is_refused_without_one(self):
        self.assert_fails(self.tautline("doctor", self.job()), "--cluster", status=2)
        self.assert_fails(self.tautline("doctor", "--cluster", "--transfer", "1GiB"),
                          "at most 64MiB", status=2)
        answer = self.tautline("doctor", "--cluster", "--coordinator", "127.0.0.1:1", "--wait", 0.5)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("trouble coordinator", answer.stdout)

    def test_a_port_that_another_program_holds_is_trouble_and_names_it(self):
        with socket.create_server(("127.0.0.1", 0)) as held:
            address = f"127.0.0.1:{held.getsockname()[1]}"
            config = self.config(f'coordinator_address: "{address}"\n'
                                 'server { coordinator {} }\n')
            answer = self.tautline("doctor", "--config", config, "--wait", 0.5)
        self.assertEqual(answer.returncode, 1)
        lines = answer.stdout.splitlines()
        line = next(i for i, one in enumerate(lines) if address in one and "held" in one)
        self.assertRegex(lines[line], r"^trouble +port .*process %d\)" % os.getpid())
        self.assertIn("-> ", lines[line + 1])
        self.assertIn("coordinator_address", lines[line + 1])
        self.assertRegex(lines[-1], r"^\d+ ok, \d+ warnings?, 1 trouble$")

    def test_a_config_that_cannot_be_read_is_one_finding_and_the_rest_is_looked_at(self):
        config = self.config("server {\n  shard: 2\n}\n")
        findings = self.look("--config", config, status=1)
        self.assertIn(":2:3:", self.of(findings, "config")["found"])
        self.assertTrue(self.of(findings, "shared memory"))

    def test_a_folder_that_cannot_be_written_is_trouble_with_its_setting(self):
        # A file instead of the folder's parent: root may write nearly everywhere else.
        blocked = self.file("blocked", "")
        config = self.config(f'server {{ coordinator {{ state_folder: "{blocked}/state" }} }}\n'
                             'coordinator_address: "127.0.0.1:0"\n')
        disk = self.of(self.look("--config", config, status=1), "disk", "blocked")
        self.assertEqual(disk["verdict"], "trouble")
        self.assertIn("state_folder", disk["advice"])

    def test_a_silent_coordinator_is_waited_for_no_longer_than_configured(self):
        # It listens, and never answers.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            began = time.monotonic()
            findings = self.look("--coordinator", address, "--wait", 1, status=1)
            self.assertLess(time.monotonic() - began, 15)
        coordinator = self.of(findings, "coordinator")
        self.assertEqual(coordinator["verdict"], "trouble")
        self.assertIn(f"{address} within 1 s", coordinator["found"])

    def test_a_damaged_data_set_is_trouble(self):
        folder = self.folder / "data/mnist"
        folder.mkdir(parents=True)
        (folder / "train-images-idx3-ubyte").write_bytes(b"not the digits")
        config = self.config('coordinator_address: "127.0.0.1:0" server { coordinator {} }\n')
        data = self.of(self.look("--config", config, status=1), "data", "data/mnist")
        self.assertEqual(data["verdict"], "trouble")
        self.assertIn("train-images-idx3-ubyte", data["found"])
        self.assertIn("scripts/get_data mnist", data["advice"])
