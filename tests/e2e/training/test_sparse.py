"""Records of few features of many, as real processes read and learn them."""

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
