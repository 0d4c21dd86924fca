"""What tests of Python programs as members share."""

import os
import subprocess
import sys
import textwrap
import unittest

from cluster import BIN, SLOWER, SOURCE, ClusterTest


def interpreter_with(module):
    """A Python that has the module; the distribution's, where another one runs the tests."""
    for path in (sys.executable, "/usr/bin/python3"):
        found = subprocess.run([path, "-c", f"import {module}"], capture_output=True, check=False)
        if found.returncode == 0:
            return path
    raise unittest.SkipTest(f"no Python here has {module}")


def sanitizer_environment():
    """A library with a sanitizer needs the sanitizer's own to be loaded first. What the interpreter
    itself leaks, or does in threads that are not instrumented, is not looked at."""
    runtime = os.environ.get("TAUTLINE_SANITIZER_LIBRARY", "")
    if not runtime:
        return {}
    more = {"ASAN_OPTIONS": "detect_leaks=0", "TSAN_OPTIONS": "ignore_noninstrumented_modules=1"}
    return {"LD_PRELOAD": runtime,
            **{name: f"{os.environ.get(name, '')}:{option}" for name, option in more.items()}}


def package_environment():
    """Where programs find the package and its library."""
    return os.environ | sanitizer_environment() | {
        "PYTHONPATH": str(SOURCE / "python"), "PYTHONDONTWRITEBYTECODE": "1",
        "TAUTLINE_BIN": str(BIN),
        "TAUTLINE_LIBRARY": str(BIN.parent / "lib" / "libtautline.so.1")}


class PythonMembers(ClusterTest):
    module = "numpy"  # that the programs need

    def setUp(self):
        super().setUp()
        self.interpreter = interpreter_with(self.module)
        self.environment = package_environment()

    def program(self, code, *arguments, stdin=False):
        """Starts a Python program, with a pipe to it if that is requested."""
        process = subprocess.Popen(
            [self.interpreter, "-c", textwrap.dedent(code), *map(str, arguments)],
            env=self.environment, cwd=self.folder, stdin=subprocess.PIPE if stdin else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def result(self, process, timeout=60, status=0):
        """Its output; of one that fails, its errors."""
        out, errors = process.communicate(timeout=timeout * SLOWER)
        self.assertEqual(process.returncode, status, out + errors)
        return out if status == 0 else errors

    def run_python(self, code, *arguments, timeout=60):
        return self.result(self.program(code, *arguments), timeout)

    def start_cluster(self):
        return self.start_server(settings="heartbeat_limit_s: 2 worker_wait_s: 60")

    def submit(self, workers, consistency, more="", solver='type: "SGD" base_lr: 0.25'):
        job = self.file("members.textproto", f"""
            external_members: true workers: {workers} consistency {{ {consistency} }}
            solver_param {{ {solver} }} {more}""")
        answer = self.ask("submit", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(answer.stdout.split()[1])

    def job_status(self, job):
        return next(one for one in self.status()["jobs"] if int(one["job"]) == job)
