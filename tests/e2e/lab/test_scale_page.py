"""scripts/bench/scale --write and --figures: the tables and figures of docs/SCALE.md from kept
outputs."""
import re
import shutil
import unittest
import xml.etree.ElementTree

from cluster import SOURCE
from lab.scale_outputs import (
    ACCURACY_PRINTS, BOTH_WAYS, BOTH_WAYS_PRINTS, CURVES, EXCHANGES, EXCHANGES_PRINT,
    LAB_PRINTS, PLAN_PRINTS, REAL, REAL_PRINTS, SCALING, SPREADS, SWEEPS, keep, keep_bounds,
    keep_scaling, keep_schedules)
from scale_commands import COMMANDS
from scale_page import kept as scale_kept
from scale_page import page as scale_page
from test_bench import Measured

PAGE = SOURCE / "docs" / "SCALE.md"
# The tables that scripts/bench/scaling alone fills.
NETS = ("weak", "weak-64", "formula-1024", "epoch", "strong", "links", "link-rates", "servers",
        "server-rates", "limits", "h100", "costs", "served", "laws-lenet", "laws-alexnet",
        "laws-shards", "control", "bottleneck")
MADE_PAGE = """# Made

It brings 92 Mbit/s one way, and 742 there.

<!-- table: both-ways -->

| cards | one way, Mbit/s | both ways: there | back |
|---|---|---|---|
| 100 Mbit/s | 92 | 87 | 89 |
| 1 Gbit/s | 888 | 742 | 774 |

Seen on 2026-11-26.

| a table | without a marker |
|---|---|
| its figure | 742 |

<!-- table: weak -->

| net, workers | BSP: records/s |
|---|---|
| LeNet, 1 | 3,699 |
"""
LATE_PAGE = """<!-- table: late -->

| workers | | 20 clocks, virtual | on the busiest link | computed in |
|---|---|---|---|---|
| 1,000 | before | 172.62 s | 190 GiB | 310 s |
| | now | 39.06 s | 36.5 GiB | 35 s |
"""


