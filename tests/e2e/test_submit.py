"""`tautline submit` to daemons that run."""

import os
import subprocess

from cluster import *


class Submit(ClusterTest):
    def setUp(self):
        super().setUp()
        self.start_server()
        self.start_worker()

    def test_following_ends_with_the_job(self):
        answer = self.ask("submit", "--follow", self.job())
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout,
                         r"job 1 done in \d+\.\d s\nparameters sha256: [0-9a-f]{64}\n"
                         r"checkpoint at 30: .*/checkpoints/tiny_iter_30\n"
                         r"run folder: .*/runs/job1-tiny\n$")

    def test_submit_accepts_the_options_of_train(self):
        answer = self.ask("submit", "--follow", self.job(iterations=1000), "--slack", "async",
                          "--seed", 5, "--max-iter", 7, "--clock-time", 1, "--workers", 1,
                          "--straggler", "worker: 0 delay_ms: 1")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        job = self.status()["jobs"][0]
        self.assertEqual((job["mode"], job["max_iter"], job["state"]), ("ASYNC", 7, "DONE"))
        self.assertIs(type(job["job"]), int)
        bounded = self.ask("submit", "--follow", self.job(), "--mode", "ssp", "--slack", 3)
        self.assertEqual(bounded.returncode, 0, bounded.stderr)
        self.assertEqual(self.status()["jobs"][1]["slack"], 3)

    def test_following_a_job_that_is_stopped_reports_it(self):
        submit = self.start("tautline", "submit", "--follow", self.job(iterations=1000000),
                            "--coordinator", self.coordinator)
        wait_until(lambda: any(job["state"] == "RUNNING" for job in self.status()["jobs"]),
                   what="the running job")
        self.assertEqual(self.ask("stop", 1).returncode, 0)
        _, error = submit.communicate(timeout=30)
        self.assertEqual(submit.returncode, 1)
        self.assertIn("job 1 stopped", error)

    def test_a_job_with_warnings_prints_them_and_runs(self):
        job = self.job(extra="seed: 7\n")
        job.write_text(job.read_text().replace("momentum: 0.9", "momentum: 0.9 random_seed: 5"))
        warning = "random_seed 5: superseded by the job's seed 7"
        answer = self.ask("submit", "--follow", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"warning: {warning}\n", answer.stderr)
        alone = self.run_program("tautline-worker", "--local", job)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertEqual((alone.stdout + alone.stderr).count(warning), 1)

    def test_a_job_of_programs_awaits_servers_alone(self):
        job = self.file("members.textproto", """external_members: true workers: 3
            solver_param { base_lr: 1 }""")
        answer = self.ask("submit", job, "--await-servers", 1, "--wait", 20)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assert_fails(self.ask("submit", job, "--await-servers", 2, "--wait", 1),
                          "1 of 2 servers and 1 of 0 workers")

    def test_a_variable_that_is_empty_names_no_coordinator(self):
        answer = subprocess.run([BIN / "tautline", "status", "--insecure", "--wait", "0.2"],
                                env=dict(os.environ, TAUTLINE_COORDINATOR=""),
                                capture_output=True, text=True, timeout=60)
        self.assert_fails(answer, "no coordinator at 127.0.0.1:7600 answered")

    def test_the_environment_names_the_coordinator(self):
        environment = dict(os.environ, TAUTLINE_COORDINATOR=self.coordinator)
        answer = subprocess.run([BIN / "tautline", "submit", self.job(), "--follow"],
                                cwd=self.folder, env=environment, capture_output=True, text=True,
                                timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
