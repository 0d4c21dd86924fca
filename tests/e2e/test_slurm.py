"""A job on four nodes of a real Slurm: to its end, pre-empted and continued, with a node that
dies."""

import csv
import json
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest

import slurm
from cluster import *

SCRIPT = SOURCE / "configs" / "slurm" / "train.sbatch"


class WithoutAnswers(ClusterTest):
    """A sweep whose sbatch and squeue are scripts: what they are asked, and when they hang."""

    def sweep(self, sbatch, squeue):
        programs = self.folder / "bin"
        programs.mkdir()
        for name, text in (("sbatch", sbatch), ("squeue", squeue)):
            (programs / name).write_text(
                f'#!/bin/sh\necho "$@" >> {self.folder}/{name}.asked\n{text}\n')
            (programs / name).chmod(0o755)
        command = [BIN / "tautline", "sweep", self.job(), "--slack", "0", "--workers", "1",
                   "--seeds", "1", "--engine", "slurm", "--output", "out"]
        process = subprocess.Popen(command, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env={
                                       **os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        self.processes.append(process)
        return process

    def asked(self, name):
        file = self.folder / f"{name}.asked"
        return file.read_text().splitlines() if file.exists() else []

    def interrupt(self, process, what):
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=10 * SLOWER)
        self.assertEqual(process.returncode, 130, error)
        self.assertIn(what, error)

    def test_ctrl_c_ends_a_sweep_whose_squeue_hangs(self):
        process = self.sweep("echo 9", "exec sleep 100")
        wait_until(lambda: self.asked("squeue"), 20, "a question")
        self.interrupt(process, "the same command waits for them")

    def test_ctrl_c_ends_a_sweep_whose_sbatch_hangs_and_says_what_is_unknown(self):
        process = self.sweep("exec sleep 100", "")
        wait_until(lambda: self.asked("sbatch"), 20, "a submission")
        self.interrupt(process, "squeue --name=sweep-job-sweep shows it")

    def test_array_jobs_that_have_ended_are_asked_for_once(self):
        (self.folder / "out").mkdir()
        (self.folder / "out/slurm-jobs").write_text("1\n2\n")
        # An earlier command was interrupted while it asked.
        (self.folder / "out/squeue.log").write_text("0 RUNNING\n" * 9)
        process = self.sweep("echo 9", 'case "$*" in *"--jobs 9 "*) echo 0 RUNNING ;; '
                                       '*) echo 0 FAILED ;; esac')
        jobs = lambda: [line.split("--jobs ")[1].split()[0] for line in self.asked("squeue")]
        wait_until(lambda: jobs().count("9") >= 2, 20, "two looks")
        self.interrupt(process, "the same command waits for them")
        self.assertEqual(jobs()[:3], ["1", "2", "9"])
        self.assertEqual(set(jobs()[2:]), {"9"})
        self.assertEqual((self.folder / "out/slurm-jobs").read_text().split(), ["1", "2", "9"])

    def test_the_pending_tasks_that_squeue_shortens_or_hides_are_in_the_queue(self):
        # Those of an array beyond 64 letters, and those of another partition than the user's.
        (self.folder / "out").mkdir()
        (self.folder / "out/slurm-jobs").write_text("1\n")
        os.environ["SQUEUE_PARTITION"] = "other"
        self.addCleanup(os.environ.pop, "SQUEUE_PARTITION")
        process = self.sweep("echo 9", 'if [ "$SLURM_BITSTR_LEN$SQUEUE_PARTITION" = 0 ]; then '
                                       'echo 0 PENDING; fi')
        wait_until(lambda: len(self.asked("squeue")) >= 2, 20, "two looks")
        self.interrupt(process, "the same command waits for them")
        self.assertEqual(self.asked("sbatch"), [])
        self.assertEqual((self.folder / "out/slurm-jobs").read_text().split(), ["1"])


class BatchScript(ClusterTest):
    """train.sbatch with an srun that is a script."""

    def run_script(self, folder, text, *arguments):
        """The status of one whose nodes leave a text in the leader's file and end with status 9."""
        programs = self.folder / "bin"
        programs.mkdir(exist_ok=True)
        (programs / "srun").write_text(
            f'#!/bin/sh\nmkdir -p {folder}\necho "{text}" > {folder}/leader\nexit 9\n')
        (programs / "srun").chmod(0o755)
        return subprocess.run(
            ["bash", SCRIPT, "job.textproto", *arguments], cwd=self.folder, timeout=20 * SLOWER,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SLURM_JOB_ID": "812",
                 "TAUTLINE": "tautline"}, check=False).returncode

    def test_a_run_that_ends_well_counts_wherever_its_folder_is(self):
        self.assertEqual(self.run_script("runs/slurm-812-job", "ended 0 812.0.0"), 0)
        self.assertEqual(self.run_script("one", "ended 0 812.0.1", "--output", "one"), 0)
        self.assertEqual(self.run_script("two", "ended 0 812.0.0", "--output=two"), 0)
        self.assertEqual(self.run_script("one", "ended 9 812.0.0", "--output", "one"), 9)

    def test_what_another_job_has_left_in_the_folder_does_not_count(self):
        self.assertEqual(self.run_script("one", "ended 0 811.0.0", "--output", "one"), 9)


