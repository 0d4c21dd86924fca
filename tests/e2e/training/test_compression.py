"""Updates that are encoded on their way to the servers."""

import hashlib
import json
import math
import re
import unittest
import urllib.request

from cluster import *

TABLES = ((16, 64), (16, 1), (10, 16), (10, 1))  # the tiny net's, as matrices
VALUES = sum(rows * columns for rows, columns in TABLES)
FEEDBACK = ("ONE_BIT", "TOP_K", "RANDOM_K", "DGC", "POWER_SGD")
PULLED = ("FP16", "BF16", "INT8")
SCHEMES = (*PULLED, *FEEDBACK)


def compression(scheme, values=1, pull="FLOAT32"):
    return (f"compression {{ push {{ scheme: {scheme} min_values: {values} }} "
            f"pull {{ scheme: {pull} min_values: {values} }} }}\n")


def encoded_bytes(scheme):
    """Of an update of the tiny net, whose tables are all shorter than a slice."""
    def of_table(table):
        rows, columns = table
        n = rows * columns
        kept = math.ceil(n / 100)
        factors = 4 * 2 * (rows + columns)
        return {"FP16": 2 * n, "BF16": 2 * n, "INT8": n + 4 * math.ceil(n / 256),
                "ONE_BIT": math.ceil(n / 8) + 8 * math.ceil(n / 256), "TOP_K": 6 * kept + 4,
                "RANDOM_K": 4 * kept + 8, "DGC": 6 * kept + 4,
                "POWER_SGD": factors if 2 * factors <= 4 * n else 4 * n}[scheme]
    return sum(map(of_table, TABLES))