class ScalePage(Measured):
    def setUp(self):
        super().setUp()
        self.folder = self.place / "kept"
        self.folder.mkdir()
        self.page = self.place / "docs" / "SCALE.md"
        self.page.parent.mkdir()
        self.pictures = self.page.parent / "pictures"

    def written(self, *words):
        """Runs the script; returns what it says."""
        done = self.measure("scale", "--kept", self.folder, "--page", self.page, "--write", *words)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_every_cell_of_the_nets_tables_has_its_command_and_is_written_from_its_output(self):
        keep_scaling(self.folder)
        self.page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
        shutil.copytree(PAGE.parent / "pictures/scale", self.pictures / "scale")
        said = self.written("--figures", self.pictures)
        for name in NETS:
            self.assertNotRegex(said, rf"(?m)^{name}: ")
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("\n| LeNet, 1,024 | 131,072 | 1.000 | 131,072 | 1.000 | 131,072 | 1.000 | ",
                      text)
        self.assertIn("\n| AlexNet, ASYNC | 1.000 | 1.000 | 1.000 | 1.000 |", text)
        self.assertIn("\n| AlexNet, ASYNC | 32,768 | 32,768 | 32,768 | 32,768 |", text)
        self.assertIn("\n| AlexNet, BSP | 8,192 | 8,192 | 8,192 | 8,192 | 8,192 |", text)
        self.assertIn("\n| LeNet, 64 | 4 | 32 | 9.00 | 9 | 2.00 | 7.00 | 73.50 | 1 MiB |", text)
        self.assertIn("\n| 64 | 9.00, 9.00 | 9 | 8.00 | 9 | 8.00 | 17.86 | 0.003 | 0.004, 0.004 | "
                      "1 MiB |", text)
        self.assertIn("\n| AlexNet | server | server | server | server | server | server |", text)
        for name in ("weak", "weak-64", "strong", "links", "servers", "bottleneck"):
            self.assertIn(f"](pictures/{name}.svg)\n", text)
            xml.etree.ElementTree.parse(self.pictures / f"{name}.svg")
            self.assertTrue((self.pictures / f"{name}.csv").exists(), name)
        # Each picture that the page shows exists, and a second time nothing changes.
        for link in re.findall(r"\]\((pictures/[^)]*\.svg)\)", text):
            self.assertTrue((self.page.parent / link).exists(), link)
        self.written("--figures", self.pictures)
        self.assertEqual(self.page.read_text(encoding="utf-8"), text)

    def test_only_tables_whose_commands_have_ended_are_written_and_the_rest_is_told(self):
        self.page.write_text(MADE_PAGE, encoding="utf-8")
        keep(self.folder, BOTH_WAYS, BOTH_WAYS_PRINTS)
        keep(self.folder, SCALING[0], "no table\n", status=1)
        said = self.written("--figures", self.pictures)
        before, _, after = MADE_PAGE.partition("| cards ")
        rest = after[after.index("\nSeen on"):]
        self.assertEqual(self.page.read_text(encoding="utf-8"),
                         f"{before}| cards | one way, Mbit/s | both ways: there | back |\n"
                         f"|---|---|---|---|\n| 100 Mbit/s | 93 | 87 | 89 |\n{rest}")
        self.assertRegex(said, r"(?m)^weak: left as it is, as \d+ of \d+ commands have no output: ")
        self.assertRegex(said, r"(?m)^weak: not drawn: \d+ of \d+ commands have no output$")
        self.assertIn("control: the page has no marker of it\n", said)
        self.assertIn("tables of no command: lines 13\n", said)
        self.assertIn("sentences that quote figures: lines 3\n", said)
        self.assertIn("  line 3: no table has these any longer: 742\n", said)

    def test_the_soonest_bound_is_drawn_over_workers_and_spread(self):
        keep_bounds(self.folder)
        self.page.write_text("<!-- table: bounds -->\n", encoding="utf-8")
        self.written("--figures", self.pictures)
        text = self.page.read_text(encoding="utf-8")
        self.assertIn("| bursts 2, 16 | 1 of 2 | 56.5 | 56.5 | slack 1, async |\n", text)
        rows = re.findall(r"(?m)^\| (\w+ [\d.]+), (\d+) \|", text)
        self.assertEqual(rows, [(spread, workers) for spread in SPREADS
                                for workers in ("4", "16", "64")])
        grid = (self.pictures / "best-bound.csv").read_text(encoding="utf-8").splitlines()
        self.assertEqual(grid, ["stragglers,workers,value",
                                *(f"{spread},{workers},{best}" for spread in SPREADS
                                  for workers, best in ((4, "slack 1"), (16, "slack 1"),
                                                        (64, "async")))])
        words = ["".join(node.itertext()) for node in
                 xml.etree.ElementTree.parse(self.pictures / "best-bound.svg").iter()]
        self.assertEqual(words.count("async"), len(SPREADS))
        times = (self.pictures / "bounds.csv").read_text(encoding="utf-8")
        self.assertIn("\nspread 0.1,slack 1,4,44.5\n", times)
        self.assertNotIn("BSP", times)

    def test_accuracy_over_virtual_time_is_drawn_for_each_kind_of_stragglers(self):
        keep_bounds(self.folder)
        self.page.write_text("<!-- table: bound-ends -->\n", encoding="utf-8")
        self.written("--figures", self.pictures)
        text = self.page.read_text(encoding="utf-8")
        for spread in SPREADS:
            name = f"accuracy-{spread.replace(' ', '-')}"
            self.assertIn(f"](pictures/{name}.svg)\n", text)
            rows = (self.pictures / f"{name}.csv").read_text(encoding="utf-8").splitlines()
            self.assertEqual(rows[0], "panel,line,virtual seconds,accuracy in %")
            self.assertIn("16 workers,slack 1,100,85.25", rows)
            self.assertEqual(len(rows), 13)
            words = ["".join(node.itertext()) for node in
                     xml.etree.ElementTree.parse(self.pictures / f"{name}.svg").iter()]
            panels = [word for word in words if re.fullmatch(r"\d+ workers", word)]
            self.assertEqual(panels, ["4 workers", "16 workers"])

    def test_the_curves_of_a_sweep_are_the_means_of_its_seeds_and_no_figures_to_compare(self):
        self.write_program("bin/tautline", SWEEPS)
        done = self.measure("lab/best_bound", "--kind", "bursts", "--burst-factor", "8",
                            "--workers", "4", "--slack", "0,async", "--figures", self.pictures,
                            build=self.place / "build")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| kind, workers | BSP | async |\n|---------------|-----|-------|\n"
                      "| bursts 8, 4   | -   | 0.5   |\n", done.stdout)
        self.assertIn(f"\n\naccuracy in % over virtual seconds at each test, mean of 2 seeds\n\n"
                      f"{CURVES}", done.stdout)
        self.assertIn(f"\naccuracy over virtual time: {self.pictures}/accuracy-bursts-8.svg\n",
                      done.stdout)
        rows = (self.pictures / "accuracy-bursts-8.csv").read_text(encoding="utf-8")
        self.assertEqual(rows, "panel,line,virtual seconds,accuracy in %\n4 workers,BSP,2,40\n"
                         "4 workers,BSP,4,60\n4 workers,async,1.5,55\n")

    def test_a_run_that_diverges_has_not_reached_the_target_and_is_named(self):
        lost = SWEEPS.replace('"runs": 2', '"runs": 1').replace(
            "]}' |", '], "failures": [{"run": "async-workers4-seed2", "reason": "the training has '
            "diverged; try a base_lr below 0.01\"}]}' |")
        self.write_program("bin/tautline", f"{lost}\nexit 1\n")
        words = ("lab/best_bound", "--kind", "bursts", "--workers", "4", "--slack", "0,async")
        done = self.measure(*words, build=self.place / "build")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("| bursts 4, 4   | 0 of 2 | 1 of 2 | none    |", done.stdout)
        self.assertIn("\ndiverged: bursts 4, 4: async, seed 2\n", done.stdout)
        self.assertIn("\ncurve of bursts 4, 4, async: 1 50.00, 2 70.00\n", done.stdout)
        self.write_program("bin/tautline", f"{lost.replace('diverged', 'starved')}\nexit 1\n")
        done = self.measure(*words, build=self.place / "build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("async-workers4-seed2: the training has starved", done.stderr)

    def test_a_coordinators_memory_is_drawn_for_each_number_of_shards(self):
        for line in (one.line for one in COMMANDS if " --megabytes 0.1" in one.line):
            shards = (1, 8, 32) if "--shards" in line else (1,)
            rows = [f"| 2 x {count}, {workers}, 0, 0.1 | 2.{workers} | 0.1 |\n"
                    for count in shards for workers in (2, 8)]
            keep(self.folder, line, "| servers x shards, workers, slack, MB of parameters | "
                 f"coordinator: own | server: own |\n|---|---|---|\n{''.join(rows)}")
        self.page.write_text("<!-- table: coordinator-memory -->\n", encoding="utf-8")
        self.written("--figures", self.pictures)
        drawn = (self.pictures / "coordinator-memory.csv").read_text(encoding="utf-8")
        self.assertEqual(drawn.splitlines()[:5], [
            "panel,line,workers,MB", "2 shards,a real coordinator,2,2.2",
            "2 shards,a real coordinator,8,2.8", "2 shards,formula,2,2.5",
            "2 shards,formula,8,2.8"])
        self.assertIn("\n64 shards,formula,8,2.9\n", drawn)
        self.assertIn("](pictures/coordinator-memory.svg)\n",
                      self.page.read_text(encoding="utf-8"))

    def test_an_output_that_is_not_whole_is_none_and_what_failed_is_told(self):
        (self.folder / scale_kept.file_name(BOTH_WAYS)).write_text(
            f"$ {BOTH_WAYS}\n{BOTH_WAYS_PRINTS}", encoding="utf-8")
        kept = scale_kept.Kept(self.folder)
        self.assertEqual(kept.missing([BOTH_WAYS]), [BOTH_WAYS])
        keep(self.folder, BOTH_WAYS, BOTH_WAYS_PRINTS, status=1)
        page, notes = scale_page.write_tables(scale_kept.Kept(self.folder), MADE_PAGE, self.page,
                                              self.pictures)
        self.assertIn(f"both-ways: has no figures of what failed: {BOTH_WAYS}", notes)
        self.assertIn("| 100 Mbit/s | 93 | 87 | 89 |", page.text())

    def tables_of(self, page):
        """What the page is with the kept outputs, and the notes."""
        page, notes = scale_page.write_tables(scale_kept.Kept(self.folder), page, self.page,
                                              self.pictures)
        return page.text(), notes

    def test_a_table_joins_the_rows_of_all_of_its_commands_and_no_others(self):
        for words, rows in EXCHANGES_PRINT.items():
            keep(self.folder, EXCHANGES + words,
                 "LeNet, 1 Gbit/s, 4 workers, servers 1: 9.1423 clocks/s (3 s)\n"
                 "| MiB | Gbit/s | workers | one | ring | hierarchical |\n"
                 "|-----|--------|---------|-----|------|--------------|\n"
                 + "".join(f"| 1.64 | {row} |\n" for row in rows))
        for line in (one.line for one in COMMANDS if one.line.startswith(REAL)):
            keep(self.folder, line, REAL_PRINTS.replace("\\\n", "").format(
                "3.2" if "reno" in line else "2.5"))
        text, notes = self.tables_of("".join(f"<!-- table: {name} -->\n\n" for name in (
            "exchanges", "exchanges-wide", "exchanges-hosts", "reno", "real")))
        self.assertEqual([note for note in notes if "no marker" not in note and
                          not note.startswith("real: ")], [])
        self.assertIn("""<!-- table: exchanges -->

| Gbit/s | workers | one | ring | hierarchical |
|---|---|---|---|---|
| 1 | 4 | 9.14 (1.00) | 32.02 (3.50)* | - |
| 10 | 256 | 1.44 (1.00) | 14.55 (10.13)* | - |
| 10 | 1,024 | - | 3.21* | - |
| 100 | 64 | 8.32 (1.00) | 29.81 (3.58)* | - |

<!-- table: exchanges-wide -->

| Gbit/s | workers | one | ring | hierarchical |
|---|---|---|---|---|
| 1 | 4 | 1.10 (1.00) | 2.20 (2.00)* | - |
| 1 | 64 | 0.03 (1.00) | 0.29 (9.25)* | - |

<!-- table: exchanges-hosts -->

| Gbit/s | workers | one | ring | hierarchical |
|---|---|---|---|---|
| 10 | 16 | 20.01 | 30.01 | 40.01* |
""", text)
        self.assertIn("\n| 2 | SSP 1 | 2.5 | 3.6 | +44.9 % | 3.2 | 3.6 | +44.9 % |\n\n", text)
        self.assertRegex(text, r"\n\| none \| 2 \| BSP .*\n\| 1 Gbit/s .*\n"
                         r"\| 100 Mbit/s \| 2 \| SSP 1 .*\n+\Z")

    def test_traces_have_the_measures_of_use_and_energy_and_a_verdict_that_holds_stays(self):
        keep_schedules(self.folder)
        page = PAGE.read_text(encoding="utf-8")
        text, notes = self.tables_of(page)
        of = "{0}: mean | {0}: p95 | {0}: makespan | {0}: fair max | {0}: used % | " \
            "{0}: idle+queue % | {0}: MWh"
        fifo = "4.61 d | 5.1 min | 66.74 d | 312.09 | 71.2 | 22.5 | 19.325"
        self.assertIn(f"\n| policy | {of.format('Muri')} | {of.format('Tiresias')} |\n", text)
        self.assertIn(f"\n| `fifo` | {fifo} | {fifo} |\n", text)
        self.assertEqual([note for note in notes if note.startswith("traces")], [])
        verdict = re.compile(r"\n\| Themis on fairness.*?\| (no against [^|]*)\|\n")
        self.assertEqual(verdict.search(text)[1], verdict.search(page)[1])
        self.assertIn("\n| Tiresias over FIFO | 2.56, 2.56, 2.56 d; FIFO 4.61, 4.61, 4.61 d | "
                      "yes |\n", text)
        # Where the figures contradict it, theirs comes first.
        line = next(one.line for one in COMMANDS if one.line.endswith("--hosts 16x4 --seed 1"))
        path = self.folder / scale_kept.file_name(line)
        path.write_text(path.read_text(encoding="utf-8").replace("2.56 d", "9.56 d"),
                        encoding="utf-8")
        text, _ = self.tables_of(page)
        self.assertIn("\n| Tiresias over FIFO | 9.56, 2.56, 2.56 d; FIFO 4.61, 4.61, 4.61 d | "
                      "no; before: yes |\n", text)

    def test_the_matrix_is_written_as_far_as_it_got_and_what_is_missing_is_told(self):
        head, _, *rows = REAL_PRINTS.replace("\\\n", "").format("2.5").splitlines()[3:]
        line = next(one.line for one in COMMANDS if "--matrix" in one.line)
        table = "<!-- table: real -->\n\n| links | workers |\n|---|---|\n| none | 1 |\n"
        text, notes = self.tables_of(table)
        self.assertEqual(text, table)
        self.assertIn("real: left as it is, as 1 of 1 commands have no output: " + line, notes)
        # Its file has what was measured; it prints what other processes disturbed, too.
        rule = "|---" * 12 + "|"
        (self.folder / "matrix.md").write_text("\n".join([head, rule, *rows[:2], ""]),
                                               encoding="utf-8")
        draft = (self.folder / scale_kept.file_name(line)).with_suffix(".draft")
        draft.write_text("\n".join([f"$ {line}", "", head, rule, *rows[1:], ""]),
                         encoding="utf-8")
        text, notes = self.tables_of(table)
        self.assertEqual(re.findall(r"(?m)^\| .*", text)[1:], [
            "| none | 2 | BSP | - | 42.8 | 42.3 | -1.2 % | 5.0 % | 5.9 % | 0.00 | 0.00 | met |",
            "| 1 Gbit/s | 2 | ASYNC | - | | | | | | | | "
            "not measured: other processes took the machine |",
            "| 100 Mbit/s | 2 | SSP 1 | - | 2.5 | 3.6 | +44.9 % | 95.7 % | 96.1 % | 0.50 | 0.50 | "
            "rate +44.9 % |"])
        self.assertIn("real: 7 cells are empty", notes)
        told = next(note for note in notes if note.startswith("real: not measured yet"))
        self.assertIn("; none, 2 workers, straggler -: SSP 1, SSP 3, ASYNC; none, 2 workers, "
                      "straggler x 3: BSP, SSP 1, SSP 3, ASYNC; ", told)

    def test_tables_of_runs_have_the_figures_that_the_programs_print(self):
        of_labs = [one.line for one in COMMANDS if one.line.startswith("tautline lab configs/")]
        for line in of_labs:
            failed = line.endswith("--workers 1000")
            keep(self.folder, line, "" if failed else LAB_PRINTS, status=-9 if failed else 0)
        priced = next(one.line for one in COMMANDS if "--records 6000000" in one.line)
        keep(self.folder, priced, PLAN_PRINTS)
        accuracy = next(one.line for one in COMMANDS if "accuracy_against_real" in one.line)
        keep(self.folder, accuracy, ACCURACY_PRINTS)
        text, notes = self.tables_of(LATE_PAGE + "".join(f"\n<!-- table: {name} -->\n" for name in (
            "ten-thousand", "learners", "soonest", "accuracy")))
        for row in ("| 250 | now | 6.720 s | 6.2 GiB | 3.1 s |",
                    "| 1,000 | before | 172.62 s | 190 GiB | 310 s |\n| | now | | | |",
                    "| 1,000, 2, `--slack 1` | | | | |",
                    "| 2 | 6.2 s | 6.720 s | 803,842 | 3.1 s | 2 s | 345 MiB |",
                    "| 300, 3 | | 345 MiB | | 2.5 s |",
                    "| 32 | 0.0266 | 0.128 | 0.0266 | 0.128 | 0.0266 | 0.128 | server |",
                    "| SSP 3 | 74.72 ± 1.23 | 74.51 ± 1.54 | -0.21 | 0 of 5 |\n"
                    "| ASYNC | 74.17 ± 0.60 | 74.17 ± 0.60 | +0.00 | 1 of 5 |"):
            self.assertIn(f"\n{row}\n", text)
        self.assertEqual(len([note for note in notes if note.startswith("late: has no fig")]), 1)

    def test_a_table_stays_as_it_is_where_an_output_is_not_as_expected(self):
        priced = next(one.line for one in COMMANDS if "--records 6000000" in one.line)
        page = "<!-- table: soonest -->\n\n| workers | hours |\n|---|---|\n| 1 | 0.524 |\n"
        for printed in (PLAN_PRINTS.replace("slack", "bound"), PLAN_PRINTS.replace("  async", ""),
                        "nothing\n"):
            keep(self.folder, priced, printed)
            text, notes = self.tables_of(page)
            self.assertEqual(text, page)
            self.assertTrue(notes[0].startswith("soonest: left as it is: "), notes[0])

    def test_the_list_says_what_a_command_took_or_about_how_long_it_takes(self):
        kept = self.place / "build" / "scale" / "program"
        kept.mkdir(parents=True)
        keep(kept, BOTH_WAYS, BOTH_WAYS_PRINTS)
        for only, seconds in ((BOTH_WAYS, "took 2 s"), ("matrix.md", "about 5,200 s")):
            done = self.measure("scale", "--list", "--only", only, build=self.place / "build")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f", {seconds}: scripts/bench/", done.stdout)
            self.assertTrue(done.stderr.startswith("commands: 1, "), done.stderr)

    def test_each_marker_of_the_page_has_its_table_and_each_table_its_commands(self):
        names = scale_page.Page(PAGE.read_text(encoding="utf-8")).markers()
        self.assertEqual(sorted(names), sorted(scale_page.TABLES))
        known = {one.line for one in COMMANDS}
        for table in scale_page.TABLES.values():
            self.assertTrue(table.lines, table.name)
            self.assertEqual(set(table.lines) - known, set(), table.name)


if __name__ == "__main__":
    unittest.main()
