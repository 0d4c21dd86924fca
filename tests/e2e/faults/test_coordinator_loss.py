"""A coordinator in its own process may end, hang and restart without disturbing the training."""

import os
import time

from cluster import *


class CoordinatorLoss(ClusterTest):
    def start_cluster(self, workers=2):
        self.settings = (f'shards: 0 coordinator {{ heartbeat_limit_s: 2 '
                         f'state_folder: "{self.folder / "state"}" }}')
        self.brain = self.start_daemon("server", "coordinator", self.settings)
        self.coordinator = self.addresses("coordinator")["coordinator"][0]
        self.others = [self.start_daemon("server", "server0", "shards: 2", more="start_wait_s: 1")]
        for i in range(workers):
            self.others.append(self.start_daemon("worker", f"worker{i}", more="start_wait_s: 1"))
        answer = self.ask("submit", self.job(iterations=1000000, workers=workers))
        self.assertEqual(answer.returncode, 0)
        self.wait_for_job(1, "RUNNING")

    def clock(self, worker=0):
        return int(self.status()["jobs"][0]["workers"][worker]["progress"]["clock"])

    def assert_trains_on(self):
        before = self.clock()
        wait_until(lambda: self.clock() > before + 20, what="further clocks")
        for process in self.others:
            self.assertIsNone(process.poll())

    def assert_trains_alone(self):
        """The workers train, as they write on their own disks, and no process ends."""
        self.assert_workers_train(1, "worker0", "worker1")
        for process in self.others:
            self.assertIsNone(process.poll())

    def test_a_killed_coordinator_that_starts_again_finds_its_job_running(self):
        self.start_cluster()
        for _ in range(2):
            before = self.clock()
            self.brain.kill()
            self.brain.wait()
            time.sleep(3)  # longer than start_wait_s and heartbeat_limit_s
            self.assert_trains_alone()
            self.brain = self.start_daemon("server", "coordinator", self.settings)
            wait_until(lambda: self.clock() > before + 20, what="clocks since the restart")
            self.assertEqual(self.status()["jobs"][0]["state"], "RUNNING")
            self.assertEqual({w["state"] for w in self.status()["jobs"][0]["workers"]},
                             {"running"})
        self.assert_trains_on()

    def test_a_stopped_coordinator_costs_no_training(self):
        self.start_cluster()
        before = self.clock()
        os.kill(self.brain.pid, signal.SIGSTOP)
        time.sleep(5)
        self.assert_trains_alone()
        os.kill(self.brain.pid, signal.SIGCONT)
        wait_until(lambda: self.clock() > before + 100, what="clocks of that time")
        self.assertEqual({w["state"] for w in self.status()["jobs"][0]["workers"]}, {"running"})
        self.assert_trains_on()

    def fill_disk(self):
        filler = os.open(self.folder / "state" / "filler", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            while os.write(filler, bytes(1024)):
                pass
        except OSError:
            os.close(filler)

    def assert_decides_nothing(self, job):
        refused = self.ask("submit", job, "--wait", 1)
        self.assertEqual(refused.returncode, 1)
        # After a restart on the full disk no server's hello is answered.
        self.assertRegex(refused.stderr, "confirms nothing that it cannot save|no server")
        self.assertEqual(self.status()["jobs"][0]["state"], "RUNNING")
        self.assertRegex((self.folder / "coordinator.log").read_text(),
                         "state cannot be saved, so nothing new is decided: .*disk is full")

    def assert_trains_on_without_state(self):
        self.assert_trains_alone()
        self.assertIsNone(self.brain.poll())

    def test_a_full_state_disk_costs_no_training_and_what_is_decided_later_is_saved(self):
        self.mount_small_disk("state", "256k")
        self.start_cluster()
        self.fill_disk()
        more = self.job("more.textproto", iterations=20, workers=2)
        self.assert_decides_nothing(more)
        began = time.monotonic()
        self.assert_trains_on_without_state()
        # Its death costs as little then, and it comes back.
        self.brain.kill()
        self.brain.wait()
        self.fill_disk()
        (self.folder / "coordinator.log").unlink()
        self.brain = self.start_daemon("server", "coordinator", self.settings)
        self.assert_decides_nothing(more)
        self.assert_trains_on_without_state()
        time.sleep(max(0, began + 3 - time.monotonic()))  # longer than heartbeat_limit_s
        (self.folder / "state" / "filler").unlink()
        self.assert_trains_on()
        answer = self.ask("submit", more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        later = int(answer.stdout.split()[1])
        self.brain.kill()
        self.brain.wait()
        self.brain = self.start_daemon("server", "coordinator", self.settings)
        self.assert_trains_on()
        self.assertEqual({w["state"] for w in self.status()["jobs"][0]["workers"]}, {"running"})
        # One that got no answer is taken too once there is space.
        states = {int(job["job"]): job["state"] for job in self.status()["jobs"]}
        self.assertEqual((states[1], states[later]), ("RUNNING", "SUBMITTED"))
        self.assertEqual(self.ask("stop", 1, "--discard").returncode, 0)
        self.wait_for_job(later, "DONE")

    def test_a_worker_that_fails_costs_only_itself(self):
        self.start_cluster()
        self.start_daemon("worker", "worker9")
        # Its data exists for the first two and not for a third, which joins when one is killed.
        (self.folder / "data").rename(self.folder / "moved")
        self.others[1].kill()
        wait_until(lambda: any(w["name"] == "worker9" and w["state"] == "lost"
                               for w in self.status()["jobs"][0]["workers"]),
                   what="worker9 lost")
        self.assert_trains_on_with("worker1")

    def assert_trains_on_with(self, name):
        def clock():
            return next(int(w["progress"]["clock"]) for w in self.status()["jobs"][0]["workers"]
                        if w["name"] == name)
        before = clock()
        wait_until(lambda: clock() > before + 20, what=f"further clocks of {name}")
        self.assertEqual(self.status()["jobs"][0]["state"], "RUNNING")

