"""`tautline sweep`: a grid of real runs, resumed where it stopped, and its report."""

import csv
import json
import os
import re

from cluster import *


class Sweep(ClusterTest):
    def sweep(self, *arguments, job=None, timeout=110):
        return self.tautline("sweep", job or self.job(iterations=20), "--output",
                             self.folder / "out", *arguments, timeout=timeout)

    def rows(self, name):
        with open(self.folder / "out" / name, newline="") as lines:
            return list(csv.DictReader(lines))

    def test_a_bound_of_a_job_whose_workers_exchange_is_a_run_that_is_done(self):
        job = self.job(workers=2, iterations=20, extra="exchange { type: ALLREDUCE interval: 5 }")
        answer = self.sweep("--slack", 0, "--seeds", 1, job=job)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual([run["state"] for run in self.rows("runs.csv")], ["done"])

    def test_a_run_whose_data_is_named_by_a_relative_path_is_done(self):
        job = self.job(iterations=20)  # it makes the data
        answer = self.sweep("--slack", 0, "--workers", 1, "--seeds", 1, "--over",
                            'data { folder: "data" }', job=job)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual([run["state"] for run in self.rows("runs.csv")], ["done"])
        again = self.sweep("--slack", 0, "--workers", 1, "--seeds", 1, "--over",
                           'data { folder: "data" }', job=job)
        self.assertIn("(finished earlier)", again.stdout)

    def test_a_grid_ends_with_a_report_figures_and_a_sentence(self):
        answer = self.sweep("--slack", "0,2,async", "--workers", 2, "--seeds", 2, "--max-iter", 20)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("With 2 seeds there will be no verdict on 3 bounds; with 7 there can be "
                      "one.\n", answer.stdout)
        self.assertIn("No verdict: 2 seeds, of which at least 7", answer.stdout)
        self.assertRegex(answer.stdout, r"tests' share of a run's time: [\d.]+ % \(")
        self.assertNotIn("soonest", answer.stdout)
        self.assertNotIn("p =", answer.stdout)
        self.assertIn("chosen after the runs", answer.stdout)
        self.assertRegex(answer.stdout, r"tests of a run: 21")
        self.assertIn("records of a test: 32", answer.stdout)
        runs = self.rows("runs.csv")
        self.assertEqual([(run["slack"], run["seed"], run["state"]) for run in runs],
                         [("0", "1", "done"), ("2", "1", "done"), ("async", "1", "done"),
                          ("0", "2", "done"), ("2", "2", "done"), ("async", "2", "done")])
        for run in runs:
            self.assertGreater(float(run["rate"]), 0)
            self.assertTrue(0 <= float(run["wait_share"]) <= 1)
            self.assertTrue(0 < float(run["test_share"]) <= 1)
        self.assertEqual(float(runs[0]["mean_staleness"]), 0)
        points = self.rows("points.csv")
        self.assertEqual([point["runs"] for point in points], ["2", "2", "2"])
        html = (self.folder / "out/report.html").read_text()
        self.assertIn("No verdict: 2\u00a0seeds", html)
        self.assertIn("every clock", html.replace("every 1 clock", "every clock"))
        self.assertIn("<dt>batch size</dt><dd>8 of each worker</dd>", html)
        self.assertRegex(html, r"<dt>date</dt><dd>\d{4}-\d\d-\d\d \d\d:\d\d UTC</dd>")
        self.assertIn("<dt>command</dt><dd>tautline sweep ", html)
        self.assertNotIn("<script", html)
        self.assertNotRegex(html, r"https?:")
        about = json.loads((self.folder / "out/slack2-workers2-seed2/run.json").read_text())
        self.assertEqual(about["seed"], 2)
        self.assertIn("tautline", about["build"])
        for name in ("job.textproto", "summary.json", "train.log", "worker1.log",
                     "job1-worker0/metrics.csv"):
            self.assertTrue((self.folder / "out/slack0-workers2-seed1" / name).exists(), name)

    def test_json_is_the_figures_and_nothing_else(self):
        answer = self.sweep("--slack", "async", "--workers", 1, "--seeds", 1, "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        report = json.loads(answer.stdout)
        self.assertEqual([p["bound"] for p in report["points"]], ["async"])
        self.assertEqual(report["points"][0]["accuracy"]["runs"], 1)
        self.assertEqual((report["metric"], report["target_fixed"]), ("accuracy", False))
        self.assertEqual([run["seed"] for run in report["points"][0]["by_seed"]], [1])
        self.assertFalse(report["verdicts"][0]["given"])
        self.assertTrue((self.folder / "out/async-workers1-seed1/summary.json").exists())

    def test_six_seeds_with_twenty_tests_around_the_target_give_a_verdict(self):
        job = self.job(iterations=60)
        answer = self.sweep("--slack", "0,async", "--workers", 1, "--seeds", 6, "--metric", "loss",
                            "--target", 1, "--json", job=job)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        report = json.loads(answer.stdout)
        verdict = report["verdicts"][0]
        self.assertEqual((report["metric"], report["target"], report["target_fixed"]),
                         ("loss", 1, True))
        for point in report["points"]:
            self.assertEqual(len(point["by_seed"]), 6)
            self.assertEqual(point["loss"]["runs"], 6)
        if verdict["given"]:
            self.assertRegex(verdict["verdict"], r"reached 1 test loss soonest.*6 seeds.*\(p = ")
            self.assertEqual([test["seeds"] for test in verdict["against"]], [6])
        else:
            self.assertRegex(verdict["verdict"], r"tests from a run's start|tests that take|"
                             r"No bound reached")
        for run in self.rows("runs.csv"):
            self.assertIn("final_loss", run)

    def test_a_metric_that_the_job_cannot_give_is_refused_before_the_first_run(self):
        answer = self.sweep("--metric", "perplexity", "--slack", "0", "--seeds", 1)
        self.assert_fails(answer, 'give no "perplexity"; choose one of: accuracy, loss', status=2)
        answer = self.sweep("--metric", "bogus")  # of six bounds
        self.assert_fails(answer, 'give no "bogus"', status=2)
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertFalse((self.folder / "out").exists())
        job = self.job(iterations=20)
        job.write_text(re.sub(r'  layer { name: "accuracy".*\n.*\n', "", job.read_text()))
        self.assert_fails(self.sweep("--slack", "0", "--seeds", 1, job=job),
                          'give no "accuracy"; choose one of: loss')
        self.assertFalse((self.folder / "out").exists())
        answer = self.sweep("--slack", "0", "--seeds", 1, "--metric", "loss", job=job)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("test loss, chosen after the runs: the lowest", answer.stdout)

    def test_a_report_without_runs_states_that_none_has_finished(self):
        grid = ("--slack", "1", "--workers", 1, "--seeds", 1)
        answer = self.sweep(*grid, "--report-only")
        self.assert_fails(answer, "out has no sweep", "--report-only")
        self.assertFalse((self.folder / "out").exists())
        answer = self.sweep(*grid, "--clock-time", 1000, "--limit", 1)
        self.assertEqual(answer.returncode, 1)
        answer = self.sweep("--report-only")
        self.assert_fails(answer, "1 run missing")
        self.assertIn("slack1-workers1-seed1: not run yet\n", answer.stdout)
        self.assertIn("1 point with 1 seed each", answer.stdout)
        self.assertIn("No run has finished, so there is nothing to compare.", answer.stdout)

    def test_a_report_alone_is_of_the_folders_own_grid(self):
        grid = ("--slack", "0", "--workers", 1, "--max-iter", 20)
        answer = self.sweep(*grid, "--seeds", 1)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        before = self.rows("runs.csv")
        answer = self.sweep("--slack", "0,8,async", "--workers", "2,4", "--seeds", 3,
                            "--report-only")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(self.rows("runs.csv"), before)
        # Nor does a sweep with another grid replace it; one with more of the same extends it.
        answer = self.sweep("--slack", "8", "--workers", 1, "--max-iter", 20, "--seeds", 1)
        self.assert_fails(answer, "out has another sweep: its run slack0-workers1-seed1")
        self.assertEqual(self.rows("runs.csv"), before)
        answer = self.sweep(*grid, "--seeds", 2)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout.count("finished earlier"), 1)
        self.assertEqual(len(self.rows("runs.csv")), 2)

    def test_policies_are_compared_with_bounds(self):
        late = self.file("late_counts_less.textproto",
                         "consistency { mode: ASYNC staleness_learning_rate: true }")
        averaging = SOURCE / "configs/jobs/policies/periodic_averaging.textproto"
        answer = self.sweep("--slack", "0", "--policy", f"{late},{averaging}", "--workers", 2,
                            "--seeds", 1)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual([(run["slack"], run["state"]) for run in self.rows("runs.csv")],
                         [("0", "done"), ("late_counts_less", "done"),
                          ("periodic_averaging", "done")])
        self.assertIn("periodic_averaging, 2 workers", answer.stdout)
        job = (self.folder / "out/policy-late_counts_less-workers2-seed1/job.textproto").read_text()
        self.assertIn("staleness_learning_rate: true", job)
        html = (self.folder / "out/report.html").read_text()
        self.assertIn("<dt>late_counts_less</dt>", html)
        # What the run was of is in the job, so a changed policy is another sweep.
        late.write_text("consistency { mode: SSP dynamic_slack { least: 1 most: 4 } }")
        again = self.sweep("--slack", "0", "--policy", late, "--workers", 2, "--seeds", 1)
        self.assert_fails(again, "policy-late_counts_less-workers2-seed1 is not part of this one")

    def test_a_field_is_varied_as_a_grid_and_at_random(self):
        answer = self.sweep("--vary", "solver.base_lr=0.01,0.1", "--vary", "solver.type=SGD,Adam",
                            "--workers", 1, "--seeds", 1, "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        report = json.loads(answer.stdout)
        self.assertEqual(sorted(tuple(point["setting"].values()) for point in report["points"]),
                         [(0.01, "Adam"), (0.01, "SGD"), (0.1, "Adam"), (0.1, "SGD")])
        self.assertEqual([run["solver.type"] for run in self.rows("runs.csv")],
                         ["SGD", "Adam", "SGD", "Adam"])
        folder = self.folder / "out/slack1-workers1-base_lr_0.1__type_Adam-seed1"
        self.assertIn('type: "Adam"', (folder / "job.textproto").read_text())
        html = (self.folder / "out/report.html").read_text()
        self.assertIn("<td>base_lr 0.1, type Adam</td>", html)
        drawn = self.file("drawn.textproto", f"""
            job: "{self.job(iterations=20)}"  workers: 1  seeds: 1  draws: 3
            vary {{ field: "solver.base_lr" range {{ low: 0.001 high: 0.1 logarithmic: true }} }}
            vary {{ field: "net.layer[ip1].inner_product_param.num_output" value: [16, 32] }}
            """)
        answer = self.tautline("sweep", drawn, "--output", self.folder / "drawn", timeout=110)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("3 points with 1 seed each", answer.stdout)
        self.assertRegex(answer.stdout, r"The best final test accuracy is [\d.]+ %, with base_lr "
                                        r".*: the mean over 1 seed, of the best of 3\.")

    def test_a_field_that_does_not_exist_is_refused_before_the_first_run(self):
        for vary, words in (
                ("solver.bas_lr=0.1", 'no field "bas_lr" in SolverParameter; did you mean '
                 '"base_lr"?'),
                ("solver.base_lr=0.1,fast", 'solver.base_lr: must be a number, is "fast"'),
                ("foo=1", 'no field "foo"'),
                ("solver.momentum=0.5,1.5", "momentum 1.5, ")):
            self.assert_fails(self.sweep("--vary", vary), words, status=2)
            self.assertFalse((self.folder / "out").exists())
        answer = self.sweep("--vary", "solver.base_lr")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("must be FIELD=VALUE,...", answer.stderr)

    def test_several_runs_at_once_say_that_their_times_are_not_comparable(self):
        if os.cpu_count() < 2:
            self.skipTest("one core runs one at a time")
        threads = os.cpu_count()  # two runs with a worker for each core have too few
        answer = self.sweep("--slack", "0,async", "--workers", threads, "--seeds", 2,
                            "--parallel", 2, "--clock-time", 20)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual([run["state"] for run in self.rows("runs.csv")], ["done"] * 4)
        self.assertEqual([(run["slack"], run["seed"]) for run in self.rows("runs.csv")],
                         [("0", "1"), ("async", "1"), ("0", "2"), ("async", "2")])
        html = (self.folder / "out/report.html").read_text()
        self.assertIn("<dt>runs at once</dt>", html)
        self.assertIn("times of runs side by side are not comparable", html)
        self.assertIn("shared cores, whose times are not comparable", answer.stdout)
        began = {name: json.loads((self.folder / "out" / name / "run.json").read_text())
                 for name in (f"slack0-workers{threads}-seed1", f"async-workers{threads}-seed1")}
        for run in began.values():
            self.assertEqual(run["runs_at_once"], 2)

    def test_a_target_that_is_given_with_the_report_is_of_after_the_runs(self):
        grid = ("--slack", "0", "--workers", 1, "--seeds", 1)
        answer = self.sweep(*grid, "--target", 0.01)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("target: 1.0 % test accuracy, fixed before the runs", answer.stdout)
        answer = self.sweep("--report-only", "--target", 0.02)
        self.assertIn("target: 2.0 % test accuracy, given after the runs", answer.stdout)
        answer = self.sweep("--report-only", "--metric", "loss")
        self.assertIn("test loss, chosen after the runs", answer.stdout)

    def test_a_sweep_continues_where_it_was_interrupted(self):
        arguments = (self.job(iterations=40), "--output", self.folder / "out", "--slack", "0,1",
                     "--workers", 1, "--seeds", 2, "--clock-time", 20)
        first = self.start("tautline", "sweep", *arguments)
        summary = self.folder / "out/slack0-workers1-seed1/summary.json"
        wait_until(summary.exists, what="the first run")
        second = self.folder / "out/slack1-workers1-seed1/worker0.ready"
        wait_until(second.exists, what="the second run's worker")
        first.send_signal(signal.SIGINT)
        _, error = first.communicate(timeout=20)
        self.assertEqual(first.returncode, 130)
        self.assertIn("the same command continues", error)
        before = summary.stat().st_mtime_ns
        answer = self.tautline("sweep", *arguments, timeout=110)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(summary.stat().st_mtime_ns, before)
        self.assertEqual(len(self.rows("runs.csv")), 4)
        again = self.tautline("sweep", *arguments)
        self.assertEqual(again.stdout.count("finished earlier"), 4)

    def test_a_run_that_fails_is_named_with_its_reason_and_the_rest_continue(self):
        sweep = self.file("failing.textproto", f"""
            job: "{self.job(iterations=20)}"  slack: "1"  workers: 2  seeds: 2
            variant {{ name: "fine" }}
            variant {{ name: "wild" job {{ solver_param {{ base_lr: 1e30 }} }} }}""")
        answer = self.tautline("sweep", sweep, "--output", self.folder / "out", timeout=110)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("2 runs failed", answer.stderr)
        states = [(run["variant"], run["state"]) for run in self.rows("runs.csv")]
        self.assertEqual(states, [("fine", "done"), ("wild", "failed")] * 2)
        for run in self.rows("runs.csv"):
            if run["variant"] == "wild":
                self.assertIn("diverged", run["failure"])
        self.assertIn("diverged", (self.folder / "out/report.html").read_text())

    def test_a_run_that_takes_too_long_is_ended(self):
        answer = self.sweep("--slack", "0", "--workers", 1, "--seeds", 1, "--clock-time", 1000,
                            "--limit", 2)
        self.assertEqual(answer.returncode, 1)
        self.assertIn("took longer than limit_s, 2 s", answer.stdout)

    def test_impossible_points_are_named_before_anything_starts(self):
        for arguments, words, status in (
                (("--workers", "2,4", "--straggler", "worker: 3 slowdown: 2"),
                 ("2 workers: straggler[0] names worker 3",), 2),
                (("--slack", "0,0"), ("slack 0 is named twice",), 2),
                (("--policy", SOURCE / "configs/jobs/fashion_none.textproto"), ("fashion_none",),
                 1),
                (("--policy", self.file("empty.textproto", "workers: 2")),
                 ("empty.textproto", "has no consistency"), 1),
                (("--workers", "2", "--policy",
                  self.file("spare.textproto", "consistency { mode: BSP backup_workers: 2 }")),
                 ("spare, 2 workers: consistency: backup_workers 2 of 2",), 1)):
            self.assert_fails(self.sweep(*arguments), *words, status=status)
            self.assertFalse((self.folder / "out").exists())
        bad = self.file("bad.textproto", 'job: "nowhere.textproto" slack: "1" seeds: 1')
        self.assert_fails(self.tautline("sweep", bad), "nowhere.textproto")
        bad.write_text('slack: "1"\nseds: 1\nworkers: 2')
        self.assert_fails(self.tautline("sweep", bad), "bad.textproto:2:1", "seeds")

    def test_the_committed_sweeps_are_valid(self):
        for sweep in sorted((SOURCE / "configs/sweeps").glob("*.textproto")):
            answer = self.tautline("validate", sweep)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertRegex(answer.stdout, r"a sweep file, fine")
            self.assertRegex(answer.stdout, r"async, 4 workers|momentum [\d.]+, BSP, 2 workers")
