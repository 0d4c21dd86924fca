"""The bundle: it runs from wherever it is unpacked, with its own libraries; gpu_check without a
GPU."""
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["TAUTLINE_SOURCE"])
BUILD = pathlib.Path(os.environ["TAUTLINE_BIN"]).parent
DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")
FROM_GLIBC = r"^(ld-linux|linux-vdso|lib(c|m|mvec|dl|pthread|rt|resolv)\.)"
# An empty environment but for where the system's own commands are, and what sanitizers are told.
BARE = {"PATH": "/usr/bin:/bin",
        **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}}
TIMEOUT_S = 280  # of the dry run, on a busy machine
SLOWER = int(os.environ.get("TAUTLINE_SLOWER", "1"))  # under sanitizers


def run(words, env=None, timeout=100, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=timeout * SLOWER, env=env or BARE, **options)


def is_program(path):
    return path.is_file() and path.read_bytes()[:4] == b"\x7fELF"


class Bundle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not DATA.is_dir():
            raise unittest.SkipTest("the package dataset-fashion-mnist is not installed")
        cls.folder = tempfile.TemporaryDirectory()
        place = pathlib.Path(cls.folder.name)
        archive = place / "bundle.tar.gz"
        packed = run([sys.executable, SOURCE / "scripts" / "gpu_bundle", "--build", BUILD,
                      "--output", archive, "--train-images", "512", "--test-images", "200"],
                     {**os.environ, "PATH": "/usr/bin:/bin:/sbin"})
        assert packed.returncode == 0, packed.stderr
        # Under a name with a space, and moved once: no path of its first place is remembered.
        with tarfile.open(archive) as tar:
            tar.extractall(place / "first place")
        (place / "first place").rename(place / "second place")
        cls.root = place / "second place" / "tautline"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_bundle_trains_where_it_is_unpacked(self):
        version = run([self.root / "bin" / "tautline", "version"])
        self.assertEqual(version.returncode, 0, version.stderr)
        self.assertIn("wire version", version.stdout)
        self.assertEqual(version.stderr, "")
        output = pathlib.Path(self.folder.name) / "run"
        trained = run([self.root / "bin" / "tautline", "train",
                       self.root / "share/tautline/configs/jobs/fashion_lenet.textproto", "--data",
                       self.root / "data/fashion-mnist", "--workers", "1", "--device", "cpu",
                       "--max-iter", "3", "--output", output])
        self.assertEqual(trained.returncode, 0, trained.stderr)
        summary = json.loads((output / "summary.json").read_text())
        self.assertEqual(len(summary["parameters_sha256"]), 64)
        said = [line for line in trained.stderr.splitlines() if "no CUDA here" in line]
        if not pathlib.Path("/dev/nvidiactl").exists():
            self.assertEqual(len(said), 1, trained.stderr)
            self.assertIn("missing:", said[0])

    def test_a_bundle_has_all_that_its_check_runs_and_reports_a_missing_gpu(self):
        for name in ("gpu_check", "gpu_training/__main__.py", "bench/bench_gpu", "bench/time_net",
                     "bench/gpu_nets", "bench/torch_net.py"):
            self.assertTrue((self.root / "libexec" / name).is_file(), name)
        # Sanitizers do without the tests of a device.
        tests = "tests/taut_gpu_layers"
        self.assertEqual((self.root / "libexec" / tests).is_file(), (BUILD / tests).is_file())
        self.assertTrue(os.access(self.root / "libexec/bench/gpu_nets", os.X_OK))
        if pathlib.Path("/dev/nvidiactl").exists():
            return
        checked = run([self.root / "bin" / "gpu_check"])
        self.assertEqual(checked.returncode, 3)
        self.assertRegex(checked.stderr, r"^gpu_check: no GPU here: [^\n]*\n$")
        refused = run([self.root / "bin" / "tautline-worker", "--local",
                       self.root / "share/tautline/configs/jobs/fashion_lenet.textproto",
                       "--device", "cuda", "--data", self.root / "data/fashion-mnist"])
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("no CUDA here (missing:", refused.stderr)

    def test_a_bundle_does_a_dry_run_of_its_trainings_on_the_cpu(self):
        output = pathlib.Path(self.folder.name) / "dry_run"
        checked = run([self.root / "bin" / "gpu_check", "--dry-run", "--output", output],
                      timeout=TIMEOUT_S)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
        rows = json.loads((output / "table.json").read_text())["rows"]
        said = {row["what"]: row for row in rows}
        # Of speed the CPU proves nothing; of bits, losses and that it runs, all.
        judged = [what for what, row in said.items() if row["fine"] is True]
        for part in ("two runs", "within 6MiB each", "accuracy", "loss curve", "within 0.006 GB",
                     "4 workers, SSP 2", "3 workers, async", "2 workers, elastic averaging"):
            self.assertTrue(any(part in what for what in judged), (part, said))
        for part in ("SSP 1", "BSP", "overlap off: waiting", "SSP 1: waiting", "covers the copies",
                     "in a quarter of"):
            self.assertTrue(any(part in what and row["fine"] is None for what, row in said.items()),
                            (part, said))

    def test_a_bundle_takes_no_library_from_the_build(self):
        for program in sorted((self.root / "libexec").rglob("*")):
            if not is_program(program):
                continue
            libraries = f"{self.root}/lib:{self.root}/lib/fallback"
            traced = run([program], {**BARE, "LD_TRACE_LOADED_OBJECTS": "1",
                                     "LD_LIBRARY_PATH": libraries})
            self.assertEqual(traced.returncode, 0, traced.stderr)
            self.assertNotIn("not found", traced.stdout, program)
            self.assertNotIn(str(SOURCE), traced.stdout)
            self.assertNotIn(str(BUILD), traced.stdout)
            for line in traced.stdout.splitlines():
                # "name => place (address)", or where the loader has it already "place (address)".
                words = line.strip().rsplit(" (", 1)[0].split(" => ")
                name = words[0].rsplit("/", 1)[-1]
                own = (self.root / "lib" / name).exists() or \
                    (self.root / "lib" / "fallback" / name).exists()
                if own:
                    self.assertIn(str(self.root), words[-1], line)
                else:
                    self.assertRegex(name, FROM_GLIBC, program)

    def test_a_bundle_without_a_program_says_what_to_build(self):
        with tempfile.TemporaryDirectory() as empty:
            packed = run([sys.executable, SOURCE / "scripts" / "gpu_bundle", "--build", empty])
            self.assertEqual(packed.returncode, 1)
            self.assertIn("scripts/build", packed.stderr)
            self.assertEqual(len(packed.stderr.splitlines()), 1)


