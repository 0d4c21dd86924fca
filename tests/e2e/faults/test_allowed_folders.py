"""Daemons open what jobs name in the folders that their cluster file allows, and nowhere else."""

import os

from cluster import *


class AllowedFolders(ClusterTest):
    def setUp(self):
        super().setUp()
        self.allowed = self.folder / "allowed"
        self.elsewhere = self.folder / "elsewhere"
        for place in (self.allowed, self.elsewhere):
            place.mkdir()
            write_data(place / "data")
        limit = f'allowed_folders: "{self.allowed}"'
        self.start_daemon("server", "server0", "coordinator {}", more=limit)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        self.start_daemon("worker", "worker0", more=limit)

    def submit(self, data, saved=None):
        saved = saved or self.allowed / "saved"
        job = self.job(data=data, extra=f'checkpoint {{ folder: "{saved}" }}\n')
        return self.ask("submit", job)

    def fails_with(self, number, *words):
        message = self.wait_for_job(number, "FAILED")["message"]
        for word in words:
            self.assertIn(word, message)

    def test_jobs_train_and_save_in_the_allowed_folders(self):
        saved = self.allowed / "saved"
        answer = self.submit(self.allowed / "data")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "DONE")
        self.assertTrue((saved / "tiny_iter_30").is_dir(), list(self.allowed.rglob("*")))

    def test_data_elsewhere_is_not_opened_and_the_next_job_trains(self):
        (self.allowed / "link").symlink_to(self.elsewhere / "data")
        places = (self.elsewhere / "data", self.allowed / "link",
                  self.allowed / "../elsewhere/data")
        for number, place in enumerate(places, 1):
            answer = self.submit(place)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.fails_with(number, "is outside of the folders that this process may open",
                            str(self.allowed), "allowed_folders")
        answer = self.submit(self.allowed / "data")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(len(places) + 1, "DONE")

    def test_checkpoints_elsewhere_are_refused_when_the_job_is_submitted(self):
        saved = self.elsewhere / "saved"
        answer = self.submit(self.allowed / "data", saved)
        self.assert_fails(answer, f"the job's checkpoints: {saved}: is outside of the folders")
        self.assertFalse(saved.exists())
        answer = self.ask("submit", self.job(data=self.allowed / "data"), "--resume",
                          self.elsewhere)
        self.assertEqual(answer.returncode, 1, answer.stdout)

    def test_a_pipe_in_place_of_a_file_is_refused_at_once(self):
        saved = self.allowed / "tiny_iter_10"
        saved.mkdir()
        os.mkfifo(saved / "manifest.textproto")
        answer = self.ask("submit", self.job(data=self.allowed / "data"), "--resume", saved)
        self.assertEqual(answer.returncode, 1, answer.stdout)
        pipes = self.allowed / "pipes"
        pipes.mkdir()
        for file in (self.allowed / "data").iterdir():
            os.mkfifo(pipes / file.name)
        self.assertEqual(self.submit(pipes).returncode, 0)
        self.fails_with(1, "is a pipe, a socket or a device, not a file")
        self.assertEqual(self.submit(self.allowed / "data").returncode, 0)
        self.wait_for_job(2, "DONE")


class AllowedFoldersFile(ClusterTest):
    def test_an_allowed_folder_that_does_not_exist_ends_the_daemon_with_its_name(self):
        server = self.start_daemon("server", "server0", "coordinator {}", wait=False,
                                   more='allowed_folders: "nowhere"')
        self.assertNotEqual(self.assert_ends(server), 0)
        self.assertIn('allowed_folders: "nowhere" must be the absolute path of a folder',
                      server.stderr.read())


if __name__ == "__main__":
    unittest.main()
