"""Where writes, flushes and links of a disk fail, or it is full, what would have been saved is
lost, and nothing else."""

import hashlib
import os
import re
import shutil
import subprocess
import unittest.mock

from cluster import *

SAVED = "saved"
CANNOT_WRITE = "cannot be written: Input/output error"
FULL = "cannot be written: No space left on device"
CANNOT_FLUSH = "cannot be flushed to the disk: Input/output error"


class FailingDisk(ServersTest):
    def setUp(self):
        super().setUp()
        compiler = shutil.which("cc")
        if not compiler:
            self.skipTest("no C compiler makes the library that lets writes fail")
        library = self.folder / "failing_disk.so"
        done = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library,
                               SOURCE / "tests/e2e/faults/failing_disk.c"], capture_output=True,
                              text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.fault = self.folder / "fault"
        # A sanitizer's library has to be the first.
        first = os.environ.get("TAUTLINE_SANITIZER_LIBRARY", "")
        self.with_faults = {"LD_PRELOAD": f"{first} {library}".strip(),
                            "FAILING_DISK": str(self.fault)}

    def set_fault(self, fault, pattern):
        new = self.file("fault.new", f"{fault} {self.folder}/{pattern}")
        new.rename(self.fault)

    def disk_of(self, server):
        return self.folder / f"disk of {server}"

    def start_cluster(self, settings="", also=()):
        """The disks of the coordinator, of server1 and of others may fail."""
        def start(role, name, settings=""):
            may_fail = name == "server1" or name in also
            with unittest.mock.patch.dict(os.environ, self.with_faults if may_fail else {}):
                self.others.append(self.start_daemon(role, name, settings))
        with unittest.mock.patch.dict(os.environ, self.with_faults):
            self.brain = self.start_server("coordinator", shards=0, settings=settings)
        self.others = []
        for name in ("server0", "server1"):
            start("server", name, f'part_folder: "{self.disk_of(name)}"')
        for name in ("worker0", "worker1"):
            start("worker", name)

    def log(self, name="coordinator"):
        return (self.folder / f"{name}.log").read_text()

    def clock(self, job):
        return max((int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"]),
                   default=0)

    def assert_trains_on(self, job):
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + 10, 60, what="further clocks")
        self.assertEqual(self.running(job)["state"], "RUNNING")
        for process in (self.brain, *self.others):
            self.assertIsNone(process.poll())


