"""docs/SCALE.md: scripts/bench/scale lists its commands and keeps what they print, and some of its
rows are measured again."""
import re
import shlex
import sys
import unittest

from cluster import SOURCE
from test_bench import Measured

sys.path.insert(0, str(SOURCE / "scripts" / "bench"))
from scale_commands import COMMANDS  # noqa: E402

PAGE = SOURCE / "docs" / "SCALE.md"
# The innermost loop of a line: its variable, its values and what it runs.
LOOP = re.compile(r"for (\w+) in ([^;]+); do ((?:(?!\bfor \w+ in ).)*?); done")
EXAMPLES = ("jobs.csv", "table.csv")  # files of the reader

# A tautline that counts its runs, whose last line has no end, and that fails where `broken` is.
COUNTS = """
echo run >> {0}/runs
case "$*" in *--output*) ;; *) exit 3;; esac
printf cut
[ ! -e {0}/broken ]
"""

# The table of weak scaling in the page: its figures of each mode.
WEAK_FIGURES = ("BSP: records/s", "efficiency", "SSP 3: records/s", "efficiency",
                "ASYNC: records/s", "efficiency")
WEAK_HEAD = "| net, workers | " + " | ".join(WEAK_FIGURES) + " |"


def rows_below(text, head):
    """The cells of each row of the first table whose headings begin so."""
    lines = text[text.index(head):].splitlines()
    for line in lines[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split("|")]


def commands_of(text):
    """The commands in the text's blocks, each as its words, with those that its loops run."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        block = re.sub(r"\bdo\s+", "do ", block.replace("\\\n", " "))
        for line in re.sub(r"\s+done\b", "; done", block).splitlines():
            for command in unrolled(line):
                words = shlex.split(command)
                yield words[2:] if words[0] == "/usr/bin/time" else words


def unrolled(line):
    """The commands of a loop of the shell, and of those in it."""
    found = LOOP.search(line)
    if found is None:
        return [line]
    whole, name, values, body = found[0], *found.groups()
    return [command for value in shlex.split(values)
            for command in unrolled(line.replace(whole, body.replace(f"${name}", value)))]


def quoted_commands_of(text):
    """Those in its sentences."""
    for quoted in re.findall(r"`([^`]+)`", re.sub(r"(?s)```.*?```", "", text)):
        if quoted.startswith(("scripts/bench/", "tautline ")):
            yield quoted.split()


class Scale(Measured):
    def scale(self, *words, status=0):
        done = self.measure("scale", *words, build=self.place / "build")
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def write_programs(self, comment):
        self.write_program("bin/tautline", COUNTS.format(self.place) + f"# {comment}")
        for name in ("server", "worker"):
            self.write_program(f"bin/tautline-{name}", "exit 1")

    def test_the_script_of_the_scale_page_lists_all_of_its_commands(self):
        listed = [shlex.split(line.split(": ")[-1])
                  for line in self.scale("--list").stdout.splitlines()]
        listed = [[word.removeprefix("FOLDER/") for word in words] for words in listed]
        named = [words for words in commands_of(PAGE.read_text(encoding="utf-8"))
                 if not set(words) & set(EXAMPLES)]
        self.assertGreater(len(named), 50)
        self.assertEqual([words for words in named if words not in listed], [])

    def test_each_command_of_the_script_is_in_its_section_of_the_page(self):
        page = PAGE.read_text(encoding="utf-8")
        sections = dict(re.findall(r"(?ms)^#+ (.+?)$(.*?)(?=^#+ |\Z)", page))
        shown = {heading: [*commands_of(text), *quoted_commands_of(text)]
                 for heading, text in sections.items()}
        self.assertGreater(len(COMMANDS), 100)
        for one in COMMANDS:
            words = [word.removeprefix("FOLDER/") for word in one.words]
            self.assertIn(one.section, shown)
            self.assertTrue(words in shown[one.section],
                            f'"{one.section}" of {PAGE.name} has no {shlex.join(words)}')

    def test_what_has_ended_well_is_kept_for_the_same_program_and_run_again_for_another(self):
        only = ("--only", "slow_cards.textproto")
        self.write_programs("one")
        broken = self.place / "broken"
        broken.touch()
        done = self.scale(*only, status=1)
        self.assertIn("ended with 1 after ", done.stdout)
        self.assertIn("failed: ", done.stderr)
        broken.unlink()
        self.assertIn("1 of 1 commands to run", self.scale(*only).stdout)
        self.assertIn("0 of 1 commands to run", self.scale(*only).stdout)
        self.write_programs("another")
        self.assertIn("1 of 1 commands to run", self.scale(*only).stdout)
        self.assertEqual((self.place / "runs").read_text().count("run"), 3)
        kept = list((self.place / "build" / "scale").rglob("*.txt"))
        self.assertEqual(len(kept), 2, kept)
        for path in kept:
            self.assertRegex(path.read_text(encoding="utf-8"),
                             r"^\$ tautline lab configs/.*\ncut\nended with 0 after .* MiB\n$")

    def test_a_command_of_the_page_runs_with_the_programs_of_this_build(self):
        done = self.measure("scale", "--only", "slow_cards.textproto")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"[01] of 1 commands to run")

    def test_small_rows_of_the_scale_page_are_measured_as_they_are_printed_there(self):
        printed = {}
        for name, workers in (("LeNet", "1,4,16"), ("cifar10_quick", "1,4")):
            done = self.measure("scaling", "weak", "--net", name.lower(), "--workers", workers,
                                "--at-least", "4000")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            for count, *figures in rows_below(done.stdout, "| workers "):
                printed[f"{name}, {count}"] = figures[:len(WEAK_FIGURES)]
        page = {name: figures[:len(WEAK_FIGURES)] for name, *figures in
                rows_below(PAGE.read_text(encoding="utf-8"), WEAK_HEAD)}
        shown = {name: figures for name, figures in printed.items() if name in page}
        self.assertGreaterEqual(len(shown), 4, (printed, page))
        self.assertEqual(shown, {name: page[name] for name in shown})


if __name__ == "__main__":
    unittest.main()
