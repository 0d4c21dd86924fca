"""Checkpoints of `tautline lab`: those of real processes, to the bit, and the same each time."""

import json
import shutil

from cluster import *
from tensors import read_safetensors
from training.test_checkpoint import letters_job

CLUSTER = """
host { name: "server" cores: 2 workers: 0 servers: 2 link: "card" }
host { name: "node" count: 8 workers: 1 link: "card" }
link { name: "card" gbit_per_s: 1 latency_us: 50 jitter_us: 400 }
compute { clock_ms: 40 spread: LOGNORMAL deviation: 0.4 tests: false }
"""


def tensors_of(checkpoint):
    """All tensors of the shards' files, however these are cut among shards."""
    found = {}
    for file in sorted(checkpoint.glob("shard*.safetensors")):
        tensors, _ = read_safetensors(file)
        found.update(tensors)
    return found


def contents_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file()}


class LabCheckpoint(ClusterTest):
    def saving(self, every=10, extra="", **settings):
        return self.job(extra=f"checkpoint {{ every: {every} keep: 0 {extra} }}", **settings)

    def run_of(self, command, job, *arguments, output):
        answer = self.tautline(command, job, "--output", self.folder / output, "--force",
                               *arguments, timeout=90)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        summary = json.loads((self.folder / output / "summary.json").read_text())
        self.assertEqual(summary["state"], "done")
        return summary

    def lab(self, job, *arguments, output="lab"):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER)
        return self.run_of("lab", job, "--cluster", path, *arguments, output=output)

    def train(self, job, *arguments, output="real"):
        return self.run_of("train", job, *arguments, output=output)

    def saved(self, output="lab"):
        return sorted((self.folder / output / "checkpoints").iterdir())

    def test_the_labs_checkpoint_of_bsp_has_what_the_real_runs_has(self):
        job = self.job(workers=3)
        virtual = self.lab(job, "--mode", "bsp", "--servers", 2, "--shards", 2)
        real = self.train(job, "--mode", "bsp")
        self.assertEqual(virtual["parameters_sha256"], real["parameters_sha256"])
        one, two = (self.folder / run / "checkpoints/tiny_iter_30" for run in ("lab", "real"))
        self.assertEqual(virtual["checkpoints"],
                         [{"iteration": 30, "folder": "checkpoints/tiny_iter_30"}])
        tensors = tensors_of(one)
        self.assertTrue(any(name.endswith("].state0") for name in tensors), list(tensors))
        self.assertEqual(tensors, tensors_of(two))
        manifests = [(folder / "manifest.textproto").read_text() for folder in (one, two)]
        for line in ("clock: 30", "slots: 3", 'name: "worker2"'):
            for manifest in manifests:
                self.assertIn(line, manifest)

    def test_checkpoints_of_the_lab_repeat_bit_for_bit(self):
        job = self.saving(workers=3)
        for mode in (("--mode", "async"), ("--slack", 2), ("--mode", "bsp")):
            self.lab(job, *mode, output="one")
            self.lab(job, *mode, output="a-longer-name")
            first, second = (contents_of(self.folder / run / "checkpoints")
                             for run in ("one", "a-longer-name"))
            self.assertGreater(len(first), 5, mode)
            self.assertIn("tiny_iter_30/manifest.textproto", first)
            self.assertIn("tiny_iter_10/manifest.textproto", first)
            self.assertEqual(list(first), list(second), mode)
            for name, content in first.items():
                self.assertEqual(content, second[name], (mode, name))
            summaries = [json.loads((self.folder / run / "summary.json").read_text())
                         for run in ("one", "a-longer-name")]
            self.assertEqual(*summaries)

    def test_a_bsp_run_continues_from_the_labs_checkpoint_in_its_bits_there_and_on_processes(self):
        job = self.saving(workers=2)
        whole = self.lab(job, "--mode", "bsp", output="whole")["parameters_sha256"]
        self.lab(job, "--mode", "bsp", "--max-iter", 20, output="first")
        self.assertEqual([one.name for one in self.saved("first")],
                         ["tiny_iter_10", "tiny_iter_20"])
        self.train(job, "--mode", "bsp", "--max-iter", 20, "--clock-time", 30, output="real")
        for saved in (*self.saved("first"), self.folder / "first/checkpoints",
                      self.folder / "real/checkpoints/tiny_iter_20"):
            for run in (self.lab, self.train):
                rest = run(job, "--mode", "bsp", "--resume", saved, output="rest")
                self.assertEqual(rest["parameters_sha256"], whole, (saved, run))
        # Other servers, another number of workers, and in place of the run that it is of.
        rest = self.lab(job, "--mode", "bsp", "--servers", 2, "--shards", 2, "--resume",
                        self.saved("first")[-1], output="rest")
        self.assertEqual(rest["parameters_sha256"], whole)
        rest = self.lab(job, "--slack", 2, "--workers", 3, "--resume", self.saved("first")[-1],
                        output="rest")
        self.assertEqual([worker["clock"] for worker in rest["workers"]], [30] * 3)
        rest = self.lab(job, "--mode", "bsp", "--resume", self.saved("first")[-1], output="first")
        self.assertEqual(rest["parameters_sha256"], whole)

    def test_the_tools_of_trained_models_take_the_labs_checkpoint(self):
        job = self.job(workers=2)
        summary = self.lab(job, "--slack", 1)
        checkpoint = self.saved()[-1]
        answer = self.tautline("test", checkpoint, "--iterations", 4, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        last = summary["evaluations"][-1]
        self.assertEqual(last["iteration"], 30)
        self.assertAlmostEqual(json.loads(answer.stdout)["outputs"]["accuracy"], last["accuracy"],
                               places=6)
        weights = self.folder / "net.safetensors"
        answer = self.tautline("export", checkpoint, "--output", weights)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # A training from these parameters: in the lab as on real processes.
        one, two = (run(job, "--mode", "bsp", "--max-iter", 5, "--weights", weights)
                    for run in (self.lab, self.train))
        self.assertEqual(one["parameters_sha256"], two["parameters_sha256"])
        fresh = self.lab(job, "--mode", "bsp", "--max-iter", 5)
        self.assertNotEqual(one["parameters_sha256"], fresh["parameters_sha256"])
        answer = self.tautline("runs", "list", "--runs", self.folder, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        run, = (run for run in json.loads(answer.stdout)["runs"] if run["name"] == "lab")
        self.assertEqual(run["kind"], "lab")
        self.assertEqual(run["checkpoints"], [str(self.saved()[-1])])

    def test_what_only_workers_have_is_saved_and_continued_in_the_lab(self):
        job = letters_job(self)
        whole = self.lab(job, "--mode", "bsp", output="whole")["parameters_sha256"]
        self.assertTrue((self.folder / "whole/vocabulary_text.txt").exists())
        self.lab(job, "--mode", "bsp", "--max-iter", 16, output="first")
        for folder in self.saved("first"):
            self.assertTrue((folder / "worker1.safetensors").exists(), folder)
            for run in (self.lab, self.train):
                rest = run(job, "--mode", "bsp", "--resume", folder, output="rest")
                self.assertEqual(rest["parameters_sha256"], whole, (folder, run))

    def test_settings_of_checkpoints_are_kept_or_named(self):
        # Files that do not change are linked, older ones removed, the job's own place is not used.
        elsewhere = self.folder / "elsewhere"
        job = self.job(workers=2, extra="checkpoint { every: 10 keep: 1 incremental: true "
                                        f'folder: "{elsewhere}" }}')
        self.lab(job)
        saved = [one.name for one in self.saved()]
        self.assertEqual(saved[-1], "tiny_iter_30")
        self.assertNotIn("tiny_iter_10", saved)
        self.assertFalse(elsewhere.exists())
        coded = self.job(workers=2, extra="checkpoint { coded { data: 1 parity: 1 } }")
        answer = self.tautline("lab", coded, "--cluster", self.folder / "cluster.textproto",
                               "--output", self.folder / "coded")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("checkpoint.coded: the lab's servers have no disks", answer.stderr)
        self.assertIn(f"checkpoint at 30: {self.folder / 'coded/checkpoints/tiny_iter_30'}\n",
                      answer.stdout)
        self.assertTrue((self.saved("coded")[0] / "shard0.safetensors").exists())
        none = self.file("none.textproto", job.read_text().split("checkpoint {")[0].replace(
            "solver_param {", "solver_param { snapshot_after_train: false"))
        self.lab(none, output="none")
        self.assertFalse((self.folder / "none/checkpoints").exists())

    def test_without_learning_there_is_nothing_to_save_or_to_continue(self):
        job = self.saving(workers=2)
        self.lab(job, "--max-iter", 10, output="first")
        answer = self.tautline("lab", job, "--cluster", self.folder / "cluster.textproto",
                               "--no-learning", "--output", self.folder / "costs")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("--no-learning computes no parameters, so none is written", answer.stderr)
        self.assertFalse((self.folder / "costs/checkpoints").exists())
        saved = self.saved("first")[0]
        weights = self.folder / "net.safetensors"
        self.assertEqual(self.tautline("export", saved, "--output", weights).returncode, 0)
        for words in (("--resume", saved), ("--weights", weights)):
            answer = self.tautline("lab", job, "--cluster", self.folder / "cluster.textproto",
                                   "--no-learning", "--output", self.folder / "refused", *words)
            self.assert_fails(answer, "--no-learning computes no parameters; leave one of the two")
            self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
            self.assertFalse((self.folder / "refused").exists())

    def test_a_checkpoint_that_is_damaged_is_refused_in_the_lab_too(self):
        job = self.saving(workers=2)
        self.lab(job, output="first")
        folder = self.saved("first")[-1]
        file = folder / "shard0.safetensors"
        data = bytearray(file.read_bytes())
        data[-9] ^= 1
        file.write_bytes(data)
        answer = self.tautline("lab", job, "--cluster", self.folder / "cluster.textproto",
                               "--max-iter", 40, "--resume", folder, "--output",
                               self.folder / "rest")
        self.assert_fails(answer, "shard0.safetensors")
        shutil.rmtree(folder)
        answer = self.tautline("lab", job, "--cluster", self.folder / "cluster.textproto",
                               "--resume", folder, "--output", self.folder / "rest", "--force")
        self.assert_fails(answer, "tiny_iter_30")
