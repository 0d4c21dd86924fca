"""docs/TUTORIAL.md can be followed: its files are valid, and its commands have the options it gives them."""

import re
import shlex
import subprocess

from cluster import *

TEXT = (SOURCE / "docs/TUTORIAL.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
HERE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


def commands():
    """The lines that are typed, without the files that are written."""
    for block in BLOCKS:
        yield from (line for line in HERE.sub("", block).splitlines() if line.strip())


class Tutorial(ClusterTest):
    def test_the_tutorials_files_are_valid(self):
        files = [found for block in BLOCKS for found in HERE.findall(block)]
        self.assertEqual([name for name, _ in files], ["my_job.textproto", "my_sweep.textproto"])
        for name, text in files:
            # As typed: in the project's folder, from which its paths are looked up.
            path = self.file(name, text)
            answer = subprocess.run([BIN / "tautline", "validate", path], cwd=SOURCE, text=True,
                                    capture_output=True, timeout=60)
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_every_command_of_the_tutorial_is_one_and_takes_its_options(self):
        seen = set()
        for line in commands():
            for part in re.split(r"\s(?:&|do|done)(?=\s)", f"{line} "):
                words = shlex.split(part)
                if not words or not words[0].startswith("tautline"):
                    continue
                program = words[1:2] if words[0] == "tautline" else []
                answer = self.run_program(words[0], *program, "--help")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                for option in (w for w in words if w.startswith("--")):
                    self.assertIn(option + " ", answer.stdout.replace("\n", " "), part)
                seen.add(" ".join([words[0], *program]))
        for wanted in ("tautline train", "tautline sweep", "tautline top", "tautline doctor",
                       "tautline-worker", "tautline set-slack"):
            self.assertIn(wanted, seen)

    def test_the_tutorials_scripts_configs_and_pictures_are_there(self):
        for line in commands():
            for path in re.findall(r"(?:scripts|configs)/[\w./]+", line):
                self.assertTrue((SOURCE / path).exists(), path)
        for path in re.findall(r"\]\(([^)#]+)", TEXT):
            self.assertTrue((SOURCE / "docs" / path).exists(), path)
        self.assertNotRegex(TEXT, r"@[A-Z_]+@")
