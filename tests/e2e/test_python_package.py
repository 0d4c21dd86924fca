"""The Python package as its users meet it: types, and help() for everything."""

import subprocess
import sys
import unittest

from cluster import SLOWER, SOURCE
from training.python_members import PythonMembers, interpreter_with


class PythonPackageTest(PythonMembers):
    def test_mypy_finds_nothing_in_the_package(self):
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import mypy, numpy"], capture_output=True,
                              check=False).returncode == 0:
                break
        else:
            raise unittest.SkipTest("no mypy here; scripts/install_packages --tests installs it")
        done = subprocess.run(
            [python, "-m", "mypy", "--disallow-untyped-defs", "--warn-unused-ignores",
             "--follow-imports=silent", "--ignore-missing-imports", "--cache-dir",
             self.folder / "cache", "-p", "tautline"],
            env=self.environment, cwd=SOURCE / "python", capture_output=True, text=True,
            timeout=100 * SLOWER, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_everything_public_says_what_it_is(self):
        self.interpreter = interpreter_with("torch")
        out = self.run_python("""
            import inspect, pydoc, tautline, tautline.torch
            seen = 0
            for module in (tautline, tautline.torch):
                assert len(module.__doc__.splitlines()) > 8, module
                for name in module.__all__:
                    thing = getattr(module, name)
                    assert inspect.getdoc(thing), name
                    assert "Protocol" not in inspect.getdoc(thing), name
                    seen += 1
                    if not inspect.isclass(thing): continue
                    for part, member in vars(thing).items():
                        function = getattr(member, "fget", member)
                        if part.startswith("_") or not callable(function): continue
                        assert inspect.getdoc(function), f"{name}.{part}"
                        seen += 1
            assert "the servers apply them by the job's rule" in pydoc.render_doc(tautline)
            print(seen > 60)
            """)
        self.assertEqual(out, "True\n")