class GpuCheck(unittest.TestCase):
    def check(self, folder, *words):
        return run([sys.executable, SOURCE / "scripts" / "gpu_check", *words],
                   {"PATH": str(folder), "TAUTLINE_BUILD": str(folder / "build")})

    def test_a_gpu_check_without_a_gpu_reports_it_and_fails(self):
        with tempfile.TemporaryDirectory() as name:
            checked = self.check(pathlib.Path(name))
            self.assertEqual(checked.returncode, 3)
            self.assertRegex(checked.stderr, r"^gpu_check: no GPU here: [^\n]*\n$")

    def make(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{sys.executable}\n{text}")
        path.chmod(0o755)

    def test_a_gpu_check_ends_with_a_table_of_missed_targets(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.make(folder / "nvidia-smi", "print('Made-up GPU, 1.0, 10 MiB')")
            self.make(folder / "build/tests/gpu_good_test", "print('fine')")
            self.make(folder / "build/tests/gpu_bad_test",
                      "import sys\nprint('conv1 is off by 3')\nsys.exit(1)")
            self.make(folder / "build/tests/other_test", "import sys\nsys.exit(1)")
            row = '[{"what": "copy", "value": "40 GB/s", "reach": "39", "fine": true}]'
            self.make(folder / "build/bench/gpu_copies",
                      f"import sys\nopen(sys.argv[2], 'w').write('{row}')")
            out = folder / "out"
            checked = self.check(folder, "--output", out, "--part", "tests", "--part", "bench")
            self.assertEqual(checked.returncode, 1, checked.stderr)
            table = json.loads((out / "table.json").read_text())
            self.assertEqual(table["device"], "Made-up GPU, 1.0, 10 MiB")
            fine = {row["what"]: row["fine"] for row in table["rows"]}
            self.assertEqual(fine, {"gpu_good_test": True, "gpu_bad_test": False, "copy": True})
            self.assertIn("conv1 is off by 3", checked.stdout)
            self.assertIn("NOT REACHED", checked.stdout)
            self.assertIn("fine", (out / "tests.log").read_text())
            again = self.check(folder, "--output", out, "--part", "bench")
            self.assertEqual(again.returncode, 0, again.stderr)

    def test_a_compiler_of_pytorchs_that_fails_fails_nothing(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.make(folder / "time_net", "print('100 images/s')")
            # PyTorch, but for a compiler that works.
            (folder / "torch.py").write_text(
                "import sys, unittest.mock\n"
                "torch = unittest.mock.MagicMock()\n"
                "torch.cuda.is_available.return_value = True\n"
                "torch.compile.side_effect = RuntimeError('no compiler here')\n"
                "sys.modules['torch'] = torch\n")
            ran = run([sys.executable, SOURCE / "tests/bench/gpu_nets", "--net", "LeNet b64",
                       "--time-net", folder / "time_net", "--json", folder / "rows.json"],
                      {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(folder)})
            self.assertEqual(ran.returncode, 0, ran.stderr)
            said = {row["what"]: row for row in json.loads((folder / "rows.json").read_text())}
            left_out = said["LeNet b64, tf32, torch.compile"]
            self.assertIsNone(left_out["fine"])
            self.assertIn("no compiler here", left_out["value"])

    @unittest.skipUnless((BUILD / "twin/libtautline_cuda_twin.so").exists(), "no device twin")
    def test_a_gpu_check_is_rehearsed_on_the_twin(self):
        with tempfile.TemporaryDirectory() as name:
            out = pathlib.Path(name) / "out"
            checked = run([sys.executable, SOURCE / "scripts" / "gpu_check", "--twin", "--part",
                           "smoke", "--part", "bench", "--output", out],
                          {"PATH": "/usr/bin:/bin", "TAUTLINE_BUILD": str(BUILD)})
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            table = json.loads((out / "table.json").read_text())
            self.assertEqual({row["part"] for row in table["rows"]}, {"smoke", "bench"})
            self.assertFalse([row for row in table["rows"] if row["fine"] is False])
            self.assertLessEqual(len(list(out.iterdir())), 8)


if __name__ == "__main__":
    unittest.main()
