"""What each released format has left on disks can be read: a checkpoint and a coordinator's state,
made by the release that introduced it (tests/e2e/formats/NUMBER)."""

import json
import shutil
import unittest

from cluster import *

FORMATS = sorted((SOURCE / "tests" / "e2e" / "formats").iterdir())


class Formats(ClusterTest):
    def test_a_checkpoint_of_every_format_is_resumed(self):
        for number, folder in enumerate(FORMATS):
            with self.subTest(folder.name):
                saved = shutil.copytree(folder / "checkpoint", self.folder / f"saved{number}")
                run = self.folder / f"run{number}"
                answer = self.tautline("train", self.job(iterations=30), "--resume", saved,
                                       "--workers", 1, "--output", run)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                summary = json.loads((run / "summary.json").read_text())
                self.assertEqual(summary["iterations"], 30)
                self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.9)

    def test_a_coordinators_state_of_every_format_is_taken_up(self):
        for number, folder in enumerate(FORMATS):
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
