"""Readers that follow a job: models of one version while it trains."""

import re
import signal
import socket
import subprocess
import textwrap
import time
import urllib.request

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

# Each line is a clock, with updates of which no two values are the same.
STEP = """
    import sys, numpy, tautline
    random = numpy.random.default_rng(7)
    with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
        tables = [me.table(name, numpy.zeros(size, numpy.float32))
                  for name, size in (("big", 1100000), ("small", 3))]
        for line, clock in zip(sys.stdin, me.clocks(1 << 30)):
            for table in tables:
                me.push(table, random.standard_normal(table.shape, numpy.float32))
            for table in tables: me.pull(table)
            print(clock + 1, flush=True)
    """

# Each line is a version to pull.
READ = """
    import hashlib, sys, tautline
    job = tautline.connect(sys.argv[1]).job(int(sys.argv[2]))
    with tautline.follow(job, name=sys.argv[3], **eval(sys.argv[4])) as follower:
        for line in sys.stdin:
            model = follower.pull(at_least=int(line), wait_s=30)
            bits = hashlib.sha256(b"".join(model[name].tobytes() for name in sorted(model)))
            print(model.version, bits.hexdigest(), follower.passed_on(), flush=True)
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
            f"this follower of job {job} was closed; follow again",
            f"this follower of job {job} was closed; follow again",
            'job 77 does not exist; "tautline status" lists the jobs'])
        member.kill()

    def test_a_follower_may_be_closed_while_another_thread_pulls(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP")
        follower = self.follow("""
            import threading
            for i in range(10):
                def read(follower):
                    for model in follower: raise AssertionError("no member has trained")
                    ended.append(follower)
                follower, ended = tautline.follow(job), []
                thread = threading.Thread(target=read, args=[follower])
                thread.start()
                time.sleep(0.02 * i)
                follower.close()
                follower.close()
                thread.join()
                assert ended == [follower]
                try: follower.pull()
                except tautline.StoppedError as error: print(error)
            # A program may end in the middle of a pull.
            threading.Thread(target=tautline.follow(job).pull, daemon=True).start()
            time.sleep(0.1)
            """, job)
        out = self.result(follower)
        self.assertEqual(out.splitlines(), [
            f"this follower of job {job} was closed; follow again"] * 10)

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
            near = first
            while near.version == first.version:  # until more than 3 clocks are over
                time.sleep(0.05)
                near = follower.pull(max_behind=3)
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
        # The status is a little late: training stops at the bound before the lease ends.
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


class Relays(FollowedJobs):
    """Followers that pass models on."""

    MODEL_BYTES = 4 * (1100000 + 3)

    def program(self, *arguments):
        process = super().program(*arguments)
        self.addCleanup(process.stdin.close)
        return process

    def start_job(self, more=""):
        self.start_cluster(more_of_daemon='http { metrics: "127.0.0.1:0" }')
        job = self.submit(1, "mode: BSP", more)
        return job, self.program(STEP, self.coordinator, job)

    def start_cluster(self, more_of_daemon):
        self.start_daemon("server", "coordinator",
                          "shards: 0 coordinator { heartbeat_limit_s: 2 worker_wait_s: 60 }")
        self.coordinator = self.addresses("coordinator")["coordinator"][0]
        for i in range(2):
            self.start_daemon("server", f"server{i}", "shards: 2", more=more_of_daemon)

    def reader(self, job, name, **options):
        return self.program(READ, self.coordinator, job, name, repr(options))

    def relays(self, job, count, **options):
        """A chain: each is known before the next begins."""
        relays = []
        for i in range(count):
            relays.append(self.reader(job, f"relay{i}", relay=True, **options))
            self.await_source(job, f"relay{i}", f"relay{i - 1}" if i > 0 else "")
        return relays

    def await_source(self, job, name, source):
        def is_so():
            found = [one for one in self.job_status(job)["followers"] if one["name"] == name]
            return found and found[0]["passes_on"] and found[0].get("source", "") == source
        wait_until(is_so, what=f"{name} reads from {source or 'the servers'}")

    def line(self, program, said):
        program.stdin.write(f"{said}\n")
        program.stdin.flush()

    def step(self, member, readers):
        """A clock, whose version each of them has asked for before. Returns what they have."""
        self.version = getattr(self, "version", 1) + 1
        for reader in readers:
            self.line(reader, self.version)
        self.line(member, "")
        self.assertEqual(int(self.answer(member)[0]), self.version)
        return [self.answer(reader) for reader in readers]

    def answer(self, program):
        line = program.stdout.readline()
        self.assertTrue(line, "" if program.poll() is None else program.stderr.read())
        return line.split()

    def sent(self):
        """Payload bytes that left the servers so far."""
        total = 0
        for name in ("server0", "server1"):
            request = urllib.request.Request(f"http://{self.addresses(name)['http'][0]}/metrics")
            request.add_header("Authorization", f"Bearer {self.token('read')}")
            with urllib.request.urlopen(request, timeout=10) as answer:
                text = answer.read().decode()
            total += sum(map(float, re.findall(
                r'^tautline_shard_bytes_total\{.*direction="out".*\} (\S+)$', text, re.MULTILINE)))
        return total

    def test_a_chain_of_three_gives_the_bits_of_a_plain_follower(self):
        job, member = self.start_job("followers { slack: 1000 }")
        plain = self.reader(job, "plain")
        # One that training waits for may pass on too.
        chain = self.relays(job, 3, bounded=True)
        seen = set()
        for _ in range(10):
            models = self.step(member, [plain, *chain])
            self.assertEqual({tuple(model[:2]) for model in models},
                             {(str(self.version), models[0][1])})
            seen.add(models[0][1])
        self.assertEqual(len(seen), 10)
        passed = [int(model[2]) for model in models]
        self.assertEqual((passed[0], passed[3]), (0, 0))
        self.assertGreaterEqual(min(passed[1:3]), 10 * self.MODEL_BYTES)

    def test_the_servers_send_each_model_once_however_many_pass_it_on(self):
        job, member = self.start_job()
        chain = self.relays(job, 4)
        self.step(member, chain)

        def sent_in_five_clocks(readers):
            before = self.sent()
            for _ in range(5):
                self.step(member, readers)
            return (self.sent() - before) / (5 * self.MODEL_BYTES)
        alone = sent_in_five_clocks([])
        one, all_of_them = (sent_in_five_clocks(chain[:count]) - alone for count in (1, 4))
        self.assertAlmostEqual(one, 1, delta=0.01)
        self.assertAlmostEqual(all_of_them, 1, delta=0.01)

    def test_those_behind_a_relay_that_is_killed_go_on_from_elsewhere(self):
        job, member = self.start_job()
        plain, chain = self.reader(job, "plain"), self.relays(job, 3)
        self.step(member, [plain, *chain])
        chain[1].kill()
        for _ in range(3):
            ours, first, last = self.step(member, [plain, chain[0], chain[2]])
            self.assertEqual(ours[:2], first[:2])
            self.assertEqual(ours[:2], last[:2])
        self.await_source(job, "relay2", "relay0")
        before = int(first[2])
        ours, first, last = self.step(member, [plain, chain[0], chain[2]])
        self.assertEqual(ours[:2], last[:2])
        self.assertEqual(int(first[2]) - before, self.MODEL_BYTES)

    def test_what_a_relay_cannot_listen_at_or_with_is_said(self):
        job, _ = self.start_job()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            place = f"127.0.0.1:{taken.getsockname()[1]}"
            out = self.run_python("""
                import sys, tautline
                job = tautline.connect(sys.argv[1]).job(int(sys.argv[2]))
                for relay in (sys.argv[3], "192.0.2.1:0", "nowhere", "", 5):
                    try:
                        tautline.follow(job, relay=relay)
                    except tautline.InvalidError as wrong:
                        print(wrong)
                """, self.coordinator, job, place)
        remedy = '; name another HOST:PORT, or ":0" for any port that is free'
        begin = "this follower cannot pass models on at "
        self.assertEqual(out.splitlines(), [
            f"{begin}{place}: the port is in use by another process{remedy}",
            f"{begin}192.0.2.1:0: cannot listen there: Cannot assign requested address{remedy}",
            f"{begin}nowhere: cannot listen there: Invalid argument{remedy}",
            "relay is ''; it must be True, False or \"HOST:PORT\"",
            'relay is 5; it must be True, False or "HOST:PORT"'])
        self.assertEqual(self.tautline("keys", "init", "--keys", "all").returncode, 0)
        self.assertEqual(self.tautline("keys", "add", "reader", "--role", "view", "--keys",
                                       "all").returncode, 0)
        few = self.folder / "few"
        few.mkdir(mode=0o700)
        (self.folder / "all/reader.key").rename(few / "reader.key")
        out = self.run_python("""
            import sys, tautline
            for name in ("reader", "other"):
                try:
                    tautline.follow(sys.argv[1], 1, keys=sys.argv[2], name=name, relay=True)
                except tautline.TautlineError as wrong:
                    print(wrong)
            """, self.coordinator, few)
        listens = "a follower that passes models on listens, as servers do: "
        reader, other = out.splitlines()
        self.assertEqual(reader, f"{listens}{few}/reader.key: has the role view; a server's key "
                                 "must have the role server")
        self.assertTrue(other.startswith(listens), other)
        self.assertIn('server "other" has no key: run "tautline keys add other --role server" '
                      f"where the cluster's keys are, and copy {few}/other.key here", other)
