"""`tautline lab`: the same bits as real processes, and as itself."""

import csv
import json
import os
import pathlib
import re
import subprocess
import tempfile

from cluster import *

CLUSTER = """
host { name: "server" cores: 2 workers: 0 servers: 2 link: "card" }
host { name: "node" count: 8 workers: 1 link: "card" }
link { name: "card" gbit_per_s: 1 latency_us: 50 jitter_us: 400 }
compute { clock_ms: 2 spread: LOGNORMAL deviation: 0.4 }
"""

# Of a text, whose rates count tokens.
LETTERS = """
name: "letters" workers: 1 data { folder: "%s" }
net_param {
  name: "letters"
  layer { name: "text" type: "Data" top: "data" top: "label" top: "cont"
          data_param { batch_size: 4 backend: TEXT } text_param { steps: 6 test_share: 0.2 } }
  layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
          embed_param { input_dim: 16 num_output: 8 bias_term: false } }
  layer { name: "scores" type: "InnerProduct" bottom: "embed" top: "scores"
          inner_product_param { num_output: 16 axis: 2 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
          softmax_param { axis: 2 } }
}
solver_param { base_lr: 0.02 max_iter: 30 }
"""
# A million parameters: 4 MB of gradients at each of 40 workers.
LARGE = """
name: "large" workers: 40
net_param {
  name: "large"
  layer { name: "data" type: "DummyData" top: "data" top: "label"
          dummy_data_param { shape { dim: 1 dim: 1000 } shape { dim: 1 }
                             classes: 0 classes: 1000 } }
  layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
          inner_product_param { num_output: 1000 weight_filler { type: "xavier" } } }
  layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
}
solver_param { base_lr: 0.1 max_iter: 2 }
"""


