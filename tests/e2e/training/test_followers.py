"""Readers that follow a job: models of one version while it trains."""

import re
import signal
import subprocess
import textwrap
import time

from cluster import SLOWER, SOURCE, wait_until
from training.python_members import PythonMembers

# Each clock adds 1 to every value, so that a model of version v holds v - 1 everywhere in BSP.
TRAIN = """
    import sys, time, numpy, tautline
    job, clocks, pause = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    with tautline.connect(sys.argv[1]).job(job).member() as me:
        tables = [me.table("big", numpy.zeros(600000, numpy.float32)),
                  me.table("small", numpy.zeros((2, 3), numpy.float32))]
        for clock in me.clocks(clocks):
            for table in tables: me.push(table, numpy.full(table.shape, -4, numpy.float32))
            for table in tables: me.pull(table)
            time.sleep(pause)
    """

FOLLOW = """
    import sys, time, numpy, tautline
    job = tautline.connect(sys.argv[1]).job(int(sys.argv[2]))
    follower = tautline.follow(job)
    """


class FollowedJobs(PythonMembers):
    def start_cluster(self, servers=2, settings="heartbeat_limit_s: 2 worker_wait_s: 60", more=""):
        self.settings = f'shards: 0 coordinator {{ {settings} }}'
        self.brain = self.start_daemon("server", "coordinator", self.settings)
        self.coordinator = self.addresses("coordinator")["coordinator"][0]
        self.servers = [self.start_daemon("server", f"server{i}", f"shards: 2 {more}")
                        for i in range(servers)]

    def program(self, code, *arguments):
        process = subprocess.Popen(
            [self.interpreter, "-c", textwrap.dedent(code), *map(str, arguments)],
            env=self.environment, cwd=self.folder, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def train(self, job, clocks, pause=0.0):
        return self.program(TRAIN, self.coordinator, job, clocks, pause)

    def follow(self, code, *arguments):
        return self.program(textwrap.dedent(FOLLOW) + textwrap.dedent(code), self.coordinator,
                            *arguments)

    def clock(self, job):
        return int(self.job_status(job)["workers"][0]["progress"]["clock"])


class Followers(FollowedJobs):
    def test_a_model_is_of_one_version_while_the_job_trains(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP")
        reader = self.follow("""
            last = 0
            while last < 200:
                model = follower.pull(at_least=last + 1)
                assert set(model) == {"big", "small"} and model["small"].shape == (2, 3)
                held = numpy.unique(numpy.concatenate([one.ravel() for one in model.values()]))
                assert held.tolist() == [model.version - 1], (held, model.version)
                assert model.version > last
                last = model.version
            print("whole")
            """, job)
        members = [self.train(job, 300) for _ in range(2)]
        self.assertEqual(self.result(reader), "whole\n")
        for member in members:
            self.result(member)

    def test_in_ssp_and_async_a_model_holds_what_its_version_says(self):
        self.start_cluster(servers=1)
        for mode in ("mode: SSP slack: 2", "mode: ASYNC"):
            job = self.submit(2, mode, 'reduction: SUM')
            reader = self.follow("""
                seen = []
                for model in follower:
                    held = min(one.min() for one in model.values())
                    assert held >= 2 * (model.version - 1), (held, model.version)
                    seen.append(model.version)
                assert seen == sorted(set(seen)) and seen[-1] == 101, seen
                assert model["big"].min() == model["big"].max() == 200
                try:
                    follower.pull()
                except tautline.StoppedError as over:
                    print(over)
                """, job)
            wait_until(lambda: self.job_status(job)["followers"], what="the follower")
            members = [self.train(job, 100) for _ in range(2)]
            self.assertEqual(self.result(reader), f"job {job} is over: it is done; the last "
                                                  "version that was read is 101\n")
            for member in members:
                self.result(member)

    def test_a_version_that_does_not_come_is_an_error_that_says_what_it_waited_for(self):
        self.start_cluster(servers=1)
        job = self.submit(1, "mode: BSP")
        out = self.result(self.follow("""
            def fails(**wish):
                begin = time.monotonic()
                try:
                    follower.pull(wait_s=1, **wish)
                except tautline.DeadlineError as late:
                    assert 1 <= time.monotonic() - begin < 3
                    print(late)
            fails()
            """, job))
        self.assertEqual(out, f"no version 0 or later of job {job} in 1 s: the job has not "
                              "started: waits for 1 more member: 1 required, 0 joined\n")
        member = self.train(job, 1000, 0.05)
        out = self.result(self.follow("""
            assert follower.pull().version >= 1
            try:
                follower.pull(at_least=100000, wait_s=1)
            except tautline.DeadlineError as late:
                assert "no version 100000 or later of job" in str(late), late
                assert "the newest version is " in str(late), late
            for wrong in (dict(max_behind=-1), dict(wait_s=-1)):
                try:
                    follower.pull(**wrong)
                except tautline.InvalidError as invalid:
                    print(invalid)
            follower.close()
            for call in (follower.pull, follower.traffic):
                try:
                    call()
                except tautline.StoppedError as closed:
                    print(closed)
            try:
                tautline.follow(sys.argv[1], 77).pull()
            except tautline.UnavailableError as unknown:
                print(unknown)
            """, job))
        self.assertEqual(out.splitlines(), [
            "max_behind is -1; it must be at least 0 clocks",
            "wait_s is -1; it must be at least 0 seconds",
            f"this follower of job {job} was closed; follow anew",
            f"this follower of job {job} was closed; follow anew",
            'job 77 does not exist; "tautline status" lists the jobs'])
        member.kill()

    def test_what_is_here_will_do_where_it_is_new_enough(self):
        self.start_cluster(servers=1)
        job = self.submit(1, "mode: BSP")
        member = self.train(job, 10000, 0.02)
        self.assertEqual(self.result(self.follow("""
            first = follower.pull()
            begin = follower.traffic()
            assert begin == sum(one.nbytes for one in first.values()), begin
            again = follower.pull(max_behind=100000)
            assert again.version == first.version and follower.traffic() == begin
            time.sleep(0.5)
            near = follower.pull(max_behind=3)
            assert near.version > first.version
            assert first["big"][0] == first.version - 1   # it stays as it was
            print("near")
            """, job)), "near\n")
        member.kill()

    def test_a_shard_that_is_taken_over_and_a_coordinator_that_restarts_cost_only_time(self):
        self.start_cluster(servers=3, settings=(
            f'heartbeat_limit_s: 1 worker_wait_s: 60 replication {{ interval: 2 }} '
            f'state_folder: "{self.folder / "state"}"'))
        job = self.submit(2, "mode: BSP")
        members = [self.train(job, 100000, 0.01) for _ in range(2)]
        reader = self.follow("""
            for model in follower:
                held = {float(value) for one in model.values() for value in (one.min(), one.max())}
                assert held == {model.version - 1}, (held, model.version)
                print(model.version, flush=True)
            """, job)

        def read():
            return int(reader.stdout.readline())
        read()
        wait_until(lambda: (shards := self.job_status(job).get("shards", []))
                   and all(one.get("is_protected") for one in shards), what="backups")
        self.servers[1].kill()
        self.servers[1].wait()
        lost = int(self.job_status(job)["workers"][0]["progress"]["clock"])
        while read() < lost + 50:
            pass
        self.brain.kill()
        self.brain.wait()
        begin = read()
        while read() < begin + 30:   # the servers alone give it what it needs
            pass
        self.brain = self.start_daemon("server", "coordinator", self.settings)
        wait_until(lambda: self.job_status(job)["followers"], what="the follower's report")
        begin = read()
        while read() < begin + 30:
            pass
        self.assertIsNone(reader.poll())
        for process in (reader, *members):
            process.kill()

    def test_a_reader_that_is_stopped_holds_nothing_back(self):
        self.start_cluster(servers=1)
        job = self.submit(1, "mode: BSP")
        member = self.train(job, 100000, 0.005)
        reader = self.follow("""
            follower.pull()
            print("pulled", flush=True)
            while True: follower.pull()
            """, job)
        self.assertEqual(reader.stdout.readline(), "pulled\n")
        reader.send_signal(signal.SIGSTOP)
        for _ in range(3):
            before = self.clock(job)
            wait_until(lambda: self.clock(job) > before + 20, what="clocks")
        time.sleep(0.1 * SLOWER)
        member.kill()
        reader.kill()


class BoundedFollowers(FollowedJobs):
    """Readers that training waits for."""

    LEASE, SLACK = 5, 4

    def start_job(self):
        self.start_cluster(servers=1)
        job = self.submit(1, "mode: BSP",
                          f"followers {{ slack: {self.SLACK} lease_s: {self.LEASE} }}")
        return job, self.train(job, 100000, 0.005)

    def reader(self, job):
        """One that pulls once, and again for each line that it gets."""
        reader = self.follow("""
            follower = tautline.follow(job, name="reader", bounded=True)
            print(follower.pull().version, flush=True)
            for line in sys.stdin:
                try:
                    print(follower.pull().version, flush=True)
                except tautline.LostError as lost:
                    print(lost, flush=True)
            """, job)
        return reader, int(reader.stdout.readline())

    def pull_again(self, reader):
        reader.stdin.write("\n")
        reader.stdin.flush()
        return reader.stdout.readline()

    def assert_held(self, job, version, seconds):
        """Training does not get further than the slack ahead of a version."""
        wait_until(lambda: self.clock(job) >= version + self.SLACK, what="the bound")
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.assertLessEqual(self.clock(job), version + self.SLACK)
            time.sleep(0.05)

    def assert_goes_on(self, job, seconds):
        before = self.clock(job)
        wait_until(lambda: self.clock(job) > before + 50, seconds, "clocks")

    def test_a_follower_that_does_not_pull_holds_training_back_so_far_and_no_further(self):
        job, member = self.start_job()
        reader, version = self.reader(job)
        self.assert_held(job, version, self.LEASE + 2)  # it lives: its lease does not end
        for _ in range(3):
            version = int(self.pull_again(reader))
        self.assert_held(job, version, 1)
        status = self.job_status(job)
        self.assertEqual([one["name"] for one in status["followers"]], ["reader"])
        self.assertEqual(int(status["followers"][0]["version"]), version)
        self.assertIn("reader", self.ask("status").stdout)
        reader.stdin.close()  # its program ends, and says so
        self.assert_goes_on(job, self.LEASE)
        self.assertEqual(self.job_status(job)["followers"], [])
        member.kill()

    def test_a_killed_follower_costs_its_lease_and_a_stopped_one_learns_that_it_was_cut(self):
        job, member = self.start_job()
        reader, version = self.reader(job)
        # What status says is a little late: training stands at the bound before the lease ends.
        self.assert_held(job, version, 0)
        reader.kill()
        self.assert_held(job, version, 1)
        self.assert_goes_on(job, self.LEASE + 2 * SLOWER)
        self.assertEqual(int(self.job_status(job)["cut_followers"]), 1)
        reader, version = self.reader(job)
        self.assert_held(job, version, 0)
        reader.send_signal(signal.SIGSTOP)
        self.assert_held(job, version, 1)
        self.assert_goes_on(job, self.LEASE + 2 * SLOWER)
        reader.send_signal(signal.SIGCONT)
        # What it asks for first may still be answered; then it is told.
        wait_until(lambda: "was silent for longer than its lease" in self.pull_again(reader),
                   what="the follower's knowledge of its loss")
        member.kill()

    def test_a_job_says_whether_followers_may_hold_it_back(self):
        self.start_cluster(servers=1)
        job = self.submit(1, "mode: BSP")
        out = self.result(self.follow("""
            try:
                tautline.follow(job, bounded=True).pull(wait_s=20)
            except tautline.UnavailableError as refused:
                print(refused)
            """, job))
        self.assertEqual(out, f"job {job}: its text lets no follower hold training back; submit it "
                              'with "followers { slack: N }", or follow without a bound\n')
        wrong = self.file("wrong.textproto", 'external_members: true workers: 1 solver_param { '
                          'type: "SGD" base_lr: 1 } followers { lease_s: 0.1 }')
        self.assert_fails(self.ask("submit", wrong),
                          "followers.lease_s is 0.1; it must be between 0.5 and 86400")

    def test_actors_play_with_a_policy_that_is_never_too_old(self):
        done = subprocess.run(
            [self.interpreter, SOURCE / "python/examples/actor_learner.py", "--actors", "2",
             "--clocks", "200", "--slack", "4"], env=self.environment, cwd=self.folder,
            capture_output=True, text=True, timeout=100 * SLOWER, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        first, last, oldest = re.search(
            r"reward ([\d.]+) at first, ([\d.]+) in the end; .*, (\d+) at most",
            done.stdout).groups()
        self.assertLess(float(first), 0.7)
        self.assertGreater(float(last), 0.8)
        # The slack, and as long as an actor's batch waits in the queue behind others.
        self.assertLessEqual(int(oldest), 4 + 2 + 2)
