"""The driver of the fuzz targets, and scripts/fuzz around it: BROKEN SOUND SCRIPT."""
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

BROKEN, SOUND, SCRIPT = sys.argv[1:4]


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=50,
                          **options)


class Driver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.place = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def test_it_ends_when_its_time_is_over(self):
        begin = time.monotonic()
        done = run(SOUND, "--seconds", "0.5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreaterEqual(time.monotonic() - begin, 0.5)
        self.assertGreater(int(re.match(r"(\d+) inputs", done.stdout)[1]), 100)
        # The samples are tried even where there is no time at all.
        none = run(SOUND, "--seconds", "0")
        self.assertGreaterEqual(int(re.match(r"(\d+) inputs", none.stdout)[1]), 1)

    def test_it_makes_the_same_inputs_from_the_same_seed(self):
        found = [run(BROKEN, "--inputs", "10000000", "--seed", "3") for _ in range(2)]
        self.assertEqual([one.returncode for one in found], [1, 1])
        self.assertEqual(found[0].stderr, found[1].stderr)
        self.assertRegex(found[0].stderr, r"seed 3, input \d+")
        other = run(BROKEN, "--inputs", "10000000", "--seed", "4")
        self.assertNotEqual(found[0].stderr, other.stderr)

    def test_it_keeps_the_input_that_breaks_a_target(self):
        kept = self.place / "kept"
        found = run(BROKEN, "--inputs", "10000000", "--keep", kept)
        self.assertEqual(found.returncode, 1)
        self.assertIn(b"\xff\xff", kept.read_bytes())
        self.assertEqual(run(BROKEN, kept).returncode, 1)
        kept.write_bytes(b"an input that breaks nothing")
        self.assertEqual(run(BROKEN, kept).returncode, 0)

    def test_it_refuses_unknown_arguments(self):
        for words in (["--second", "1"], ["--seconds"], ["--seconds", "x"], ["--inputs", ""]):
            refused = run(SOUND, *words)
            self.assertEqual(refused.returncode, 2, words)
            self.assertIn("usage:", refused.stderr)

    def script(self, *words):
        return run(sys.executable, "-B", SCRIPT, "--folder", pathlib.Path(SOUND).parent, "--found",
                   self.place / "found", *words)

    def test_the_script_shares_the_time_among_the_targets(self):
        begin = time.monotonic()
        done = self.script("--minutes", "0.02", "parse_idx", "parse_datum")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertLess(time.monotonic() - begin, 30)
        for name in ("parse_idx", "parse_datum"):
            self.assertRegex(done.stdout, rf"{name}: \d+ inputs in 0\.[5-9] s")
        self.assertFalse((self.place / "found").exists())
        refused = self.script("parse_nothing")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("parse_idx", refused.stderr)

    def test_the_script_reports_which_input_broke_which_target(self):
        target = self.place / "broken_fuzz"
        target.symlink_to(BROKEN)
        done = run(sys.executable, "-B", SCRIPT, "--folder", self.place, "--found",
                   self.place / "found", "--minutes", "0.2")
        self.assertEqual(done.returncode, 1)
        (kept,) = (self.place / "found").iterdir()
        self.assertIn(str(kept), done.stdout)
        self.assertEqual(run(BROKEN, kept).returncode, 1)

    def test_the_script_names_no_input_where_none_was_kept(self):
        for name, body, said in (("usage", "echo usage: >&2; exit 2", "exit status 2"),
                                 ("library", "echo no libx.so >&2; exit 127", "exit status 127"),
                                 ("killed", "kill -KILL $$", "ended by SIGKILL")):
            folder = self.place / name
            folder.mkdir()
            target = folder / f"{name}_fuzz"
            target.write_text(f"#!/bin/sh\n{body}\n")
            target.chmod(0o755)
            done = run(sys.executable, "-B", SCRIPT, "--folder", folder,
                       "--found", self.place / "found", "--minutes", "0.01")
            self.assertEqual(done.returncode, 1, name)
            self.assertRegex(done.stdout, rf"{name}: FAILED without an input: {said}, seed \d+\n")
            self.assertNotIn("BROKEN", done.stdout)
            self.assertFalse((self.place / "found").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