class Lab(ClusterTest):
    def lab(self, *arguments, cluster=CLUSTER, name="lab", workers=3):
        path = self.folder / "cluster.textproto"
        path.write_text(cluster)
        answer = self.tautline("lab", self.job(workers=workers), "--cluster", path, "--output",
                               self.folder / name, "--force", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer.stdout, json.loads((self.folder / name / "summary.json").read_text())

    def test_bsp_in_the_lab_ends_in_the_bits_of_real_processes(self):
        _, virtual = self.lab("--mode", "bsp", "--servers", 2, "--shards", 2, workers=3)
        answer = self.tautline("train", self.job(workers=3), "--mode", "bsp", "--servers", 1,
                               "--output", self.folder / "real", "--force")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        real = json.loads((self.folder / "real/summary.json").read_text())
        self.assertRegex(virtual["parameters_sha256"], r"^[0-9a-f]{64}$")
        self.assertEqual(virtual["parameters_sha256"], real["parameters_sha256"])
        self.assertEqual(virtual["evaluations"], real["evaluations"])
        self.assertEqual([w["clock"] for w in virtual["workers"]],
                         [w["clock"] for w in real["workers"]])

    def test_every_mode_in_the_lab_repeats_bit_for_bit(self):
        for mode in (("--mode", "async"), ("--slack", 2), ("--mode", "bsp")):
            _, one = self.lab(*mode, name="one")
            _, two = self.lab(*mode, name="two")
            self.assertEqual(one, two, mode)
            for worker in ("worker0", "worker2"):
                lines = [(self.folder / run / f"job1-{worker}/metrics.csv").read_bytes()
                         for run in ("one", "two")]
                self.assertGreater(len(lines[0].splitlines()), 10)
                self.assertEqual(*lines)

    def test_another_seed_in_the_lab_ends_in_other_bits(self):
        _, one = self.lab("--mode", "async", "--seed", 1)
        _, two = self.lab("--mode", "async", "--seed", 2)
        self.assertNotEqual(one["parameters_sha256"], two["parameters_sha256"])
        self.assertNotEqual(one["lab"]["virtual_s"], two["lab"]["virtual_s"])

    def test_no_read_in_the_lab_is_staler_than_the_bound(self):
        for slack in (0, 1, 3):
            _, summary = self.lab("--slack", slack)
            for bin in summary["staleness"]:
                self.assertTrue(0 <= bin["staleness"] <= slack, summary["staleness"])

    def test_a_straggler_holds_bsp_back_and_async_not(self):
        slow = ("--straggler", "worker: 0 slowdown: 4")
        _, bsp = self.lab("--mode", "bsp", *slow)
        _, free = self.lab("--mode", "async", *slow)
        waits = [[w["waiting_share"] for w in one["workers"]] for one in (bsp, free)]
        self.assertGreater(max(waits[0]), 0.6)
        self.assertLess(max(waits[1]), 0.4)

    def test_a_slower_link_makes_the_same_bits_in_bsp_and_takes_longer(self):
        _, fast = self.lab("--mode", "bsp")
        _, slow = self.lab("--mode", "bsp", cluster=CLUSTER.replace("gbit_per_s: 1 ",
                                                                    "gbit_per_s: 0.001 "))
        self.assertEqual(fast["parameters_sha256"], slow["parameters_sha256"])
        self.assertGreater(slow["lab"]["virtual_s"], 2 * fast["lab"]["virtual_s"])

    def test_links_shared_fairly_or_by_whole_messages_repeat_and_differ_in_time_alone(self):
        runs = {}
        for sharing in ("FAIR", "MESSAGES"):
            slow = CLUSTER.replace("gbit_per_s: 1 ", "gbit_per_s: 0.02 ")
            one, two = (self.lab("--mode", "bsp", "--servers", 2, cluster=f"{slow} sharing: "
                                 f"{sharing}")[1] for _ in range(2))
            self.assertEqual(one, two)
            runs[sharing] = one
        fair, whole = runs["FAIR"], runs["MESSAGES"]
        self.assertEqual(fair["parameters_sha256"], whole["parameters_sha256"])
        self.assertNotEqual(fair["running_s"], whole["running_s"])
        default = self.lab("--mode", "bsp", "--servers", 2, cluster=CLUSTER.replace(
            "gbit_per_s: 1 ", "gbit_per_s: 0.02 "))[1]
        self.assertEqual(default, whole)

    def test_messages_that_share_a_link_have_rows_of_their_own_in_a_timeline(self):
        cluster = CLUSTER.replace("gbit_per_s: 1 ", "gbit_per_s: 0.02 ") + " sharing: FAIR"
        self.lab("--mode", "bsp", "--timeline", cluster=cluster)
        events = json.loads((self.folder / "lab/timeline.json").read_text())
        names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events
                 if e["name"] == "thread_name"}
        self.assertIn("server in, 2", names.values())
        last = {}
        for event in events:
            if event["ph"] != "X":
                continue
            row = (event["pid"], event["tid"])
            self.assertLessEqual(last.get(row, 0), event["ts"], names[row])
            last[row] = event["ts"] + event["dur"]

    def test_workers_on_the_devices_of_a_host_share_its_card_and_not_its_cores(self):
        def end(host, gbit_per_s):
            cluster = """
host { name: "server" workers: 0 servers: 1 link: "fast" }
host { name: "h" link: "card" %s }
link { name: "card" gbit_per_s: %s }
link { name: "fast" gbit_per_s: 100 }
compute { clock_ms: 5 }
""" % (host, gbit_per_s)
            return self.lab("--mode", "bsp", "--max-iter", 10, workers=4, cluster=cluster)[1]

        islands = 'count: 2 workers: 2 devices: 2 island: "fast"'
        apart, slow = (end(host, 0.002) for host in ("count: 4", islands))
        self.assertEqual(apart["parameters_sha256"], slow["parameters_sha256"])
        self.assertGreater(slow["lab"]["virtual_s"], 1.3 * apart["lab"]["virtual_s"])
        links = {link["name"]: link["bytes"] for link in slow["lab"]["links"]}
        self.assertEqual(links["h1 out"], links["h1 device0 out"] + links["h1 device1 out"])
        # Two workers on one core take turns; on two devices they do not.
        devices, cores = ([w["compute_s"] for w in end(host, 10)["workers"]]
                          for host in (islands, "count: 2 workers: 2"))
        self.assertLess(max(devices), 0.06)
        self.assertGreater(min(cores), 0.09)

    def test_a_cluster_that_cannot_be_is_refused_before_anything_runs(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("gbit_per_s: 1 ", "gbit_per_s: 0 "))
        answer = self.tautline("lab", self.job(), "--cluster", path, "--output",
                               self.folder / "none")
        self.assert_fails(answer, "cluster.textproto:4:21: gbit_per_s must be between 1e-06")
        self.assertFalse((self.folder / "none").exists())

    def test_validate_says_what_a_labs_cluster_has_and_where_it_cannot_be(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER)
        answer = self.tautline("validate", path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("cluster.textproto: a lab cluster file, fine\n", answer.stdout)
        for line in ("8 hosts node: 1 core each, places for 1 worker and 0 servers, link card",
                     "link card: 1 Gbit/s, 50 us", "at most 8 workers and 2 servers, 0 outages"):
            self.assertIn(f"  {line}\n", answer.stdout)
        shipped = sorted((SOURCE / "configs/lab").glob("*.textproto"))
        self.assertGreater(len(shipped), 3)
        answer = self.tautline("validate", *shipped)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(answer.stderr, "")
        for old, new, error in (
                ('workers: 0 servers: 2 link: "card"', 'workers: 0 servers: 2 link: "cart"',
                 '2:54: no link "cart"; did you mean "card"?'),
                ("gbit_per_s: 1 ", "gbit_per_s: 0 ", "4:21: gbit_per_s must be between 1e-06"),
                ("jitter_us: 400", "jiter_us: 400", '4:50: '),
                ("compute {", 'outage { host: "node9" at_s: 1 }\ncompute {',
                 '5:10: no host "node9"; did you mean "node"?')):
            self.assertIn(old, CLUSTER)
            path.write_text(CLUSTER.replace(old, new))
            self.assert_fails(self.tautline("validate", path), f"cluster.textproto:{error}")
            answer = self.tautline("validate", "--json", path)
            self.assertEqual((answer.returncode, json.loads(answer.stdout)["kind"]),
                             (1, "lab cluster"))
        path.write_text(CLUSTER.split("compute")[0])
        answer = self.tautline("validate", path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("warning: compute has neither", answer.stderr)

    def test_more_workers_than_places_are_refused(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER)
        answer = self.tautline("lab", self.job(), "--workers", 9, "--cluster", path, "--output",
                               self.folder / "none")
        self.assert_fails(answer, "places for 8 workers, 9 are requested")
        self.assertFalse((self.folder / "none").exists())

    def test_what_the_lab_refuses_replaces_no_run(self):
        self.lab(name="run")
        whole = (self.folder / "run/summary.json").read_bytes()
        path = self.folder / "cluster.textproto"

        def refused(what, *words, job=self.job(), cluster=CLUSTER):
            path.write_text(cluster)
            answer = self.tautline("lab", job, "--cluster", path, "--output", self.folder / "run",
                                   "--force", *words)
            self.assert_fails(answer, what)
            self.assertEqual((self.folder / "run/summary.json").read_bytes(), whole)
        refused("places for 8 workers, 9 are requested", "--workers", 9)
        refused("and --memory-limit is", "--memory-limit", "1KiB")
        refused('has no layer "none"', cluster=CLUSTER.replace(
            "clock_ms: 2", 'layer { name: "none" forward_us: 1 }'))
        refused("heartbeat_limit_s must be more than", cluster=CLUSTER +
                "control { heartbeat_limit_s: 0.2 }")
        refused("network: the lab's links come from the cluster file",
                job=self.job(extra="network { delay_ms: 1 }\n"))

    def test_more_workers_than_a_real_coordinator_takes_train_in_the_lab(self):
        _, end = self.lab("--mode", "bsp", "--max-iter", 1, "--no-learning", "--no-records",
                          workers=1025, cluster=CLUSTER.replace("count: 8", "count: 1025"))
        self.assertEqual([w["clock"] for w in end["workers"]], [1] * 1025)

    def test_without_learning_the_times_are_those_of_learning(self):
        _, learns = self.lab("--slack", 1, "--no-records")
        _, costs = self.lab("--slack", 1, "--no-records", "--no-learning")
        self.assertEqual(costs["parameters_sha256"], "")
        self.assertEqual([w["clock"] for w in costs["workers"]], [30, 30, 30])
        pushed = [sum(link["bytes"] for link in one["lab"]["links"]) for one in (learns, costs)]
        self.assertLess(abs(pushed[0] / pushed[1] - 1), 0.2)
        # Tests take time, and nothing is tested here.
        self.assertLess(costs["lab"]["virtual_s"], learns["lab"]["virtual_s"])
        self.assertGreater(costs["lab"]["virtual_s"], 0.4 * learns["lab"]["virtual_s"])

    def test_a_balanced_job_in_the_lab_has_fast_workers_wait_little_for_slow_ones(self):
        cluster = """
host { name: "server" cores: 2 workers: 0 servers: 1 link: "card" }
host { name: "fast" workers: 1 link: "card" }
host { name: "slow" workers: 1 link: "card" speed: 0.333 }
link { name: "card" gbit_per_s: 10 latency_us: 50 }
compute { clock_ms: 40 }
"""
        (self.folder / "cluster.textproto").write_text(cluster)
        def lab(extra):
            job = self.job(iterations=200, workers=2, extra=extra)
            answer = self.tautline("lab", job, "--cluster", self.folder / "cluster.textproto",
                                   "--output", self.folder / "run", "--force", "--mode", "bsp")
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            return json.loads((self.folder / "run/summary.json").read_text())
        equal, balanced, again = lab(""), lab("balance: true\n"), lab("balance: true\n")
        self.assertEqual(balanced, again)
        self.assertGreater(equal["workers"][0]["waiting_share"], 0.6)
        self.assertLess(balanced["workers"][0]["waiting_share"], 0.3)
        self.assertGreater(balanced["workers"][0]["share"], 2 * balanced["workers"][1]["share"])
        self.assertLess(balanced["lab"]["virtual_s"], 0.75 * equal["lab"]["virtual_s"])

    def test_hosts_that_go_away_are_lost_and_return_the_same_each_time(self):
        losses = """
outage { host: "node1" at_s: 0.3 back_s: 0.5 }
outage { host: "node2" per_hour: 2500 back_s: 0.4 }
outage { host: "node0" at_s: 1.5 notice_s: 0.3 back_s: 0.2 }
control { heartbeat_limit_s: 0.5 }
"""
        slow = CLUSTER.replace("clock_ms: 2 ", "clock_ms: 40 ") + losses
        _, one = self.lab("--slack", 1, "--max-iter", 80, cluster=slow, name="one")
        text, two = self.lab("--slack", 1, "--max-iter", 80, cluster=slow, name="two")
        self.assertEqual(one, two)
        self.assertRegex(text, r"hosts lost: \d+\n  node\d at ")
        lost = one["lab"]["hosts_lost"]
        self.assertIn("node1", [loss["host"] for loss in lost if loss["at_s"] == 0.3], lost)
        self.assertIn(("node0", True), [(loss["host"], loss["had_notice"]) for loss in lost], lost)
        self.assertGreater(len(lost), 3)
        # A process that returns has its own line.
        self.assertGreater(len(one["workers"]), 4)
        self.assertIn("lost", [worker["state"] for worker in one["workers"]])
        self.assertEqual(max(worker["clock"] for worker in one["workers"]), 80)
        self.assertTrue(all(b["staleness"] <= 1 for b in one["staleness"]), one["staleness"])

    def test_what_the_devices_of_a_lost_host_compute_is_lost_with_it(self):
        cluster = """
host { name: "server" workers: 0 servers: 1 link: "card" }
host { name: "h" count: 2 workers: 2 devices: 2 link: "card" }
link { name: "card" gbit_per_s: 10 }
compute { clock_ms: 40 }
outage { host: "h1" at_s: 0.51 back_s: 0.7 }
control { heartbeat_limit_s: 0.5 }
"""
        _, end = self.lab("--slack", 1, "--max-iter", 60, workers=4, cluster=cluster)
        self.assertEqual([loss["host"] for loss in end["lab"]["hosts_lost"]], ["h1"])
        self.assertEqual(sorted(w["state"] for w in end["workers"]),
                         ["finished"] * 4 + ["lost"] * 2)
        self.assertEqual(max(w["clock"] for w in end["workers"]), 60)

    def test_a_server_that_is_lost_in_the_lab_has_a_backup_or_ends_the_job(self):
        cluster = CLUSTER.replace('servers: 2', 'count: 2 servers: 1')
        cluster += 'outage { host: "server1" at_s: 0.5 }\ncontrol { heartbeat_limit_s: 0.5 %s }\n'
        slow = cluster.replace("clock_ms: 2 ", "clock_ms: 40 ")
        _, summary = self.lab("--mode", "bsp", "--servers", 2, cluster=slow % "")
        self.assertEqual([w["clock"] for w in summary["workers"]], [30, 30, 30])
        self.assertEqual(summary["lab"]["hosts_lost"][0]["host"], "server1")
        _, whole = self.lab("--mode", "bsp", "--servers", 2,
                            cluster=slow.split("outage")[0])
        self.assertEqual(summary["parameters_sha256"], whole["parameters_sha256"])
        path = self.folder / "alone.textproto"
        path.write_text(slow % "replication_interval: 0")
        answer = self.tautline("lab", self.job(workers=3), "--servers", 2, "--cluster", path,
                               "--output", self.folder / "alone")
        self.assert_fails(answer, "server1")

    def test_a_timeline_of_the_lab_has_each_process_and_link_without_overlaps(self):
        text, summary = self.lab("--timeline", "--slack", 1)
        plain, without = self.lab("--slack", 1, name="without")
        self.assertEqual(summary, without)
        self.assertNotIn("computes", plain)
        self.assertRegex(text, r"\n  worker0 on node0 +\|[#. ]{54}\|\n")
        self.assertTrue(all(len(line) <= 80 for line in text.split("ms from")[1].splitlines()[:-1]),
                        text)
        events = json.loads((self.folder / "lab/timeline.json").read_text())
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        rows = {}
        for event in events:
            if event["ph"] == "X":
                rows.setdefault((event["pid"], event["tid"]), []).append(event)
        for row in rows.values():
            row.sort(key=lambda e: e["ts"])
            for one, two in zip(row, row[1:]):
                self.assertLessEqual(one["ts"] + one["dur"], two["ts"])
        computed = {names[e["pid"]]: 0 for row in rows.values() for e in row}
        for row in rows.values():
            for event in row:
                if event["name"].endswith(("forward", "backward")):
                    computed[names[event["pid"]]] += event["dur"] / 1e6
        for worker in summary["workers"]:
            name = f"{worker['name']} on node{worker['name'][-1]}"
            self.assertAlmostEqual(computed[name], worker["compute_s"], delta=2e-3)
        self.assertGreater(len([row for row in rows if names[row[0]] == "links"]), 6)
        # A run that replaces it leaves nothing of it.
        log = self.folder / "lab/lab.log"
        log.write_text("of the first run\n")
        self.lab("--max-iter", 2)
        self.assertFalse((self.folder / "lab/timeline.json").exists())
        self.assertNotIn("of the first run", log.read_text())

    def test_a_sweep_in_the_lab_compares_virtual_times_and_runs_once(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("clock_ms: 2 ", "clock_ms: 50 tests: false "))

        def sweep(*more):
            answer = self.tautline("sweep", self.job(workers=2), "--lab", path, "--slack",
                                   "0,async", "--seeds", 2, "--max-iter", 40, "--parallel", 2,
                                   "--output", self.folder / "sweep", "--json", *more)
            self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
            return json.loads(answer.stdout)

        first = sweep()
        runs = sorted((self.folder / "sweep").glob("*-seed*"))
        self.assertEqual(len(runs), 4)
        summaries = [json.loads((run / "summary.json").read_text()) for run in runs]
        for summary in summaries:
            self.assertGreater(summary["lab"]["virtual_s"], 40 * 0.05 * 0.7)
        stamps = [(run / "summary.json").stat().st_mtime_ns for run in runs]
        self.assertEqual(sweep()["points"], first["points"])
        self.assertEqual([(run / "summary.json").stat().st_mtime_ns for run in runs], stamps)
        path.write_text(path.read_text().replace("clock_ms: 50", "clock_ms: 100"))
        sweep()
        for run, before in zip(runs, summaries):
            self.assertGreater(json.loads((run / "summary.json").read_text())["lab"]["virtual_s"],
                               1.5 * before["lab"]["virtual_s"])
        path.write_text("host { }")
        answer = self.tautline("sweep", self.job(workers=2), "--lab", path, "--output",
                               self.folder / "other")
        self.assert_fails(answer, "cluster.textproto:1:1: a host has no name", status=2)

    def test_a_sweep_over_clusters_compares_the_bounds_on_each(self):
        for name, ms in (("near", 20), ("far", 60)):
            (self.folder / f"{name}.textproto").write_text(
                CLUSTER.replace("clock_ms: 2 ", f"clock_ms: {ms} tests: false "))
        job = self.job(workers=2)
        grid = self.file("grid.textproto", f"""
            job: "{job}" slack: "0" slack: "async" workers: 1 workers: 2 seeds: 1 parallel: 2
            over {{ solver_param {{ max_iter: 40 }} }}
            cluster: "near.textproto" cluster: "far.textproto" """)
        answer = self.tautline("sweep", grid, "--output", self.folder / "sweep", "--json")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        end = json.loads(answer.stdout)
        self.assertEqual([(p["cluster"], p["workers"], p["bound"]) for p in end["points"]],
                         [(cluster, workers, bound) for cluster in ("near", "far")
                          for workers in (1, 2) for bound in ("0", "async")])
        self.assertEqual({v["group"] for v in end["verdicts"]},
                         {"1 worker, near", "2 workers, near", "1 worker, far", "2 workers, far"})
        with open(self.folder / "sweep/runs.csv", newline="") as file:
            runs = list(csv.DictReader(file))
        took = {}
        for run in runs:
            self.assertEqual(run["state"], "done", run)
            took.setdefault(run["cluster"], []).append(float(run["wall_s"]))
        self.assertGreater(min(took["far"]), 1.5 * max(took["near"]))
        page = (self.folder / "sweep/report.html").read_text()
        self.assertIn("<h2>2 workers, far</h2>", page)
        # As above, on the command line; a run that is done is not repeated.
        answer = self.tautline("sweep", job, "--slack", "0,async", "--workers", "1,2", "--seeds",
                               1, "--max-iter", 40, "--lab",
                               f"{self.folder / 'near.textproto'},{self.folder / 'far.textproto'}",
                               "--output", self.folder / "sweep")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertEqual(answer.stdout.count("(finished earlier)"), 8, answer.stdout)
        self.assertIn("slack0-workers2-far-seed1", answer.stdout)
        self.assertIn("async, 2 workers, far", answer.stdout)
        for old, new, error in (
                ('"far.textproto"', '"fare.textproto"', f"{grid}:4:39: "),
                ('"far.textproto"', '"near.textproto"', "near.textproto is named twice"),
                ("workers: 2 ", "workers: 9 ", "places for 8 workers, 9 are requested")):
            grid.write_text(grid.read_text().replace(old, new, 1))
            answer = self.tautline("validate", grid)
            self.assert_fails(answer, error)
            grid.write_text(grid.read_text().replace(new, old, 1))
        (self.folder / "far.textproto").write_text("host { name: 'h' servers: x }")
        self.assert_fails(self.tautline("sweep", grid, "--output", self.folder / "other"),
                          "far.textproto:1:")
        self.assertFalse((self.folder / "other").exists())

    def test_what_workers_write_down_is_chosen_as_for_real_ones(self):
        self.lab("--records", "tensorboard,timeline", "--max-iter", 3)
        run = self.folder / "lab"
        self.assertTrue(list((run / "job1-worker0").glob("events.out.tfevents.*")))
        self.assertFalse((run / "job1-worker0/metrics.csv").exists())
        self.assertTrue((run / "timeline.json").exists())
        path = self.folder / "cluster.textproto"
        answer = self.tautline("lab", self.job(), "--cluster", path, "--records", "nothing")
        self.assert_fails(answer, "--records: each word", status=2)

    def test_a_job_that_does_not_fit_a_hosts_memory_is_refused_before_anything_runs(self):
        path = self.folder / "cluster.textproto"
        small = CLUSTER.replace("count: 8 workers: 1", "count: 8 workers: 1 memory_gib: 0.00001")
        path.write_text(small)
        where = f"{path}:3:41: host \"node0\" has a memory_gib of 1e-05, too little for 1 worker: "
        for words in (("lab", self.job(workers=3), "--cluster", path, "--output",
                       self.folder / "none"),
                      ("lab", "plan", self.job(), "--cluster", path, "--workers", "1,2"),
                      ("sweep", self.job(), "--lab", path, "--workers", "1,2", "--slack", "0",
                       "--output", self.folder / "none")):
            answer = self.tautline(*words)
            self.assertNotEqual(answer.returncode, 0, words)
            self.assertIn(where, answer.stderr)
            self.assertFalse((self.folder / "none").exists())
        self.lab(cluster=small.replace("0.00001", "0.001"))
        answer = self.tautline("validate", path)
        self.assertIn("1 worker and 0 servers, 0.001 GiB", answer.stdout)

    def test_encoding_takes_virtual_time_or_a_warning_says_that_it_takes_none(self):
        job = self.job(workers=2, extra="compression { push { scheme: TOP_K min_values: 1 } }\n")
        path = self.folder / "cluster.textproto"

        def virtual_s(costs):
            path.write_text(CLUSTER + costs)
            answer = self.tautline("lab", job, "--cluster", path, "--output", self.folder / "run",
                                   "--force")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            summary = json.loads((self.folder / "run" / "summary.json").read_text())
            return summary["lab"]["virtual_s"], answer.stderr
        free, warning = virtual_s("")
        self.assertIn("warning: costs: no codec TOP_K, so that encoding takes no time", warning)
        # 1,210 values are encoded at each of 30 clocks: 4.6 ms.
        slow, warning = virtual_s('costs { codec { name: "TOP_K" encode_us_per_mib: 1e6 } }')
        self.assertEqual(warning, "")
        self.assertGreater(slow, free + 0.05)
        answer = self.tautline("lab", "calibrate", job, "--output", path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(path.read_text(), r'codec \{\s+name: "TOP_K"\s+encode_us_per_mib: [1-9]')

    def test_a_limit_of_memory_is_kept(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER)
        for limit in ("1KiB", "8MiB"):
            answer = self.tautline("lab", self.job(workers=3), "--cluster", path, "--memory-limit",
                                   limit, "--output", self.folder / "none", "--force",
                                   "--max-iter", 300)
            self.assert_fails(answer, "and --memory-limit is")
        self.lab("--memory-limit", "4GiB")
        for words in (("sweep", "--lab", path, "--slack", 0, "--seeds", 1, "--output",
                       self.folder / "sweep"),
                      ("lab", "plan", "--cluster", path, "--workers", 2, "--check")):
            at = 2 if words[1] == "plan" else 1
            answer = self.tautline(*words[:at], self.job(workers=2), *words[at:],
                                   "--memory-limit", "1KiB")
            self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
            self.assertIn("--memory-limit is 0.00098 MiB", answer.stdout + answer.stderr)
        answer = self.tautline("lab", "plan", self.job(), "--cluster", path, "--memory-limit",
                               "1GiB")
        self.assert_fails(answer, "--memory-limit is for --check and targets", status=2)

    def test_a_run_that_grows_past_its_limit_of_memory_ends_near_it(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("count: 8", "count: 40"))
        words = ["lab", self.file("large.textproto", LARGE), "--cluster", path, "--mode", "bsp",
                 "--output", self.folder / "run", "--force"]
        status, said, whole = self.peak(*words)
        self.assertEqual(status, 0, said)
        # The workers' gradients alone are 160 MB of that, which is known before the run.
        limit = whole - 20 * 1024 * 1024
        status, said, peak = self.peak(*words, "--memory-limit", limit)
        self.assertEqual(status, 1)
        self.assertRegex(said, r"the lab takes \d+ MiB, and --memory-limit is \d+ MiB; take fewer")
        self.assertLess(peak, limit + 8 * 1024 * 1024)

    def peak(self, *arguments):
        """A command's exit status, what it printed, and the most bytes that were its own."""
        with tempfile.TemporaryFile("w+") as printed:
            child = subprocess.Popen(self.command("tautline", arguments), cwd=self.folder,
                                     stdout=printed, stderr=subprocess.STDOUT)
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            printed.seek(0)
            return child.returncode, printed.read(), usage.ru_maxrss * 1024

    def test_the_times_of_a_real_run_are_those_of_a_worker_in_the_lab(self):
        rows = "".join(f"{i},{0.01 * (1 + i % 2)},1\n" for i in range(20))
        (self.folder / "metrics.csv").write_text("clock,compute_s,loss\n" + rows)
        cluster = CLUSTER.replace("clock_ms: 2 spread: LOGNORMAL deviation: 0.4",
                                  'spread: TRACE times_file: "metrics.csv"')
        _, summary = self.lab("--no-learning", cluster=cluster, workers=1)
        # 30 clocks of 10 and 20 ms by turns.
        self.assertAlmostEqual(summary["workers"][0]["compute_s"], 0.45, delta=0.01)

    def test_a_calibrated_cluster_is_one_that_the_lab_takes(self):
        path = self.folder / "this.textproto"
        answer = self.tautline("lab", "calibrate", self.job(), "--output", path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = path.read_text()
        for name in ("ip1", "ip2", "loss"):
            self.assertRegex(text, rf'name: "{name}"\n\s+forward_us: [0-9.]+\n\s+backward_us')
        _, summary = self.lab(cluster=text, workers=2)
        self.assertEqual(summary["state"], "done")

    def test_a_cluster_calibrated_with_real_processes_is_one_that_the_lab_takes(self):
        path = self.folder / "this.textproto"
        job = self.job()
        # A clock of the tiny net takes hardly longer than its messages alone, too little to be
        # divided.
        job.write_text(job.read_text().replace("num_output: 16", "num_output: 512")
                       .replace("batch_size: 8", "batch_size: 128"))
        answer = self.tautline("lab", "calibrate", job, "--processes", 2, "--output", path)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = path.read_text()
        for cost in ("shard_message_us", "client_message_us"):
            self.assertGreater(float(re.search(rf"{cost}: ([0-9.]+)", text)[1]), 0)
        _, summary = self.lab(cluster=text, workers=2)
        self.assertEqual(summary["state"], "done")
        self.assertEqual(list(pathlib.Path(tempfile.gettempdir()).glob("tautline-calibrate-*")), [])
        answer = self.tautline("lab", "calibrate", self.job(), "--processes", 0)
        self.assert_fails(answer, "--processes", status=2)

    def test_without_a_cluster_the_lab_measures_this_machine(self):
        answer = self.tautline("lab", self.job(workers=2), "--output", self.folder / "own")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn('loopback: "loopback"', (self.folder / "own/cluster.textproto").read_text())

    def test_the_plan_names_the_soonest_and_the_cheapest(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("clock_ms: 2 ", "clock_ms: 20 "))
        words = ["lab", "plan", self.job(), "--cluster", path, "--workers", "1,4", "--slack",
                 "0,async", "--records", 3_600_000]
        answer = self.tautline(*words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("no host of the cluster file has a price_per_hour", answer.stdout)
        path.write_text(path.read_text().replace("host {", "host { price_per_hour: 2.5"))
        answer = self.tautline(*words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        head, *rows = [line.split() for line in answer.stdout.splitlines()]
        self.assertEqual((head[1], head[-2:]), ("slack", ["hours", "price"]))
        self.assertEqual([row[:2] for row in rows[:4]],
                         [["1", "0"], ["1", "async"], ["4", "0"], ["4", "async"]])
        hours = [float(row[-2]) for row in rows[:4]]
        price = [float(row[-1]) for row in rows[:4]]
        soonest, cheapest = answer.stdout.splitlines()[5:]
        best = rows[hours.index(min(hours))]
        self.assertIn(f"soonest: {best[0]} workers, slack {best[1]}: {best[-2]} hours", soonest)
        best = rows[price.index(min(price))]
        self.assertIn(f"cheapest: {best[0]} workers, slack {best[1]}", cheapest)
        self.assertTrue(cheapest.endswith(f"price {best[-1]}"), cheapest)
        wrong = self.tautline(*words[:-4], "--slack", "0,fast")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('"fast" is neither a number of clocks nor async', wrong.stderr)

    def test_a_plan_trains_until_a_target_is_reached(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("host {", "host { price_per_hour: 2.5"))
        words = ["lab", "plan", self.job(iterations=10), "--cluster", path, "--workers", "1,2",
                 "--slack", "0,async", "--max-iter", 20]
        answer = self.tautline(*words, "--target-loss", 100)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("4 trainings in the lab with real gradients, of up to 20 clocks",
                      answer.stdout)
        table = answer.stdout.split("\n\n")[-1].splitlines()
        self.assertEqual([line.split()[:2] for line in table[:5]],
                         [["workers", "slack"], ["1", "0"], ["1", "async"], ["2", "0"],
                          ["2", "async"]])
        seconds = {tuple(line.split()[:2]): float(line.split()[-3]) for line in table[1:5]}
        best = re.match(r"soonest: (\d+) workers, slack (\w+): ", table[5]).groups()
        self.assertEqual(seconds[best], min(seconds.values()))
        self.assertTrue(table[6].startswith("cheapest: "), table)
        answer = self.tautline(*words, "--target-loss", 1e-9)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("none reaches the target", answer.stdout)
        wrong = self.tautline(*words, "--target-loss", 1, "--target-accuracy", 0.5)
        self.assert_fails(wrong, "give either --target-accuracy or --target-loss", status=2)

    def test_a_plan_of_numbers_of_workers_that_descend_is_refused(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER)
        wrong = self.tautline("lab", "plan", self.job(), "--cluster", path, "--workers", "8..4")
        self.assert_fails(wrong, '--workers: the first of "8..4" is more than the last', status=2)

    def test_the_formula_agrees_with_the_lab_where_computing_is_the_limit(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("clock_ms: 2 ", "clock_ms: 20 "))
        answer = self.tautline("lab", "plan", self.job(), "--cluster", path, "--workers", "1,2,8",
                               "--slack", 0, "--check")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        errors = [float(line.split()[-2]) for line in answer.stdout.splitlines()[1:]]
        self.assertEqual(len(errors), 3)
        for error in errors:
            self.assertLess(abs(error), 15, answer.stdout)

    def test_the_lab_checks_the_plan_of_a_text_in_its_clocks(self):
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.replace("clock_ms: 2 spread: LOGNORMAL deviation: 0.4",
                                        "clock_ms: 20"))
        text = self.folder / "text"
        text.mkdir()
        (text / "input.txt").write_text(("abacadabra " * 30 + "efghijkl" * 30) * 3)
        job = self.file("letters.textproto", LETTERS % text)
        answer = self.tautline("lab", "plan", job, "--cluster", path, "--workers", "1,2",
                               "--slack", 0, "--check")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        errors = [float(line.split()[-2]) for line in answer.stdout.splitlines()[1:]]
        self.assertEqual(len(errors), 2)
        for error in errors:
            self.assertLess(abs(error), 15, answer.stdout)