@unittest.skipIf(slurm.missing(), slurm.missing())
class OnSlurm(ClusterTest):
    def setUp(self):
        super().setUp()
        os.environ["TAUTLINE"] = str(BIN / "tautline")
        self.addCleanup(os.environ.pop, "TAUTLINE")
        self.slurm = slurm.Slurm(self.folder / "slurm")
        self.addCleanup(self.slurm.end)

    def submit(self, job, *arguments):
        return self.slurm.submit("--nodes", 4, SCRIPT, job, "--device", "cpu", *arguments,
                                 cwd=self.folder)

    def run_folder(self, job):
        return self.folder / "runs" / f"slurm-{job}-job"

    def output(self, job):
        file = self.folder / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""

    def wait_for_state(self, job, state, seconds=60):
        try:
            wait_until(lambda: self.slurm.state(job) == state, seconds, f"{state} of job {job}")
        except AssertionError as late:
            raise AssertionError("\n".join((
                str(late), self.output(job), self.slurm.run("scontrol", "show", "job", job),
                (self.folder / "slurm" / "slurmctld.log").read_text()[-2000:]))) from late

    def wait_for_training(self, job):
        """Until every worker has done some clocks."""
        def trains():
            files = list(self.run_folder(job).glob("job*-node*-worker0/metrics.csv"))
            return len(files) == 4 and all(file.read_text().count("\n") > 5 for file in files)
        wait_until(trains, 60, "clocks of four workers")

    def summary(self, job):
        return json.loads((self.run_folder(job) / "summary.json").read_text())

    def test_slurm_runs_a_job_on_four_nodes(self):
        job = self.submit(self.job(iterations=60))
        self.wait_for_state(job, "COMPLETED")
        self.assertIn("4 nodes, 4 servers, 4 workers", self.output(job))
        self.assertEqual(self.summary(job)["iterations"], 60)
        self.assertTrue((self.run_folder(job) / "checkpoints" / "tiny_iter_60").is_dir())
        self.assertFalse((self.run_folder(job) / "keys").exists())

    def test_a_job_gets_nodes_of_one_switch(self):
        nodes = self.slurm.submit("--nodes", 4, SCRIPT, "--device", "cpu", cwd=self.folder)
        folder = self.folder / "runs" / f"slurm-{nodes}-cluster"
        wait_until(lambda: "submit JOB --coordinator" in self.output(nodes), 60, "four nodes")
        self.coordinator = re.search(r"submit JOB --coordinator (\S+)", self.output(nodes))[1]
        ask = lambda *words: self.tautline(*words, "--coordinator", self.coordinator, "--keys",
                                           folder / "keys").stdout
        for number, workers in enumerate((1, 2)):
            ask("submit", self.job(f"job{number}.textproto", iterations=100000, workers=workers,
                                   extra="clock_time_ms: 20"))
        wait_until(lambda: ask("queue").count(" running ") == 2, 30, "two jobs")
        lines = ask("queue")
        # The first has a node of the first switch, so the second gets both of the other one.
        self.assertRegex(lines, r" 1 +tiny .* node0-worker0\b")
        self.assertRegex(lines, r" 2 +tiny .* node2-worker0, node3-worker0\b")
        self.slurm.run("scancel", nodes)

    def test_a_job_that_slurm_pre_empts_is_saved_and_continued(self):
        job = self.submit(self.job(iterations=400, extra="clock_time_ms: 20"))
        self.wait_for_training(job)
        other = self.slurm.submit("--partition", "high", "--nodes", 4, "--wrap", "sleep 1",
                                  cwd=self.folder)
        self.wait_for_state(other, "COMPLETED")
        self.assertIn("signal 15: saving before it ends", self.output(job))
        self.slurm.hurry(job)
        self.wait_for_state(job, "COMPLETED", 90)
        saved = max(int(path.name.rsplit("_", 1)[1])
                    for path in (self.run_folder(job) / "checkpoints").iterdir()
                    if not path.name.endswith("_400"))
        self.assertGreater(saved, 5)
        self.assertIn(f"tiny_iter_{saved}\n", self.output(job))
        self.assertEqual(self.summary(job)["iterations"], 400)
        # The second attempt's records begin where the first was saved.
        records = sorted(self.run_folder(job).glob("job*-node0-worker0*"))
        self.assertEqual(len(records), 2)
        lines = (records[1] / "metrics.csv").read_text().splitlines()
        self.assertEqual(int(lines[1].split(",")[0]), saved)

    def test_time_that_runs_out_saves_the_job_and_requeues_it(self):
        job = self.submit(self.job(iterations=300, extra="clock_time_ms: 20"))
        self.wait_for_training(job)
        # What Slurm does a minute before the time is over.
        self.slurm.run("scancel", "--signal", "USR1", "--batch", job)
        wait_until(lambda: "saving before it ends" in self.output(job), 30, "the signal")
        wait_until(lambda: self.slurm.state(job) in ("PENDING", "REQUEUED"), 60, "requeued")
        wait_until(lambda: self.slurm.state(job) == "PENDING", 60, "pending")
        self.slurm.hurry(job)
        self.wait_for_state(job, "COMPLETED", 90)
        self.assertIn("continues from", self.output(job))

    def test_a_sweep_runs_as_an_array_of_tasks(self):
        # The user's name of the job wins nothing, nor does a folder that sbatch would read wrongly.
        environment = {**os.environ, **self.slurm.environment, "SBATCH_JOB_NAME": "other"}
        command = [BIN / "tautline", "sweep", self.job(iterations=20), "--slack", "0,async",
                   "--workers", "1", "--seeds", "2", "--parallel", "3", "--engine", "slurm",
                   "--output", "out of 5%a", "--sbatch=--cpus-per-task=1", "--sbatch=--job-name=me"]
        answer = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True,
                                text=True, timeout=110 * SLOWER)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertRegex(answer.stdout, r"Slurm's array job \d+: 4 runs; scancel \d+ ends it")
        folder = self.folder / "out of 5%a"
        job = (folder / "slurm-jobs").read_text().strip()
        with open(folder / "runs.csv", newline="") as lines:
            runs = list(csv.DictReader(lines))
        self.assertEqual([(run["slack"], run["seed"], run["state"]) for run in runs],
                         [("0", "1", "done"), ("async", "1", "done"), ("0", "2", "done"),
                          ("async", "2", "done")])
        self.assertIn(f"<dt>engine</dt><dd>Slurm, array job {job}</dd>",
                      (folder / "report.html").read_text())
        self.assertEqual(len(list(folder.glob(f"slurm-{job}_*.out"))), 4)
        about = json.loads((folder / "slack0-workers1-seed1/run.json").read_text())
        self.assertIn("--task", about["command"])
        # Again: all is done, and no further job is submitted. A run that is lost is run again.
        shutil.rmtree(folder / "async-workers1-seed2")
        answer = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True,
                                text=True, timeout=110 * SLOWER)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn(": 1 run; scancel", answer.stdout)
        self.assertEqual(len((folder / "slurm-jobs").read_text().split()), 2)

    def test_a_sweep_waits_for_tasks_that_an_interrupted_one_has_submitted(self):
        environment = {**os.environ, **self.slurm.environment}
        command = [BIN / "tautline", "sweep", self.job(iterations=60, extra="clock_time_ms: 50"),
                   "--slack", "0,1", "--workers", "1", "--seeds", "1", "--parallel", "2",
                   "--engine", "slurm", "--output", "out", "--sbatch=--cpus-per-task=1"]
        first = subprocess.Popen(command, cwd=self.folder, env=environment, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.processes.append(first)
        wait_until(lambda: len(list(self.folder.glob("out/*/train.log"))) == 2, 60, "two runs")
        first.send_signal(signal.SIGINT)
        out, err = first.communicate(timeout=20 * SLOWER)
        self.assertEqual(first.returncode, 130, out + err)
        self.assertIn("the same command waits for them", err)
        # Tasks know their runs by numbers, which another bound would change.
        more = [word if word != "0,1" else "2,0,1" for word in command]
        answer = subprocess.run(more, cwd=self.folder, env=environment, capture_output=True,
                                text=True, timeout=30 * SLOWER)
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        self.assertIn("are in the queue and know their runs by their numbers", answer.stderr)
        answer = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True,
                                text=True, timeout=110 * SLOWER)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertNotIn("scancel", answer.stdout)
        self.assertEqual(len((self.folder / "out/slurm-jobs").read_text().split()), 1)

    def test_a_job_survives_a_node_that_dies(self):
        job = self.submit(self.job(iterations=1000, extra="clock_time_ms: 20"))
        self.wait_for_training(job)
        self.slurm.kill_node("n4", [f"{self.run_folder(job)}/node3-"])
        self.wait_for_state(job, "COMPLETED", 90)
        self.assertIn("1 of 4 workers was lost", self.output(job))
        self.assertEqual(self.summary(job)["iterations"], 1000)


