"""scripts/install: programs, man pages and completions under a prefix, and gone again."""

import importlib.machinery
import importlib.util
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import time
import unittest
import unittest.mock

from cluster import *

INSTALL = SOURCE / "scripts/install"
COMPLETE = """
source {script}
words=({words})
COMP_WORDS=("${{words[@]}}") COMP_CWORD=$(( ${{#words[@]}} - 1 ))
{function}
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


# Without what a script that runs the tests leaves to the scripts that it calls.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "TAUTLINE_STAGES"}


def run(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=60, **{"env": ENVIRONMENT, **options})


class Completion(ClusterTest):
    def script(self, program, kind):
        answer = self.run_program(program, "--generate", kind)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return self.file(f"{program}.{kind}", answer.stdout)

    def complete(self, *words, program="tautline"):
        """What bash proposes for the last word."""
        quoted = " ".join(f"'{word}'" for word in (program, *words))
        function = "_" + program.replace("-", "_")
        text = COMPLETE.format(script=self.script(program, "bash"), words=quoted, function=function)
        answer = run("bash", "--norc", "-c", text, cwd=self.folder)
        self.assertEqual(answer.stderr, "")
        return answer.stdout.split()

    def test_bash_completes_commands_options_and_their_values(self):
        self.assertEqual(self.complete("tr"), ["train", "trace"])
        self.assertEqual(self.complete("trace", "me"), ["merge"])
        self.assertEqual(self.complete("train", "--sl"), ["--slack"])
        self.assertEqual(self.complete("train", "--device", "c"), ["cpu", "cuda"])
        self.assertEqual(self.complete("train", "--device", "=", "cu"), ["cuda"])
        self.assertEqual(self.complete("help", "stat"), ["status"])
        self.assertEqual(self.complete("--conf", program="tautline-server"), ["--config"])

    def test_bash_completes_files_and_folders(self):
        self.file("one.textproto", "")
        (self.folder / "oneness").mkdir()
        self.assertEqual(sorted(self.complete("validate", "one")), ["one.textproto", "oneness"])
        self.assertEqual(self.complete("train", "--data", "one"), ["oneness"])
        self.assertEqual(self.complete("train", "--workers", ""), [])

    def test_bash_proposes_exactly_the_commands_and_options_of_the_help(self):
        commands = self.complete("")
        self.assertIn("set-slack", commands)
        for command in commands:
            text = self.tautline(command, "--help").stdout
            for option in self.complete(command, "--"):
                self.assertIn(option, text)

    def test_an_interactive_bash_completes_a_command_at_the_tab_key(self):
        script = self.script("tautline", "bash")
        child, terminal = pty.fork()
        if child == 0:
            os.execvp("env", ["env", "-i", "TERM=dumb", "PS1=$ ", "PATH=/usr/bin:/bin",
                              "bash", "--norc", "--noprofile", "-i"])
        try:
            os.write(terminal, f"source {script}\ntautline set-s\t3 2 #end\n".encode())
            text, deadline = b"", time.monotonic() + 20
            while b"set-slack 3 2" not in text and time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.2)[0]:
                    text += os.read(terminal, 4096)
            self.assertIn(b"tautline set-slack 3 2", text)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(terminal)

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh_can_read_every_completion(self):
        for program in ("tautline", "tautline-server", "tautline-worker"):
            script = self.script(program, "zsh")
            self.assertTrue(script.read_text().startswith(f"#compdef {program}\n"))
            answer = run("zsh", "-n", script)
            self.assertEqual((answer.returncode, answer.stderr), (0, ""))


class ManPages(ClusterTest):
    def page(self, program):
        answer = self.run_program(program, "--generate", "man")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return self.file(f"{program}.1", answer.stdout)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_finds_nothing_to_warn_of(self):
        for program in ("tautline", "tautline-server", "tautline-worker"):
            answer = run("mandoc", "-T", "lint", "-W", "warning", self.page(program))
            self.assertEqual(answer.stdout + answer.stderr, "")

    @unittest.skipUnless(shutil.which("groff"), "groff is not installed")
    def test_groff_renders_every_command_without_a_warning(self):
        answer = run("groff", "-ww", "-man", "-T", "ascii", "-P", "-c", self.page("tautline"))
        self.assertEqual((answer.returncode, answer.stderr), (0, ""))
        # Bold is a letter printed over itself.
        text = re.sub("(.)\b\\1", r"\1", answer.stdout)
        for word in ("tautline train", "--slack SLACK", "EXIT STATUS", "TAUTLINE_COORDINATOR"):
            self.assertIn(word, text)


class Install(ClusterTest):
    def install(self, *arguments):
        return run(INSTALL, "--build", BIN.parent, "--prefix", self.folder / "prefix", *arguments)

    def tree(self):
        prefix = self.folder / "prefix"
        return {str(path.relative_to(prefix)): path.read_bytes() if path.is_file() else None
                for path in prefix.rglob("*")}

    def test_an_installation_works_can_be_repeated_and_undone(self):
        (self.folder / "prefix/share/man").mkdir(parents=True)
        (self.folder / "prefix/share/man/mine").write_text("mine")
        before = self.tree()
        answer = self.install()
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        for name in ("bin/tautline", "bin/tautline-server", "bin/tautline-worker",
                     "share/man/man1/tautline-worker.1", "share/zsh/site-functions/_tautline",
                     "share/bash-completion/completions/tautline-server",
                     "share/tautline/configs/jobs/fashion_lenet.textproto"):
            self.assertIn(name, self.tree())
        program = run(self.folder / "prefix/bin/tautline", "--version")
        self.assertEqual(program.returncode, 0, program.stderr)
        again = self.install()
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        undone = self.install("--undo")
        self.assertEqual(undone.returncode, 0, undone.stdout + undone.stderr)
        self.assertEqual(self.tree(), before)
        self.assertEqual(self.install("--undo").returncode, 1)

    def test_an_installation_that_is_interrupted_can_be_done_again_and_undone(self):
        loader = importlib.machinery.SourceFileLoader("install_script", str(INSTALL))
        install = importlib.util.module_from_spec(
            importlib.util.spec_from_loader("install_script", loader))
        loader.exec_module(install)
        prefix = self.folder / "prefix"
        staged = self.folder / "staged/bin/tautline"
        staged.parent.mkdir(parents=True)

        def interrupted(_source, target, **_options):
            pathlib.Path(target).write_text("a half")
            raise KeyboardInterrupt

        for text in ("first", "second"):
            staged.write_text(text)
            with unittest.mock.patch.object(install.shutil, "copy2", interrupted):
                with self.assertRaises(KeyboardInterrupt):
                    install.copy_staged(self.folder / "staged", prefix)
            install.copy_staged(self.folder / "staged", prefix)
            self.assertEqual((prefix / "bin/tautline").read_text(), text)
        self.assertEqual(self.install("--undo").returncode, 0)
        self.assertFalse(prefix.exists())

    def test_no_program_or_library_looks_for_libraries_in_the_current_folder(self):
        """An empty or relative entry of a run path is that folder's."""
        built = [path for folder in (BIN, BIN.parent / "lib") for path in folder.iterdir()
                 if path.is_file() and not path.is_symlink()]
        self.assertGreater(len(built), 4)
        for path in built:
            listed = subprocess.run(["readelf", "-d", path], capture_output=True, text=True,
                                    check=True).stdout
            for found in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", listed):
                with self.subTest(path.name, run_path=found):
                    for entry in found.split(":"):
                        self.assertRegex(entry, r"^(/|\$ORIGIN)")

    def test_the_output_ends_with_what_each_stage_took(self):
        row = r" +\d+:\d\d\n"
        self.assertRegex(self.install().stdout,
                         rf"\nstage +min:s\ncollect files{row}man pages, completions{row}"
                         rf"copy{row}all{row}$")
        self.assertRegex(self.install("--undo").stdout, rf"\nstage +min:s\nundo{row}all{row}$")
        failed = self.install("--undo")
        self.assertRegex(failed.stdout, rf"\nstage +min:s\nundo \(failed\){row}all{row}$")

    def test_a_script_that_calls_it_prints_the_stages_instead(self):
        stages = self.file("stages", "7 build\n")
        answer = run(INSTALL, "--build", BIN.parent, "--prefix", self.folder / "prefix",
                     env={**ENVIRONMENT, "TAUTLINE_STAGES": str(stages)})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertNotIn("min:s", answer.stdout)
        self.assertRegex(stages.read_text(), r"^7 build\n\d+ collect files\n"
                                             r"\d+ man pages, completions\n\d+ copy\n$")

    def test_a_file_of_another_program_is_never_replaced_or_removed(self):
        theirs = self.folder / "prefix/bin/tautline"
        theirs.parent.mkdir(parents=True)
        theirs.write_text("theirs")
        before = self.tree()
        self.assert_fails(self.install(), str(theirs), "another --prefix")
        self.assertEqual(self.tree(), before)
        theirs.unlink()
        self.assertEqual(self.install().returncode, 0)
        changed = self.folder / "prefix/share/tautline/configs/data_sets.txt"
        changed.write_text("changed")
        self.assert_fails(self.install(), str(changed), "was changed")
        undone = self.install("--undo")
        self.assertEqual(undone.returncode, 0, undone.stderr)
        self.assertIn(f"kept {changed}", undone.stdout)
        self.assertEqual([p for p in self.tree().values() if p is not None], [b"changed"])
