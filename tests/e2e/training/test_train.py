"""`tautline train` from its first process to its summary."""

import json
import random
import re
import shutil

from cluster import *


class Train(ClusterTest):
    def train(self, *arguments):
        answer = self.tautline("train", self.job(workers=2), "--output", self.folder / "run",
                               "--force", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer.stdout, json.loads((self.folder / "run/summary.json").read_text())

    def test_thirty_iterations_end_with_accuracy_checksum_and_summary(self):
        out, summary = self.train("--max-iter", 30)
        self.assertRegex(out, r"test accuracy: 0\.\d{4}|test accuracy: 1\.0000")
        self.assertRegex(out, r"parameters sha256: [0-9a-f]{64}\n")
        self.assertIn(f"run folder: {self.folder / 'run'}", out)
        self.assertEqual(summary["state"], "done")
        self.assertEqual(summary["iterations"], 30)
        self.assertEqual((summary["mode"], summary["slack"]), ("SSP", 1))
        self.assertEqual([w["clock"] for w in summary["workers"]], [30, 30])
        self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.5)
        self.assertGreater(summary["first_iteration_s"], 0)
        for name in ("job.textproto", "server0.log", "worker0.log", "worker1.log",
                     "server0.textproto", "worker1.textproto"):
            self.assertTrue((self.folder / "run" / name).exists(), name)

    def test_where_the_coordinator_and_the_dashboard_are_is_printed(self):
        out, _ = self.train("--dashboard", "127.0.0.1:0", "--max-iter", 5)
        self.assertRegex(out, r"(?m)^coordinator 127\.0\.0\.1:\d+ \(tautline top --coordinator 127")
        self.assertRegex(out, r"(?m)^dashboard http://127\.0\.0\.1:[1-9]\d*/login\?once=\S+$")

    def test_json_is_the_summary_and_nothing_else(self):
        out, summary = self.train("--json", "--max-iter", 10)
        self.assertEqual(len(out.splitlines()), 1)
        self.assertEqual(json.loads(out), summary)
        self.assertEqual(summary["records"], "images")

    def test_a_job_of_more_workers_than_train_starts_is_refused_before_any_process(self):
        answer = self.tautline("train", self.job(workers=257), "--output", self.folder / "run")
        self.assert_fails(answer, "workers: the job has 257", "at most 256", "--workers")
        self.assertFalse((self.folder / "run").exists())

    def test_slack_async_is_mode_async(self):
        _, summary = self.train("--slack", "async", "--max-iter", 10)
        self.assertEqual((summary["mode"], summary["slack"]), ("ASYNC", None))

    def test_no_read_is_staler_than_the_bound_and_the_histogram_counts_all(self):
        for slack in (0, 1, 3):
            _, summary = self.train("--slack", slack)
            self.assertTrue(summary["staleness"])
            for bin in summary["staleness"]:
                self.assertTrue(0 <= bin["staleness"] <= slack, summary["staleness"])

    def test_bsp_ends_in_the_same_bits_each_time(self):
        checksums = set()
        for _ in range(3):
            _, summary = self.train("--mode", "bsp")
            self.assertRegex(summary["parameters_sha256"], r"^[0-9a-f]{64}$")
            checksums.add(summary["parameters_sha256"])
        self.assertEqual(len(checksums), 1)

    def test_bsp_ends_in_the_bits_of_one_process_also_when_a_worker_is_slowed(self):
        job = self.job(workers=2, extra="consistency { mode: BSP }\n")
        alone = self.run_program("tautline-worker", "--local", job, "--replicas", 2)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        expected = re.search(r"parameters sha256: ([0-9a-f]{64})", alone.stdout)[1]
        self.start_server(shards=2)
        self.start_worker("worker0")
        self.start_worker("worker1", "slowdown_ms: 10")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        self.assertEqual(self.wait_for_job(1, "DONE")["parameters_sha256"], expected)

    def test_another_seed_ends_in_other_bits(self):
        _, one = self.train("--mode", "bsp", "--seed", 1)
        _, two = self.train("--mode", "bsp", "--seed", 2)
        self.assertNotEqual(one["parameters_sha256"], two["parameters_sha256"])

    def test_async_runs_without_a_bound(self):
        out, summary = self.train("--mode", "async")
        self.assertEqual(summary["mode"], "ASYNC")
        self.assertIsNone(summary["slack"])
        self.assertIn("ASYNC", out)

    def test_the_first_test_is_of_the_initial_parameters_under_every_mode(self):
        first = []
        for mode in ("BSP", "ASYNC"):
            self.start_server()
            # The first worker evaluates; the other one trains while its messages travel.
            self.start_worker("worker0", "network { delay_ms: 200 }")
            self.start_worker("worker1")
            job = self.job(workers=2, iterations=5, extra=f"consistency {{ mode: {mode} }}\n")
            self.assertEqual(self.ask("submit", job).returncode, 0)
            first.append(wait_until(lambda: self.status()["jobs"][0]["evaluations"], 60,
                                    "a first test")[0])
            self.assertEqual(int(first[-1]["clock"]), 0)
            self.kill_all()
            self.coordinator = None
        self.assertEqual(first[0]["loss"], first[1]["loss"])

    def test_a_training_that_diverges_ends_as_failed_and_says_what_to_lower(self):
        job = self.job(iterations=30)
        job.write_text(job.read_text().replace("base_lr: 0.1", "base_lr: 1e30"))
        for arguments in ((job,), ("--local",)):
            local = arguments[0] == "--local"
            answer = (self.run_program("tautline-worker", "--local", job) if local else
                      self.tautline("train", job, "--output", self.folder / "out"))
            self.assert_fails(answer, "the training has diverged; try a base_lr below 1e+30")
        summary = json.loads((self.folder / "out/summary.json").read_text())
        self.assertEqual(summary["state"], "failed")

    def test_on_divergence_continue_trains_to_the_end_and_only_warns(self):
        job = self.job(iterations=30, extra="on_divergence: CONTINUE\n")
        job.write_text(job.read_text().replace("base_lr: 0.1", "base_lr: 1e30"))
        answer = self.tautline("train", job, "--output", self.folder / "out")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("note: the training has diverged, which on_divergence: CONTINUE allows",
                      answer.stdout)
        self.assertNotIn("-nan", answer.stdout)
        summary = json.loads((self.folder / "out/summary.json").read_text())
        self.assertEqual((summary["state"], summary["iterations"]), ("done", 30))
        log = (self.folder / "out/worker0.log").read_text()
        self.assertEqual(log.count("the training has diverged; try a base_lr below 1e+30"), 1, log)
        # No checkpoint has values that are not finite.
        self.assertEqual(list((self.folder / "out").glob("checkpoints/*_iter_30")), [])
        alone = self.run_program("tautline-worker", "--local", job)
        self.assertEqual(alone.returncode, 0, alone.stderr)

    def test_parameters_that_overflow_in_the_last_clock_end_the_job_as_failed(self):
        # The only loss is finite, and so is its gradient; the step is not.
        job = self.job(iterations=1)
        job.write_text(job.read_text().replace("base_lr: 0.1", "base_lr: 1e30").replace(
            "inner_product_param", "param { lr_mult: 1e30 } inner_product_param", 1))
        answer = self.tautline("train", job, "--output", self.folder / "out")
        self.assert_fails(answer, "has values that are not finite at iteration 1: the training has "
                          "diverged; try a base_lr below 1e+30")
        self.assertEqual(list((self.folder / "out").glob("checkpoints/*_iter_1")), [])

    def test_several_servers_and_shards_share_the_tables(self):
        _, summary = self.train("--servers", 2, "--shards", 2, "--workers", 3)
        self.assertEqual(summary["servers"], 2)
        self.assertEqual(len(summary["workers"]), 3)
        self.assertEqual(summary["state"], "done")

    def test_the_jobs_for_regression_and_several_labels_learn_through_a_slice(self):
        draw = random.Random(5)
        data = self.folder / "halves"
        data.mkdir()
        for stem, count in (("train", 128), ("t10k", 64)):
            # The lower half repeats the upper one, which is one of four patterns.
            kinds = [draw.randrange(4) for _ in range(count)]
            rows = [bytes(255 if (pixel // 7) % 4 == kind else 0 for pixel in range(28))
                    for kind in range(4)]
            write_idx(data / f"{stem}-images-idx3-ubyte.gz", (count, 28, 28),
                      b"".join(rows[kind] * 28 for kind in kinds))
            write_idx(data / f"{stem}-labels-idx1-ubyte.gz", (count,), bytes(kinds))
        for name in ("regression", "multi_label"):
            run = self.folder / name
            # Two workers learn the same in every run only in lock-step.
            answer = self.tautline("train", SOURCE / f"configs/jobs/{name}.textproto", "--data",
                                   data, "--mode", "bsp", "--max-iter", 60, "--output", run)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            self.assertIn("test accuracy: -", answer.stdout)
            tests = json.loads((run / "summary.json").read_text())["evaluations"]
            self.assertLess(tests[-1]["loss"], 0.5 * tests[0]["loss"], name)

    def test_a_run_without_output_gets_its_own_folder(self):
        job = self.job()
        for number in (1, 2):
            answer = self.tautline("train", job)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            found = re.search(r"run folder: (\S+)\n$", answer.stdout)
            self.assertRegex(found[1], rf"^runs/\d{{4}}-\d\d-\d\d-tiny-{number}$")
            self.assertTrue((self.folder / found[1] / "summary.json").exists())

    def test_a_folder_with_a_run_is_used_again_only_by_force(self):
        self.train("--records", "metrics")
        summary = (self.folder / "run/summary.json").read_text()
        notes = self.file("run/notes.txt", "mine")
        job = self.job(workers=1)
        answer = self.tautline("train", job, "--output", self.folder / "run")
        self.assert_fails(answer, f"{self.folder / 'run'} has a run already",
                          f"--output {self.folder / 'run-2'} is free", "--force")
        self.assertEqual((self.folder / "run/summary.json").read_text(), summary)
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(notes.read_text(), "mine")
        # Nothing of the other run is mixed with this one.
        self.assertFalse((self.folder / "run/worker1.log").exists())
        self.assertEqual([f.name for f in (self.folder / "run").glob("job1-*")], ["job1-worker0"])

    def test_the_job_as_resolved_can_be_trained_again(self):
        _, first = self.train("--mode", "bsp", "--max-iter", 12)
        again = shutil.copy(self.folder / "run/job.textproto", self.folder / "again.textproto")
        answer = self.tautline("train", again, "--output", self.folder / "second")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        second = json.loads((self.folder / "second/summary.json").read_text())
        self.assertEqual(first["parameters_sha256"], second["parameters_sha256"])
