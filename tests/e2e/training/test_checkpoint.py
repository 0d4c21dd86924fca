"""A job is saved while it trains, and continues from what was saved."""

import pathlib
import shutil

from cluster import *

# Clocks long enough for every order to arrive in time.
PACE = ("--clock-time", "30")

TEXT_NET = """
net_param {
  name: "letters"
  layer { name: "text" type: "Data" top: "data" top: "label" top: "cont"
          data_param { batch_size: 4 backend: TEXT } text_param { steps: 6 test_share: 0.1 } }
  layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
          embed_param { input_dim: 12 num_output: 8 bias_term: false
                        weight_filler { type: "gaussian" std: 0.3 } } }
  layer { name: "lstm" type: "LSTM" bottom: "embed" bottom: "cont" top: "lstm"
          recurrent_param { num_output: 8 weight_filler { type: "uniform" min: -0.4 max: 0.4 } } }
  layer { name: "scores" type: "InnerProduct" bottom: "lstm" top: "scores"
          inner_product_param { num_output: 12 axis: 2 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
          softmax_param { axis: 2 } }
}
solver_param { base_lr: 0.3 max_iter: %d }
"""


def value_of(output, key):
    """The text after "key: " in a summary."""
    for line in output.splitlines():
        if line.startswith(key + ": "):
            return line[len(key) + 2:]
    raise AssertionError(f"no {key} in:\n{output}")


def letters_job(test):
    """Two workers whose net carries states from batch to batch; saved every 8 of 24 clocks."""
    data = test.folder / "text"
    data.mkdir()
    (data / "input.txt").write_text("abacadabra badacab " * 40)
    text = f'name: "letters"\nworkers: 2\ndata {{ folder: "{data}" }}\n'
    return test.file("text.textproto", text + TEXT_NET % 24 + "checkpoint { every: 8 keep: 0 }")


class CheckpointTest(ClusterTest):
    def train(self, job, *arguments, output="run", fails=False, timeout=90):
        """Runs it to its end in its own folder."""
        answer = self.tautline("train", job, "--output", self.folder / output, *arguments,
                               timeout=timeout)
        if not fails:
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer

    def digest(self, job, *arguments, output="run"):
        return value_of(self.train(job, *arguments, output=output).stdout, "parameters sha256")

    def saving(self, every=10, keep=0, **settings):
        return self.job(extra=f"checkpoint {{ every: {every} keep: {keep} }}", **settings)

    def saved(self, output="run"):
        return sorted((self.folder / output / "checkpoints").iterdir())

    def spoil(self, file, at=-9):
        data = bytearray(file.read_bytes())
        data[at] ^= 1
        file.write_bytes(data)


