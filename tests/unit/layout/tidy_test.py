"""scripts/tidy has clang-tidy look at sources, kernels and their headers."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)


class Tidy(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = os.path.realpath(self.folder.name)
        self.entries = []
        for path in ("scripts/tidy", "scripts/changed_files.py", "scripts/compile_commands.py",
                     ".clang-tidy"):
            whole = os.path.join(self.root, path)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            shutil.copy(os.path.join(os.path.dirname(os.path.dirname(SCRIPT)), path), whole)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text, *compilers):
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)
        self.entries += [{"directory": self.root, "file": whole,
                          "command": f"{compiler} -I{self.root} -std=c++20 -c {whole}"}
                         for compiler in compilers]

    def tidy(self, *arguments):
        os.makedirs(os.path.join(self.root, "build"), exist_ok=True)
        with open(os.path.join(self.root, "build/compile_commands.json"), "w",
                  encoding="utf-8") as file:
            json.dump(self.entries, file)
        done = subprocess.run([sys.executable, os.path.join(self.root, "scripts/tidy"),
                               "--build", "build", *arguments], capture_output=True, text=True,
                              cwd=self.root)
        return done.returncode, done.stdout + done.stderr

    def test_kernels_and_their_headers_are_checked_as_the_twin_compiles_them(self):
        self.write("cuda/kernels/sum.cuh", "struct Sum {\n  Sum() {}\n};\n")
        self.write("cuda/kernels/sum.cu", '#include "cuda/kernels/sum.cuh"\n'
                   "struct Mean {\n  Mean() {}\n};\n",
                   "/usr/local/cuda/bin/nvcc -x cu --extended-lambda", "/usr/bin/c++ -x c++")
        code, output = self.tidy("--all")
        self.assertEqual(code, 1)
        self.assertIn("cuda/kernels/sum.cuh:2:3: warning: use '= default'", output)
        self.assertIn("cuda/kernels/sum.cu:3:3: warning: use '= default'", output)
        self.assertIn("1 sources checked, 2 findings", output)
        self.assertEqual(self.tidy("cuda/kernels/sum.cuh"), (code, output))

    def test_a_header_without_a_source_of_its_name_is_checked_with_one_that_includes_it(self):
        self.write("common/sum.hpp", "struct Sum {\n  Sum() {}\n};\n")
        self.write("common/alone.hpp", "struct Alone {\n  Alone() {}\n};\n")
        for name in ("first", "second"):
            self.write(f"common/{name}.cpp", '#include "common/sum.hpp"\n', "/usr/bin/c++")
        code, output = self.tidy("common/sum.hpp", "common/alone.hpp")
        self.assertEqual(code, 1)
        self.assertIn("common/sum.hpp:2:3: warning: use '= default'", output)
        self.assertIn("tidy: common/alone.hpp is not checked: no source includes it\n", output)
        self.assertIn("tidy: 1 sources checked, 1 findings", output)

    def test_a_source_is_checked_again_once_it_or_a_header_has_changed(self):
        if shutil.which("clang++") is None:
            self.skipTest("clang++ is missing: apt install clang-14")
        self.write("common/sum.hpp", "struct Sum {\n  Sum() = default;\n};\n")
        self.write("common/sum.cpp", '#include "common/sum.hpp"\n', "/usr/bin/c++")
        unchanged = "; 1 have not changed since nothing was found in them"
        self.assertNotIn(unchanged, self.tidy("--all")[1])
        self.assertIn(unchanged, self.tidy("--all")[1])
        self.write("common/sum.hpp", "struct Sum {\n  Sum() {}\n};\n")
        for _ in range(2):  # a finding is found again
            code, output = self.tidy("--all")
            self.assertEqual(code, 1)
            self.assertIn("common/sum.hpp:2:3: warning: use '= default'", output)
        self.write("common/sum.hpp", "struct Sum {\n  Sum() {}  // NOLINT\n};\n")
        self.assertEqual(self.tidy("--all"), (0, "tidy: 1 sources checked, 0 findings\n"))
        self.assertIn(unchanged, self.tidy("--all")[1])

    def test_what_clang_14_lacks_is_no_finding(self):
        self.write("common/place.cpp", "#include <source_location>\n"
                   "unsigned line(std::source_location at = std::source_location::current()) {\n"
                   "  return at.line() + at.column() + unsigned(*at.file_name());\n}\n"
                   "template <class T>\n"
                   '__attribute__((target_clones("arch=x86-64-v3", "default")))\n'
                   "T twice(T value) { return value + value; }\n"
                   "int four() { return twice(2); }\n",
                   "env CCACHE_SLOPPINESS=pch_defines ccache /usr/bin/c++ -Winvalid-pch")
        self.assertEqual(self.tidy("common/place.cpp"),
                         (0, "tidy: 1 sources checked, 0 findings\n"))

    def test_sources_that_are_compiled_together_are_checked_one_by_one(self):
        self.write("common/sum.cpp", "struct Sum {\n  Sum() {}\n};\n")
        self.write("common/mean.cpp", "struct Mean {\n  Mean() {}\n};\n")
        self.write("build/common/CMakeFiles/taut_common.dir/Unity/unity_0_cxx.cxx",
                   "".join(f'/* NOLINTNEXTLINE(bugprone-suspicious-include,misc-include) */\n'
                           f'#include "{self.root}/common/{name}.cpp"\n\n'
                           for name in ("sum", "mean")), "/usr/bin/c++")
        code, output = self.tidy("--all")
        self.assertEqual(code, 1)
        self.assertIn("common/sum.cpp:2:3: warning: use '= default'", output)
        self.assertIn("common/mean.cpp:2:3: warning: use '= default'", output)
        self.assertIn("2 sources checked, 2 findings", output)

    def test_what_does_not_compile_is_a_finding(self):
        self.write("common/bad.cpp", "int one() { return missing; }\n", "/usr/bin/c++")
        code, output = self.tidy("common")
        self.assertEqual(code, 1)
        self.assertIn("common/bad.cpp:1:20: error: use of undeclared identifier", output)


if __name__ == "__main__":
    if shutil.which("clang-tidy") is None:
        print("skipped: clang-tidy is missing")
        sys.exit(77)
    unittest.main()
