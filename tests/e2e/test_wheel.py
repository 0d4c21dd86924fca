"""The Python package's wheel, installed into a separate environment."""

import os
import subprocess

from cluster import BIN, SLOWER, SOURCE, ClusterTest
from training.python_members import interpreter_with, sanitizer_environment


class WheelTest(ClusterTest):
    def run_checked(self, *words, **options):
        done = subprocess.run(list(map(str, words)), cwd=self.folder, capture_output=True,
                              text=True, timeout=100 * SLOWER, check=False, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def test_the_wheel_is_installed_without_a_network_and_trains(self):
        python = interpreter_with("setuptools, wheel, venv, numpy")
        build = self.folder / "build"
        build.mkdir()
        for name in ("bin", "lib"):
            (build / name).symlink_to(BIN.parent / name)
        wheel = self.run_checked(SOURCE / "scripts/wheel", "--build", build, "--python", python)
        self.assertRegex(wheel, r"/tautline-[0-9.]+-py3-none-linux_x86_64\.whl$")
        self.run_checked(python, "-m", "venv", "--system-site-packages", self.folder / "env")
        own = self.folder / "env" / "bin" / "python3"
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("TAUTLINE_", "PYTHON"))}
        self.run_checked(own, "-m", "pip", "install", "--no-index", "--no-deps", wheel, env=clean)
        out = self.run_checked(own, "-c", """if True:
            import numpy, tautline
            assert "/env/" in tautline.__file__, tautline.__file__
            with tautline.local(servers=1) as cluster:
                job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1)
                with job.member() as me:
                    w = me.table("w", numpy.zeros(10))
                    for clock in me.clocks(100):
                        me.push(w, 2 * (w.value - 3))
                        me.pull(w)
                print(job.wait(20), abs(w.value - 3).max() < 1e-5)
            """, env=clean | sanitizer_environment())
        self.assertEqual(out, "DONE True")
        files = self.run_checked(own, "-m", "pip", "show", "--files", "tautline", env=clean)
        for name in ("tautline/py.typed", "tautline/torch/ddp.py", "tautline/lib/libtautline.so.1",
                     "tautline/bin/tautline-server"):
            self.assertIn(name, files)

    def test_a_build_without_the_library_is_named(self):
        done = subprocess.run([SOURCE / "scripts/wheel", "--build", self.folder], text=True,
                              capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("libtautline.so.1 does not exist; scripts/build builds it", done.stderr)
