"""Embeddings whose rows live at the servers, with real processes."""

import json

from cluster import *

# Letters to predict, with all rows in every worker or with those of a batch.
NET = """
net_param {
  name: "letters"
  layer { name: "text" type: "Data" top: "data" top: "label" top: "cont"
          data_param { batch_size: 4 backend: TEXT } text_param { steps: 6 test_share: 0.2 } }
  layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
          embed_param { input_dim: 16 num_output: 8 bias_term: false
                        weight_filler { type: "gaussian" std: 0.3 } %s } }
  layer { name: "lstm" type: "LSTM" bottom: "embed" bottom: "cont" top: "lstm"
          recurrent_param { num_output: 8 weight_filler { type: "uniform" min: -0.4 max: 0.4 } } }
  layer { name: "scores" type: "InnerProduct" bottom: "lstm" top: "scores"
          inner_product_param { num_output: 16 axis: 2 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
          softmax_param { axis: 2 } }
}
"""
BY_ROWS = "by_rows: true buckets: 5"


class Rows(ClusterTest):
    def letters_job(self, embed=BY_ROWS, iterations=40, more="", solver=""):
        """Two workers' job on a text of a dozen letters that repeats."""
        data = self.folder / "text"
        if not data.exists():
            data.mkdir()
            (data / "input.txt").write_text("abacadabra badacab efgh " * 40)
        return self.file("letters.textproto", f"""name: "letters"
workers: 2
data {{ folder: "{data}" }}
{more}
solver_param {{ base_lr: 0.5 max_iter: {iterations} test_iter: 3 test_interval: 20
{solver} }}
""" + NET % embed)

    def train(self, job, *arguments, output="run"):
        answer = self.tautline("train", job, "--output", self.folder / output, "--force",
                               *arguments, timeout=90)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        summary = json.loads((self.folder / output / "summary.json").read_text())
        self.assertEqual(summary["state"], "done")
        return summary

    @staticmethod
    def losses(summary):
        return [test["loss"] for test in summary["evaluations"]]

    def test_an_embedding_by_rows_ends_in_the_bits_of_a_whole_one(self):
        whole = self.train(self.letters_job(""), "--mode", "bsp")
        self.assertLess(self.losses(whole)[-1], self.losses(whole)[0] - 0.2)
        for servers in (1, 2, 2):
            rows = self.train(self.letters_job(), "--mode", "bsp", "--servers", servers)
            self.assertEqual(self.losses(rows)[-1], self.losses(whole)[-1])
            self.assertEqual(rows["parameters_sha256"], whole["parameters_sha256"])

    def test_an_embedding_by_rows_learns_under_a_bound_and_without_one(self):
        for mode in (("--slack", 2), ("--mode", "async")):
            losses = self.losses(self.train(self.letters_job(), *mode, "--servers", 2))
            self.assertLess(losses[-1], losses[0] - 0.2, (mode, losses))

    def test_rows_that_are_dropped_start_anew_and_a_run_repeats_its_bits(self):
        job = self.letters_job(f"{BY_ROWS} evict {{ idle_clocks: 3 max_rows: 10 }}")
        first = self.train(job, "--mode", "bsp", "--servers", 2)
        again = self.train(job, "--mode", "bsp", "--servers", 2)
        self.assertEqual(first["parameters_sha256"], again["parameters_sha256"])
        kept = self.train(self.letters_job(), "--mode", "bsp", "--servers", 2)
        self.assertNotEqual(first["parameters_sha256"], kept["parameters_sha256"])

    def test_a_table_of_billions_of_rows_takes_the_memory_of_those_that_are_kept(self):
        job = self.letters_job(f"{BY_ROWS} evict {{ max_rows: 100 }}", iterations=20)
        job.write_text(job.read_text().replace("input_dim: 16", "input_dim: 4294967295"))
        losses = self.losses(self.train(job, "--mode", "bsp", "--servers", 2))
        self.assertLess(losses[-1], losses[0])

    def test_rows_within_a_budget_of_device_memory_end_in_the_same_bits(self):
        free = self.train(self.letters_job(), "--mode", "bsp")
        tight = self.train(self.letters_job(), "--mode", "bsp", "--device-memory-budget", "64KiB")
        self.assertEqual(free["parameters_sha256"], tight["parameters_sha256"])

    def test_the_lab_trains_rows_to_the_bits_of_real_processes(self):
        real = self.train(self.letters_job(), "--mode", "bsp")
        answer = self.tautline("lab", self.letters_job(), "--mode", "bsp", "--output",
                               self.folder / "lab", timeout=90)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        lab = json.loads((self.folder / "lab/summary.json").read_text())
        self.assertEqual(lab["parameters_sha256"], real["parameters_sha256"])
        self.assert_fails(self.tautline("lab", self.letters_job(), "--no-learning", "--output",
                                        self.folder / "costs"),
                          'layer "embed": which rows a worker reads is in its data')

    def test_what_rows_do_not_go_with_is_refused_at_its_place(self):
        job = self.letters_job(more="compression { push { scheme: FP16 } }")
        for command in (("validate", job), ("train", job)):
            self.assert_fails(self.tautline(*command), f"{job}:4:1: compression cannot be combined "
                              'with embed_param.by_rows of "embed"')
        job = self.letters_job(solver="iter_size: 2")
        self.assert_fails(self.tautline("validate", job), f"{job}:6:1: the solver's iter_size 2 ")
        self.assert_fails(self.run_program("tautline-worker", "--local", self.letters_job()),
                          'layer "embed": embed_param.by_rows keeps rows at servers, and a single '
                          "process has none")