class Compression(ClusterTest):
    def train(self, job, *arguments, mode="bsp"):
        answer = self.tautline("train", job, "--output", self.folder / "run", "--force", "--mode",
                               mode, *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return json.loads((self.folder / "run/summary.json").read_text())

    def test_bsp_ends_in_the_same_bits_each_time_with_each_scheme(self):
        bits = {self.train(self.job(workers=2))["parameters_sha256"]}
        for scheme in SCHEMES:
            job = self.job(workers=2, extra=compression(scheme))
            once, again = (self.train(job) for _ in range(2))
            self.assertEqual(once["parameters_sha256"], again["parameters_sha256"], scheme)
            # A hundredth of the values of 30 clocks is too little to learn much.
            if scheme not in ("TOP_K", "RANDOM_K", "DGC"):
                self.assertGreater(once["evaluations"][-1]["accuracy"], 0.5, scheme)
            bits.add(once["parameters_sha256"])
        self.assertEqual(len(bits), 1 + len(SCHEMES))

    def test_a_submitted_job_shows_the_bytes_that_it_saves(self):
        self.start_server(shards=2)
        http = 'http { metrics: "127.0.0.1:0" open_metrics: true }'
        for name in ("worker0", "worker1"):
            self.start_daemon("worker", name, more=http)
        long = self.job("long.textproto", iterations=1000000, workers=2,
                        extra=compression("FP16"))
        self.assertEqual(self.ask("submit", long).returncode, 0)
        shown = r"[\d.]+ MB of updates in place of [\d.]+ MB: 50.0 % saved by compression"
        wait_until(lambda: re.search(shown, self.ask("status").stdout), what="bytes that are saved")
        address = self.addresses("worker0")["http"][0]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            scraped = answer.read().decode()
        saved = re.search(r'tautline_worker_saved_bytes_total{job="1",worker="worker0"} (\S+)',
                          scraped)
        self.assertGreater(float(saved[1]), 0)
        self.assertEqual(self.ask("stop", 1).returncode, 0)
        self.wait_for_job(1, "STOPPED")
        job = self.job(iterations=40, workers=2, extra=compression("FP16"))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        for worker in self.wait_for_job(2, "DONE")["workers"]:
            self.assertEqual(int(worker["progress"]["pushed_bytes"]), 40 * 2 * VALUES)
            self.assertEqual(int(worker["progress"]["saved_bytes"]), 40 * 2 * VALUES)

    def test_ssp_and_async_train_with_updates_of_a_byte_of_a_bit_and_of_factors(self):
        for mode in ("ssp", "async"):
            for scheme in ("INT8", "ONE_BIT", "POWER_SGD"):
                summary = self.train(self.job(workers=2, extra=compression(scheme)), mode=mode)
                self.assertEqual(summary["state"], "done")
                self.assertGreater(summary["evaluations"][-1]["accuracy"], 0.5, (mode, scheme))

    def test_a_resumed_run_continues_with_what_was_left_out(self):
        warming = "DGC warm_up: 20"
        for scheme in (*FEEDBACK, warming):
            job = self.job(workers=2, iterations=30,
                           extra=compression(scheme) + "checkpoint { every: 10 keep: 0 }")
            whole = self.train(job, "--max-iter", 30, "--clock-time", 30)
            saved = self.folder / "run/checkpoints/tiny_iter_10"
            for worker in (0, 1):
                self.assertIn(b'"residual0"', (saved / f"worker{worker}.safetensors").read_bytes())
            kept = self.folder / f"kept_{scheme}"
            saved.rename(kept)
            resumed = self.train(job, "--resume", kept)
            self.assertEqual(resumed["parameters_sha256"], whole["parameters_sha256"], scheme)

    def test_what_a_job_on_more_workers_left_out_is_forgotten_with_a_line(self):
        job = self.job(workers=2, iterations=20,
                       extra=compression("TOP_K") + "checkpoint { every: 10 keep: 0 }")
        self.train(job, "--clock-time", 30)
        kept = self.folder / "kept"
        (self.folder / "run/checkpoints/tiny_iter_10").rename(kept)
        self.train(job, "--workers", 1, "--resume", kept)
        self.assertIn("what compression had left out of earlier updates starts from zeros",
                      (self.folder / "run/worker0.log").read_text())

    def test_a_drained_worker_sends_what_it_has_left_out(self):
        self.drain_one_of("RANDOM_K")

    def test_a_drained_worker_with_momentum_of_its_own_sends_what_it_has_left_out(self):
        self.drain_one_of("DGC")

    def test_momentum_is_not_resumed_from_those_who_did_not_keep_it(self):
        every = "checkpoint { every: 10 keep: 0 }"
        self.train(self.job(workers=2, iterations=20, extra=every))
        kept = self.folder / "kept"
        (self.folder / "run/checkpoints/tiny_iter_10").rename(kept)
        answer = self.tautline("train", self.job(workers=2, extra=compression("DGC")), "--resume",
                               kept, "--output", self.folder / "run", "--force")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("with compression { push { scheme: DGC } } workers keep the momentum",
                      answer.stdout + answer.stderr)

    def drain_one_of(self, scheme):
        self.start_server(shards=2)
        for name in ("worker0", "worker1"):
            self.start_daemon("worker", name, "clock_time_ms: 10")
        job = self.job(iterations=400, workers=2,
                       extra=compression(scheme) + "consistency { mode: SSP slack: 2 }")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        wait_until(lambda: self.pushed("worker1") > 0, what="an update of worker1")
        self.assertEqual(self.ask("drain", "worker1").returncode, 0)
        ended = self.wait_for_job(1, "DONE", 60)
        left = next(w for w in ended["workers"] if w["name"] == "worker1")["progress"]
        self.assertTrue(left["left"])
        # Its last update, and no other, has 4 bytes a value.
        clocks = int(left["clock"])
        self.assertEqual(int(left["pushed_bytes"]),
                         (clocks - 1) * encoded_bytes(scheme) + 4 * VALUES)

    def pushed(self, name):
        for job in self.status()["jobs"]:
            for worker in job["workers"]:
                if worker["name"] == name:
                    return int(worker["progress"].get("pushed_bytes", 0))
        return 0

    def test_each_scheme_sends_the_bytes_of_its_formula(self):
        for scheme in SCHEMES:
            for worker in self.train(self.job(workers=2, extra=compression(scheme)))["workers"]:
                self.assertEqual(worker["pushed_bytes"], 30 * encoded_bytes(scheme), scheme)
                self.assertEqual(worker["pushed_bytes"] + worker["saved_bytes"], 30 * 4 * VALUES)

    def test_bsp_ends_in_the_same_bits_each_time_with_each_scheme_of_values(self):
        bits = {self.train(self.job(workers=2))["parameters_sha256"]}
        for scheme in PULLED:
            job = self.job(workers=2, extra=compression("INT8", pull=scheme))
            once, again = (self.train(job, "--servers", servers) for servers in (1, 2))
            self.assertEqual(once["parameters_sha256"], again["parameters_sha256"], scheme)
            self.assertGreater(once["evaluations"][-1]["accuracy"], 0.5, scheme)
            bits.add(once["parameters_sha256"])
            for worker in once["workers"]:
                # What is read at clock 0 is encoded too, and the last clock's values are not read.
                # On a slow machine a read may be repeated, and its answer arrives twice.
                saved = 4 * VALUES - encoded_bytes(scheme)
                self.assertGreaterEqual(worker["read_saved_bytes"], 30 * saved, scheme)
                self.assertLess(worker["read_saved_bytes"], 33 * saved, scheme)
        self.assertEqual(len(bits), 1 + len(PULLED))

    def test_the_lab_reads_encoded_values_and_ends_in_the_bits_of_processes(self):
        job = self.job(workers=2, extra=compression("INT8", pull="BF16"))
        real = self.train(job)
        cluster = self.file("cluster.textproto",
                            "host { name: 'h' servers: 1 workers: 2 cores: 3 }\n"
                            "compute { clock_ms: 20 }\n")
        answer = self.tautline("lab", job, "--cluster", cluster, "--output", self.folder / "lab",
                               "--mode", "bsp")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        lab = json.loads((self.folder / "lab/summary.json").read_text())
        self.assertEqual(lab["parameters_sha256"], real["parameters_sha256"])

    def test_dgc_clips_gains_momentum_and_warms_up(self):
        def of(scheme, solver):
            job = self.job(workers=2, extra=f"compression {{ push {{ {scheme} min_values: 1 }} }}")
            job.write_text(job.read_text().replace("momentum: 0.9", solver))
            return self.train(job)
        warm = "scheme: DGC keep: 0.5 warm_up: 30"
        bits = {of(warm, solver)["parameters_sha256"]
                for solver in ("momentum: 0.9", "momentum: 0.9 clip_gradients: 0.01", "")}
        self.assertEqual(len(bits), 3)
        # A quarter of the values of each table at first, and then what `keep` says.
        warm = of("scheme: DGC keep: 0.01 warm_up: 28", "momentum: 0.9")["workers"][0]
        def bytes_at(every):
            return sum(6 * math.ceil(rows * columns / every) + 4 for rows, columns in TABLES)
        self.assertEqual(warm["pushed_bytes"],
                         sum(7 * bytes_at(every) for every in (4, 16, 64, 100)) + 2 * bytes_at(100))

    def test_momentum_that_workers_apply_is_the_servers(self):
        # No table of the tiny net has 4096 values: velocities alone.
        tests = [self.train(self.job(workers=2, iterations=60, extra=extra))["evaluations"][-1]
                  for extra in ("", "compression { push { scheme: DGC } }")]
        self.assertAlmostEqual(tests[0]["loss"], tests[1]["loss"], places=3)

    def test_meetings_are_compressed_and_resumed_to_the_bit(self):
        # The second fragment meets between the checkpoint and the first one's last meeting.
        meetings = ("consistency { mode: BSP periodic_averaging { interval: 6 outer { type: "
                    "\"Nesterov\" lr: 0.7 momentum: 0.5 } fragments: 2 } } "
                    "checkpoint { every: 12 keep: 0 }\n")
        exact = self.train(self.job(workers=2, extra=meetings))
        for scheme in PULLED:
            job = self.job(workers=2, extra=meetings + compression(scheme, pull=scheme))
            whole = self.train(job)
            self.assertNotEqual(whole["parameters_sha256"], exact["parameters_sha256"])
            self.assertAlmostEqual(whole["evaluations"][-1]["loss"],
                                   exact["evaluations"][-1]["loss"], delta=0.05)
            for worker in whole["workers"]:
                self.assertLess(worker["pushed_bytes"], 6 * 2.2 * VALUES, scheme)
            kept = self.folder / f"kept_{scheme}"
            (self.folder / "run/checkpoints/tiny_iter_12").rename(kept)
            resumed = self.train(job, "--resume", kept)
            self.assertEqual(resumed["parameters_sha256"], whole["parameters_sha256"], scheme)

    def test_auto_says_what_it_chose_and_trains_as_if_that_were_named(self):
        every = "checkpoint { every: 10 keep: 0 }"
        job = self.job(workers=2, extra=compression("AUTO", pull="AUTO") + every)
        whole = self.train(job)
        chosen = whole["compression"]
        self.assertRegex(chosen["reason"], r"^push \w+, pull \w+: a clock should take .* of it on "
                         r"the link.*; measured: [\d.]+ [MG]bit/s on the slowest link, .* a clock$")
        self.assertEqual(len(chosen["predicted"]), 16)
        self.assertIn(f"job 1: compression AUTO is {chosen['reason']}",
                      (self.folder / "run/server0.log").read_text())
        named = self.train(self.job("named.textproto", workers=2, extra=every + compression(
            chosen["push"], pull=chosen["pull"])))
        self.assertIsNone(named["compression"])
        self.assertEqual(named["parameters_sha256"], whole["parameters_sha256"])

    def test_a_resumed_job_keeps_what_auto_chose(self):
        asked = compression("AUTO", pull="AUTO")
        job = self.job(workers=2, extra=asked + "checkpoint { every: 10 keep: 0 }")
        whole = self.train(job)
        kept = self.folder / "kept"
        (self.folder / "run/checkpoints/tiny_iter_10").rename(kept)
        chosen = whole["compression"]
        manifest = (kept / "manifest.textproto").read_text()
        self.assertIn(chosen["reason"], manifest)
        # As if the link had been another one.
        head, _, last = manifest.rstrip("\n").rpartition("\n")
        head = re.sub(r"scheme: (FLOAT32|FP16|BF16|INT8)", "scheme: BF16", head) + "\n"
        digest = hashlib.sha256(head.encode()).hexdigest()
        (kept / "manifest.textproto").write_text(head + last[:-64] + digest + "\n")
        resumed = self.train(job, "--resume", kept)
        self.assertEqual([resumed["compression"][way] for way in ("push", "pull")], 2 * ["BF16"])
        self.assertEqual(resumed["compression"]["reason"],
                         "push BF16, pull BF16, as before the checkpoint")
        named = self.job("named.textproto", workers=2, extra=compression("BF16", pull="BF16"))
        self.assertEqual(self.train(named, "--resume", kept)["parameters_sha256"],
                         resumed["parameters_sha256"])
        self.assertNotEqual(resumed["parameters_sha256"], whole["parameters_sha256"])

    def test_a_submitted_job_shows_what_auto_chose(self):
        self.start_server(shards=2)
        for name in ("worker0", "worker1"):
            self.start_daemon("worker", name)
        job = self.job(iterations=1000000, workers=2, extra=compression("AUTO"))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        shown = r"compression AUTO is push \w+: a clock should take"
        wait_until(lambda: re.search(shown, self.ask("status").stdout), what="what was chosen")
        self.assertEqual(self.ask("stop", 1).returncode, 0)
        self.wait_for_job(1, "STOPPED")

    def test_the_lab_does_not_choose(self):
        cluster = self.file("cluster.textproto",
                            "host { name: 'h' servers: 1 workers: 2 cores: 3 }\n"
                            "compute { clock_ms: 20 }\n")
        answer = self.tautline("lab", self.job(workers=2, extra=compression("AUTO")), "--cluster",
                               cluster, "--output", self.folder / "lab", "--mode", "bsp")
        self.assertNotEqual(answer.returncode, 0)
        self.assertIn("compression: AUTO is chosen from what workers measure",
                      answer.stdout + answer.stderr)

    def test_a_compression_that_cannot_work_is_refused_with_line_and_column(self):
        for extra, column, what in (
                (compression("INT8", 0), 35, "compression.push[0].min_values: must be at least 1"),
                ("consistency { elastic_averaging {} } " + compression("FP16"), 59,
                 "compression.push[0].scheme: FP16 cannot be combined with consistency"),
                ("compression { pull { scheme: BF16 } pull { scheme: INT8 } }\n", 37,
                 "compression.pull[1].min_values: must be greater than 4096"),
                ("compression { push { scheme: AUTO } push { min_values: 9999 } }\n", 22,
                 "compression.push[0].scheme: AUTO is chosen for all tables"),
                ("compression { push { scheme: AUTO allow: TOP_K } }\n", 35,
                 "compression.push[0].allow: TOP_K adds what an update leaves out to the next"),
                ("compression { push { scheme: AUTO keep: 0.1 } }\n", 35,
                 "compression.push[0].keep: is for TOP_K, RANDOM_K and DGC"),
                (compression("TOP_K"), 22,
                 "compression.push[0].scheme: TOP_K adds what an update leaves out to the next")):
            job = self.job(workers=2, extra=extra)
            job.write_text(job.read_text().replace("momentum: 0.9", "clip_gradients: 1"))
            line = len(job.read_text().splitlines())
            answer = self.tautline("train", job, "--output", self.folder / "run", "--force")
            self.assertNotEqual(answer.returncode, 0)
            self.assertIn(f"{job}:{line}:{column}: {what}", answer.stdout + answer.stderr)


if __name__ == "__main__":
    unittest.main()
