"""Records of few features of many, as real processes read and learn them."""

import pathlib
import random
import re
import subprocess

from cluster import *

MODELS = SOURCE / "configs/models/sparse"


class Sparse(ClusterTest):
    def records(self, name, count, seed):
        """LIBSVM's text like a9a's, whose label the number of a record's low features decides."""
        draw = random.Random(seed)
        lines = []
        for _ in range(count):
            numbers = sorted(draw.sample(range(1, 124), draw.randint(8, 14)))
            label = sum(number <= 60 for number in numbers) * 2 > len(numbers)
            lines.append(" ".join(["+1" if label else "-1", *(f"{n}:1" for n in numbers)]))
        return self.file(name, "\n".join(lines) + "\n")

    def sparse_job(self, net, solver, train="train.svm"):
        text = f"""name: "sparse"
net: "{MODELS / net}.prototxt"
solver_param {{ {solver} max_iter: 300 test_iter: 4 }}
data {{ phase: TRAIN folder: "{self.folder / train}" }}
data {{ phase: TEST folder: "{self.folder}/test.svm" }}
workers: 2
"""
        return self.file("sparse.textproto", text)

    def test_a_logistic_regression_and_a_factorization_machine_learn_sparse_records(self):
        self.records("train.svm", 4000, 1)
        self.records("test.svm", 4 * 243, 2)
        for net, solver in (("logistic", 'type: "FTRL" base_lr: 0.3 ftrl_beta: 0.001'),
                            ("logistic", 'type: "AdaGrad" base_lr: 0.3'),
                            ("fm", 'type: "AdaGrad" base_lr: 0.1')):
            answer = self.tautline("train", self.sparse_job(net, solver), "--servers", 2)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            accuracy = float(re.search(r"test accuracy: ([\d.]+)", answer.stdout)[1])
            self.assertGreater(accuracy, 0.9, (net, solver, answer.stdout))

    def test_known_coefficients_are_recovered(self):
        command = [SOURCE / "scripts/bench/rows/recover", "--build", BIN.parent, "--features", "60",
                   "--records", "40000", "--test-records", "10000", "--batch", "200", "--type",
                   "AdaGrad"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_known_pairs_of_a_factorization_machine_are_recovered(self):
        command = [SOURCE / "scripts/bench/rows/recover", "--build", BIN.parent, "--features", "30",
                   "--factors", "2", "--records", "40000", "--test-records", "10000", "--batch",
                   "200", "--passes", "20", "--type", "AdaGrad"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a9a_is_trained_with_three_solvers_and_missed_where_labels_say_nothing(self):
        command = [SOURCE / "scripts/bench/rows/a9a", "--build", BIN.parent, "--data", self.folder,
                   "--max-iter", "300", "--servers", "1"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\Askipped: no a9a and a9a.t in .*get_data a9a.*\n\Z")
        self.records("a9a", 4000, 1)
        tests = self.records("a9a.t", 4 * 243, 2)
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for solver in ("logistic regression, FTRL", "logistic regression, AdaGrad",
                       "factorization machine, AdaGrad"):
            self.assertRegex(done.stdout, solver + r" +\| (9\d|100)\.\d\d %")
        # The labels of every second record are turned over.
        lines = pathlib.Path(tests).read_text().splitlines()
        turned = [("-" if line[0] == "+" else "+") + line[1:] if i % 2 else line
                  for i, line in enumerate(lines)]
        pathlib.Path(tests).write_text("\n".join(turned) + "\n")
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("at least 0.8480 is required", done.stderr)

    def test_records_that_cannot_be_read_are_reported_at_their_place(self):
        self.records("test.svm", 243, 2)
        solver = 'type: "FTRL" base_lr: 0.1'
        self.file("bad.svm", "+1 1:1\n-1 3:1 2:1\n")
        job = self.sparse_job("logistic", solver, "bad.svm")
        self.assert_fails(self.tautline("train", job),
                          "bad.svm:2:8: index 2 follows 3: indices must ascend")
        self.file("large.svm", "+1 1:1\n-1 124:1\n")
        job = self.sparse_job("logistic", solver, "large.svm")
        self.assert_fails(self.tautline("train", job), "large.svm:2:4: number 124 is beyond "
                          "sparse_data_param.features, 123: raise it")
        self.records("train.svm", 300, 1)
        job = self.sparse_job("logistic", solver + " weight_decay: 0.1")
        self.assert_fails(self.tautline("train", job), "weight_decay is 0.1: type FTRL has its own "
                          "terms; omit it and set ftrl_l2")
