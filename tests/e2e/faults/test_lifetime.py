"""Every process ends when it should, and only then."""

import os
import pathlib
import socket
import time

from cluster import *


class TrainLifetime(ClusterTest):
    """A long `tautline train` that something happens to."""

    def begin(self, *arguments):
        """Starts it; returns it with its children, once it trains."""
        train = self.start("tautline", "train", self.job(iterations=1000000, workers=2),
                           "--output", self.folder / "run", *arguments)

        def training():
            self.assertIsNone(train.poll(), "train ended early")
            log = self.folder / "run/worker1.log"
            return log.exists() and "from clock 0" in log.read_text()
        wait_until(training, what="training")
        children = children_of(train.pid)
        self.assertEqual([name for _, name in children], ["server0", "worker0", "worker1"])
        self.addCleanup(self.kill_left, children)
        return train, children

    def kill_left(self, children):
        """What a failing test leaves would disturb the next ones."""
        for pid, _ in children:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)

    def assert_all_gone(self, children):
        for pid, name in children:
            wait_until(lambda: not alive(pid), 5, f"the end of {name}")

    def killing(self, victim, number=signal.SIGKILL):
        train, children = self.begin()
        pid = {name: pid for pid, name in children}[victim]
        os.kill(pid, number)
        began = time.monotonic()
        _, error = train.communicate(timeout=10)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(train.returncode, 1)
        self.assertIn(victim, error)
        self.assert_all_gone(children)
        return error

    def test_a_killed_worker_is_named_and_nothing_is_left(self):
        self.assertIn("worker1 was killed by signal 9", self.killing("worker1"))

    def test_a_killed_first_worker_is_named_and_nothing_is_left(self):
        self.assertIn("worker0 was killed by signal 9", self.killing("worker0"))

    def test_a_killed_server_is_named_and_nothing_is_left(self):
        self.assertIn("server0 was killed by signal 9", self.killing("server0"))

    def test_a_worker_that_is_asked_to_end_is_named_and_nothing_is_left(self):
        self.assertIn("worker0 exited with status 0", self.killing("worker0", signal.SIGTERM))

    def test_train_killed_outright_leaves_no_process(self):
        train, children = self.begin()
        train.kill()
        self.assert_all_gone(children)

    def test_train_killed_outright_leaves_no_stopped_process(self):
        train, children = self.begin()
        stopped = children[1][0]
        os.kill(stopped, signal.SIGSTOP)
        wait_until(lambda: state_of(stopped) == "T", what="the stop")
        train.kill()
        self.assert_all_gone(children)

    def interrupting(self, number):
        train, children = self.begin("--discard")
        train.send_signal(number)
        began = time.monotonic()
        train.communicate(timeout=10)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(train.returncode, 128 + number)
        self.assert_all_gone(children)

    def test_ctrl_c_ends_train_and_its_children_within_five_seconds(self):
        self.interrupting(signal.SIGINT)

    def test_sigterm_ends_train_and_its_children_within_five_seconds(self):
        self.interrupting(signal.SIGTERM)