class Resume(CheckpointTest):
    def test_a_resumed_bsp_run_ends_in_the_bits_of_one_that_never_stopped(self):
        job = self.saving(iterations=30, workers=2)
        whole = self.digest(job, "--mode", "bsp", output="whole")
        self.train(job, "--mode", "bsp", "--max-iter", 20, *PACE, output="first")
        folders = self.saved("first")
        self.assertEqual([f.name for f in folders], ["tiny_iter_10", "tiny_iter_20"])
        for folder in (folders[0], folders[1], self.folder / "first/checkpoints"):
            with self.subTest(folder.name):
                shutil.rmtree(self.folder / "rest", ignore_errors=True)
                self.assertEqual(
                    self.digest(job, "--mode", "bsp", "--resume", folder, output="rest"), whole)

    def test_workers_that_meet_at_an_outer_rule_resume_with_their_momentum_and_its_own(self):
        for fragments in (1, 2):
            job = self.saving(every=8, iterations=30, workers=2)
            job.write_text(job.read_text() + f"""
                consistency {{ mode: BSP periodic_averaging {{ interval: 4 fragments: {fragments}
                                                               outer {{ momentum: 0.5 }} }} }}""")
            output = f"whole{fragments}"
            whole = self.digest(job, *PACE, output=output)
            self.assertEqual(self.digest(job, output=f"again{fragments}"), whole)
            folders = [one for one in self.saved(output) if one.name != "tiny_iter_30"]
            self.assertGreaterEqual(len(folders), 2)
            for folder in folders:
                with self.subTest(f"{fragments}, {folder.name}"):
                    self.assertEqual(self.digest(job, "--resume", folder,
                                                 output=f"rest{fragments}-{folder.name}"), whole)

    def test_a_run_is_resumed_on_another_number_of_servers_and_shards(self):
        job = self.saving(iterations=30, workers=2)
        text = job.read_text().replace("momentum: 0.9", 'type: "Adam" momentum: 0.9')
        job = self.file("adam.textproto", text.replace("base_lr: 0.1", "base_lr: 0.01"))
        whole = self.digest(job, "--mode", "bsp", output="whole")
        self.train(job, "--mode", "bsp", "--max-iter", 20, "--shards", 2, output="first")
        for servers, shards in ((1, 1), (2, 1), (2, 2)):
            with self.subTest(f"{servers} servers of {shards}"):
                shutil.rmtree(self.folder / "rest", ignore_errors=True)
                rest = self.digest(job, "--mode", "bsp", "--servers", servers, "--shards", shards,
                                   "--resume", self.folder / "first/checkpoints", output="rest")
                self.assertEqual(rest, whole)

    def test_a_run_is_resumed_on_another_number_of_workers_with_the_same_parameters(self):
        job = self.saving(iterations=20, workers=2)
        first = self.digest(job, "--mode", "bsp", output="first")
        saved = self.folder / "first/checkpoints/tiny_iter_20"
        same = self.train(job, "--mode", "bsp", "--workers", 3, "--resume", saved, output="same")
        self.assertEqual(value_of(same.stdout, "parameters sha256"), first)
        self.assertIn("nothing is left to train", same.stderr)
        for workers in (1, 3):
            output = f"on{workers}"
            self.train(job, "--mode", "bsp", "--workers", workers, "--max-iter", 30, "--resume",
                       saved, output=output)
            self.assertIn("from clock 20", (self.folder / output / "worker0.log").read_text())

    def test_a_run_under_a_slack_is_resumed(self):
        job = self.saving(iterations=40, workers=2)
        self.train(job, "--slack", 2, "--max-iter", 30, *PACE, output="first")
        for mode in (("--slack", 2), ("--mode", "async"), ("--mode", "bsp")):
            shutil.rmtree(self.folder / "rest", ignore_errors=True)
            rest = self.train(job, *mode, "--resume",
                              self.folder / "first/checkpoints/tiny_iter_20", output="rest")
            self.assertIn("40 of 40", rest.stdout)

    def test_the_state_that_a_net_carries_between_batches_is_saved_too(self):
        job = letters_job(self)
        whole = self.digest(job, "--mode", "bsp", output="whole")
        self.train(job, "--mode", "bsp", "--max-iter", 16, *PACE, output="first")
        for folder in self.saved("first"):
            self.assertTrue((folder / "worker1.safetensors").exists(), folder)
            shutil.rmtree(self.folder / "rest", ignore_errors=True)
            self.assertEqual(
                self.digest(job, "--mode", "bsp", "--resume", folder, output="rest"), whole)

    def test_the_solvers_snapshot_and_prefix_are_taken_as_caffe_takes_them(self):
        job = self.job(iterations=20)
        text = job.read_text().replace(
            "momentum: 0.9", 'momentum: 0.9 snapshot: 10 snapshot_prefix: "models/little"')
        answer = self.train(self.file("caffe.textproto", text), *PACE)
        names = sorted(f.name for f in (self.folder / "models").iterdir())
        self.assertEqual(names, ["little_iter_10", "little_iter_20"])
        self.assertEqual(value_of(answer.stdout, "checkpoint at 20"),
                         str(self.folder / "models/little_iter_20"))

    def test_older_checkpoints_go_beyond_those_to_keep(self):
        self.train(self.saving(every=5, keep=2, iterations=20), "--clock-time", 100)
        self.assertEqual([f.name for f in self.saved()], ["tiny_iter_15", "tiny_iter_20"])


class Damage(CheckpointTest):
    def setUp(self):
        super().setUp()
        self.saving_job = self.saving(iterations=20, workers=1)
        self.train(self.saving_job, *PACE)
        self.older, self.newest = self.saved()

    def assert_refused(self, *words, resume=None):
        answer = self.train(self.saving_job, "--max-iter", 30, "--resume", resume or self.newest,
                            output="rest", fails=True)
        self.assert_fails(answer, *words)

    def test_a_damaged_file_is_refused_by_name_and_the_checkpoint_before_it_offered(self):
        self.spoil(self.newest / "shard0.safetensors")
        self.assert_refused("tiny_iter_20/shard0.safetensors: its SHA-256 is", "it is damaged",
                            f"the one before it, tiny_iter_10, is whole: --resume {self.older}")

    def test_a_folders_newest_checkpoint_is_not_passed_over_when_it_is_damaged(self):
        self.spoil(self.newest / "shard0.safetensors")
        self.assert_refused("tiny_iter_20/shard0.safetensors", "tiny_iter_10, is whole",
                            resume=self.newest.parent)

    def test_a_damaged_manifest_is_refused_by_name_and_the_checkpoint_before_it_offered(self):
        self.spoil(self.newest / "manifest.textproto", at=100)
        self.assert_refused("tiny_iter_20/manifest.textproto: its checksum does not match",
                            "tiny_iter_10, is whole")

    def test_a_cut_file_is_refused_by_name(self):
        file = self.newest / "shard0.safetensors"
        file.write_bytes(file.read_bytes()[:-1])
        shutil.rmtree(self.older)
        self.assert_refused("tiny_iter_20/shard0.safetensors: has", "it is damaged")

    def test_a_folder_without_a_manifest_is_no_checkpoint(self):
        (self.newest / "manifest.textproto").unlink()
        self.assert_refused("holds no whole checkpoint")

    def test_another_nets_checkpoint_is_refused_with_both_sides_tables(self):
        text = self.saving_job.read_text().replace("num_output: 16", "num_output: 17")
        self.saving_job = self.file("wider.textproto", text)
        self.assert_refused("the checkpoint holds table", "16x64", "17x64")

    def test_a_submission_that_cannot_be_resumed_is_refused_at_once(self):
        self.start_server()
        self.start_worker()
        self.spoil(self.newest / "manifest.textproto", at=100)
        answer = self.ask("submit", self.saving_job, "--resume", self.newest)
        self.assert_fails(answer, "its checksum does not match", "tiny_iter_10, is whole")
        self.assert_still_trains()


