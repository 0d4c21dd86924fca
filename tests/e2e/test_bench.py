"""scripts/bench: when a measurement ends with 1."""
import csv
import pathlib
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from cluster import BIN, SOURCE

SCORES = """name: "scores"
input: "data" input_shape { dim: 2 dim: 3 }
layer { name: "scores" type: "InnerProduct" bottom: "data" top: "scores" inner_product_param {
num_output: 4 } }
"""


def of_type(name):
    return ('input: "data" input_shape { dim: 2 dim: 3 }\n'
            f'layer {{ name: "l" type: "{name}" bottom: "data" top: "l" }}\n')


class Measured(unittest.TestCase):
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


class Bench(Measured):
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


# A tautline with whose two workers the first waits WAIT seconds for each of computing.
WAITS = """
while [ "$1" != --output ]; do shift; done
mkdir -p "$2/job1-first" "$2/job1-second"
echo '{"workers": [{"name": "first", "share": 100}, {"name": "second", "share": 28}]}' \\
  > "$2/summary.json"
printf 'compute_s,wait_s,images\\n1,WAIT,100\\n1,WAIT,100\\n' > "$2/job1-first/metrics.csv"
printf 'compute_s,wait_s,images\\n1,0,28\\n1,0,28\\n' > "$2/job1-second/metrics.csv"
"""


class Targets(Measured):
    def test_a_missed_target_is_named_and_ends_a_measurement_with_1(self):
        for wait, status, named in (
                ("0.1", 0, ""),
                ("0.25", 1, "missed: with balance the fast worker waits: 20.0%, at most 10.0% is "
                            "required\n")):
            self.write_program("bin/tautline", WAITS.replace("WAIT", wait))
            done = self.measure("speeds/balance", "--rounds", "1", build=self.place / "build")
            self.assertEqual((done.returncode, done.stderr), (status, named), done.stdout)


# A tautline whose runs take no time: real workers make 50 iterations/s, or fail where BROKEN is,
# and those of the lab 52 or, with a straggler, 70.
AGAINST = """
kind=$1
rate=50
[ "$kind" = lab ] && rate=52
case "$*" in *lab*slowdown*) rate=70;; esac
while [ "$1" != --output ]; do shift; done
case "$2" in
*.textproto) echo "host { cores: 2 }" > "$2"; exit;;
esac
[ -e broken ] && exit 1
mkdir -p "$2/job0"
awk -v rate=$rate 'BEGIN {
  print "clock,loss,wall_s,wait_s,compute_s,staleness_mean,reads"
  for (i = 0; i < 60; i++) printf "%d,1,%.6f,0.1,0.9,0,1\\n", i, i / rate }' \\
  > "$2/job0/metrics.csv"
"""


class AgainstReal(Measured):
    def rows(self, *words, status=0):
        self.write_program("bin/tautline", AGAINST)
        done = self.measure("lab_against_real", "--busy", "--runs", "1", *words,
                            build=self.place / "build")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return [line for line in done.stdout.splitlines() if re.match(r"\| (none|\d)", line)], done

    def test_the_matrix_has_every_case_or_those_that_are_chosen_and_an_estimate(self):
        _, done = self.rows("--matrix", "--estimate")
        self.assertRegex(done.stdout, r"\n72 rows, about \d+ minutes on a quiet machine\n")
        _, done = self.rows("--matrix", "--estimate", "--rate", "none", "--rate", "1gbit",
                            "--workers", "4", "--mode", "ASYNC", "--no-straggler")
        self.assertIn("\n2 rows, about ", done.stdout)
        _, done = self.rows("--estimate", "--rate", "1", status=2)
        self.assertIn("argument --rate: must be none or a rate, e.g. 100mbit, is '1'", done.stderr)

    def test_a_row_says_what_is_met_and_by_how_much_the_lab_misses(self):
        rows, _ = self.rows("--workers", "2", "--mode", "BSP", "--straggler")
        self.assertEqual(rows, [
            "| none | 2 | BSP | - | 50.0 | 52.0 | +4.0 % | 10.0 % | 10.0 % | 0.00 | 0.00 | met |",
            "| none | 2 | BSP | x 3 | 50.0 | 70.0 | +40.0 % | 10.0 % | 10.0 % | 0.00 | 0.00 "
            "| rate +40.0 % |"])

    def test_rows_are_appended_as_they_come_and_what_was_cut_off_continues(self):
        file = self.place / "matrix.md"
        words = ("--workers", "1,2", "--mode", "BSP", "--mode", "ASYNC", "--append", file)
        first, _ = self.rows("--workers", "1", "--mode", "BSP", "--append", file)
        (self.place / "broken").touch()
        _, done = self.rows(*words, status=1)
        self.assertIn("3 rows, about ", done.stdout)
        self.assertEqual(file.read_text().splitlines()[2:], first)
        (self.place / "broken").unlink()
        rest, _ = self.rows(*words)
        self.assertEqual([row.split(" | ")[1:3] for row in rest],
                         [["1", "ASYNC"], ["2", "BSP"], ["2", "ASYNC"]])
        self.assertEqual(file.read_text().splitlines()[2:], first + rest)
        self.assertEqual(file.read_text().count("verdict"), 1)


class Scaling(Measured):
    def figures(self, *words):
        done = self.measure("scaling", *words, "--net", "lenet", "--clocks", "2", "--figures",
                            "figures")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        written = {path.name: path for path in (self.place / "figures").iterdir()}
        for path in written.values():
            if path.suffix == ".svg":
                xml.etree.ElementTree.parse(path)
        return done.stdout, written

    def test_a_table_is_also_a_figure_with_its_numbers_in_colours_that_all_can_tell(self):
        printed, written = self.figures("weak", "--workers", "1,2,4", "--mode", "BSP", "--mode",
                                        "ASYNC")
        name = "lenet-weak-100-gbit-s-16-servers"
        self.assertEqual(set(written), {f"{name}.csv", f"{name}.svg"})
        with written[f"{name}.csv"].open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([(row["line"], row["workers"]) for row in rows],
                         [(mode, workers) for mode in ("BSP", "ASYNC") for workers in "124"])
        for row in rows:
            self.assertIn(f"{float(row['efficiency']):.3f}", printed)
        picture = written[f"{name}.svg"].read_text()
        # Of Okabe and Ito; the lines have different marks, too.
        self.assertIn('stroke="#0072B2"', picture)
        self.assertIn('stroke="#D55E00"', picture)
        self.assertEqual(picture.count("<circle"), 4)
        self.assertEqual(picture.count("<polygon"), 4)

    def test_what_the_coordinator_carries_stands_next_to_its_formula(self):
        printed, written = self.figures("control", "--workers", "1,4", "--servers", "1,2",
                                        "--mode", "BSP")
        rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines()
                if re.match(r"\| \d", line)]
        self.assertEqual([row[:3] for row in rows],
                         [["1", "1", "8"], ["4", "1", "8"], ["1", "2", "16"], ["4", "2", "16"]])
        # Heartbeats, 0.2 s apart, and the user's questions, 0.02 s apart.
        self.assertEqual([row[4] for row in rows], ["60", "75", "65", "80"])
        for row in rows:
            self.assertLess(abs(float(row[3]) - float(row[4])), 0.5 * float(row[4]), row)
        self.assertIn("messages-of-the-coordinator.svg", written)


if __name__ == "__main__":
    unittest.main()
