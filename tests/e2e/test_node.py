"""`tautline node`: what engines start once on each node."""

import os
import shutil
import signal
import subprocess
import time
import unittest

from cluster import *


class Node(ClusterTest):
    def start_rank(self, rank, count, *arguments, **variables):
        """A rank by torchrun's convention, in its own process group as engines make them."""
        environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", **variables}
        process = subprocess.Popen(
            [BIN / "tautline", "node", *map(str, arguments), "--device", "cpu"], cwd=self.folder,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
            start_new_session=True)
        self.processes.append(process)
        return process

    def finish(self, process, status, seconds=60):
        out, err = process.communicate(timeout=seconds * SLOWER)
        self.assertEqual(process.returncode, status, out + err)
        return out + err

    def start_one_node(self, *arguments):
        """A node without a job that is ready to train, and its coordinator."""
        rank = self.start_rank(0, 1, "--output", "run", *arguments)
        leader = self.folder / "run" / "leader"
        wait_until(lambda: leader.exists() and leader.read_text().startswith("coordinator "),
                   what="a coordinator")
        self.coordinator = leader.read_text().split()[1]
        wait_until(lambda: len(self.status().get("workers", [])) == 1, what="a worker")
        return rank

    def submit_long_job(self):
        answer = self.ask("submit", self.job(iterations=5000, extra="clock_time_ms: 20"))
        self.assertEqual(answer.returncode, 0, answer.stderr)

    def daemon_of(self, rank, name):
        return next(pid for pid, its in children_of(rank.pid) if its == name)

    def assert_one_is_saved(self):
        saved = [path.name for path in (self.folder / "checkpoints").iterdir()]
        self.assertEqual(len(saved), 1, saved)
        self.assertRegex(saved[0], r"^tiny_iter_\d+$")

    def wait_for_clocks(self, workers, folder="run"):
        def trains():
            files = list((self.folder / folder).glob("job*-node*-worker*/metrics.csv"))
            return len(files) == workers and all(f.read_text().count("\n") > 5 for f in files)
        wait_until(trains, 60, "clocks of every worker")

    def test_ranks_of_torchruns_convention_train_together(self):
        job = self.job(iterations=40)
        ranks = [self.start_rank(rank, 3, job, "--output", "run", "--workers-per-node", 2)
                 for rank in (2, 0, 1)]
        texts = [self.finish(rank, 0) for rank in ranks]
        self.assertIn("3 nodes, 3 servers, 6 workers", texts[1])
        self.assertIn("iterations  40 of 40", texts[1])
        self.assertEqual(texts[0] + texts[2], "")
        self.assertFalse((self.folder / "run" / "keys").exists())

    def test_data_security_of_every_rank_is_that_of_its_daemons(self):
        job = self.job(iterations=20)
        ranks = [self.start_rank(rank, 2, job, "--output", "run", "--data-security", "token")
                 for rank in (0, 1)]
        text = self.finish(ranks[0], 0)
        self.finish(ranks[1], 0)
        self.assertIn("iterations  20 of 20", text)
        for daemon in ("node0-server0", "node0-worker0", "node1-server0", "node1-worker0"):
            config = (self.folder / "run" / f"{daemon}.textproto").read_text()
            self.assertIn("data_security: TOKEN", config)

    def test_a_rank_of_another_data_security_ends_with_the_reason(self):
        job = self.job(iterations=20)
        self.start_rank(0, 2, job, "--output", "run", "--data-security", "token")
        other = self.start_rank(1, 2, job, "--output", "run")
        self.assertIn("has data_security: CURVE and the coordinator has data_security: TOKEN",
                      self.finish(other, 1))

    def test_a_signal_to_every_process_saves_the_job_and_the_same_command_continues(self):
        job = self.job(iterations=300, extra="clock_time_ms: 20")
        ranks = [self.start_rank(rank, 2, job, "--output", "run") for rank in (0, 1)]
        self.wait_for_clocks(2)
        for rank in ranks:  # as an engine does: the daemons get it too
            for pid, _ in children_of(rank.pid):
                os.kill(pid, signal.SIGUSR1)
                os.kill(pid, signal.SIGTERM)
            rank.send_signal(signal.SIGTERM)
        text = self.finish(ranks[0], 143)
        self.finish(ranks[1], 143)
        self.assertIn("signal 15: saving before it ends", text)
        self.assertIn("the same command continues from", text)
        ranks = [self.start_rank(rank, 2, job, "--output", "run") for rank in (0, 1)]
        text = self.finish(ranks[0], 0)
        self.finish(ranks[1], 0)
        self.assertIn("continues from", text)
        self.assertIn("iterations  300 of 300", text)
        refused = self.start_rank(0, 1, job, "--output", "run")
        self.assertIn("has ended; name another folder with --output", self.finish(refused, 1))

    def test_a_daemon_that_dies_is_started_again(self):
        job = self.job(iterations=400, extra="clock_time_ms: 20")
        ranks = [self.start_rank(rank, 2, job, "--output", "run") for rank in (0, 1)]
        self.wait_for_clocks(2)
        victim = next(pid for pid, name in children_of(ranks[1].pid) if name == "node1-server0")
        os.kill(victim, signal.SIGKILL)
        text = self.finish(ranks[0], 0, 90)
        self.finish(ranks[1], 0)
        self.assertIn("iterations  400 of 400", text)

    def test_nodes_without_a_job_take_those_that_are_submitted(self):
        ranks = [self.start_rank(rank, 2, "--output", "run") for rank in (0, 1)]
        leader = self.folder / "run" / "leader"
        wait_until(lambda: leader.exists() and leader.read_text().startswith("coordinator "),
                   what="a coordinator")
        self.coordinator = leader.read_text().split()[1]
        wait_until(lambda: len(self.status().get("workers", [])) == 2, what="two workers")
        answer = self.ask("submit", self.job(workers=2), "--follow")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        for rank in ranks:
            rank.send_signal(signal.SIGTERM)
        for rank in ranks:
            self.finish(rank, 143)

    def hang(self, rank, name):
        """Stops a daemon of this rank until it is continued; its process."""
        daemon = self.daemon_of(rank, name)
        os.kill(daemon, signal.SIGSTOP)
        wait_until(lambda: state_of(daemon) == "T", what="the stop")
        return daemon

    def test_a_signal_saves_the_jobs_that_were_submitted(self):
        rank = self.start_one_node()
        for _ in range(2):  # the second one waits
            self.submit_long_job()
        self.wait_for_clocks(1)
        rank.send_signal(signal.SIGTERM)
        text = self.finish(rank, 143)
        self.assertIn("signal 15: saving the jobs that run", text)
        self.assertNotIn("not saved", text)
        self.assert_one_is_saved()

    def test_a_signal_saves_a_job_although_the_coordinator_is_silent_for_a_while(self):
        rank = self.start_one_node()
        self.submit_long_job()
        self.wait_for_clocks(1)
        coordinator = self.hang(rank, "coordinator")
        rank.send_signal(signal.SIGTERM)
        time.sleep(1.5)  # its requests are not answered
        os.kill(coordinator, signal.SIGCONT)
        self.assertNotIn("not saved", self.finish(rank, 143))
        self.assert_one_is_saved()

    def test_a_job_that_is_not_saved_in_time_is_named(self):
        rank = self.start_one_node("--save-within", 2)
        self.submit_long_job()
        self.wait_for_clocks(1)
        self.hang(rank, "node0-worker0")
        rank.send_signal(signal.SIGTERM)
        self.assertIn("not saved before it ends: job 1\n", self.finish(rank, 143))

    def test_all_nodes_are_examined_before_the_job_starts(self):
        job = self.job(iterations=20)
        ranks = [self.start_rank(rank, 2, job, "--output", "run", "--check") for rank in (0, 1)]
        text = self.finish(ranks[0], 0)
        self.finish(ranks[1], 0)
        self.assertIn("4 processes of 1 host answered", text)
        self.assertIn(" 0 troubles", text)
        self.assertLess(text.index("0 troubles"), text.index("iterations  20 of 20"))

    def test_a_node_that_does_not_come_is_named(self):
        rank = self.start_rank(0, 3, self.job(), "--output", "run", "--wait", 2)
        self.assertIn("1 of 3 nodes have joined; ranks 1, 2 have not", self.finish(rank, 1))
        rank = self.start_rank(1, 3, self.job(), "--output", "elsewhere", "--wait", 1)
        self.assertIn("rank 1 found no leader in", self.finish(rank, 1))

    def test_an_unnamed_run_of_several_nodes_needs_a_folder(self):
        rank = self.start_rank(1, 2, self.job())
        self.assertIn("--output must name a folder that all of them see", self.finish(rank, 1))

    def test_a_job_that_cannot_be_read_leaves_no_folder(self):
        answer = self.tautline("node", "missing.textproto")
        self.assert_fails(answer, "missing.textproto: no such file")
        self.assertEqual(list(self.folder.glob("runs/*")), [])
        answer = self.tautline("node", "--workers-per-node", "many")
        self.assert_fails(answer, 'must be auto or a whole number from 0 to 256, is "many"',
                          status=2)

    def test_a_job_with_a_mistake_ends_every_rank(self):
        job = self.file("job.textproto", self.job().read_text().replace("base_lr", "base_rate"))
        ranks = [self.start_rank(rank, 2, job, "--output", "run", "--wait", 5) for rank in (0, 1)]
        self.assertIn("base_rate", self.finish(ranks[0], 1))
        self.finish(ranks[1], 1)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
    def test_mpirun_starts_four_nodes(self):
        answer = subprocess.run(
            ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "4",
             BIN / "tautline", "node", self.job(iterations=40), "--device", "cpu"],
            cwd=self.folder, capture_output=True, text=True, timeout=90 * SLOWER)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("4 nodes, 4 servers, 4 workers", answer.stdout)
        self.assertEqual(len(list(self.folder.glob("runs/mpi-*-job"))), 1)


if __name__ == "__main__":
    unittest.main()
