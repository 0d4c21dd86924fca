"""The examples in Python: each model by members of a job, and by DistributedDataParallel."""

import difflib
import os
import pathlib
import subprocess

from cluster import SLOWER, SOURCE
from training.python_members import PythonMembers

EXAMPLES = SOURCE / "python" / "examples"
PAIRS = {"fashion_cnn": "fashion_ddp", "char_lstm": "char_lstm_ddp", "small_gpt": "small_gpt_ddp"}


def changed_lines(ours, theirs):
    """How many lines must be changed, added or removed to get one file from the other."""
    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    return sum(max(a - at, b - bt) for tag, at, a, bt, b in matcher.get_opcodes() if tag != "equal")


class ExamplesTest(PythonMembers):
    module = "torch"

    def run_example(self, name, *arguments):
        """The figure that it prints."""
        done = subprocess.run(
            [self.interpreter, EXAMPLES / f"{name}.py", *map(str, arguments)],
            env=self.environment | {"GLOO_SOCKET_IFNAME": "lo"}, capture_output=True, text=True,
            timeout=110 * SLOWER, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return float(done.stdout.split(": ")[1])

    def text(self):
        """The folder of tiny Shakespeare."""
        folder = self.folder / "text"
        done = subprocess.run([SOURCE / "scripts/get_data", "tinyshakespeare", folder],
                              env=os.environ | {"https_proxy": "http://127.0.0.1:9"},
                              capture_output=True, check=False)
        if done.returncode != 0:
            own = SOURCE / "data" / "tinyshakespeare"
            if not (own / "input.txt").exists():
                self.skipTest("no tiny Shakespeare here; scripts/get_data tinyshakespeare gets it")
            return own
        return folder

    def test_each_example_differs_from_the_one_by_ddp_in_ten_lines_at_most(self):
        for ours, theirs in PAIRS.items():
            count = changed_lines(*((EXAMPLES / f"{name}.py").read_text().splitlines()
                                    for name in (ours, theirs)))
            self.assertLessEqual(count, 10, ours)
            self.assertGreater(count, 4, ours)

    def test_a_process_that_fails_ends_the_others_of_its_example(self):
        script = self.file("fails.py", f"""
import sys, time, types
sys.path.insert(0, {str(EXAMPLES)!r})
import launch

def train(given, place):
    if place.rank == 1: raise ValueError("it fails before it joins")
    time.sleep(600)

if __name__ == "__main__":
    launch._run(train, None, [types.SimpleNamespace(rank=rank) for rank in range(3)])
""")
        done = subprocess.run([self.interpreter, script], env=self.environment, timeout=60 * SLOWER,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("ValueError: it fails before it joins", done.stderr)

    def test_the_cnn_in_bsp_is_as_good_as_by_ddp(self):
        if not pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
            self.skipTest("no Fashion-MNIST here; scripts/install_packages installs it")
        ours = self.run_example("fashion_cnn", "--slack", 0, "--clocks", 100)
        self.assertGreater(ours, 0.7)
        self.assertAlmostEqual(ours, self.run_example("fashion_ddp", "--clocks", 100), delta=0.02)

    def check_text(self, name, loss):
        """After 40 clocks; 65 characters that are drawn alike have a loss of 4.17."""
        data = ("--data", self.text(), "--clocks", 40, "--batch", 16)
        ours = self.run_example(name, *data, "--slack", 0)
        self.assertLess(ours, loss)
        self.assertAlmostEqual(ours, self.run_example(PAIRS[name], *data), delta=0.01)
        self.assertLess(self.run_example(name, *data, "--slack", 1), 1.1 * loss)

    def test_the_character_lstm_in_bsp_is_as_good_as_by_ddp(self):
        self.check_text("char_lstm", 3.3)

    def test_the_small_gpt_in_bsp_is_as_good_as_by_ddp(self):
        self.check_text("small_gpt", 3.3)
