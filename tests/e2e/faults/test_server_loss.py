"""A server with parameters may be lost: another one takes its part over, from images that it keeps,
and training continues without a worker that starts again."""

import os
import re
import signal
import unittest.mock

from cluster import *


class ServerLoss(ServersTest):
    def start_cluster(self, workers=2, interval=2, servers=3, durability="ASYNC", copies=1,
                      limit_s=1):
        self.start_server("coordinator", shards=0, settings=(
            f"heartbeat_limit_s: {limit_s} replication "
            f"{{ interval: {interval} durability: {durability} copies: {copies} }}"))
        self.servers = {i: self.start_daemon("server", f"server{i}") for i in range(servers)}
        self.workers = [self.start_daemon("worker", f"worker{i}") for i in range(workers)]

    def clock(self, job):
        return min(int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"])

    def newest_clock(self, job):
        return max(int(w["progress"].get("clock", 0)) for w in self.running(job)["workers"])

    def wait_for_backups(self, job, copies=1):
        def is_protected():
            shards = self.running(job).get("shards", [])
            return shards and all(
                [backup.get("is_whole") for backup in shard["backups"]] == [True] * copies
                for shard in shards)
        wait_until(is_protected, what="a whole backup of each shard")

    def kill_server(self, i):
        self.servers[i].kill()
        self.servers[i].wait()

    def test_bsp_ends_in_the_same_bits_after_one_server_and_then_another_is_lost(self):
        self.start_cluster()
        reference = self.wait_for_job(self.submit("BSP", 800), "DONE", 120)["parameters_sha256"]
        job = self.submit("BSP", 800, clock_ms=10)
        for victim in (1, 2):
            wait_until(lambda: self.clock(job) > 10, what="clocks")
            self.wait_for_backups(job)
            self.kill_server(victim)
            before = self.clock(job)
            wait_until(lambda: self.clock(job) > before + 10, what="clocks after the loss")
            self.servers[victim] = self.start_daemon("server", f"server{victim}")
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)
        for worker in self.workers:
            self.assertIsNone(worker.poll())
        self.assertIn("is taken over by server", (self.folder / "coordinator.log").read_text())

    def test_a_primary_that_hangs_and_wakes_after_its_shard_was_taken_over_joins_again(self):
        self.start_cluster(servers=2)
        reference = self.wait_for_job(self.submit("BSP", 800), "DONE", 120)["parameters_sha256"]
        job = self.submit("BSP", 800, clock_ms=10)
        log = self.folder / "coordinator.log"
        for i, other in ((0, 1), (1, 0)):
            wait_until(lambda: self.clock(job) > 10, what="clocks")
            self.wait_for_backups(job)
            taken_over = log.read_text().count(f'is taken over by server "server{other}"')
            self.servers[i].send_signal(signal.SIGSTOP)
            wait_until(lambda: log.read_text().count(f'is taken over by server "server{other}"')
                       > taken_over, what="the take-over")
            before = self.clock(job)
            wait_until(lambda: self.clock(job) > before + 20, what="clocks without the primary")
            self.assertEqual({s["server"] for s in self.running(job)["shards"]},
                             {f"server{other}"})
            self.servers[i].send_signal(signal.SIGCONT)
            wait_until(lambda: sorted(s["server"] for s in self.running(job)["shards"])
                       == ["server0", "server1"], what="a shard at the server that has woken")
            zombie = (self.folder / f"server{i}.log").read_text()
            self.assertRegex(zombie, rf'server "server{i}".* was silent for .*\n.*joined the coord')
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)
        for process in (*self.workers, *self.servers.values()):
            self.assertIsNone(process.poll())
        for i in range(2):
            self.assertEqual((self.folder / f"worker{i}.log").read_text().count("joined the"), 1)

    def test_a_shard_whose_thread_hangs_is_taken_over_though_its_server_lives(self):
        self.start_cluster(servers=2, limit_s=2)
        reference = self.wait_for_job(self.submit("BSP", 800), "DONE", 120)["parameters_sha256"]
        when = self.folder / "hangs"
        armed = {"TAUTLINE_FAILPOINT": "update received", "TAUTLINE_FAILPOINT_WHEN": str(when),
                 "TAUTLINE_FAILPOINT_HANGS": "1"}
        with unittest.mock.patch.dict(os.environ, armed):
            self.servers[2] = self.start_daemon("server", "server2")
        job = self.submit("BSP", 800, clock_ms=10)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.wait_for_backups(job)
        when.touch()
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)
        log = (self.folder / "coordinator.log").read_text()
        self.assertEqual(log.count("answers no worker"), 1, log)
        self.assertIn('server "server2" answers no worker', log)
        self.assertNotIn("was declared lost", log)
        self.assertIsNone(self.servers[2].poll())
        self.servers[2].kill()  # a thread that hangs does not end

    def lose_two_servers(self, durability):
        self.start_cluster(durability=durability, copies=2)
        reference = self.wait_for_job(self.submit("BSP", 300), "DONE", 120)["parameters_sha256"]
        job = self.submit("BSP", 300, clock_ms=10)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.wait_for_backups(job, 2)
        self.assertIn("each with 2 backups on other servers", self.ask("status").stdout)
        for victim in (0, 1):
            self.servers[victim].kill()
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)
        for worker in self.workers:
            self.assertIsNone(worker.poll())

    def test_a_killed_server_and_a_killed_worker_are_noticed_long_before_the_heartbeat_limit(self):
        self.start_cluster(workers=3, limit_s=600)
        job = self.submit("BSP", 1000000, clock_ms=10, workers=3)
        for kill in (lambda: self.kill_server(1), self.workers[2].kill):
            wait_until(lambda: self.newest_clock(job) > 10, what="clocks")
            self.wait_for_backups(job)
            kill()
            before = self.newest_clock(job)
            wait_until(lambda: self.newest_clock(job) > before + 10, 30, "clocks after the loss")
        log = (self.folder / "coordinator.log").read_text()
        for name in ("server1", "worker2"):
            self.assertRegex(log, f'"{name}".*its connection closed')

    def test_status_says_how_many_of_the_backups_there_are(self):
        self.start_cluster(durability="SYNC", copies=2)
        job = self.submit("BSP", 1000000, clock_ms=10)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.wait_for_backups(job, 2)
        behind = re.compile(r"each with 2 backups on other servers, at most \d+\.\d s "
                            r"\(0 clocks\) behind")  # updates are logged
        wait_until(lambda: behind.search(self.ask("status").stdout), what="how far they are behind")
        self.kill_server(0)
        wait_until(lambda: "with 1 of 2 backups on other servers" in self.ask("status").stdout,
                   what="two servers with each other's backups")
        shards = self.running(job)["shards"]
        self.assertEqual([shard["wanted_backups"] for shard in shards], [2, 2, 2])
        self.servers[0] = self.start_daemon("server", "server0")
        self.wait_for_backups(job, 2)
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + 10, what="clocks after the return")

    def test_with_two_backups_two_servers_are_lost_at_once_and_bits_are_the_same(self):
        self.lose_two_servers("ASYNC")

    def test_with_two_backups_that_log_updates_two_servers_are_lost_at_once(self):
        self.lose_two_servers("SYNC")

    def test_updates_that_count_once_a_backup_has_them_end_in_the_same_bits(self):
        self.start_cluster(durability="SYNC")
        reference = self.wait_for_job(self.submit("BSP", 400), "DONE", 120)["parameters_sha256"]
        job = self.submit("BSP", 400, clock_ms=10)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.wait_for_backups(job)
        self.kill_server(1)
        ended = self.wait_for_job(job, "DONE", 120)
        self.assertEqual(ended["parameters_sha256"], reference)

    def test_servers_of_one_machine_exchange_images_through_shared_memory(self):
        self.start_cluster(servers=2)
        self.submit("BSP", 1000000, clock_ms=10)

        def own_memory(server):
            folder = f"/proc/{server.pid}/fd"
            for entry in os.listdir(folder):
                if os.readlink(f"{folder}/{entry}").startswith("/memfd:tautline"):
                    return os.stat(f"{folder}/{entry}").st_ino
            raise AssertionError("a server has no shared memory")

        def maps(server, inode):
            with open(f"/proc/{server.pid}/maps", encoding="ascii") as lines:
                return any(line.split()[4] == str(inode) for line in lines)

        one, other = self.servers.values()
        wait_until(lambda: maps(one, own_memory(other)) and maps(other, own_memory(one)),
                   what="each server to map the other's memory")

    def test_a_server_and_a_worker_are_lost_at_once_and_training_goes_on(self):
        self.start_cluster(workers=3, durability="SYNC")
        job = self.submit("SSP", 1000000, workers=3)
        wait_until(lambda: self.running(job)["state"] == "RUNNING" and self.clock(job) > 10,
                   what="clocks")
        self.wait_for_backups(job)
        self.workers[2].kill()
        self.kill_server(0)
        wait_until(lambda: len([w for w in self.running(job)["workers"]
                                if w["state"] == "running"]) == 2, what="the loss of the worker")
        before = self.newest_clock(job)
        wait_until(lambda: self.newest_clock(job) > before + 50, what="clocks after the losses")
        self.assertEqual(self.ask("stop", job).returncode, 0)
        self.wait_for_job(job, "STOPPED")

    def test_a_worker_that_is_stopped_while_updates_wait_for_backups_reports_no_error(self):
        self.start_cluster(workers=3, interval=1, durability="SYNC")
        job = self.submit("SSP", 1000000, workers=3)
        wait_until(lambda: self.running(job)["state"] == "RUNNING" and self.clock(job) > 10,
                   what="clocks")
        self.wait_for_backups(job)
        self.workers[2].send_signal(signal.SIGINT)
        self.assertEqual(self.workers[2].wait(30), 0)
        log = (self.folder / "worker2.log").read_text()
        self.assertIn("stopping", log)
        self.assertNotIn(" error ", log)

    def test_ssp_and_async_train_on_when_a_server_is_lost(self):
        self.start_cluster()
        for mode in ("SSP", "ASYNC"):
            job = self.submit(mode, 1000000)
            wait_until(lambda: self.running(job)["state"] == "RUNNING"
                       and self.clock(job) > 10, what="clocks")
            self.wait_for_backups(job)
            self.kill_server(0)
            before = self.clock(job)
            wait_until(lambda: self.clock(job) > before + 100, what="clocks after the loss")
            self.servers[0] = self.start_daemon("server", "server0")
            self.wait_for_backups(job)
            self.assertEqual(self.ask("stop", job).returncode, 0)
            self.wait_for_job(job, "STOPPED")

    def test_jobs_whose_values_do_not_follow_from_the_updates_train_on_too(self):
        self.start_cluster(workers=4)
        for consistency in ("BSP backup_workers: 1",
                            "ASYNC periodic_averaging { interval: 2 outer { "
                            'type: "SGD" lr: 1 momentum: 0 buffer: 3 } }'):
            job = self.submit(consistency, 1000000, clock_ms=2, workers=4)
            wait_until(lambda: self.running(job)["state"] == "RUNNING"
                       and self.newest_clock(job) > 10, what="clocks")
            self.wait_for_backups(job)
            self.kill_server(0)
            before = self.newest_clock(job)
            wait_until(lambda: self.newest_clock(job) > before + 50, what="clocks after the loss")
            self.servers[0] = self.start_daemon("server", "server0")
            self.wait_for_backups(job)
            # What it has pushed is safe before it leaves, also where it waits in a buffer.
            drained = self.ask("drain", "worker3")
            self.assertEqual(drained.returncode, 0, drained.stderr)
            self.workers[3].wait(30)
            self.workers[3] = self.start_daemon("worker", "worker3")
            self.assertEqual(self.ask("stop", job).returncode, 0)
            self.wait_for_job(job, "STOPPED")

    def test_a_server_without_a_whole_backup_takes_the_job_with_it(self):
        self.start_cluster(interval=0)
        job = self.submit("SSP", 1000000)
        wait_until(lambda: self.clock(job) > 10, what="clocks")
        self.assertEqual(self.running(job).get("shards", []), [])
        self.assertIn("no shard has a backup: the job started with replication { interval: 0 }",
                      self.ask("status", job).stdout)
        self.kill_server(1)
        message = self.wait_for_job(job, "FAILED")["message"]
        self.assertIn("its part of the parameters is lost", message)


