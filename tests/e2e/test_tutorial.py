"""docs/TUTORIAL.md and docs/guide can be followed: their files are valid, their commands
have the options that they give them, and what they link to exists."""

import re
import shlex
import subprocess

from cluster import *

PAGES = ("docs/TUTORIAL.md", *sorted(f"docs/guide/{page.name}" for page in
                                    (SOURCE / "docs" / "guide").glob("*.md")), "README.md")
HERE = re.compile(r"^cat > (\S+) <<'END'\n(.*?)^END\n", re.MULTILINE | re.DOTALL)


def blocks(page):
    return re.findall(r"^```sh\n(.*?)^```", (SOURCE / page).read_text(), re.MULTILINE | re.DOTALL)


def commands(pages=PAGES):
    """The lines that are typed, without the files that are written."""
    for block in (block for page in pages for block in blocks(page)):
        typed = HERE.sub("", block).replace("\\\n", " ")
        yield from (line for line in typed.splitlines() if line.strip())


def headings(page):
    """The anchors of a page, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


class Tutorial(ClusterTest):
    def test_files_that_the_tutorial_and_the_guide_write_are_valid(self):
        files = [found for page in PAGES for block in blocks(page) for found in HERE.findall(block)]
        self.assertEqual([name for name, _ in files],
                         ["my_job.textproto", "my_sweep.textproto", "my_cluster.textproto",
                          "my_lab_sweep.textproto", "my_job.textproto"])
        for name, text in files:
            # As typed: in the project's folder, from which its paths are looked up.
            path = self.file(name, text)
            answer = subprocess.run([BIN / "tautline", "validate", path], cwd=SOURCE, text=True,
                                    capture_output=True, timeout=60)
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_the_tutorials_cluster_takes_what_it_says_for_a_clock(self):
        page = (SOURCE / "docs/TUTORIAL.md").read_text()
        path = self.file("my_cluster.textproto", dict(HERE.findall(page))["my_cluster.textproto"])
        data = self.folder / "fashion-mnist"
        data.mkdir()
        for stem in ("train", "t10k"):  # of the right shape, and empty
            write_idx(data / f"{stem}-images-idx3-ubyte.gz", (64, 28, 28), bytes(64 * 28 * 28))
            write_idx(data / f"{stem}-labels-idx1-ubyte.gz", (64,), bytes(64))
        planned = [line for line in commands(["docs/TUTORIAL.md"])
                   if "lab plan --cluster my_cluster" in line]
        self.assertEqual(len(planned), 2)
        shown = re.findall(r"^ +\d+ .*%$", page.split("## 6.")[1], re.MULTILINE)
        for line in planned:
            # Without --check: the formula takes no time, and the lab's columns are to its right.
            words = [path if word == "my_cluster.textproto" else word
                     for word in shlex.split(line)[1:] if word != "--check"]
            answer = self.tautline(*words, "--data", data)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            for row in answer.stdout.splitlines()[1:]:
                self.assertEqual(row.split(), shown.pop(0).split()[:len(row.split())])
        self.assertEqual(shown, [])

    def test_every_command_of_the_tutorial_and_the_guide_takes_its_options(self):
        seen = set()
        for line in commands():
            for part in re.split(r"\s(?:&|do|done)(?=\s)", f"{line} "):
                words = shlex.split(part)
                if not words or not words[0].startswith("tautline"):
                    continue
                program = words[1:2] if words[0] == "tautline" else []
                if program in (["trace"], ["runs"], ["keys"]) or words[1:3] in (
                        ["lab", "plan"], ["lab", "report"], ["lab", "schedule"]):
                    program = words[1:3]
                answer = self.run_program(words[0], *program, "--help")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                for option in (w.split("=")[0] for w in words if w.startswith("--")):
                    self.assertIn(option + " ", answer.stdout.replace("\n", " "), part)
                seen.add(" ".join([words[0], *program]))
        for wanted in ("tautline train", "tautline sweep", "tautline top", "tautline doctor",
                       "tautline-worker", "tautline set-slack"):
            self.assertIn(wanted, seen)

    def test_scripts_configs_pictures_and_chapters_that_documents_name_exist(self):
        for line in commands():
            for path in re.findall(r"(?:scripts|configs)/[\w./]+", line):
                self.assertTrue((SOURCE / path).exists(), path)
        pages = [SOURCE / "README.md", *(SOURCE / "docs").rglob("*.md")]
        for page in pages:
            text = page.read_text()
            self.assertNotRegex(text, r"@[A-Z_]+@")
            for path, anchor in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)", text):
                target = (page.parent / path).resolve() if path else page
                self.assertTrue(target.exists(), f"{page}: {path}")
                if anchor and target.suffix == ".md":
                    self.assertIn(anchor, headings(target), f"{page}: {path}#{anchor}")

    def test_the_guide_lists_the_commands_that_talk_to_a_cluster(self):
        text = (SOURCE / "docs/guide/cluster.md").read_text()
        section = text.split("## The commands that talk to a cluster\n")[1]
        section = re.split(r"find\s+the\s+coordinator", section)[0]
        shown = self.run_program("tautline", "--help").stdout
        commands = re.findall(r"^  ([a-z-]+) ", shown, re.MULTILINE)
        self.assertGreater(len(commands), 15)
        commands += ["trace start", "trace stop", "trace merge"]
        asking = {command for command in commands if "--coordinator" in
                  self.run_program("tautline", *command.split(), "--help").stdout}
        self.assertEqual(asking, set(re.findall(r"`([a-z -]+)`", " ".join(section.split()))))
