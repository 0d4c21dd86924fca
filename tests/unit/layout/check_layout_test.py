"""scripts/check_layout finds the violations that it is for, and nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)


class CheckLayout(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        self.write("common/result.hpp", "#pragma once\n")
        self.write("worker/client/client.hpp", "#pragma once\n")
        self.write("proto/config/text.hpp", "#pragma once\n")
        self.write("cuda/stream.hpp", "#pragma once\n")

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        whole = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "w", encoding="utf-8") as file:
            file.write(text)

    def check(self, *arguments):
        done = subprocess.run([sys.executable, SCRIPT, "--root", self.root, *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def test_a_header_that_an_installed_one_includes_is_installed(self):
        self.write("scripts/cmake/TautInstall.cmake",
                   "install(FILES worker/client/client.hpp)\n")
        self.assertEqual(self.check("installed"), (0, "0 violations\n"))
        self.write("worker/client/client.hpp",
                   '#pragma once\n#include <span>\n#include "common/result.hpp"\n')
        self.assertEqual(self.check("installed"),
                         (1, 'worker/client/client.hpp:3: is installed, but "common/result.hpp" is '
                             "not: scripts/cmake/TautInstall.cmake\n1 violations\n"))

    def test_a_picture_that_is_older_than_what_draws_it_is_reported(self):
        script = os.path.join(self.root, "scripts", "make_pictures")
        os.makedirs(os.path.dirname(script))
        shutil.copy(os.path.join(os.path.dirname(SCRIPT), "make_pictures"), script)
        with open(script, encoding="utf-8") as file:
            drawn_by = set(re.findall(r'"((?:cli|server)/[^"]+\.\w+)"', file.read()))
        self.assertIn("server/dashboard/page/app.js", drawn_by)
        for path in drawn_by:
            self.write(path, "// drawn\nx = 1\n")
        os.makedirs(os.path.join(self.root, "docs/pictures"))
        self.assertEqual(self.check("pictures")[0], 1)
        pictures = ["tutorial_train.png", "tutorial_top.png", "tutorial_dashboard.png",
                    "sweep_report.png"]
        subprocess.run([sys.executable, script, "--confirm", *pictures], check=True)
        self.assertEqual(self.check("pictures"), (0, "0 violations\n"))
        self.write("server/dashboard/page/app.js", "// drawn otherwise\nx = 1\n")
        self.assertEqual(self.check("pictures"), (0, "0 violations\n"))
        self.write("server/dashboard/page/app.js", "// drawn\nx = 2\n")
        code, output = self.check("pictures")
        self.assertEqual(code, 1)
        self.assertIn("tutorial_dashboard.png was made before its sources changed", output)
        self.assertIn("1 violations", output)

    def test_a_folder_of_too_many_files_is_reported(self):
        for number in range(32):
            self.write(f"server/s{number}.cpp", "")
        self.write("server/coordinator/c.cpp", "")
        self.assertEqual(self.check("rooms"), (0, "0 violations\n"))
        self.write("server/s32.cpp", "")
        code, output = self.check("rooms")
        self.assertEqual(code, 1)
        self.assertIn("server/: lists 33 files; 32 are allowed", output)

    def test_a_header_name_that_stands_for_two_things_is_reported(self):
        self.write("lab/machine.hpp", "")
        self.write("worker/engine/ops/pooling.hpp", "")
        self.write("cuda/kernels/pooling.hpp", "")
        self.write("tests/unit/machine.hpp", "")
        self.assertEqual(self.check("names"), (0, "0 violations\n"))
        self.write("cli/doctor/machine.hpp", "")
        code, output = self.check("names")
        self.assertEqual(code, 1)
        self.assertIn("cli/doctor/machine.hpp and lab/machine.hpp: one name for two things", output)
        self.assertIn("1 violations", output)

    def test_words_of_the_glossary_are_found_in_comments_messages_and_documents(self):
        self.write("server/a.cpp", "int beside = 1;\n// a thread beside another\n")
        self.write("server/b.cpp", 'error("nobody \\"answers\\"");\n'
                                   "constexpr int kMostTables = 3;\n"
                                   "constexpr int kLongest = 4;\nint kMaxWait = 5;\n")
        self.write("docs/guide.md", "The job goes on.\nIt continues, in addition to others.\n")
        self.write("docs/DECISIONS.md", "Nobody waits.\n")
        code, output = self.check("words")
        self.assertEqual(code, 1)
        self.assertIn('server/a.cpp:2: "beside" is not a word of the glossary', output)
        self.assertIn('server/b.cpp:1: "nobody"', output)
        self.assertIn('server/b.cpp:2: "kMostTables" is not a word of the glossary; write kMax',
                      output)
        self.assertIn('server/b.cpp:3: "kLongest" is not a word of the glossary', output)
        self.assertIn('docs/guide.md:1: "goes on"', output)
        self.assertIn("5 violations", output)

    def test_each_word_of_the_glossary_is_found(self):
        lines = ["besides the others", "Everybody waits", "whom it asks", "one thread goes on",
                 "the reader gives way", "it began with zeros", "the clock stands still",
                 "each is there once", "Rehearsals", "kLeastWorkers",
                 "kLongestPause", "kShortest", "kSmallest_s", "kLargestPart", "kBiggest",
                 "a thread of its own, which waits", "The same for a table"]
        self.write("docs/guide.md", "\n".join(lines) + "\nAll of it continues.\n"
                   "A worker reads the sum of its own updates. The same holds for others.\n")
        code, output = self.check("words")
        self.assertEqual(code, 1)
        for number in range(1, len(lines) + 1):
            self.assertIn(f"docs/guide.md:{number}: ", output)
        self.assertIn(f"{len(lines)} violations", output)

    def test_includes_that_the_table_allows_pass(self):
        self.write("server/shard.cpp", '#include "common/result.hpp"\n#include "proto/job.pb.h"\n')
        self.write("worker/engine/cuda/cuda_backend.cpp", '#include "cuda/stream.hpp"\n')
        self.write("tests/sim/run.cpp", '#include "worker/client/client.hpp"\n')
        self.assertEqual(self.check("includes"), (0, "0 violations\n"))

    def test_a_server_that_includes_a_worker_is_reported(self):
        self.write("server/shard.cpp", '\n#include "worker/client/client.hpp"\n')
        code, output = self.check("includes")
        self.assertEqual(code, 1)
        self.assertIn('server/shard.cpp:2: server/ may not include "worker/client/client.hpp"',
                      output)

    def test_a_right_that_no_file_uses_is_reported(self):
        self.write("server/shard.cpp", '#include "proto/job.pb.h"\n')
        code, output = self.check("rights")
        self.assertEqual(code, 1)
        self.assertIn("server/ is allowed common/, which none of its files includes", output)
        self.assertNotIn("server/ is allowed proto/,", output)

    def test_math_that_includes_a_schema_is_reported(self):
        self.write("common/math/rule.hpp", '#include "proto/solver.pb.h"\n')
        code, output = self.check("includes")
        self.assertEqual(code, 1)
        self.assertIn('common/math/ may not include "proto/solver.pb.h"', output)

    def test_cuda_outside_of_its_wrapper_is_reported(self):
        self.write("worker/engine/cpu/cpu_backend.cpp", '#include "cuda/stream.hpp"\n')
        self.write("worker/layers/pool.cpp", "#include <cuda_runtime.h>\n")
        code, output = self.check("includes")
        self.assertEqual(code, 1)
        self.assertIn('worker/engine/cpu/ may not include "cuda/stream.hpp"', output)
        self.assertIn("worker/layers/pool.cpp: includes <cuda_runtime.h>", output)

    def test_an_include_that_is_not_relative_to_the_root_is_reported(self):
        self.write("common/check.cpp", '#include "result.hpp"\n')
        self.assertIn('"result.hpp" is no file, seen from the root', self.check("includes")[1])

    def test_a_folder_that_is_no_room_is_reported(self):
        self.write("extra/tool.cpp", "\n")
        self.assertIn("extra/tool.cpp: is in no room", self.check("includes")[1])

    def test_a_long_file_is_a_warning_only(self):
        self.write("common/long.hpp", "\n" * 401)
        code, output = self.check("includes")
        self.assertEqual(code, 0)
        self.assertIn("warning: common/long.hpp: 401 lines", output)

    def test_a_file_out_of_format_is_reported(self):
        self.write("common/check.cpp", "int  x ;\n")
        self.write(".clang-format", "BasedOnStyle: Google\n")
        code, output = self.check("format")
        self.assertEqual(code, 1)
        self.assertIn("common/check.cpp: is not formatted", output)
        self.assertNotIn("common/result.hpp", output)

    def test_a_header_that_depends_on_another_is_reported(self):
        self.write("common/bare.hpp", "inline std::size_t size() { return 0; }\n")
        self.write("common/own.hpp", "inline int one() { return 1; }\n")
        self.write("common/own.cpp", '#include "common/own.hpp"\n')
        entry = {"directory": self.root, "file": os.path.join(self.root, "common/own.cpp"),
                 "command": "c++ -I. -std=c++20 -o own.o -c common/own.cpp"}
        self.write("build/compile_commands.json", json.dumps([entry]))
        code, output = self.check("headers", "--build", os.path.join(self.root, "build"))
        self.assertEqual(code, 1)
        self.assertIn("common/bare.hpp: does not compile alone", output)
        self.assertIn("1 are left to their own source", output)
        self.assertIn("1 violations", output)

    def test_of_headers_those_that_changed_are_compiled_where_no_others_are_wanted(self):
        self.write("common/old.hpp", "inline std::size_t old() { return 0; }\n")
        self.write("common/own.cpp", "int one() { return 1; }\n")
        for words in (("init", "-q"), ("add", "."),
                      ("-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "all")):
            subprocess.run(["git", "-C", self.root, *words], check=True)
        self.write("common/new.hpp", "inline std::size_t one() { return 0; }\n")
        entry = {"directory": self.root, "file": os.path.join(self.root, "common/own.cpp"),
                 "command": "c++ -I. -std=c++20 -o own.o -c common/own.cpp"}
        self.write("build/compile_commands.json", json.dumps([entry]))
        code, output = self.check("headers", "--changed", "--build",
                                  os.path.join(self.root, "build"))
        self.assertEqual(code, 1)
        self.assertIn("common/new.hpp: does not compile alone", output)
        self.assertNotIn("common/old.hpp", output)

    def test_a_source_that_depends_on_the_precompiled_header_is_reported(self):
        self.write("build/cmake_pch.hxx", "#include <cstddef>\n")
        self.write("common/own.cpp", "std::size_t size() { return 0; }\n")
        entry = {"directory": self.root, "file": os.path.join(self.root, "common/own.cpp"),
                 "command": "env CCACHE_SLOPPINESS=pch_defines ccache c++ -std=c++20 -Winvalid-pch "
                            f"-fpch-preprocess -include {self.root}/build/cmake_pch.hxx -o own.o "
                            "-c common/own.cpp"}
        self.write("build/compile_commands.json", json.dumps([entry]))
        code, output = self.check("sources", "--build", os.path.join(self.root, "build"))
        self.assertEqual(code, 1)
        self.assertIn("common/own.cpp: does not compile from its own includes", output)

    def test_a_wide_line_that_no_formatter_wraps_is_reported(self):
        self.write("common/check.cpp", "// " + "x" * 97 + "\n// " + "é" * 97 + "y\n")
        self.write("scripts/tool", "#!/bin/sh\n# " + "x" * 99 + "\n")
        self.write("common/CMakeLists.txt", "# " + "x" * 98 + "\n")
        code, output = self.check("width")
        self.assertEqual(code, 1)
        self.assertIn("common/check.cpp:2: 101 columns; 100 are allowed", output)
        self.assertIn("scripts/tool:2: 101 columns; 100 are allowed", output)
        self.assertIn("2 violations", output)

    def test_lines_that_cannot_be_broken_may_be_wide(self):
        self.write("docs/GUIDE.md", "| " + "x " * 60 + "|\n```\n" + "out " * 30 + "\n```\n"
                   + "```sh\n" + "word " * 30 + "\n```\nhttp://host/" + "x" * 100 + "\n")
        self.write("configs/net.prototxt", "  p { " + "a: 1 " * 30 + "}\n# " + "word " * 30)
        self.write("configs/sums.txt", "set " * 10 + "0123456789abcdef" * 4 + "\n")
        code, output = self.check("width")
        self.assertEqual(code, 1)
        self.assertIn("docs/GUIDE.md:6: 150 columns", output)
        self.assertIn("configs/net.prototxt:2:", output)
        self.assertIn("2 violations", output)

    def test_a_document_that_names_a_missing_file_is_reported(self):
        self.write("server/shard.cpp", "")
        self.write("docs/MAP.md", "`server/shard.{cpp,hpp}` `shard.cpp` `server/*.cpp` `server/`\n"
                   "`server/NAME.cpp` `server/shard.pb.h` `other.hpp` `a/b`\n")
        code, output = self.check("paths")
        self.assertEqual(code, 1)
        self.assertIn("docs/MAP.md:1: `server/shard.{cpp,hpp}` does not exist", output)
        self.assertIn("docs/MAP.md:2: `other.hpp` does not exist", output)
        self.assertIn("2 violations", output)

    def test_a_decision_that_stands_after_a_newer_one_is_reported(self):
        self.assertEqual(self.check("dates"), (0, "0 violations\n"))
        self.write("docs/DECISIONS.md", "# Decisions\n\n**2026-11-21. One.** It\n**is** so.\n\n"
                   "**2026-11-23. Two.** Of 2026-11-20.\n\n**2026-11-23. Three.** Last.\n")
        self.assertEqual(self.check("dates"), (0, "0 violations\n"))
        self.write("docs/DECISIONS.md", "**2026-11-23. Two.** One\n\n**2026-11-21. One.** Two\n\n"
                   "**2026-11-22. Three.** One\n\n**2026-11-23. Four.** Two\n")
        code, output = self.check("dates")
        self.assertEqual(code, 1)
        self.assertIn("docs/DECISIONS.md:3: an entry of 2026-11-21 follows one of 2026-11-23",
                      output)
        self.assertIn("docs/DECISIONS.md:5: an entry of 2026-11-22", output)
        self.assertIn("2 violations", output)


if __name__ == "__main__":
    unittest.main()
