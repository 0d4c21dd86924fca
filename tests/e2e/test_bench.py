"""scripts/bench: when a measurement ends with 1."""
import pathlib
import re
import subprocess
import tempfile
import unittest

from cluster import BIN, SOURCE

SCORES = """name: "scores"
input: "data" input_shape { dim: 2 dim: 3 }
layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores" inner_product_param {
num_output: 4 } }
"""


def of_type(name):
    return ('input: "data" input_shape { dim: 2 dim: 3 }\n'
            f'layer {{ name: "l" type: "{name}" bottom: "data" top: "l" }}\n')


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = pathlib.Path(folder.name)

    def measure(self, name, *words, build=BIN.parent):
        return subprocess.run([SOURCE / "scripts" / "bench" / name, *words, "--build", build],
                              capture_output=True, text=True, timeout=100, cwd=self.place)

    def write_program(self, name, body):
        path = self.place / "build" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def test_what_measurements_name_in_the_tree_is_there(self):
        named = set()
        for script in (SOURCE / "scripts" / "bench").rglob("*"):
            if script.is_file() and script.suffix != ".pyc":
                named |= set(re.findall(r'ROOT((?: / "[^"{}]+")+)', script.read_text()))
        self.assertGreater(len(named), 10)
        for chain in named:
            path = pathlib.Path(*re.findall(r'"([^"]+)"', chain))
            if path.parts[0] not in ("build", "data"):  # made or fetched
                self.assertTrue((SOURCE / path).exists(), path)

    def test_a_text_of_caffe_that_is_refused_unexpectedly_ends_caffe_texts_with_1(self):
        texts = self.place / "texts"
        texts.mkdir()
        (texts / "scores.prototxt").write_text(SCORES)
        (texts / "python.prototxt").write_text(of_type("Python"))
        (texts / "windows.prototxt").write_text(of_type("WindowData"))
        done = self.measure("caffe_texts", texts)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"scores.prototxt +\| read ")
        self.assertRegex(done.stdout, r"windows.prototxt +\| refused ")
        for name, words in (("spp", of_type("SPP")), ("unknown", of_type("Pythno")),
                            ("broken", "layer {\n")):
            (texts / f"{name}.prototxt").write_text(words)
            done = self.measure("caffe_texts", texts)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"not expected to be refused: {name}.prototxt\n", done.stderr)
            # The others are judged nevertheless.
            self.assertRegex(done.stdout, r"scores.prototxt +\| read ")
            (texts / f"{name}.prototxt").unlink()
        done = self.measure("caffe_texts", texts, "--only", "nothing")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_slow_start_or_a_net_that_is_read_slowly_ends_start_time_with_1(self):
        for start_s, net_ms, status in (("0.5", "49.9", 0), ("0.5", "50.0", 1), ("3.1", "2.6", 1)):
            # tautline train ... --output FOLDER
            summary = f'{{"first_iteration_s": {start_s}}}'
            self.write_program("bin/tautline", 'while [ "$1" != --output ]; do shift; done\n'
                               f"echo started; echo '{summary}' > \"$2/summary.json\"")
            self.write_program("bench/run_net",
                               f"echo parsed and shape-checked 159 layers in {net_ms} ms")
            done = self.measure("start_time", "--rounds", "2", build=self.place / "build")
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertIn("GoogLeNet", done.stdout)
        self.write_program("bench/run_net", "echo nothing of the kind")
        done = self.measure("start_time", "--rounds", "1", build=self.place / "build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("does not print how long", done.stderr)


if __name__ == "__main__":
    unittest.main()