class TrainSurvives(ClusterTest):
    def train(self, servers):
        """Starts a training of two workers and finds its coordinator."""
        run = self.folder / "run"
        train = self.start("tautline", "train", self.job(iterations=8000, workers=2), "--servers",
                           servers, "--mode", "ssp", "--output", run)
        address = wait_until(lambda: (run / "coordinator.ready").exists()
                             and (run / "coordinator.ready").read_text(), what="a coordinator")
        self.coordinator = re.search(r"coordinator (\S+)", address)[1]
        return train

    def clock(self):
        jobs = self.status()["jobs"]
        return max((int(w["progress"].get("clock", 0)) for w in jobs[0]["workers"]
                    if w["state"] == "running"), default=0) if jobs else 0

    def wait_for_backups(self):
        wait_until(lambda: all(s.get("is_protected") for s in self.status()["jobs"][0]["shards"])
                   if self.clock() > 10 else False, what="whole backups")

    def kill(self, train, *names):
        """Kills processes of a training, and waits until it trains on."""
        children = {name: pid for pid, name in children_of(train.pid)}
        for name in names:
            os.kill(children[name], signal.SIGKILL)
        before = self.clock()
        wait_until(lambda: self.clock() > before + 50, 60, "clocks after the losses")
        return children

    def assert_ends_well(self, train, *names):
        """The summary names those that were started again, and no other ones."""
        out, error = train.communicate(timeout=600)
        self.assertEqual(train.returncode, 0, error)
        found = re.findall(r"started again: (\S+) was killed by signal 9", out)
        self.assertEqual(sorted(found), sorted(names), out)

    def test_train_starts_a_killed_server_and_a_killed_worker_again_and_ends_well(self):
        train = self.train(servers=2)
        self.wait_for_backups()
        children = self.kill(train, "server1", "worker1")
        self.assertEqual(sorted(children), ["coordinator", "server0", "server1", "worker0",
                                            "worker1"])
        self.assert_ends_well(train, "server1", "worker1")

    def test_a_training_that_a_user_ends_says_what_was_started_again(self):
        train = self.train(servers=2)
        self.wait_for_backups()
        self.kill(train, "server1")
        train.send_signal(signal.SIGINT)
        _, error = train.communicate(timeout=60)
        self.assertEqual(train.returncode, 130)
        self.assertIn("started again: server1 was killed by signal 9", error)

    def test_train_with_three_servers_replaces_one_and_then_another(self):
        train = self.train(servers=3)
        for victim in ("server2", "server0"):
            self.wait_for_backups()
            self.kill(train, victim)
            wait_until(lambda: sorted(s["server"] for s in self.status()["jobs"][0]["shards"])
                       == ["server0", "server1", "server2"], 60, "a shard at each server again")
        self.assert_ends_well(train, "server2", "server0")


if __name__ == "__main__":
    unittest.main()
