"""Which records members read: all of them once a pass, members killed and started again or not."""

import json

from cluster import wait_until
from training.python_members import PythonMembers

# Reads 4 records at each of some clocks, notes them once their update counts, and dies on request:
# "before" its update of a clock, or "after" it.
READ = """
    import os, sys, time, numpy, tautline
    def kill(): os.kill(os.getpid(), 9)
    address, job, noted, dies_at, when = *sys.argv[1:4], int(sys.argv[4]), sys.argv[5]
    with tautline.connect(address, wait_s=20).job(int(job)).member() as me:
        w = me.table("w", numpy.zeros(4))
        sampler = me.sampler(int(sys.argv[6]), batch=4, seed=3)
        with open(noted, "a") as log:
            for clock in me.clocks(int(sys.argv[7])):
                records = sampler.indices(clock)
                if (clock, when) == (dies_at, "before"): kill()
                me.push(w, numpy.ones(4))
                me.pull(w)
                print(clock, me.slot, *records, file=log, flush=True)
                if (clock, when) == (dies_at, "after"): kill()
                time.sleep(float(sys.argv[8]))
"""


class SamplerTest(PythonMembers):
    def read(self, job, dies_at=0, when="", records=40, clocks=10, pause=0):
        return self.program(READ, self.coordinator, job, self.folder / "noted", dies_at, when,
                            records, clocks, pause)

    def noted(self):
        """{(clock, slot): records}, of which none was noted twice."""
        found = {}
        for line in (self.folder / "noted").read_text().splitlines():
            clock, slot, *records = map(int, line.split())
            self.assertNotIn((clock, slot), found, "a share of a clock was read twice")
            found[clock, slot] = records
        return found

    def test_shares_are_disjoint_and_each_pass_reads_every_record_once(self):
        out = self.run_python("""
            import tautline
            for records in (1, 2, 3, 5, 16, 17, 64, 65, 1000, 4097):
                for slots in (1, 2, 3):
                    for slot in range(min(slots, records)):
                        for shuffle in (True, False):
                            one = tautline.Sampler(records, 7, slot=slot, slots=slots, seed=5,
                                                   shuffle=shuffle)
                            clocks = 3 * one.records // 7 + 1
                            drawn = [i for clock in range(1, clocks + 1)
                                     for i in one.indices(clock)]
                            for at in range(0, len(drawn) - one.records + 1, one.records):
                                turn = drawn[at:at + one.records]
                                assert sorted(turn) == list(range(slot, records, slots))
            # The order of Tautline's own workers: as tests/unit/data/sampler_test.cpp has it.
            one = tautline.Sampler(1000, 8, slot=1, slots=3, seed=9)
            print(one.indices(42), one.indices(1))
            print(list(tautline.Sampler(10, 3, shuffle=False, start=3, end=4)), len(one) if 0 else
                  len(tautline.Sampler(10, 3, end=7)))
            for wrong in ({"batch": 0}, {"slot": 2, "slots": 2}, {"records": 0},
                          {"records": 1, "slot": 1, "slots": 2}):
                try:
                    tautline.Sampler(**{"records": 9, "batch": 1} | wrong)
                except tautline.InvalidError as error:
                    print(str(error).split(";")[0].split(":")[0])
            """)
        self.assertEqual(out.splitlines(), [
            "[670, 733, 334, 214, 109, 337, 220, 64] [46, 373, 34, 787, 877, 871, 937, 892]",
            "[[6, 7, 8], [9, 0, 1]] 7", "batch is 0", "slot 2 of 2 slots",
            "slot 0 of 1 has no records, as there are 0",
            "slot 1 of 2 has no records, as there are 1"])

    def test_a_member_that_is_killed_and_started_again_reads_each_record_once(self):
        self.start_cluster()
        for dies_at, when in ((4, "after"), (5, "before")):
            (self.folder / "noted").unlink(missing_ok=True)
            job = self.submit(1, "mode: BSP")
            self.result(self.read(job, dies_at, when), status=-9)
            self.result(self.read(job))
            self.wait_for_job(job, "DONE")
            noted = self.noted()
            self.assertEqual([clock for clock, _ in noted], list(range(1, 11)))
            # Ten clocks of four are one pass over 40 records.
            self.assertEqual(sorted(sum(noted.values(), [])), list(range(40)), (dies_at, when))

    def test_all_members_are_killed_and_started_again_and_read_each_record_once(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP")
        ends = [self.read(job, 4, "after", records=80), self.read(job, 5, "before", records=80)]
        for process in ends:
            self.result(process, status=-9)
        for process in [self.read(job, records=80), self.read(job, records=80)]:
            self.result(process)
        self.wait_for_job(job, "DONE")
        noted = self.noted()
        self.assertEqual(sorted(noted), [(clock, slot) for clock in range(1, 11)
                                         for slot in range(2)])
        self.assertEqual(sorted(sum(noted.values(), [])), list(range(80)))

    def test_a_share_without_a_member_is_left_out_and_no_record_is_read_twice(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP")
        pass_of_120 = {"records": 960, "clocks": 120, "pause": 0.1}
        stays = self.read(job, **pass_of_120)
        self.result(self.read(job, 2, "after", **pass_of_120), status=-9)
        wait_until(lambda: "lost" in json.dumps(self.job_status(job)).lower())
        self.result(self.read(job, **pass_of_120))
        self.result(stays)
        noted = self.noted()
        without = {slot: [clock for clock in range(1, 121) if (clock, slot) not in noted]
                   for slot in range(2)}
        kept = 1 if without[0] else 0
        self.assertEqual(without[kept], [])
        self.assertEqual(without[1 - kept], list(range(3, 3 + len(without[1 - kept]))))
        self.assertLess(len(without[1 - kept]), 118, "it has joined again")
        drawn = sum(noted.values(), [])
        self.assertEqual(len(drawn), len(set(drawn)))
        self.assertLessEqual({i for i in range(960) if i % 2 == kept}, set(drawn))
