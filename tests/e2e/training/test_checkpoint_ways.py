"""Checkpoints that share files with earlier ones, and those in parts on the servers' own disks."""

import os
import pathlib
import shutil
import subprocess
import unittest.mock

from cluster import *
from training.test_checkpoint import PACE, CheckpointTest, value_of

FROZEN = "param { lr_mult: 0 } param { lr_mult: 0 }"


def own_bytes(folder):
    """Of files that no other folder has."""
    return sum(f.stat().st_size for f in folder.iterdir() if f.stat().st_nlink == 1)


class Incremental(CheckpointTest):
    def fine_tuning(self, every=10, keep=0, iterations=30, extra=""):
        """The first layer does not learn."""
        job = self.job(iterations=iterations, workers=2, extra=(
            f"checkpoint {{ every: {every} keep: {keep} incremental: true {extra} }}"))
        text = job.read_text().replace("num_output: 16", "num_output: 500")
        return self.file("tuned.textproto", text.replace("inner_product_param { num_output: 500",
                                                         FROZEN + " inner_product_param { "
                                                         "num_output: 500"))

    def test_what_rests_is_stored_once_and_every_checkpoint_resumes_in_the_same_bits(self):
        job = self.fine_tuning()
        whole = self.digest(job, "--mode", "bsp", output="whole")
        self.train(job, "--mode", "bsp", "--max-iter", 20, *PACE, output="first")
        older, newer = self.saved("first")
        shared = [f.name for f in newer.iterdir() if f.stat().st_nlink > 1]
        self.assertTrue(shared)
        frozen = 64 * 500 * 4
        self.assertGreater(sum((newer / name).stat().st_size for name in shared), frozen)
        # Ten rows of five hundred, with momentum, and what describes them.
        self.assertLess(own_bytes(newer), 10 * 501 * 4 * 2 + 20000)
        copy = self.folder / "copied/tiny_iter_20"
        shutil.copytree(newer, copy)
        shutil.rmtree(older)
        for folder in (newer, copy):
            shutil.rmtree(self.folder / "rest", ignore_errors=True)
            rest = self.digest(job, "--mode", "bsp", "--resume", folder, output="rest")
            self.assertEqual(rest, whole)
        answer = self.tautline("export", newer, "--output", self.folder / "net.safetensors")
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_only_those_to_keep_stay_and_all_of_them_are_whole(self):
        job = self.fine_tuning(every=5, keep=2, iterations=40)
        whole = self.digest(job, "--mode", "bsp", "--max-iter", 45, output="whole")
        # Five clocks are long enough for a checkpoint on a busy machine too: none is passed over.
        self.train(job, "--mode", "bsp", "--clock-time", 100, output="first")
        self.assertEqual([f.name for f in self.saved("first")], ["tiny_iter_35", "tiny_iter_40"])
        for folder in self.saved("first"):
            shutil.rmtree(self.folder / "rest", ignore_errors=True)
            rest = self.digest(job, "--mode", "bsp", "--max-iter", 45, "--resume", folder,
                               output="rest")
            self.assertEqual(rest, whole)

    def assert_all_whole(self, folder):
        names = sorted(f.name for f in folder.iterdir() if ".part-" not in f.name)
        self.assertTrue(names)
        for name in names:
            # Its files have the digests that its manifest says.
            manifest = (folder / name / "manifest.textproto").read_text()
            for line in manifest.splitlines():
                if line.strip().startswith("sha256:"):
                    digest = line.split('"')[1]
                    found = subprocess.run(f"sha256sum '{folder / name}'/*", shell=True,
                                           capture_output=True, text=True).stdout
                    self.assertIn(digest, found)
        return names

    def test_a_server_that_dies_with_links_made_breaks_no_checkpoint(self):
        self.start_server("coordinator", shards=0,
                          settings="heartbeat_limit_s: 1 replication { interval: 2 }")
        when = self.folder / "armed"
        armed = {"TAUTLINE_FAILPOINT": "checkpoint linked", "TAUTLINE_FAILPOINT_WHEN": str(when)}
        self.start_daemon("server", "server0")
        with unittest.mock.patch.dict(os.environ, armed):
            victim = self.start_daemon("server", "server1")
        for i in range(2):
            self.start_worker(f"worker{i}")
        folder = self.folder / "saved"
        job = self.fine_tuning(every=10, keep=2, iterations=200, extra=f'folder: "{folder}"')
        text = job.read_text() + "\nconsistency { mode: BSP } clock_time_ms: 20\n"
        self.ask("submit", self.file("linked.textproto", text))
        wait_until(lambda: list(folder.glob("tiny_iter_*/manifest.textproto")), 30, "a checkpoint")
        when.touch()
        wait_until(lambda: victim.poll() is not None, 30, "the server's death")
        self.assertEqual(victim.returncode, -signal.SIGKILL)
        ended = self.wait_for_job(1, "DONE", 60)
        names = self.assert_all_whole(folder)
        self.assertEqual(names[-1], "tiny_iter_200")
        plain = self.digest(job, "--mode", "bsp", "--max-iter", 200, output="plain")
        self.assertEqual(ended["parameters_sha256"], plain)

    def test_a_coordinator_that_dies_between_the_steps_breaks_no_checkpoint(self):
        state = self.folder / "state"
        folder = self.folder / "saved"
        settings = f'state_folder: "{state}" heartbeat_limit_s: 10'
        for point in ("manifest written", "checkpoint in place"):
            with self.subTest(point):
                shutil.rmtree(folder, ignore_errors=True)
                shutil.rmtree(state, ignore_errors=True)
                self.kill_all()
                self.coordinator = f"127.0.0.1:{free_ports(1)[0]}"
                when = self.folder / f"armed {point}"
                armed = {"TAUTLINE_FAILPOINT": point, "TAUTLINE_FAILPOINT_WHEN": str(when)}
                with unittest.mock.patch.dict(os.environ, armed):
                    coordinator = self.start_server("coordinator", shards=0, settings=settings)
                self.start_daemon("server", "server0")
                for i in range(2):
                    self.start_worker(f"worker{i}")
                job = self.fine_tuning(every=10, keep=2, iterations=200,
                                       extra=f'folder: "{folder}"')
                text = job.read_text() + "\nconsistency { mode: BSP } clock_time_ms: 20\n"
                answer = self.ask("submit", self.file("saved.textproto", text))
                number = int(answer.stdout.split()[1])
                wait_until(lambda: len(list(folder.glob("tiny_iter_*/manifest.textproto"))) > 1, 30,
                           "checkpoints")
                when.touch()
                wait_until(lambda: coordinator.poll() is not None, 30, "the coordinator's death")
                self.assert_all_whole(folder)
                self.start_server("coordinator", shards=0, settings=settings)
                self.wait_for_job(number, "DONE", 60)
                names = self.assert_all_whole(folder)
                self.assertEqual(names[-1], "tiny_iter_200")
                self.assertEqual(list(folder.glob("*.part-*")), [])