class Failures(CheckpointTest):
    def test_a_folder_that_cannot_be_written_costs_no_training(self):
        blocked = self.file("blocked", "a file, no folder")
        job = self.job(iterations=20, extra=f'checkpoint {{ every: 10 folder: "{blocked}/x" }}')
        answer = self.train(job, *PACE)
        self.assertIn("20 of 20", answer.stdout)
        self.assertIn("the checkpoint at clock 20 is not written", answer.stdout)
        self.assertIn("Not a directory", answer.stdout)
        log = (self.folder / "run/server0.log").read_text()
        self.assertIn("the checkpoint at clock 10 is not written", log)
        self.assertIn("training continues", log)

    def test_a_full_disk_costs_no_training(self):
        disk = self.mount_small_disk("disk", "8k")
        job = self.job(iterations=20, extra=f'checkpoint {{ every: 10 folder: "{disk}/x" }}')
        answer = self.train(job, *PACE)
        self.assertIn("20 of 20", answer.stdout)
        self.assertIn("No space left on device", answer.stdout)

    def test_a_server_killed_while_writing_leaves_no_file_that_looks_complete(self):
        self.start_server(settings="heartbeat_limit_s: 1 replication { interval: 0 }")
        victim = self.start_daemon("server", "server1")
        self.start_worker()
        folder = self.folder / "saved"
        # Large enough for a while of writing.
        job = self.job(iterations=1000000,
                       extra=f'checkpoint {{ every: 3 keep: 0 folder: "{folder}" }}')
        text = job.read_text().replace("num_output: 16", "num_output: 150000")
        self.ask("submit", self.file("large.textproto", text))
        whole = folder / "tiny_iter_3" / "manifest.textproto"
        wait_until(whole.exists, 60, "the first checkpoint")

        def writing():
            return [f for f in folder.glob("*.part-*/shard1.safetensors.part*")]
        wait_until(writing, 60, "the next one's file")
        victim.kill()
        failed = self.wait_for_job(1, "FAILED")
        self.assertIn("server1", failed["message"])
        log = (self.folder / "server0.log").read_text()
        self.assertRegex(log, "the checkpoint at clock [0-9]+ is not written: the job has ended; "
                              "its incomplete files are never used")
        victim = self.start_daemon("server", "server1")
        answer = self.ask("submit", self.file("rest.textproto", text), "--resume", folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(2, "RUNNING")
        wait_until(lambda: "from clock" in (self.folder / "server0.log").read_text(), 20, "a start")
        self.assertEqual(self.ask("stop", 2).returncode, 0)


class ByHand(CheckpointTest):
    def test_a_checkpoint_is_ordered_by_hand_while_the_job_continues(self):
        self.start_server()
        for i in range(2):
            self.start_worker(f"worker{i}")
        job = self.job(iterations=1000000, workers=2)
        self.ask("submit", job)
        self.wait_for_job(1, "RUNNING")
        answer = self.ask("checkpoint")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        folder = pathlib.Path(value_of(answer.stdout, "written"))
        self.assertTrue((folder / "manifest.textproto").exists())
        self.assertEqual(folder.parent, self.folder / "checkpoints")
        self.assertEqual(self.status()["jobs"][0]["state"], "RUNNING")
        again = self.ask("checkpoint", 1, "--no-wait")
        self.assertIn("job 1: checkpoint at clock", again.stdout)
        self.ask("stop", 1, "--discard")
        self.wait_for_job(1, "STOPPED")
        self.assert_fails(self.ask("checkpoint", 1), "has ended")
        self.assert_fails(self.ask("checkpoint"), "no job is running")
        clock = int(folder.name.rsplit("_", 1)[1])
        answer = self.ask("submit", self.job("rest.textproto", iterations=clock + 50, workers=2),
                          "--resume", folder)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(2, "DONE")
