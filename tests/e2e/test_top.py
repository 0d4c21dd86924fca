"""`tautline top` in a pseudo-terminal, as a person sees it."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from cluster import *

WIDTH, HEIGHT = 100, 40


class Screen:
    """What a terminal shows of what was written to it: lines, and the block that is drawn over."""

    SEQUENCE = re.compile(r"\x1b\[(\d*)([A-Za-z])")

    def __init__(self):
        self.lines = [""]
        self.row = 0
        self.widest = 0

    def feed(self, text):
        at = 0
        while at < len(text):
            found = self.SEQUENCE.match(text, at)
            if found:
                if found[2] == "A":
                    self.row = max(0, self.row - int(found[1] or 1))
                elif found[2] == "J":
                    self.lines = self.lines[:self.row] + [""]
                elif found[2] != "m":  # a colour takes no room
                    raise AssertionError(f"an unexpected sequence {found[0]!r}")
                at = found.end()
            elif text[at] == "\n":
                self.row += 1
                if self.row == len(self.lines):
                    self.lines.append("")
                at += 1
            elif text[at] == "\r":
                at += 1
            else:
                self.lines[self.row] += text[at]
                self.widest = max(self.widest, len(self.lines[self.row]))
                at += 1

    def text(self):
        return "\n".join(self.lines)


class Top(ClusterTest):
    def open(self, *arguments, interval=0.1):
        """Starts `tautline top` on its own terminal."""
        self.master, slave = pty.openpty()
        self.addCleanup(os.close, self.master)
        self.addCleanup(os.close, slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.slave = slave
        self.modes = termios.tcgetattr(slave)
        self.screen = Screen()
        self.left = b""

        def take_the_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        top = subprocess.Popen([BIN / "tautline", "top", "--interval", str(interval),
                                *map(str, arguments)],
                               stdin=slave, stdout=slave, stderr=slave, cwd=self.folder,
                               preexec_fn=take_the_terminal)
        self.processes.append(top)
        return top

    def read(self, seconds=0.05):
        """Feeds the screen with what has arrived."""
        while select.select([self.master], [], [], seconds)[0]:
            self.left += os.read(self.master, 65536)
            whole = self.left.rfind(b"\n") + 1
            self.screen.feed(self.left[:whole].decode())
            self.left = self.left[whole:]
            seconds = 0

    def see(self, pattern, seconds=20):
        """Waits until the screen shows something; returns the match."""
        def shown():
            self.read()
            return re.search(pattern, self.screen.text())
        try:
            return wait_until(shown, seconds, pattern)
        except AssertionError as failure:
            raise AssertionError(f"{failure}; the screen:\n{self.screen.text()}") from None

    def assert_terminal_restored(self):
        self.assertEqual(termios.tcgetattr(self.slave), self.modes)

    def assert_keys_unseen(self):
        """Keys arrive one by one and are not echoed."""
        wait_until(lambda: not termios.tcgetattr(self.slave)[3] & (termios.ICANON | termios.ECHO),
                   what="the terminal takes keys")

    def run_job(self, workers=2):
        self.start_server(shards=2)
        for i in range(workers):
            self.start_worker(f"worker{i}", "slowdown_ms: 20")
        job = self.job(iterations=1000000, workers=workers)
        self.assertEqual(self.ask("submit", job).returncode, 0)

    def test_top_draws_in_place_and_follows_a_running_job(self):
        self.run_job()
        top = self.open("--coordinator", self.coordinator)
        first = int(self.see(r"iteration ([\d,]+)")[1].replace(",", ""))

        def goes_on():
            self.read()
            shown = re.search(r"iteration ([\d,]+)", self.screen.text())
            return shown and int(shown[1].replace(",", "")) > first + 10
        wait_until(goes_on, what="more iterations on the screen")
        self.see(r"(?m)^q or Ctrl-C: end$")  # the last line: a picture may arrive in parts
        text = self.screen.text()
        for part in ("worker0", "worker1", "server0/0", "server0/1", "staleness of reads",
                     "job 1"):
            self.assertIn(part, text)
        # Drawn over, not one below the other; no line wraps, and nothing scrolls away.
        self.assertEqual(len(re.findall("staleness of reads", text)), 1, text)
        self.assertLess(self.screen.widest, WIDTH)
        self.assertLessEqual(len(self.screen.lines), HEIGHT)
        self.assertEqual(self.ask("stop", 1).returncode, 0)
        self.see("stopped")
        os.write(self.master, b"q")
        self.assertEqual(self.assert_ends(top), 0)
        self.assert_terminal_restored()

    def test_top_ends_on_q_and_leaves_the_terminal_as_it_was(self):
        self.start_server()
        top = self.open("--coordinator", self.coordinator, interval=5)
        self.see("no jobs yet")
        self.assert_keys_unseen()
        os.write(self.master, b"x")
        began = time.monotonic()
        os.write(self.master, b"q")
        self.assertEqual(self.assert_ends(top), 0)
        self.assertLess(time.monotonic() - began, 2, "it slept through the key")
        self.assert_terminal_restored()
        self.assertNotIn("x", self.screen.text().splitlines()[-1])

    def test_top_ends_on_ctrl_c_and_leaves_the_terminal_as_it_was(self):
        self.start_server()
        top = self.open("--coordinator", self.coordinator, interval=5)
        self.see("no jobs yet")
        self.assert_keys_unseen()
        os.write(self.master, b"\x03")
        self.assertEqual(self.assert_ends(top), 0)
        self.assert_terminal_restored()

    def test_top_reports_that_no_coordinator_answers(self):
        top = self.open("--coordinator", "127.0.0.1:1", "--wait", 0.5)
        self.see(r"tautline top: no coordinator at 127\.0\.0\.1:1 answered in 0\.5 s; start "
                 r"tautline-server")
        self.assertEqual(self.assert_ends(top), 1)
        self.assert_terminal_restored()

    def test_top_waits_for_a_coordinator_that_is_gone_until_q(self):
        server = self.start_server()
        top = self.open("--coordinator", self.coordinator)
        self.see("no jobs yet")
        server.kill()
        server.wait()
        self.see("waiting for it; q or Ctrl-C ends")
        self.assertIn("no coordinator at", self.screen.text())
        self.assertIsNone(top.poll())
        os.write(self.master, b"q")
        self.assertEqual(self.assert_ends(top), 0)
        self.assert_terminal_restored()

    def test_top_without_a_terminal_prints_lines_and_needs_no_keys(self):
        self.start_server()
        answer = self.tautline("top", "--frames", 2, "--interval", 0.1, "--coordinator",
                               self.coordinator)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stdout.count("no jobs yet"), 2)
        self.assertNotIn("\x1b", answer.stdout)
