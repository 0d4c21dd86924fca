"""What a job may do about staleness next to its bound, with real processes."""

import csv
import json

from cluster import *


class Policies(ClusterTest):
    def train(self, consistency, *arguments, workers=3, iterations=40, extra="", momentum=0.9):
        job = self.job(workers=workers, iterations=iterations,
                       extra=f"consistency {{ {consistency} }}\n{extra}")
        job.write_text(job.read_text().replace("momentum: 0.9", f"momentum: {momentum}"))
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force",
                               *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(summary["state"], "done")
        return summary

    def clocks_of(self, worker):
        with open(self.folder / f"run/job1-{worker}/metrics.csv") as lines:
            return [int(line["clock"]) for line in csv.DictReader(lines)
                    if line["compute_s"]]

    def assert_learned(self, summary):
        tests = summary["evaluations"]
        self.assertGreater(tests[-1]["accuracy"], max(0.5, tests[0]["accuracy"]), tests)

    def test_with_a_backup_worker_a_straggler_is_left_behind_and_catches_up(self):
        summary = self.train("mode: BSP backup_workers: 1", "--clock-time", 10,
                             extra="straggler { worker: 2 slowdown: 6 }")
        self.assert_learned(summary)
        whole = list(range(40))
        self.assertEqual(self.clocks_of("worker0"), whole)
        self.assertEqual(self.clocks_of("worker1"), whole)
        slow = self.clocks_of("worker2")
        self.assertLess(len(slow), 25)
        self.assertEqual(slow, sorted(set(slow)))
        # The others waited for each other alone.
        waited = {worker["name"]: worker["wait_s"] for worker in summary["workers"]}
        self.assertLess(waited["worker0"], 1.0)

    def test_updates_that_count_by_their_staleness_still_learn(self):
        self.assert_learned(self.train("mode: ASYNC staleness_learning_rate: true",
                                       "--clock-time", 5, "--straggler",
                                       "worker: 1 slowdown: 4"))

    def test_compensated_gradients_still_learn(self):
        for decay in (0, 0.95):
            self.assert_learned(self.train(
                f"mode: SSP slack: 4 delay_compensation {{ strength: 0.04 decay: {decay} }}",
                "--clock-time", 5, "--straggler", "worker: 1 slowdown: 4"))
            # What a server keeps for it, in addition to the tables, is logged when they are opened.
            log = (self.folder / "run/server0.log").read_text()
            self.assertRegex(log, r"tables take [\d.]+ MiB here, of which delay compensation may "
                                  r"take up to [\d.]+ MiB")
            self.assertIn("starts on 3 workers and 1 shard, slack 4", log)

    def test_momentum_that_looks_ahead_learns_and_alone_changes_no_bit(self):
        self.assert_learned(self.train("mode: SSP slack: 4 look_ahead: true", "--clock-time", 5,
                                       "--straggler", "worker: 1 slowdown: 4"))
        alone = [self.train(f"mode: SSP slack: 2 {policy}", "--workers", 1)["parameters_sha256"]
                 for policy in ("", "look_ahead: true")]
        self.assertEqual(alone[0], alone[1])

    def test_a_slack_that_moves_is_seen_in_the_status_and_stays_in_its_range(self):
        self.start_server(shards=2)
        for worker in ("worker0", "worker1"):
            self.start_worker(worker)
        job = self.job(workers=2, iterations=120, extra="""
            consistency { dynamic_slack { least: 1 most: 6 } }
            clock_time_ms: 20 straggler { worker: 1 slowdown: 4 }""")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        seen = set()

        def moved():
            state = self.status()["jobs"][0]
            if state["state"] == "RUNNING":
                seen.add(int(state["slack"]))
            return len(seen) > 1 or state["state"] == "DONE"
        wait_until(moved, 60, "a slack beyond the least")
        self.assertGreater(max(seen), 1)
        self.assertLessEqual(max(seen), 6)
        refused = self.ask("set-slack", 1, 3)
        self.assert_fails(refused, "between 1 and 6 by itself")
        state = self.wait_for_job(1, "DONE", 60)
        read = {int(bin.get("staleness", 0)) for worker in state["workers"]
                for bin in worker["progress"]["staleness"]}
        self.assertGreater(max(read), 1)
        self.assertLessEqual(max(read), 6)

    def test_workers_that_average_at_every_clock_end_where_bsp_does(self):
        losses = []
        for consistency in ("mode: BSP", "mode: BSP periodic_averaging { interval: 1 }"):
            summary = self.train(consistency, momentum=0)
            losses.append(summary["evaluations"][-1]["loss"])
        self.assertAlmostEqual(losses[0], losses[1], places=3)

    def test_workers_that_average_now_and_then_learn_and_repeat_their_bits(self):
        consistency = "mode: BSP periodic_averaging { interval: 8 }"
        first = self.train(consistency)
        self.assert_learned(first)
        self.assertEqual(first["parameters_sha256"],
                         self.train(consistency)["parameters_sha256"])

    def test_workers_that_are_tied_by_a_spring_learn_in_every_mode(self):
        for mode in ("mode: BSP", "mode: SSP slack: 12", "mode: ASYNC"):
            self.assert_learned(self.train(f"{mode} elastic_averaging {{ interval: 4 }}"))

    def test_workers_that_meet_at_an_outer_rule_learn_in_every_mode(self):
        outer = 'periodic_averaging { interval: 4 outer { momentum: 0.5 } }'
        bits = {self.train(f"mode: BSP {outer}")["parameters_sha256"] for _ in range(2)}
        self.assertEqual(len(bits), 1)
        for consistency in (f"slack: 2 {outer}", f"mode: ASYNC {outer}",
                            outer.replace("interval: 4", "interval: 4 fragments: 3")
                            + " mode: BSP"):
            self.assert_learned(self.train(consistency))
        self.assert_learned(self.train(
            "mode: ASYNC staleness_exponent: 0.5 "
            'periodic_averaging { interval: 2 outer { type: "SGD" lr: 1 momentum: 0 buffer: 2 } }'))

    def test_a_worker_that_is_late_by_few_meetings_is_waited_for_by_none(self):
        meet = "periodic_averaging { interval: 4 outer {} }"
        slow = ("--clock-time", 10, "--straggler", "worker: 2 slowdown: 3")
        waited = {}
        for mode in ("mode: BSP", "slack: 8"):
            summary = self.train(f"{mode} {meet}", *slow)
            waited[mode] = next(one["wait_s"] for one in summary["workers"]
                                if one["name"] == "worker0")
        self.assertLess(waited["slack: 8"], 0.3 * waited["mode: BSP"])

    def test_the_example_jobs_are_valid(self):
        examples = sorted((SOURCE / "configs/jobs/policies").glob("*.textproto"))
        self.assertEqual(len(examples), 9)
        answer = self.tautline("validate", *examples)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)

    def test_a_policy_that_does_not_fit_ends_with_one_line(self):
        for consistency, words in (
                ("mode: SSP backup_workers: 1", ("backup_workers needs mode: BSP", "SSP")),
                ("mode: BSP backup_workers: 3", ("backup_workers 3 of 3 workers", "at most 2")),
                ("mode: BSP staleness_learning_rate: true",
                 ("staleness_learning_rate needs mode: SSP or ASYNC",)),
                ("mode: BSP look_ahead: true", ("look_ahead needs mode: SSP or ASYNC",)),
                ("dynamic_slack { least: 3 most: 2 }", ("dynamic_slack from 3 to 2",)),
                ("periodic_averaging { interval: 4 }",
                 ("periodic_averaging needs mode: BSP", "SSP")),
                ("mode: BSP periodic_averaging { interval: 4 outer { momentum: 2 } }",
                 ("job.textproto:", "outer.momentum is 2", "below 1")),
                ("mode: BSP periodic_averaging { outer { buffer: 2 } }",
                 ("outer.buffer is 2", "in BSP")),
                ("periodic_averaging { outer {} } look_ahead: true",
                 ("periodic_averaging cannot be combined with look_ahead",)),
                ("mode: ASYNC elastic_averaging { interval: 0 }",
                 ("elastic_averaging.interval is 0",)),
                ("mode: ASYNC delay_compensation { strength: 0 }",
                 ("delay_compensation.strength is 0", "greater than 0"))):
            job = self.job(workers=3, extra=f"consistency {{ {consistency} }}")
            self.assert_fails(self.tautline("train", job), *words)