class DaemonLifetime(ClusterTest):
    def ending(self, number):
        server = self.start_server()
        workers = [self.start_worker(f"worker{i}") for i in range(2)]
        answer = self.ask("submit", self.job(iterations=1000000, workers=2))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "RUNNING")
        for process in (*workers, server):
            process.send_signal(number)
            self.assertEqual(self.assert_ends(process), 0)

    def test_sigterm_ends_each_daemon_within_five_seconds_while_it_trains(self):
        self.ending(signal.SIGTERM)

    def test_ctrl_c_ends_each_daemon_within_five_seconds_while_it_trains(self):
        self.ending(signal.SIGINT)

    def test_a_server_ends_within_five_seconds_while_its_workers_are_still_there(self):
        server = self.start_server()
        worker = self.start_worker()
        self.ask("submit", self.job(iterations=1000000))
        self.wait_for_job(1, "RUNNING")
        server.terminate()
        self.assertEqual(self.assert_ends(server), 0)
        worker.terminate()
        self.assertEqual(self.assert_ends(worker), 0)

    def test_a_worker_that_waits_for_its_coordinator_ends_within_five_seconds(self):
        self.coordinator = "127.0.0.1:9"
        worker = self.start_daemon("worker", "worker0", wait=False)
        time.sleep(0.5)
        worker.terminate()
        self.assertEqual(self.assert_ends(worker), 0)

    def test_a_worker_logs_the_process_it_waits_for_and_its_return(self):
        log = self.folder / "worker0.log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.coordinator = f"127.0.0.1:{free.getsockname()[1]}"
        self.start_daemon("worker", "worker0", wait=False)
        line = f"the coordinator at {self.coordinator} has not answered for 3 s"
        wait_until(lambda: log.exists() and line in log.read_text(), what="the line in the log")
        server = self.start_daemon("server", "server0", "coordinator {}")
        wait_until(lambda: "joined the coordinator" in log.read_text(), what="a worker that joined")
        os.kill(server.pid, signal.SIGSTOP)
        wait_until(lambda: "is silent for 3 s; waiting for it" in log.read_text(), what="silence")
        os.kill(server.pid, signal.SIGCONT)
        wait_until(lambda: "answers again after" in log.read_text(), what="the end of silence")

    def test_a_worker_may_be_started_before_the_server(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.coordinator = f"127.0.0.1:{free.getsockname()[1]}"
        worker = self.start_daemon("worker", "worker0", wait=False)
        time.sleep(0.5)
        self.assertIsNone(worker.poll())
        self.start_daemon("server", "server0", "coordinator {}")
        wait_until((self.folder / "worker0.ready").exists, what="worker0 ready")
        self.assert_still_trains()

    def test_a_job_can_be_stopped_and_the_next_one_runs(self):
        self.start_server()
        self.start_worker()
        self.ask("submit", self.job(iterations=1000000))
        self.wait_for_job(1, "RUNNING")
        answer = self.ask("stop", 1)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "STOPPED")
        self.assert_still_trains()

    def begin_endless_test(self):
        """A worker that runs the first test of job 1, which does not end."""
        self.start_server()
        worker = self.start_worker()
        job = self.job()
        job.write_text(job.read_text().replace("test_iter: 4", "test_iter: 1000000000"))
        answer = self.ask("submit", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "RUNNING")
        log = self.folder / "worker0.log"
        wait_until(lambda: "from clock 0" in log.read_text(), what="a worker that has the job")
        time.sleep(1)
        return worker

    def test_sigterm_ends_a_worker_within_five_seconds_while_it_tests(self):
        worker = self.begin_endless_test()
        worker.terminate()
        self.assertEqual(self.assert_ends(worker), 0)

    def test_a_job_can_be_stopped_during_a_test_and_the_next_one_runs(self):
        self.begin_endless_test()
        answer = self.ask("stop", 1, "--discard")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.wait_for_job(1, "STOPPED")
        self.assert_still_trains()

    def test_the_slack_of_a_running_job_changes(self):
        self.start_server()
        workers = [self.start_worker(f"worker{i}") for i in range(2)]
        self.assertEqual(len(workers), 2)
        self.ask("submit", self.job(iterations=1000000, workers=2))
        self.wait_for_job(1, "RUNNING")
        for slack, mode in (("3", "SSP"), ("async", "ASYNC"), ("0", "BSP"), ("1", "SSP")):
            answer = self.ask("set-slack", 1, slack)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            wait_until(lambda: self.status()["jobs"][0]["mode"] == mode, what=f"mode {mode}")
            before = int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
            wait_until(lambda: int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
                       > before + 5, what=f"clocks under {mode}")

    def test_the_survivor_of_a_killed_worker_continues_and_the_status_shows_it(self):
        self.start_server(settings="heartbeat_limit_s: 1")
        workers = [self.start_worker(f"worker{i}") for i in range(2)]
        self.ask("submit", self.job(iterations=1000000, workers=2))
        self.wait_for_job(1, "RUNNING")
        workers[1].kill()

        def lost():
            states = {w["name"]: w for w in self.status()["jobs"][0]["workers"]}
            return states if states["worker1"]["state"] == "lost" else None
        before = int(wait_until(lost, what="worker1 lost")["worker0"]["progress"]["clock"])
        wait_until(lambda: int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
                   > before + 20, what="the survivor's clocks")
        self.assertIn("lost", self.ask("status").stdout)

    def test_a_killed_worker_that_is_started_again_joins_the_running_job(self):
        self.start_server(settings="heartbeat_limit_s: 1")
        workers = [self.start_worker(f"worker{i}") for i in range(2)]
        self.ask("submit", self.job(iterations=1000000, workers=2))
        self.wait_for_job(1, "RUNNING")
        workers[1].kill()
        workers[1].wait()
        self.start_worker("worker1")

        def returned():
            job = self.status()["jobs"][0]
            return job["state"] == "RUNNING" and any(
                w["name"] == "worker1" and w["state"] == "running"
                and int(w["progress"].get("clock", 0)) > 0 for w in job["workers"]) and len(
                    [w for w in job["workers"] if w["state"] == "lost"]) == 1
        wait_until(returned, what="worker1 in the running job")

    def test_a_submitted_job_waits_for_the_running_one_and_then_runs(self):
        self.start_server()
        self.start_worker()
        self.ask("submit", self.job(iterations=1000000))
        self.wait_for_job(1, "RUNNING")
        answer = self.ask("submit", self.job("second.textproto"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(self.wait_for_job(2, "SUBMITTED")["message"], "waits for job 1 to end")
        self.assertEqual(self.ask("stop", 1).returncode, 0)
        self.wait_for_job(2, "DONE")

    def test_a_server_lets_go_of_the_shared_memory_of_a_killed_worker(self):
        server = self.start_server(settings="heartbeat_limit_s: 1")
        workers = [self.start_worker(f"worker{i}") for i in range(2)]
        self.ask("submit", self.job(iterations=1000000, workers=2))
        self.wait_for_job(1, "RUNNING")

        def mapped():
            lines = pathlib.Path(f"/proc/{server.pid}/maps").read_text().splitlines()
            return len({line.split()[4] for line in lines if "/memfd:tautline" in line})
        # Its own, and one of each worker.
        wait_until(lambda: mapped() == 3, what="shared memory")
        workers[1].kill()
        workers[1].wait()
        wait_until(lambda: mapped() == 2, what="the end of the dead worker's memory")

    def test_status_is_watched_until_ctrl_c(self):
        self.start_server()
        watch = self.start("tautline", "status", "--watch", "--coordinator", self.coordinator)
        time.sleep(0.5)
        self.assertIsNone(watch.poll())
        watch.send_signal(signal.SIGINT)
        out, _ = watch.communicate(timeout=5)
        self.assertEqual(watch.returncode, 0)
        self.assertIn("server0", out)

    def test_a_restarted_coordinator_still_knows_its_jobs(self):
        state = f'state_folder: "{self.folder / "state"}"'
        server = self.start_server(settings=state)
        worker = self.start_worker()
        self.assert_still_trains()
        before = self.status()["jobs"][0]
        server.terminate()
        self.assert_ends(server)
        worker.terminate()
        self.assert_ends(worker)
        self.coordinator = None
        self.start_server(settings=state)
        after = self.status()["jobs"][0]
        for field in ("job", "name", "state", "parameters_sha256", "evaluations"):
            self.assertEqual(before[field], after[field], field)
