"""scripts/reference lists what the schemas have, and finds a page that differs."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = sys.argv.pop(1)
SOURCE = os.path.dirname(os.path.dirname(SCRIPT))
PAGES = {"job.proto": "job", "experiment.proto": "job", "solver.proto": "solver",
         "net.proto": "net", "cluster.proto": "cluster", "lab.proto": "lab", "sweep.proto": "sweep"}


class Reference(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = self.folder.name
        shutil.copytree(os.path.join(SOURCE, "proto"), os.path.join(self.root, "proto"))
        self.assertEqual(self.run_script(), (0, ""))

    def tearDown(self):
        self.folder.cleanup()

    def run_script(self, *arguments):
        done = subprocess.run([sys.executable, SCRIPT, "--root", self.root, *arguments],
                              capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def page(self, name):
        path = os.path.join(self.root, "docs/reference", f"{name}.md")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def edit(self, schema, old, new):
        path = os.path.join(self.root, "proto", schema)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text.count(old), 1, old)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def test_every_field_of_the_schemas_has_a_row(self):
        for schema, page in PAGES.items():
            rows = set(re.findall(r"^\| `(\w+)` \|", self.page(page), re.MULTILINE))
            with open(os.path.join(self.root, "proto", schema), encoding="utf-8") as file:
                fields = re.findall(r"^\s*(?:optional|repeated|required)\s+[\w.]+\s+(\w+)\s*=",
                                    file.read(), re.MULTILINE)
            self.assertGreater(len(fields), 3, schema)
            self.assertEqual(set(fields) - rows, set(), schema)

    def test_a_row_has_the_type_the_default_and_the_comment(self):
        self.assertIn("| `every` | integer, at least 0 | `1` | Clocks between two records; 1 to "
                      "1,000,000. |", self.page("cluster"))
        self.assertIn("| `dynamic_slack` | [DynamicSlack](#dynamicslack) |", self.page("job"))

    def test_a_new_field_or_default_makes_the_pages_differ(self):
        self.assertEqual(self.run_script("--check")[0], 0)
        self.edit("cluster.proto", "start_wait_s = 6 [default = 60]",
                  "start_wait_s = 6 [default = 61]")
        code, output = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("| `61` |", output)
        self.assertIn("run scripts/reference", output)

    def test_two_messages_may_each_have_an_enumeration_of_one_name(self):
        rows = re.findall(r"^\| `scheme` \| ([^|]*) \|", self.page("job"), re.MULTILINE)
        self.assertEqual(sorted(row.count("`") // 2 for row in rows), [5, 10])

    def test_values_with_long_comments_are_listed_below_the_table(self):
        page = self.page("job")
        self.assertEqual(page.count("\n- `POWER_SGD`: "), 1)
        self.assertIn("| `allow` | as `scheme`, repeated |", page)
        cells = [cell for line in page.split("\n") if line.startswith("|")
                 for cell in line.split(" | ")]
        self.assertLess(max(map(len, cells)), 500)

    def test_a_field_without_a_comment_is_refused(self):
        self.edit("sweep.proto", "optional string job = 2;", "optional string job = 2;\n\n"
                  "  optional string silent = 99;\n\n ")
        code, output = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("Sweep.silent (sweep files): has no comment", output)

    def test_a_field_of_a_net_without_a_comment_is_refused(self):
        self.edit("net.proto", "optional float margin = 1 [default = 1.0];",
                  "optional float margin = 1 [default = 1.0];\n\n"
                  "  optional float silent = 99;\n\n ")
        code, output = self.run_script("--check")
        self.assertEqual(code, 1)
        self.assertIn("ContrastiveLossParameter.silent (net files): has no comment", output)

    def test_the_guide_names_every_layer_type_and_solver_type(self):
        def read(path):
            with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
                return file.read()

        pages = sorted(os.listdir(os.path.join(SOURCE, "docs/guide")))
        guide = "".join(read(f"docs/guide/{page}") for page in pages)
        folder = os.path.join(SOURCE, "worker/model/rules")
        layers = {name for file in os.listdir(folder) if file.endswith(".cpp")
                  for name in re.findall(r'\.type = "([A-Z]\w+)"',
                                         read(f"worker/model/rules/{file}"))}
        self.assertGreater(len(layers), 40)
        for name in layers:
            self.assertRegex(guide, rf"\b{name}\b")
        types = re.findall(r'\.name = "(\w+)"', read("common/math/update_rules.hpp"))
        self.assertGreater(len(types), 8)
        for name in types:
            self.assertIn(f"| `{name}` |", guide)
        # Momentum is a field of SGD's, and a program's members have no norms for LARS.
        classes = re.findall(r"(?m)^class (\w+)\(", read("python/tautline/rules.py"))
        self.assertEqual(set(types) - {"momentum", "LARS"} - set(classes), set())
        exported = read("python/tautline/__init__.py")
        for name in classes:
            self.assertIn(f'"{name}"', exported)

    def test_every_link_of_a_page_leads_to_a_heading(self):
        for page in set(PAGES.values()):
            for target, anchor in re.findall(r"\]\((\w*)(?:\.md)?#(\w+)\)", self.page(page)):
                headings = re.findall(r"^## (\w+)$", self.page(target or page), re.MULTILINE)
                self.assertIn(anchor, [h.lower() for h in headings], f"{page}: {target}#{anchor}")


if __name__ == "__main__":
    unittest.main()