class Parts(CheckpointTest):
    def start_cluster(self, servers=("s0", "s1", "s2"), workers=2, settings="", armed=None):
        """Servers that share no disk with each other, nor with the coordinator."""
        self.start_server("coordinator", shards=0,
                          settings="heartbeat_limit_s: 1 replication { interval: 0 } " + settings)
        self.servers = {}
        for name in servers:
            self.start_on_disk(name)
        for i in range(workers):
            self.start_worker(f"worker{i}")

    def start_on_disk(self, name):
        disk = self.folder / f"disk of {name}"
        self.servers[name] = self.start_daemon("server", name, f'part_folder: "{disk}"')

    def coded(self, name="coded.textproto", iterations=30, every=10, more="", clock_ms=0, keep=2,
              code="", workers=2):
        folder = self.folder / "saved"
        job = self.job(name, iterations=iterations, workers=workers, extra=(
            f'checkpoint {{ every: {every} keep: {keep} folder: "{folder}" coded {{ {code} }} }} '
            f"consistency {{ mode: BSP }} clock_time_ms: {clock_ms} {more}"))
        return job

    def submit(self, job, *arguments):
        answer = self.ask("submit", job, *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(answer.stdout.split()[1])

    def undisturbed(self, iterations):
        job = self.job("plain.textproto", iterations=iterations, workers=2)
        return self.digest(job, "--mode", "bsp", output=f"plain{iterations}")

    def wait_for_folders(self, name, expected):
        """A server's disk has these checkpoints, and nothing unfinished."""
        def left():
            return sorted(f.name for f in (self.folder / f"disk of {name}").glob("*/tiny_iter*"))
        wait_until(lambda: left() == sorted(expected), what=f"{expected} on {name}, not {left()}")

    def parts_at(self, name, checkpoint):
        """Where a server's disk has a checkpoint's parts."""
        (found,) = (self.folder / f"disk of {name}").glob(f"submission-*/{checkpoint}")
        return found

    def parts_on(self, name):
        return sorted(f.name for f in (self.folder / f"disk of {name}").rglob("*.part*"))

    def test_a_lost_server_with_its_disk_costs_neither_the_checkpoint_nor_a_bit(self):
        expected = self.undisturbed(30)
        self.start_cluster()
        self.wait_for_job(self.submit(self.coded(iterations=20, clock_ms=30)), "DONE")
        for name in self.servers:
            # Two checkpoints, with two parts of each of three files.
            self.assertEqual(len(self.parts_on(name)), 12, self.parts_on(name))
        newest = self.folder / "saved/tiny_iter_20"
        self.assertEqual([f.name for f in newest.iterdir()], ["manifest.textproto"])
        for lost in ("s0", "s1", "s2"):
            with self.subTest(lost):
                disk = self.folder / f"disk of {lost}"
                self.servers[lost].kill()
                self.servers[lost].wait()
                disk.rename(self.folder / "away")
                wait_until(lambda: not any(s["name"] == lost and s["state"] == "live"
                                           for s in self.status()["servers"]), what="its loss")
                job = self.submit(self.coded("rest.textproto", keep=0, every=100), "--resume",
                                  newest)
                ended = self.wait_for_job(job, "DONE")
                self.assertEqual(ended["parameters_sha256"], expected)
                shutil.rmtree(disk, ignore_errors=True)
                (self.folder / "away").rename(disk)
                self.start_on_disk(lost)
        # The coordinator's folder may be lost too: each server has the manifest.
        copy = self.parts_at("s1", "tiny_iter_20")
        shutil.rmtree(self.folder / "saved")
        job = self.submit(self.coded("last.textproto", keep=0, every=100), "--resume", copy)
        self.assertEqual(self.wait_for_job(job, "DONE")["parameters_sha256"], expected)
        # Two disks of three are one too many, and the message says which parts are gone.
        for lost in ("s0", "s2"):
            shutil.rmtree(self.folder / f"disk of {lost}")
        job = self.submit(self.coded("none.textproto", keep=0, every=100), "--resume", copy)
        message = self.wait_for_job(job, "FAILED")["message"]
        self.assertIn("4 of its 6 parts are needed and 2 are found", message)
        self.assertIn('of server "s2"', message)

    def test_a_server_killed_while_it_trains_is_replaced_and_the_job_resumes_in_the_same_bits(self):
        expected = self.undisturbed(60)
        self.start_cluster()
        first = self.submit(self.coded(iterations=60, clock_ms=40))
        wait_until(lambda: (self.folder / "saved/tiny_iter_10/manifest.textproto").exists(), 30,
                   "a checkpoint")
        self.servers["s1"].kill()
        self.servers["s1"].wait()
        shutil.rmtree(self.folder / "disk of s1")
        self.wait_for_job(first, "FAILED")
        self.start_on_disk("s3")
        job = self.submit(self.coded("rest.textproto", iterations=60), "--resume",
                          self.folder / "saved")
        self.assertEqual(self.wait_for_job(job, "DONE")["parameters_sha256"], expected)

    def test_a_job_that_restarts_by_itself_continues_from_parts_on_separate_disks(self):
        expected = self.undisturbed(60)
        self.start_cluster()
        # Not done before a further server has started and another one is lost.
        job = self.submit(self.coded(iterations=60, clock_ms=40 * SLOWER, more="restart: 1"))
        wait_until(lambda: (self.folder / "saved/tiny_iter_10/manifest.textproto").exists(), 30,
                   "a checkpoint")
        self.start_on_disk("s3")
        wait_until(lambda: any(s["name"] == "s3" for s in self.status()["servers"]), what="s3")
        self.servers["s1"].kill()
        self.servers["s1"].wait()
        shutil.rmtree(self.folder / "disk of s1")
        self.wait_for_job(job, "FAILED")
        rest = self.wait_for_job(job + 1, "DONE")
        self.assertEqual(rest["parameters_sha256"], expected)
        log = (self.folder / "coordinator.log").read_text()
        self.assertRegex(log, rf"job {job + 1}: continues job {job} from clock \d+0\b")

    def test_older_parts_go_from_every_disk_and_damaged_ones_count_as_gone(self):
        expected = self.undisturbed(40)
        self.start_cluster()
        self.wait_for_job(self.submit(self.coded(iterations=30, clock_ms=30, keep=1)), "DONE")
        for name in self.servers:
            wait_until(lambda n=name: len(self.parts_on(n)) == 6, what="the older one's removal")
        self.spoil(next(self.parts_at("s0", "tiny_iter_30").glob("shard0*.part0")))
        self.spoil(next(self.parts_at("s2", "tiny_iter_30").glob("shard1*.part1")))
        (self.parts_at("s1", "tiny_iter_30") / "shard2.safetensors.part5").unlink()
        job = self.submit(self.coded("rest.textproto", iterations=40, keep=0, every=100),
                          "--resume", self.folder / "saved")
        self.assertEqual(self.wait_for_job(job, "DONE")["parameters_sha256"], expected)

    def test_a_full_disk_costs_that_checkpoint_and_no_earlier_one(self):
        disk = self.mount_small_disk("disk of s1", "100k")
        expected = self.undisturbed(60)
        self.start_cluster()
        job = self.submit(self.coded(iterations=60, clock_ms=40, keep=0))
        wait_until(lambda: (self.folder / "saved/tiny_iter_10/manifest.textproto").exists(), 30,
                   "a checkpoint")
        filler = os.open(disk / "filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, bytes(4096)):
                pass
        except OSError:
            os.close(filler)
        ended = self.wait_for_job(job, "DONE")
        self.assertEqual(ended["parameters_sha256"], expected)
        self.assertIn("No space left on device", ended["checkpoint_failure"])
        kept = sorted(f.name for f in (self.folder / "saved").iterdir())
        self.assertIn("tiny_iter_10", kept)
        self.assertNotIn("tiny_iter_60", kept)
        for name in self.servers:
            self.wait_for_folders(name, kept)

    def test_deaths_between_the_steps_leave_what_is_complete_whole(self):
        expected = self.undisturbed(200)
        state = self.folder / "state"
        settings = f'state_folder: "{state}"'
        for point in ("parts moved", "manifests copied", "manifest written"):
            with self.subTest(point):
                self.kill_all()
                for folder in (state, self.folder / "saved"):
                    shutil.rmtree(folder, ignore_errors=True)
                for disk in self.folder.glob("disk of *"):
                    shutil.rmtree(disk)
                self.coordinator = f"127.0.0.1:{free_ports(1)[0]}"
                when = self.folder / f"armed {point}"
                armed = {"TAUTLINE_FAILPOINT": point, "TAUTLINE_FAILPOINT_WHEN": str(when)}
                with unittest.mock.patch.dict(os.environ, armed):
                    coordinator = self.start_server(
                        "coordinator", shards=0,
                        settings="heartbeat_limit_s: 10 replication { interval: 0 } " + settings)
                self.servers = {}
                for name in ("s0", "s1", "s2"):
                    self.start_on_disk(name)
                for i in range(2):
                    self.start_worker(f"worker{i}")
                number = self.submit(self.coded(iterations=200, clock_ms=20))
                wait_until(lambda: list((self.folder / "saved").glob("tiny_iter_*/manifest*")), 30,
                           "a checkpoint")
                when.touch()
                wait_until(lambda: coordinator.poll() is not None, 30, "the coordinator's death")
                self.start_server("coordinator", shards=0, settings=(
                    "heartbeat_limit_s: 10 replication { interval: 0 } " + settings))
                ended = self.wait_for_job(number, "DONE", 60)
                self.assertEqual(ended["parameters_sha256"], expected)
                names = sorted(f.name for f in (self.folder / "saved").iterdir())
                self.assertEqual(len(names), 2, names)
                for name in self.servers:
                    self.wait_for_folders(name, names)
                rest = self.submit(self.coded("rest.textproto", iterations=200), "--resume",
                                   self.folder / "saved" / names[0])
                self.assertEqual(self.wait_for_job(rest, "DONE")["parameters_sha256"], expected)

    def test_a_server_that_dies_at_a_part_costs_that_checkpoint(self):
        expected = self.undisturbed(60)
        when = self.folder / "armed"
        armed = {"TAUTLINE_FAILPOINT": "part written", "TAUTLINE_FAILPOINT_WHEN": str(when)}
        self.start_cluster(servers=("s0", "s1"))
        with unittest.mock.patch.dict(os.environ, armed):
            self.start_on_disk("s2")
        first = self.submit(self.coded(iterations=60, clock_ms=40))
        wait_until(lambda: (self.folder / "saved/tiny_iter_10/manifest.textproto").exists(), 30,
                   "a checkpoint")
        when.touch()
        wait_until(lambda: self.servers["s2"].poll() is not None, 30, "the server's death")
        self.wait_for_job(first, "FAILED")
        job = self.submit(self.coded("rest.textproto", iterations=60), "--resume",
                          self.folder / "saved")
        self.assertEqual(self.wait_for_job(job, "DONE")["parameters_sha256"], expected)
        # What it had of that one goes when it returns.
        def unfinished():
            return sorted(f.name for f in self.folder.glob("disk of */*/*.part-*"))
        self.assertTrue(unfinished())
        self.start_on_disk("s2")
        wait_until(lambda: not unfinished(), what="the removal of what is unfinished")

    def test_on_one_machine_parts_are_read_by_every_command_and_leave_with_their_run(self):
        text = self.job(iterations=20, workers=2,
                        extra="checkpoint { every: 10 coded { } }").read_text()
        job = self.file("coded.textproto", text)
        self.train(job, "--mode", "bsp", "--servers", 3, *PACE)
        newest = self.folder / "run/checkpoints/tiny_iter_20"
        disks = sorted((self.folder / "run/checkpoints").glob("disk-*"))
        self.assertEqual(len(disks), 3)
        shutil.rmtree(disks[1])
        for command in (("export", newest, "--output", self.folder / "net.safetensors"),
                        ("test", newest)):
            answer = self.tautline(*command)
            self.assertEqual(answer.returncode, 0, answer.stderr)
        shutil.rmtree(disks[2])
        self.assert_fails(self.tautline("test", newest), "4 of its 6 parts are needed")
        answer = self.tautline("runs", "rm", "run", "--runs", self.folder, "--checkpoints", "--yes")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertFalse((self.folder / "run").exists())

    def test_on_too_few_servers_there_are_no_parts_and_the_summary_says_why(self):
        job = self.job(iterations=20, extra="checkpoint { every: 10 coded { } }")
        answer = self.train(job, *PACE)
        self.assertIn("4 + 2 parts on 1 server would not survive the loss of one; it takes 3 "
                      "servers, or fewer data parts", answer.stdout)
        answer = self.tautline("train", self.job(extra="checkpoint { coded { data: 40 } }"),
                               "--output", self.folder / "bad")
        self.assert_fails(answer, "coded has data: 40 and parity: 2; they must be from 1 to 32")

    def test_copies_in_memory_outlive_a_server_without_a_disk(self):
        shm = pathlib.Path("/dev/shm")
        if not os.access(shm, os.W_OK):
            self.skipTest("no memory file system here")
        expected = self.undisturbed(60)
        place = shm / self.folder.name
        self.addCleanup(shutil.rmtree, place, ignore_errors=True)
        self.start_server("coordinator", shards=0,
                          settings="heartbeat_limit_s: 1 replication { interval: 0 }")
        self.servers = {name: self.start_daemon("server", name, f'part_folder: "{place}/{name}"')
                        for name in ("s0", "s1")}
        for i in range(2):
            self.start_worker(f"worker{i}")
        code = dict(code="data: 1 parity: 1")
        first = self.submit(self.coded(iterations=60, clock_ms=40, **code))
        wait_until(lambda: (self.folder / "saved/tiny_iter_10/manifest.textproto").exists(), 30,
                   "a checkpoint")
        self.servers["s1"].kill()
        self.servers["s1"].wait()
        shutil.rmtree(place / "s1")
        self.wait_for_job(first, "FAILED")
        job = self.submit(self.coded("rest.textproto", iterations=60, **code), "--resume",
                          self.folder / "saved")
        self.assertEqual(self.wait_for_job(job, "DONE")["parameters_sha256"], expected)


if __name__ == "__main__":
    unittest.main()
