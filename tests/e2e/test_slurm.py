"""A job on four nodes of a real Slurm: to its end, pre-empted and continued, with a node that
dies."""

import json
import os
import unittest

import slurm
from cluster import *

SCRIPT = SOURCE / "configs" / "slurm" / "train.sbatch"


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

    def test_a_job_survives_a_node_that_dies(self):
        job = self.submit(self.job(iterations=1000, extra="clock_time_ms: 20"))
        self.wait_for_training(job)
        self.slurm.kill_node("n4", [f"{self.run_folder(job)}/node3-"])
        self.wait_for_state(job, "COMPLETED", 90)
        self.assertIn("1 of 4 workers was lost", self.output(job))
        self.assertEqual(self.summary(job)["iterations"], 1000)


if __name__ == "__main__":
    unittest.main()