# Of the README's section, with a clone's folder in which the build of this tree is.
COMMANDS = re.search(r"On a Slurm cluster.*\n\n((?:    .*\n)+)",
                     (SOURCE / "README.md").read_text())[1].split("\n")
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")


@unittest.skipIf(slurm.missing(), slurm.missing())
@unittest.skipUnless(FASHION.is_dir(), "the package dataset-fashion-mnist is not installed")
class ReadmesCommands(ClusterTest):
    def train(self, *options):
        """Does what the README says. Returns (seconds, the run's summary)."""
        build, submit = [line.strip() for line in COMMANDS if line]
        # The first one's products are what is tested here.
        self.assertEqual(build, "scripts/build")
        clone = self.folder / "clone"
        (clone / "build" / "release").mkdir(parents=True)
        (clone / "build" / "release" / "bin").symlink_to(BIN)
        (clone / "configs").symlink_to(SOURCE / "configs")
        engine = slurm.Slurm(self.folder / "slurm")
        self.addCleanup(engine.end)
        program, *words = submit.split()
        self.assertEqual(program, "sbatch")
        began = time.monotonic()
        # A `tautline` that is installed on this machine is not the one that is tested.
        job = engine.submit(*words, *options, cwd=clone)
        wait_until(lambda: engine.state(job) not in ("PENDING", "RUNNING", "COMPLETING"), 1700,
                   f"the end of job {job}")
        took = time.monotonic() - began
        output = (clone / f"slurm-{job}.out").read_text()
        self.assertEqual(engine.state(job), "COMPLETED", output)
        self.assertIn("4 nodes, 4 servers, 4 workers", output)
        summary = json.loads(
            (clone / "runs" / f"slurm-{job}-fashion_lenet" / "summary.json").read_text())
        print(f"{took:.0f} s from sbatch to the end, accuracy "
              f"{summary['evaluations'][-1]['accuracy']:.4f} after {summary['iterations']} clocks, "
              f"{summary['images_per_second']:.0f} images/s")
        return took, summary

    def test_the_two_commands_of_the_readme_train_fashion_mnist_on_four_nodes(self):
        _, summary = self.train("--device", "cpu", "--max-iter", "300")
        self.assertEqual(summary["iterations"], 300)
        self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.7)

    def test_the_two_commands_of_the_readme_train_to_the_end(self):
        _, summary = self.train()
        self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.9)


if __name__ == "__main__":
    unittest.main()
