"""Programs as members of a job: the Python package over libtautline.so, on real servers."""

import json
import pathlib
import signal
import time

from cluster import SLOWER, wait_until
from training.python_members import PythonMembers


# Members of this loop agree on 3 + the mean of their shares.
TRAIN = """
    import sys, time
    import numpy, tautline
    cluster = tautline.connect(sys.argv[1], wait_s=20)
    job = cluster.job(int(sys.argv[2]))
    clocks, pause = int(sys.argv[3]), float(sys.argv[4])
    with job.member() as me:
        print("joined", me.slot, me.clock, flush=True)
        w = me.table("w", numpy.full(1000, 5.0 + me.slot))
        b = me.table("b", numpy.zeros((2, 3)))
        for clock in me.clocks(clocks):
            me.push(w, w.value - (3 + me.slot))
            me.push(b, numpy.ones((2, 3)))
            time.sleep(pause)
            me.pull(w)
            me.pull(b)
            me.report(loss=float(abs(w.value).sum()), items=8)
        stale = max(me.staleness())
    print("end", w.value.tobytes().hex()[:64], round(float(w.value[0]), 5), b.value[1][2], stale)
"""


class PythonTest(PythonMembers):
    def members(self, job, count, clocks=20, pause=0):
        return [self.program(TRAIN, self.coordinator, job, clocks, pause) for _ in range(count)]

    def test_one_member_of_a_local_cluster_trains_and_finishes(self):
        out = self.run_python("""
            import numpy, tautline
            with tautline.local(servers=2) as cluster:
                job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1, slack=2)
                print(job.status()["message"])
                with job.member() as me:
                    w = me.table("w", numpy.zeros(10))
                    for clock in me.clocks(100):
                        me.push(w, 2 * (w.value - 3))
                        me.pull(w)
                print(job.wait(20), abs(w.value - 3).max() < 1e-5, me)
            """)
        self.assertEqual(out.splitlines()[0], "waits for 1 more member: 1 required, 0 joined")
        self.assertIn("DONE True", out)

    def test_threads_share_a_cluster_until_one_of_them_closes_it(self):
        self.start_cluster()
        out = self.run_python("""
            import sys, threading, time, tautline
            cluster = tautline.connect(sys.argv[1], wait_s=20)
            job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1)
            counts, closed = [0, 0, 0], []
            def repeat(which, call):
                try:
                    while True:
                        call()
                        counts[which] += 1
                except tautline.StoppedError as error:
                    closed.append(str(error))
            def set_slack(): job.slack = 4
            threads = [threading.Thread(target=repeat, args=[which, call]) for which, call in
                       enumerate([job.status, set_slack, cluster.status])]
            for thread in threads: thread.start()
            time.sleep(1)
            cluster.close()
            for thread in threads: thread.join()
            print(min(counts) > 3, len(closed), closed[0])
            """, self.coordinator)
        self.assertEqual(out.strip(), f"True 3 this connection to {self.coordinator} was closed; "
                                      "connect again")

    def test_a_handler_of_signals_may_stop_the_job_that_its_program_waits_for(self):
        self.start_cluster()
        out = self.run_python("""
            import signal, sys, tautline
            job = tautline.connect(sys.argv[1], wait_s=20).submit(tautline.SGD(lr=0.1), workers=1)
            calls = []
            def look(*_):
                calls.append(job.state)
                if len(calls) == 200:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    job.stop(discard=True)
            signal.signal(signal.SIGALRM, look)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            print(job.wait(30), len(calls))
            """, self.coordinator)
        state, calls = out.split()
        self.assertEqual(state, "STOPPED")
        self.assertGreaterEqual(int(calls), 200)  # a signal may arrive while another one is handled

    def test_the_servers_of_a_local_cluster_end_with_a_program_that_is_killed(self):
        program = self.program("""
            import time, tautline
            cluster = tautline.local(servers=2)
            print(*[server.pid for server in cluster._servers], flush=True)
            time.sleep(600)
            """)
        servers = [int(pid) for pid in program.stdout.readline().split()]
        self.assertEqual(len(servers), 3)
        program.kill()

        def has_ended(pid):
            try:
                state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                return True
            return state == "Z"  # nothing may be there to collect it
        wait_until(lambda: all(map(has_ended, servers)), what="the servers' ends")

    def test_members_in_bsp_repeat_bit_for_bit_and_agree_with_the_rule(self):
        self.start_cluster()
        ends = []
        for _ in range(2):
            job = self.submit(2, "mode: BSP")
            outs = [self.result(one) for one in self.members(job, 2)]
            self.wait_for_job(job, "DONE")
            ends.append({out.splitlines()[-1] for out in outs})
        self.assertEqual(len(ends[0]), 1, "both members have the same values")
        self.assertEqual(ends[0], ends[1])
        _, _, w, b, stale = ends[0].pop().split()
        # Seeded with 5 by the member of share 0; the mean gradient is w - 3.5.
        self.assertAlmostEqual(float(w), 3.5 + 1.5 * 0.75**20, places=4)
        self.assertAlmostEqual(float(b), -5, places=4)
        self.assertEqual(stale, "0")

    def test_the_slack_of_members_bounds_their_reads_and_changes_while_they_run(self):
        self.start_cluster()
        job = self.submit(2, "mode: SSP slack: 1")
        fast, slow = self.members(job, 1)[0], self.program(TRAIN, self.coordinator, job, 20,
                                                              0.05 * SLOWER)
        wait_until(lambda: self.job_status(job)["state"] == "RUNNING")
        self.assertEqual(self.ask("set-slack", job, 3).returncode, 0)
        stale = [int(self.result(one).split()[-1]) for one in (fast, slow)]
        self.assertLessEqual(max(stale), 3)
        ended = self.wait_for_job(job, "DONE")
        self.assertEqual(int(ended["slack"]), 3)
        self.assertEqual([int(w["progress"]["clock"]) for w in ended["workers"]], [21, 21])
        self.assertEqual([int(w["progress"]["images"]) for w in ended["workers"]], [160, 160])

    def test_a_member_that_is_killed_is_started_again(self):
        self.start_cluster()
        job = self.submit(2, "mode: SSP slack: 2")
        kept, killed = self.members(job, 2, clocks=120, pause=0.02 * SLOWER)
        wait_until(lambda: int(self.job_status(job)["workers"][-1]["progress"]["clock"]) > 5
                   if self.job_status(job)["workers"] else None)
        killed.kill()
        killed.wait()
        wait_until(lambda: "lost" in json.dumps(self.job_status(job)).lower())
        again = self.members(job, 1, clocks=120, pause=0.02)[0]
        self.result(kept)
        joined = self.result(again).splitlines()[0].split()
        self.assertGreater(int(joined[2]), 1, "it joins at a later clock than the first")
        self.wait_for_job(job, "DONE")

    def test_a_job_whose_members_have_left_waits_for_others(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP")
        leave = """
            import sys, numpy, tautline
            me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
            w = me.table("w", numpy.full(4, 9.0))
            for clock in me.clocks(me.clock + 4):
                me.push(w, numpy.ones(4)); me.pull(w)
            me.leave()
            print(clock, w.value[0])
            """
        self.assertEqual(self.run_python(leave, self.coordinator, job), "5 7.75\n")
        wait_until(lambda: "waits for a member" in self.job_status(job)["message"])
        self.assertEqual(self.run_python(leave, self.coordinator, job), "10 6.5\n")
        self.assertEqual(self.job_status(job)["state"], "RUNNING")

    def test_a_program_that_raises_leaves_at_once_and_says_so(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP")
        process = self.program("""
            import sys, numpy, tautline
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                w = me.table("w", numpy.zeros(4))
                for clock in me.clocks():
                    raise ValueError("no such batch")
            """, self.coordinator, job)
        self.assertIn("ValueError: no such batch", self.result(process, status=1))
        status = wait_until(lambda: self.job_status(job)["message"], 3)
        self.assertIn("ValueError: no such batch", status)

    def test_tables_of_the_jobs_text_start_from_their_fillers_whatever_the_servers(self):
        tables = """tables { name: "w" shape: [40, 3] filler { type: "xavier" } }
                    tables { name: "b" shape: 3 kind: AVERAGED } seed: 7"""
        train = """
            import sys, numpy, tautline
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                assert me.job_tables() == {"w": ((40, 3), "trained"), "b": ((3,), "averaged")}
                b, w = me.table("b"), me.table("w", numpy.full((40, 3), 9))
                me.open()
                print(w.value.tobytes().hex(), b.value)
                for clock in me.clocks(3):
                    me.push(b, numpy.full(3, 4.0 * (me.slot + 1))); me.push(w, numpy.ones((40, 3)))
                    me.pull(b); me.pull(w)
            print(clock, b.value, w.value.tobytes().hex())
            """
        outs = set()
        self.start_cluster()
        for workers in (1, 2):
            job = self.submit(workers, "mode: BSP", tables)
            members = [self.program(train, self.coordinator, job) for _ in range(workers)]
            lines = [self.result(one).splitlines() for one in members]
            outs |= {(one[0], one[1].split()[-1]) for one in lines}
            self.assertEqual(lines[0][1].split()[0], "3")
            self.assertIn("[4. 4. 4.]" if workers == 1 else "[6. 6. 6.]", lines[0][1])
            self.wait_for_job(job, "DONE")
        self.assertEqual(len(outs), 1, "the same values from the same seed, trained the same way")
        self.assertTrue(outs.pop()[0].endswith(" [0. 0. 0.]"))

    def test_a_member_whose_tables_differ_from_the_text_is_refused(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP", 'tables { name: "w" shape: [2, 3] } '
                                          'tables { name: "bias" shape: 3 }')
        out = self.run_python("""
            import sys, numpy, tautline
            me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
            def fails(*words):
                try:
                    me.table(*words)
                except tautline.TautlineError as error:
                    print(type(error).__name__, error)
            fails("w", numpy.ones((3, 2)))
            fails("w", numpy.ones((2, 3)), "averaged")
            fails("bia", numpy.ones(3))
            fails("other")
            me.table("w")
            try:
                me.open()
            except tautline.TautlineError as error:
                print(type(error).__name__, error)
            me.table("bias"); me.open(); me.finish()
            """, self.coordinator, job)
        self.assertEqual(out.splitlines(), [
            'MismatchError table "w" has shape 2x3 in the job\'s text, but this member\'s has 3x2',
            'MismatchError table "w" of shape 2x3 is trained in the job\'s text, but this '
            "member's is averaged",
            'MismatchError table "bia" of shape 3 is not in the job\'s text; did you mean "bias"?; '
            'it has "w" of shape 2x3, "bias" of shape 3',
            "InvalidError table 'other' is not in the job's text, so it needs initial values: "
            'me.table(name, init)',
            'MismatchError table "bias" of shape 3 is in the job\'s text, but was not added; add '
            'all of its tables'])
        bad = self.file("bad.textproto", """external_members: true workers: 1
            solver_param { base_lr: 1 }
            tables { name: "w" shape: 0 }""")
        for command in ("validate", "submit"):
            self.assert_fails(self.ask(command, bad) if command == "submit" else
                              self.tautline(command, bad),
                              f"{bad}:3:32: table \"w\" has shape 0")

    def test_a_job_is_finished_by_request(self):
        self.start_cluster()
        folder = self.folder / "saved"
        job = self.submit(1, "mode: BSP", f'checkpoint {{ folder: "{folder}" }}')
        process = self.members(job, 1, clocks=100000, pause=0.01)[0]
        wait_until(lambda: self.job_status(job)["workers"] and
                   int(self.job_status(job)["workers"][0]["progress"]["clock"]) > 5)
        answer = self.ask("finish", job)
        self.assertEqual((answer.returncode, answer.stdout),
                         (0, f"job {job} is saved, then it is done\n"))
        self.assertIn("StoppedError", self.result(process, status=1))
        ended = self.wait_for_job(job, "DONE")
        self.assertIn("finished by request; saved at clock", ended["message"])
        self.assertEqual(len(ended["checkpoints"]), 1)
        self.assert_fails(self.ask("finish", job), "has ended")
        # One that all members have left for now, by the package.
        again = self.submit(1, "mode: BSP")
        out = self.run_python("""
            import sys, numpy, tautline
            job = tautline.connect(sys.argv[1]).job(int(sys.argv[2]))
            me = job.member()
            w = me.table("w", numpy.zeros(4))
            for clock in me.clocks(3):
                me.push(w, w.value); me.pull(w)
            me.leave()
            job.finish()
            print(job.wait(30), job.status()["message"])
            """, self.coordinator, again)
        self.assertTrue(out.startswith("DONE finished by request; saved at clock 4: "), out)

    def test_what_trains_by_itself_refuses_a_job_of_programs(self):
        job = self.file("members.textproto", """external_members: true workers: 1
            solver_param { base_lr: 1 }""")
        for command in (("train", job), ("sweep", job, "--slack", "0,1")):
            self.assert_fails(self.tautline(*command), "its members are external programs",
                              "tautline submit")

    def test_the_line_of_a_job_that_is_waited_for_leaves_lost_members_out(self):
        out = self.run_python("""
            import tautline.cluster
            class Line:
                def show(self, done, **figures): print(done, figures["members"])
            def member(state, clock): return {"state": state, "progress": {"clock": str(clock)}}
            tautline.cluster._show(Line(), {
                "state": "RUNNING", "rate": 0, "rate_unit": "",
                "workers": [member("PROCESS_LOST", 3), member("PROCESS_RUNNING", 9)]})
            """)
        self.assertEqual(out.strip(), "8 1")

    def test_a_folder_of_checkpoints_may_be_a_path(self):
        self.start_cluster()
        out = self.run_python("""
            import pathlib, sys, numpy, tautline
            job = tautline.connect(sys.argv[1]).submit(
                tautline.SGD(lr=0.5), workers=1,
                checkpoint={"folder": pathlib.Path(sys.argv[2]), "every": 2})
            with job.member() as me:
                w = me.table("w", numpy.ones(4))
                for clock in me.clocks(4):
                    me.push(w, w.value)
                    me.pull(w)
            print(job.wait(30))
            """, self.coordinator, self.folder / "kept")
        self.assertEqual(out.strip(), "DONE")
        self.assertTrue(any((self.folder / "kept").iterdir()))

    def test_ctrl_c_ends_a_wait_for_another_member(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP", "min_workers: 2")
        waits, other = self.members(job, 1)[0], self.members(job, 1, pause=100)[0]
        for process in (waits, other):
            self.assertIn("joined", process.stdout.readline())
        time.sleep(0.5)
        begin = time.monotonic()
        waits.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.result(waits, status=-signal.SIGINT))
        self.assertLess(time.monotonic() - begin, 3 * SLOWER)
        # One that waits for its place ends as soon.
        lonely = self.program(TRAIN, self.coordinator, self.submit(2, "mode: BSP"), 1, 0)
        time.sleep(1)
        lonely.send_signal(signal.SIGINT)
        self.assertIn("KeyboardInterrupt", self.result(lonely, status=-signal.SIGINT))

    def test_a_job_of_members_is_saved_stopped_and_continued(self):
        self.start_cluster()
        folder = self.folder / "saved"
        job = self.submit(1, "mode: BSP", f'checkpoint {{ folder: "{folder}" }}')
        process = self.members(job, 1, clocks=10000, pause=0.01)[0]
        wait_until(lambda: self.job_status(job)["workers"] and
                   int(self.job_status(job)["workers"][0]["progress"]["clock"]) > 5)
        self.assertEqual(self.ask("stop", job).returncode, 0)
        self.assertIn("StoppedError", self.result(process, status=1))
        stopped = self.wait_for_job(job, "STOPPED")
        clock = int(stopped["checkpoints"][0]["clock"])
        answer = self.ask("resume", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        again = int(answer.stdout.split()[1])
        out = self.result(self.members(again, 1, clocks=clock + 3)[0])
        self.assertIn(f"joined 0 {clock}\n", out)
        # Its end is a checkpoint too: of the clock after the last.
        ended = self.wait_for_job(again, "DONE")
        self.assertEqual(int(ended["checkpoints"][-1]["clock"]), clock + 4)

    def test_wrong_use_raises_what_says_what_and_the_way_out(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP")
        out = self.run_python("""
            import sys, threading, numpy, tautline
            def fails(kind, words, call):
                try:
                    call()
                except kind as error:
                    assert words in str(error), str(error)
                else:
                    raise AssertionError("nothing was raised: " + words)
            cluster = tautline.connect(sys.argv[1])
            fails(tautline.UnavailableError, "does not exist",
                  lambda: tautline.Job(cluster, 99).member())
            fails(tautline.InvalidError, "does not exist", lambda: cluster.job(99))
            fails(tautline.InvalidError, "whole number", lambda: cluster.submit(
                rule=tautline.SGD(lr=1), workers=1, slack=-1))
            fails(tautline.InvalidError, "at least 1", lambda: cluster.submit(
                rule=tautline.SGD(lr=1), workers=0))
            fails(tautline.DeadlineError, "no coordinator", lambda: tautline.connect(
                "127.0.0.1:1", wait_s=0.5))
            me = cluster.job(int(sys.argv[2])).member()
            fails(tautline.InvalidError, "element type", lambda: me.table("t", numpy.array(["a"])))
            fails(tautline.InvalidError, "is unknown", lambda: me.table("t", numpy.ones(2), "odd"))
            w = me.table("w", numpy.ones((2, 2)))
            fails(tautline.InvalidError, "added before", lambda: me.table("w", numpy.ones(2)))
            fails(tautline.InvalidError, "shape [2, 2]", lambda: me.push(w, numpy.ones(4)))
            fails(tautline.InvalidError, "in use already", lambda: me.table("x", numpy.ones(2)))
            fails(tautline.InvalidError, "was not pushed at clock 1", me.end_clock)
            me.push(w, numpy.ones((2, 2)))
            fails(tautline.InvalidError, "pushed at clock 1 before", lambda: me.push(w, w.value))
            fails(tautline.InvalidError, "was not pulled at clock 1", me.end_clock)
            fails(tautline.InvalidError, "which has not ended", me.leave)
            me.pull(w); me.end_clock()
            errors = []
            def snap():
                for _ in range(3000):
                    try: me.snapshot(w)
                    except tautline.InvalidError as error: errors.append(str(error))
            threads = [threading.Thread(target=snap) for _ in range(2)]
            [one.start() for one in threads]; [one.join() for one in threads]
            assert any("another thread" in one for one in errors), errors[:1]
            me.finish()
            fails(tautline.StoppedError, "has left its job", lambda: me.pull(w))
            assert cluster.job(int(sys.argv[2])).wait(10) == "DONE"
            fails(tautline.UnavailableError, "has ended", cluster.job(int(sys.argv[2])).member)
            print("all")
            """, self.coordinator, job)
        self.assertEqual(out, "all\n")

    def check_other_thread(self, end, *words):
        """A call that waits in another thread ends when the member does."""
        self.start_cluster()
        job = self.submit(2, "mode: BSP")
        self.program("""
            import sys, time, numpy, tautline
            me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
            w = me.table("w", numpy.zeros(4))
            me.open()
            time.sleep(100)
            """, self.coordinator, job)
        out = self.run_python("""
            import sys, threading, time, numpy, tautline
            errors = []
            def pull():
                try:
                    me.push(w, w.value); me.pull(w)
                except tautline.TautlineError as error: errors.append(error)
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                w = me.table("w", numpy.zeros(4))
                me.open()
                waits = threading.Thread(target=pull)
                waits.start()
                time.sleep(0.7)
                begin = time.monotonic()
                try:
                    """ + end + """
                except ValueError as error:
                    print(error)
                waits.join()
                assert time.monotonic() - begin < 3, "it waits for the other's deadline"
            print(type(errors[0]).__name__, errors[0])
            """, self.coordinator, job)
        for one in words:
            self.assertIn(one, out)
        return job

    def test_a_member_that_fails_ends_the_wait_of_another_thread_and_says_so(self):
        job = self.check_other_thread('me.fail("no such batch")', "StoppedError")
        wait_until(lambda: "no such batch" in self.job_status(job)["message"], 3)

    def test_a_member_that_is_closed_ends_the_wait_of_another_thread(self):
        self.check_other_thread("me.close()", "StoppedError this member was closed")

    def test_a_block_that_raises_ends_the_wait_of_another_thread(self):
        self.check_other_thread(
            'me.__exit__(ValueError, ValueError("no such batch"), None)', "StoppedError")

    def test_calls_before_a_place_and_waits_that_cannot_be_are_refused(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP")
        out = self.run_python("""
            import ctypes, math, sys, tautline
            from tautline import _library
            lib, handle = _library.lib, ctypes.c_void_p()
            def join(wait_s):
                return lib.tautline_join(sys.argv[1].encode(), None, int(sys.argv[2]), None, wait_s,
                                         ctypes.byref(handle))
            for wait_s in (math.nan, math.inf, -math.inf, -1.0, 1e300):
                assert join(wait_s) == 1 and b"a wait of " in lib.tautline_error()
                try: tautline.connect(sys.argv[1], wait_s=wait_s)
                except tautline.InvalidError as error: assert "a wait of " in str(error), error
                else: raise AssertionError(wait_s)
            for wait_s in (math.nan, -math.inf, -1.0, math.inf, 0.05):
                lib.tautline_set_patience(wait_s)
            assert join(20) == 0
            bins, info = (ctypes.c_uint64 * 4)(), _library.TableInfo()
            text = ctypes.c_void_p()
            for code in (lib.tautline_staleness(handle, bins, 4),
                         lib.tautline_job_table(handle, 0, ctypes.byref(info)),
                         lib.tautline_definition(handle, ctypes.byref(text))):
                assert code == 1 and b"has no place in its job yet" in lib.tautline_error(), code
            lib.tautline_close(handle)
            print("all")
            """, self.coordinator, job)
        self.assertEqual(out, "all\n")

    def test_a_table_may_be_a_single_value(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP", 'tables { name: "a" } tables { name: "b" shape: 2 }')
        other = self.submit(1, "mode: BSP")
        out = self.run_python("""
            import sys, numpy, tautline
            cluster = tautline.connect(sys.argv[1])
            with cluster.job(int(sys.argv[2])).member() as me:
                assert me.job_tables()["a"][0] == (), me.job_tables()
                a, b = me.table("a"), me.table("b")
                for clock in me.clocks(2):
                    me.push(a, 2.0); me.push(b, [1, 1]); me.pull(a); me.pull(b)
                print(a.shape, a.value, numpy.from_dlpack(a).shape, me.snapshot(a).shape)
            with cluster.job(int(sys.argv[3])).member() as me:
                a = me.table("a", numpy.float32(8))
                for clock in me.clocks(2):
                    me.push(a, numpy.array(2.0)); me.pull(a)
                print(a.shape, a.value)
            """, self.coordinator, job, other)
        self.assertEqual(out, "() -1.0 () ()\n() 7.0\n")

    def test_a_member_knows_its_job_and_names_multiples_of_its_rate(self):
        self.start_cluster()
        job, named = self.submit(1, "mode: BSP"), self.submit(1, "mode: BSP", """
            tables { name: "w" shape: 2 lr_mult: 2 }""")
        out = self.run_python("""
            import sys, numpy, tautline
            def fails(kind, words, call):
                try: call()
                except kind as error: assert words in str(error), error
                else: raise AssertionError(words)
            cluster = tautline.connect(sys.argv[1])
            with cluster.job(int(sys.argv[2])).member() as me:
                print(me.definition["solver_param"]["base_lr"], me.definition["workers"])
                for value in (-1, float("nan"), float("inf")):
                    fails(tautline.InvalidError, "lr_mult must be a finite number",
                          lambda: me.table(f"{value}", numpy.ones(2), lr_mult=value))
                fails(tautline.InvalidError, "is averaged", lambda: me.table(
                    "mean", numpy.ones(2), "averaged", lr_mult=2))
                me.fail("a test")
            job = cluster.submit(rule=tautline.SGD(lr=0.25, weight_decay=0.5), workers=1)
            with job.member() as me:
                twice = me.table("twice", numpy.ones(2), lr_mult=2)
                alone = me.table("alone", numpy.ones(2), decay_mult=0)
                for table in (twice, alone): me.push(table, numpy.ones(2))
                for table in (twice, alone): me.pull(table)
                me.end_clock()
                # 1 - 2 * 0.25 * (1 + 0.5), and 1 - 0.25 * 1.
                print(twice.value[0], alone.value[0])
            with cluster.job(int(sys.argv[3])).member() as me:
                fails(tautline.MismatchError, "has lr_mult 2 and decay_mult 1 in the job's text",
                      lambda: me.table("w", lr_mult=3))
                me.fail("a test")
            """, self.coordinator, job, named)
        self.assertEqual(out, "0.25 1\n0.25 0.75\n")

    def check_interrupt(self, call):
        """Ctrl-C ends a call that waits for a server that says nothing."""
        server = self.start_cluster()
        process = self.program("""
            import sys, time, numpy, tautline
            me = tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member()
            w = me.table("w", numpy.zeros(4))
            if sys.argv[3] != "open":
                me.open()
            if sys.argv[3] == "finish":
                me.push(w, w.value); me.pull(w); me.end_clock()
            print("ready", flush=True)
            sys.stdin.readline()
            getattr(me, sys.argv[3])(*[w] * (sys.argv[3] == "snapshot"))
            """, self.coordinator, self.submit(1, "mode: BSP"), call, stdin=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        server.send_signal(signal.SIGSTOP)
        try:
            process.stdin.write("\n")
            process.stdin.flush()
            time.sleep(1)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            self.assertIn("KeyboardInterrupt", self.result(process, status=-signal.SIGINT))
            self.assertLess(time.monotonic() - begin, 5 * SLOWER)
        finally:
            server.send_signal(signal.SIGCONT)

    def test_ctrl_c_ends_the_opening_of_tables(self):
        self.check_interrupt("open")

    def test_ctrl_c_ends_a_snapshot(self):
        self.check_interrupt("snapshot")

    def test_ctrl_c_ends_the_wait_of_a_member_that_leaves(self):
        self.check_interrupt("finish")

    def test_a_server_that_is_gone_ends_a_members_wait_in_time(self):
        server = self.start_cluster()
        job = self.submit(1, "mode: BSP")
        process = self.program("""
            import sys, numpy, tautline
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                w = me.table("w", numpy.zeros(4))
                for clock in me.clocks():
                    me.push(w, w.value); me.pull(w)
                    if clock == 3: print("trains", flush=True)
            """, self.coordinator, job)
        self.assertEqual(process.stdout.readline(), "trains\n")
        server.kill()
        begin = time.monotonic()
        self.assertIn("DeadlineError", self.result(process, status=1))
        self.assertLess(time.monotonic() - begin, 30 * SLOWER)

    def come_and_go(self, count):
        """What a process and its server have more after many memberships than after ten."""
        server = self.start_cluster()
        job = self.submit(1, "mode: ASYNC")
        out = self.run_python("""
            import os, sys, numpy, tautline
            cluster = tautline.connect(sys.argv[1])
            job = cluster.job(int(sys.argv[2]))
            def has(process):
                pages = int(open(f"/proc/{process}/statm").read().split()[1])
                folders = (f"/proc/{process}/task", f"/proc/{process}/fd")
                return [*(len(os.listdir(folder)) for folder in folders), pages * 4096]
            for i in range(int(sys.argv[3])):
                me = job.member()
                w = me.table("w", numpy.zeros(100_000))
                for clock in me.clocks(me.clock):
                    me.push(w, w.value); me.pull(w)
                me.leave()
                if i == 9: before = has("self") + has(sys.argv[4])
            after = has("self") + has(sys.argv[4])
            print(*(now - then for now, then in zip(after, before)))
            """, self.coordinator, job, count, server.pid, timeout=100 + count)
        return [int(word) for word in out.split()]

    def test_members_come_and_go_and_leave_nothing_behind(self):
        threads, files, memory = self.come_and_go(40)[:3]
        self.assertEqual((threads, files), (0, 0))
        self.assertLess(memory, 8 << 20)

    def test_a_thousand_members_come_and_go_and_leave_nothing_behind(self):
        more = self.come_and_go(1000)
        print("threads, files, bytes of the process and of its server:", more)
        self.assertEqual((more[0], more[1], more[3]), (0, 0, 0))
        self.assertLess(max(more[2], more[5]), 32 << 20)
        self.assertLess(more[4], 8)
