"""What each released format has left on disks can be read: a checkpoint and a coordinator's state,
made by the release that introduced it (tests/e2e/formats/NUMBER). Checkpoints of format 2 share
files with earlier ones, or are in parts, of which a third of the disks is gone here."""

import json
import shutil
import unittest

from cluster import *

FORMATS = sorted((SOURCE / "tests" / "e2e" / "formats").iterdir())


class Formats(ClusterTest):
    def resume(self, job, saved, name):
        run = self.folder / f"run-{name}"
        answer = self.tautline("train", job, "--resume", saved, "--workers", 1, "--output", run)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        summary = json.loads((run / "summary.json").read_text())
        self.assertEqual(summary["iterations"], 30)
        return summary["evaluations"][-1]["accuracy"]

    def test_a_checkpoint_of_every_format_is_resumed(self):
        job = self.job(iterations=30)
        saved = shutil.copytree(FORMATS[0] / "checkpoint", self.folder / "saved")
        self.assertGreater(self.resume(job, saved, "whole"), 0.9)
        saved = shutil.copytree(FORMATS[1] / "parts", self.folder / "parts")
        self.assertGreater(self.resume(job, saved / "tiny_iter_20", "parts"), 0.9)
        # Its first layer does not learn.
        frozen = job.read_text().replace(
            "inner_product_param { num_output: 16",
            "param { lr_mult: 0 } param { lr_mult: 0 } inner_product_param { num_output: 16")
        saved = shutil.copytree(FORMATS[1] / "checkpoint", self.folder / "shared")
        self.resume(self.file("frozen.textproto", frozen), saved, "shared")

    def test_a_coordinators_state_of_every_format_is_taken_up(self):
        for number, folder in enumerate(FORMATS):
            if not (folder / "state").exists():
                continue
            with self.subTest(folder.name):
                state = shutil.copytree(folder / "state", self.folder / f"state{number}")
                self.coordinator = None
                server = self.start_server(f"server{number}",
                                           settings=f'state_folder: "{state}" run_folder: ""')
                jobs = {int(job["job"]): job for job in self.status()["jobs"]}
                self.assertEqual(jobs[1]["state"], "DONE")
                self.assertEqual(int(jobs[1]["checkpoints"][-1]["clock"]), 20)
                self.assertEqual(jobs[2]["state"], "SUBMITTED")
                answer = self.ask("stop", 2, "--discard")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                self.start_worker(f"worker{number}")
                self.assertEqual(int(self.assert_still_trains()["job"]), 3)
                server.terminate()
                server.wait(10)


if __name__ == "__main__":
    unittest.main()