class SavedJobs(FailingDisk):
    def saving(self, more=""):
        """Of a job: where its checkpoints are."""
        return f'checkpoint {{ every: 10 keep: 0 folder: "{self.folder / SAVED}" {more} }} '

    def submit_saved(self, extra):
        return self.submit("BSP", 1000000, clock_ms=20, more=extra)

    def complete(self):
        """The clocks of the checkpoints that have a manifest."""
        return sorted(int(f.parent.name.rsplit("_", 1)[1])
                      for f in (self.folder / SAVED).glob("tiny_iter_*/manifest.textproto")
                      if ".part-" not in f.parent.name)

    def wait_for_complete(self, above):
        return wait_until(lambda: [c for c in self.complete() if c > above], 60,
                          f"a complete checkpoint behind clock {above}")[0]

    def assert_whole(self, clock, places=()):
        """Its files have the digests that its manifest says.
        places  where its parts are"""
        folder = self.folder / SAVED / f"tiny_iter_{clock}"
        files = [f for place in places or [folder] for f in place.iterdir()]
        found = {hashlib.sha256(f.read_bytes()).hexdigest() for f in files}
        said = re.findall(r'^ *sha256: "(.*)"', (folder / "manifest.textproto").read_text(), re.M)
        self.assertGreaterEqual(len(said), 2)
        self.assertLessEqual(set(said), found)
        self.assertEqual([f.name for f in folder.iterdir() if ".part" in f.name], [])

    def resumed(self, clock, iterations, more=""):
        """The parameters of a job that continues from a checkpoint."""
        job = self.job("rest.textproto", iterations=iterations, workers=2,
                       extra="consistency { mode: BSP } " + more)
        answer = self.ask("submit", job, "--resume", self.folder / SAVED / f"tiny_iter_{clock}")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        number = int(re.search(r"job (\d+)", answer.stdout)[1])
        return self.wait_for_job(number, "DONE", 60)["parameters_sha256"]

    def saved_file(self, name, words):
        """Why a checkpoint is not written, as a regular expression: a file of its folder."""
        return (r'(?:(?:server|worker) "[a-z]+\d": )?'
                rf"{self.folder}/{SAVED}/tiny_iter_\1\.part-[^/]*/{name}: {words}")

    def assert_costs_a_checkpoint(self, job, fault, pattern, why):
        """Of those that are due while the fault lasts none is written, and each line says why.
        Returns the clock of the next one that is."""
        before = len(self.log())
        self.set_fault(fault, pattern)
        says = re.compile(rf"the checkpoint at clock (\d+) is not written: {why}")
        line = re.compile(says.pattern + "; training continues")
        failed = int(wait_until(lambda: line.search(self.log()[before:]), 60,
                                f"a line on {fault} of {pattern}")[1])
        self.assertRegex(wait_until(lambda: self.running(job).get("checkpoint_failure")), says)
        by_hand = self.ask("checkpoint", job)
        self.assertEqual(by_hand.returncode, 1)
        self.assertRegex(by_hand.stderr, rf"\Atautline checkpoint: {says.pattern}\n\Z")
        self.assert_trains_on(job)
        self.fault.unlink()
        after = self.wait_for_complete(failed)
        self.assertNotIn(failed, self.complete())
        wait_until(lambda: not self.running(job).get("checkpoint_failure"),
                   what="a status without the failure")
        return after

    def stop_saved(self, job):
        """Returns the clocks of all checkpoints."""
        answer = self.ask("stop", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("saved at clock", self.wait_for_job(job, "STOPPED", 60)["message"])
        # What was left of those that failed goes with the next one that is complete.
        self.assertEqual(list((self.folder / SAVED).glob("*.part-*")), [])
        return self.complete()

    def assert_all_whole(self, clocks, more=""):
        for clock in clocks:
            self.assert_whole(clock)
        # What continues without faults from the one before them ends in the same bits.
        end = clocks[-1] + 20
        self.assertEqual(self.resumed(clocks[0], end, more), self.resumed(clocks[-1], end, more))


class Checkpoints(SavedJobs):
    def test_write_and_flush_errors_cost_checkpoints_and_neither_training_nor_earlier_ones(self):
        self.start_cluster()
        job = self.submit_saved(self.saving())
        self.wait_for_complete(0)
        for fault, file, words in (
                ("write", "shard1.safetensors", CANNOT_WRITE),
                ("torn", "shard1.safetensors", CANNOT_WRITE),
                ("flush", "shard1.safetensors", CANNOT_FLUSH),
                ("write", "manifest.textproto", CANNOT_WRITE),
                ("torn", "manifest.textproto", CANNOT_WRITE),
                ("flush", "manifest.textproto", "cannot be put in place: Input/output error")):
            with self.subTest(f"{fault} {file}"):
                self.assert_whole(self.assert_costs_a_checkpoint(
                    job, fault, f"{SAVED}/*/{file}*", self.saved_file(file, words)))
        self.assert_all_whole(self.stop_saved(job))

    def test_errors_of_a_workers_own_file_cost_checkpoints_and_neither_training_nor_earlier_ones(
            self):
        self.start_cluster(also=("worker0", "worker1"))
        feedback = "compression { push { scheme: TOP_K min_values: 1 } } "
        job = self.submit_saved(self.saving() + feedback)
        first = self.wait_for_complete(0)
        file = "worker1.safetensors"
        self.assertTrue((self.folder / SAVED / f"tiny_iter_{first}" / file).exists())
        for fault, words in (("write", CANNOT_WRITE), ("full", FULL), ("torn", CANNOT_WRITE),
                             ("flush", CANNOT_FLUSH)):
            with self.subTest(fault):
                self.assert_whole(self.assert_costs_a_checkpoint(
                    job, fault, f"{SAVED}/*/{file}*", self.saved_file(file, words)))
        self.assert_all_whole(self.stop_saved(job), feedback)

    def test_a_checkpoint_whose_place_in_the_folder_cannot_be_flushed_is_not_found(self):
        self.start_cluster()
        job = self.submit_saved(self.saving())
        self.wait_for_complete(0)
        before = len(self.log())
        self.set_fault("flush", SAVED)
        line = re.compile(rf"the checkpoint at clock (\d+) is not written: {self.folder}/{SAVED}: "
                          r"[^\n]*Input/output error; training continues")
        failed = int(wait_until(lambda: line.search(self.log()[before:]), 60, "a line on it")[1])
        self.assertNotIn(failed, self.complete())
        self.assertIn("Input/output error", self.ask("status").stdout)
        self.assert_trains_on(job)
        self.fault.unlink()
        after = self.wait_for_complete(failed)
        self.assertNotIn(failed, self.complete())
        self.assert_whole(after)
        wait_until(lambda: not list((self.folder / SAVED).glob(f"tiny_iter_{failed}.part-*")),
                   what="nothing of the checkpoint that failed")
        self.assertFalse((self.folder / SAVED / f"tiny_iter_{failed}").exists())
        self.assertEqual(self.ask("stop", job, "--discard").returncode, 0)
        self.wait_for_job(job, "STOPPED", 60)


class CheckpointsInParts(SavedJobs):
    CODED = "coded { data: 1 parity: 1 }"

    def on_disk(self, server):
        """The folders of the checkpoints on a server's disk."""
        return sorted(self.disk_of(server).glob("*/tiny_iter_*"))

    def check_faults(self, faults):
        """Those of files on the disk of server1: (fault, file, what the message calls it, words)"""
        self.start_cluster()
        job = self.submit_saved(self.saving(self.CODED))
        self.wait_for_complete(0)
        disk = self.disk_of("server1")
        for fault, pattern, file, words in faults:
            with self.subTest(f"{fault} {pattern}"):
                self.assert_costs_a_checkpoint(job, fault, f"{disk.name}/{pattern}",
                                               rf"[^\n]*{disk}/{file}: {words}")
        clocks = self.stop_saved(job)
        names = sorted(f"tiny_iter_{clock}" for clock in clocks)
        for server in ("server0", "server1"):
            # Nothing of those that failed stays.
            wait_until(lambda: [f.name for f in self.on_disk(server)] == names,
                       what=f"whole checkpoints alone on {server}")
            for folder in self.on_disk(server):
                self.assertEqual((folder / "manifest.textproto").read_bytes(),
                                 (self.folder / SAVED / folder.name /
                                  "manifest.textproto").read_bytes())
        for clock in clocks:
            self.assert_whole(clock, [f for server in ("server0", "server1")
                                      for f in self.on_disk(server)
                                      if f.name == f"tiny_iter_{clock}"])
        end = clocks[-1] + 20
        coded = self.saving(self.CODED)
        bits = self.resumed(clocks[0], end, coded)
        for server in ("server0", "server1"):
            # Either disk's parts suffice.
            self.disk_of(server).rename(self.folder / "away")
            self.assertEqual(self.resumed(clocks[-1], end, coded), bits)
            shutil.rmtree(self.disk_of(server), ignore_errors=True)
            (self.folder / "away").rename(self.disk_of(server))

    def test_errors_of_a_disk_that_has_parts_cost_checkpoints_and_no_part_of_another_one(self):
        self.check_faults([(fault, "*.part?.unfinished", r"[^\n]*\.part\d", words)
                           for fault, words in (("write", CANNOT_WRITE), ("torn", CANNOT_WRITE),
                                                ("flush", CANNOT_FLUSH))])

    def test_errors_of_a_disks_copy_of_the_manifest_cost_checkpoints_and_no_other_copy(self):
        copy = "*/manifest.textproto.unfinished", r"[^/\n]*/tiny_iter_\1/manifest\.textproto"
        folder = "submission-" + 16 * "?", "submission-[0-9a-f]{16}"
        self.check_faults([("write", *copy, CANNOT_WRITE), ("full", *copy, FULL),
                           ("torn", *copy, CANNOT_WRITE), ("flush", *copy, CANNOT_FLUSH),
                           ("flush", *folder, CANNOT_FLUSH)])


class IncrementalCheckpoints(SavedJobs):
    def job(self, name="job.textproto", **options):
        """Its first layer does not learn, and is the larger one."""
        path = super().job(name, **options)
        frozen = "param { lr_mult: 0 } param { lr_mult: 0 } inner_product_param { num_output: 500"
        path.write_text(path.read_text().replace("inner_product_param { num_output: 16", frozen))
        return path

    def linked(self, clock):
        """The files that a checkpoint shares with others."""
        return [f.name for f in (self.folder / SAVED / f"tiny_iter_{clock}").iterdir()
                if f.stat().st_nlink > 1]

    def start_saving(self):
        self.start_cluster(also=("server0",))
        job = self.submit_saved(self.saving("incremental: true"))
        self.assertTrue(self.linked(self.wait_for_complete(self.wait_for_complete(0))))
        return job

    def test_errors_of_an_incremental_file_cost_checkpoints_and_no_file_that_others_share(self):
        job = self.start_saving()
        for fault, words in (("write", CANNOT_WRITE), ("full", FULL), ("torn", CANNOT_WRITE),
                             ("flush", CANNOT_FLUSH)):
            with self.subTest(fault):
                after = self.assert_costs_a_checkpoint(
                    job, fault, f"{SAVED}/*/shard1-*",
                    self.saved_file(r"shard1-\d+\.safetensors", words))
                self.assert_whole(after)
                self.assertTrue(self.linked(after))
        self.assert_all_whole(self.stop_saved(job))

    def test_where_no_hard_link_can_be_made_checkpoints_are_written_whole(self):
        job = self.start_saving()
        before = {name: len(self.log(name)) for name in ("server0", "server1")}
        self.set_fault("link", f"{SAVED}/*")
        saved = f"{self.folder}/{SAVED}"
        line = re.compile(rf"job {job}: the checkpoint at clock (\d+) shares no files with the one "
                          rf"before it: {saved}/[^\n]*: no link to it can be made in "
                          rf"{saved}/tiny_iter_\1\.part-[^\n]*: Input/output error")
        said = wait_until(lambda: [line.search(self.log(name)[begin:])
                                   for name, begin in before.items()
                                   if line.search(self.log(name)[begin:])], 60, "a line on it")
        # Another server may have made its links in this one before.
        alone = self.wait_for_complete(int(said[0][1]))
        self.assertEqual(self.linked(alone), [])
        self.assert_whole(alone)
        self.assertFalse(self.running(job).get("checkpoint_failure"))
        self.assert_trains_on(job)
        self.fault.unlink()
        wait_until(lambda: self.linked(self.complete()[-1]), 60, "links again")
        self.assert_all_whole(self.stop_saved(job))


class State(FailingDisk):
    def start_cluster_with_state(self):
        """A job trains, and what waits for it is decided while the disk fails."""
        self.coordinator = f"127.0.0.1:{free_ports(1)[0]}"
        self.settings = f'state_folder: "{self.folder / "state"}" heartbeat_limit_s: 10'
        self.start_cluster(self.settings)
        job = self.submit("SSP", 1000000, clock_ms=10)
        self.wait_for_job(job, "RUNNING")
        self.assert_trains_on(job)
        self.waiting = self.job("waiting.textproto", iterations=20, workers=2)
        return job

    def restart_coordinator(self):
        self.fault.unlink()
        with unittest.mock.patch.dict(os.environ, self.with_faults):
            self.brain = self.start_server("coordinator", shards=0, settings=self.settings)

    def refuse_waiting(self):
        answer = self.ask("submit", self.waiting, "--wait", 1)
        self.assertEqual(answer.returncode, 1, answer.stdout)
        return answer.stderr

    def submit_waiting(self):
        answer = self.ask("submit", self.waiting)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(re.search(r"job (\d+)", answer.stdout)[1])

    def states(self):
        return {int(one["job"]): one["state"] for one in self.status()["jobs"]}

    def test_write_errors_of_the_state_cost_no_training_and_nothing_that_was_confirmed(self):
        job = self.start_cluster_with_state()
        confirmed = {job: "RUNNING"}
        for fault in ("write", "torn"):
            with self.subTest(fault):
                before = len(self.log())
                self.set_fault(fault, "state/*")
                self.assertIn("confirms nothing that it cannot save", self.refuse_waiting())
                self.assertRegex(self.log()[before:], "state cannot be saved, so nothing new is "
                                                      "decided: .*state/coordinator.sqlite: .*disk "
                                                      "I/O error")
                self.assert_trains_on(job)
                # It starts again from the state that the disk has.
                self.brain.kill()
                self.brain.wait()
                self.restart_coordinator()
                self.assert_trains_on(job)
                self.assertEqual(self.states(), confirmed)
                confirmed[self.submit_waiting()] = "SUBMITTED"
                # Where the disk works again soon, what was refused is taken all the same.
                self.set_fault(fault, "state/*")
                self.refuse_waiting()
                self.fault.unlink()
                late = max(confirmed) + 1
                wait_until(lambda: late in self.states(), what=f"job {late}")
                confirmed[late] = "SUBMITTED"
        self.assertEqual(self.states(), confirmed)
        self.assertEqual(self.ask("stop", job, "--discard").returncode, 0)
        for one in confirmed:
            self.wait_for_job(one, "STOPPED" if one == job else "DONE", 60)

    def test_a_coordinator_ends_at_a_failed_flush_of_its_state_and_starts_again_from_it(self):
        job = self.start_cluster_with_state()
        self.set_fault("flush", "state/*")
        self.refuse_waiting()
        self.assertNotEqual(self.assert_ends(self.brain, 5 * SLOWER), 0)
        self.assertRegex(self.log(), "the coordinator steps down: .*state/coordinator.sqlite: "
                                     "cannot be written: the disk failed to sync it")
        self.restart_coordinator()
        self.assert_trains_on(job)
        self.assertEqual({w["state"] for w in self.running(job)["workers"]}, {"running"})


if __name__ == "__main__":
    unittest.main()
