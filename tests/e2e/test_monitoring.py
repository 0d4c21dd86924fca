"""The examples under configs/monitoring ask for nothing that a running cluster does not have."""

import json
import re
import shutil
import signal
import subprocess
import urllib.request

from cluster import *
from training.python_members import interpreter_with, package_environment

MONITORING = SOURCE / "configs/monitoring"
BUDGET = 16 << 20
HTTP = 'http { dashboard: "127.0.0.1:0" metrics: "127.0.0.1:0" }'


def queries(dashboard):
    """(panel, expression) of every panel of a Grafana dashboard."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def alerts():
    """The expression of each alert, by its name."""
    rules = (MONITORING / "alerts.yml").read_text()
    return dict(re.findall(r"- alert: (\w+)\n(?: *#.*\n)* *expr: (.*)", rules))


def holds(expression, values):
    """Whether comparisons that "and" joins hold for one job, of metrics with these values, by their
    names without "tautline_job_"."""
    def value(term):
        metric = term.removeprefix("tautline_job_")
        return values[metric] if metric != term else float(term)

    for comparison in expression.split(" and "):
        left, sign, right = comparison.split()
        if not {"<": value(left) < value(right), ">": value(left) > value(right)}[sign]:
            return False
    return True


class Monitoring(ClusterTest):
    def scrape(self, name):
        """What a process answers to Prometheus."""
        address = self.addresses(name)["http"][0]
        request = urllib.request.Request(f"http://{address}/metrics")
        request.add_header("Authorization", f"Bearer {self.token('read')}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()

    def sum_of(self, name, metric):
        """Of a metric over all its labels."""
        found = re.findall(rf"^{metric}(?:\{{.*\}})? (\S+)$", self.scrape(name), re.MULTILINE)
        self.assertTrue(found, f"{name} exports no {metric}")
        return sum(map(float, found))

    def start_cluster(self, settings=f"slowdown_ms: 10 device_memory_budget: {BUDGET}"):
        self.start_daemon("server", "server0", "shards: 2 coordinator {}", more=HTTP)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        return [self.start_daemon("worker", f"worker{i}", settings, more=HTTP) for i in range(2)]

    def exported(self):
        """Every series of the cluster: {name: {label: values}}."""
        series = {}
        for name in ("server0", "worker0", "worker1"):
            text = self.scrape(name)
            for line in re.findall(r"^(tautline_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
                labels = series.setdefault(line[0], {})
                for label, value in re.findall(r'(\w+)="([^"]*)"', line[1]):
                    labels.setdefault(label, set()).add(value)
        return series

    def test_every_query_of_the_grafana_dashboard_finds_its_metric_and_labels(self):
        self.start_cluster()
        job = self.job(iterations=1000000, workers=2)
        job.write_text(job.read_text().replace("test_interval: 1000000", "test_interval: 20"))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        wait_until(lambda: "tautline_job_test_accuracy" in self.exported()
                   and "tautline_worker_test_accuracy" in self.exported(), what="a test phase")
        series = self.exported()
        dashboard = json.loads((MONITORING / "grafana.json").read_text())
        asked = list(queries(dashboard))
        self.assertGreater(len(asked), 5)
        for panel, expression in asked:
            names = re.findall(r"tautline_\w+", expression)
            self.assertTrue(names, f"{panel}: queries none of our metrics: {expression}")
            for name in names:
                self.assertIn(name, series, f"{panel}: {expression}")
            # Labels that are chosen, grouped by, or named in the legend.
            for label in re.findall(r"(\w+)\s*=~?\s*\"", expression):
                self.assertTrue(any(label in series[name] for name in names), f"{panel}: {label}")
            for group in re.findall(r"by \(([^)]*)\)", expression):
                for label in re.split(r"[,\s]+", group.strip()):
                    self.assertTrue(all(label in series[name] for name in names),
                                    f"{panel}: no label {label} in {expression}")
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                names = re.findall(r"tautline_\w+", target["expr"])
                for label in re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", "")):
                    self.assertTrue(any(label in series[name] or label in ("job", "instance")
                                        for name in names), f"{panel['title']}: {label}")
        rules = (MONITORING / "alerts.yml").read_text()
        for name in re.findall(r"tautline_\w+", rules):  # in expressions and explanations
            self.assertIn(name, series, "alerts.yml")

    def test_the_reference_names_every_metric_with_its_labels(self):
        self.start_cluster()
        job = self.job(iterations=1000000, workers=2)
        job.write_text(job.read_text().replace("test_interval: 1000000", "test_interval: 20"))
        self.assertEqual(self.ask("submit", job).returncode, 0)
        named = {name: set() for name in documented("/metrics")[0]}
        self.processes.append(subprocess.Popen(
            [interpreter_with("numpy"), "-c", "import sys, tautline\n"
             "for model in tautline.follow(sys.argv[1], 1): pass", self.coordinator],
            env=package_environment(), cwd=self.folder))
        wait_until(lambda: {"tautline_job_test_accuracy", "tautline_worker_test_accuracy",
                            "tautline_worker_updates_under_way",
                            "tautline_follower_version"} <= set(self.exported()),
                   what="a test phase and a follower")
        series = {}
        for name, labels in self.exported().items():
            histogram = re.sub(r"_(bucket|sum|count)$", "", name)
            series.setdefault(histogram if histogram in named else name, set()).update(labels)
        # Of a job that balances, which workers with a memory budget refuse: the next test.
        self.assertEqual(set(series), set(named) - {"tautline_worker_share_records"})
        for row in (SOURCE / "docs/reference/metrics.md").read_text().splitlines():
            cells = row.split(" | ")
            name = cells[0].strip("| `")
            if name in series:
                labels = set(re.findall(r"`(\w+)`", cells[1]))
                self.assertEqual(labels, series[name] - {"le"}, name)

    def test_a_job_on_one_server_is_counted_and_named_as_unprotected_without_an_alert(self):
        self.start_cluster()
        self.assertEqual(self.ask("submit", self.job(iterations=1000000, workers=2)).returncode, 0)
        name = "tautline_job_unprotected_shards"
        wait_until(lambda: name in self.exported(), what="a job")
        found = {metric: self.sum_of("server0", f"tautline_job_{metric}")
                 for metric in ("unprotected_shards", "whole_backups", "wanted_backups")}
        self.assertEqual(found, {"unprotected_shards": 2, "whole_backups": 0, "wanted_backups": 0})
        line = "no shard has a backup: the job started on one server"
        self.assertIn(line, self.ask("status", "1").stdout)
        self.assertEqual(self.status()["jobs"][0]["no_backups"]["shards"], 2)
        for alert in ("TautlineShardUnprotected", "TautlineTooFewBackups"):
            self.assertFalse(holds(alerts()[alert], found), alert)

    def test_the_alert_of_unprotected_shards_is_of_jobs_that_should_have_backups(self):
        expression = alerts()["TautlineShardUnprotected"]
        cases = ((0, 1, False), (1, 1, True), (2, 2, True), (2, 0, False))
        for unprotected, wanted, fires in cases:
            values = {"unprotected_shards": unprotected, "wanted_backups": wanted}
            self.assertEqual(holds(expression, values), fires, values)

    def test_backups_that_are_too_few_or_behind_have_an_alert_and_a_panel(self):
        few, behind = (alerts()[name] for name in ("TautlineTooFewBackups", "TautlineBackupBehind"))
        for whole, wanted, fires in ((0, 0, False), (1, 1, False), (0, 1, True), (1, 2, True)):
            values = {"whole_backups": whole, "wanted_backups": wanted}
            self.assertEqual(holds(few, values), fires, values)
        for seconds, fires in ((0, False), (60, False), (61, True)):
            self.assertEqual(holds(behind, {"backup_lag_seconds": seconds}), fires, seconds)
        shown = " ".join(expression for _, expression in queries(
            json.loads((MONITORING / "grafana.json").read_text())))
        for metric in ("unprotected_shards", "backup_lag_seconds"):
            self.assertIn(f"tautline_job_{metric}", shown)

    def test_shares_of_a_job_that_balances_are_exported_and_shown(self):
        self.start_cluster(settings="slowdown_ms: 10")
        job = self.job(iterations=1000000, workers=2, extra="balance: true")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        name = "tautline_worker_share_records"
        wait_until(lambda: name in self.exported(), what="a worker's share")
        self.assertEqual(set(self.exported()[name]), {"job", "name", "worker"})
        self.assertIn("records of a batch", self.ask("status", "1").stdout)

    def test_clocks_are_of_one_moment_and_never_farther_apart_than_the_slack(self):
        self.start_server(shards=2)
        for name, settings in (("worker0", ""), ("worker1", "clock_time_ms: 30"), ("worker2", "")):
            self.start_worker(name, settings)
        job = self.job(iterations=100, workers=3, extra="consistency { slack: 2 }")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        leads = {0: [], 1: [], 2: []}

        def look():
            status = self.status()["jobs"][0]
            for member in status.get("clocks", {}).get("members", []):
                leads[member["worker"]].append(member["clock"] - status["clocks"]["version"])
            return status["state"] == "DONE"
        wait_until(look, 60, "the end of the job")
        for worker, seen in leads.items():
            self.assertTrue(seen)
            self.assertTrue(all(0 <= lead <= 2 for lead in seen), (worker, seen))
        # The straggler is ahead only where a machine with much else to do delays the others.
        self.assertGreater(leads[1].count(0), 0.8 * len(leads[1]))
        self.assertEqual(max(leads[0]), 2)

    def test_a_worker_that_stands_still_shows_in_the_queues_of_the_others(self):
        workers = self.start_cluster()
        job = self.job(iterations=1000000, workers=2, extra="consistency { mode: BSP }")
        self.assertEqual(self.ask("submit", job).returncode, 0)
        clock = "tautline_worker_clock"
        wait_until(lambda: clock in self.scrape("worker0"), what="a job")
        wait_until(lambda: self.sum_of("worker0", clock) > 5, what="a few clocks")
        workers[1].send_signal(signal.SIGSTOP)
        # What worker0 pushed waits for the other's share, and its reads for the clock to be over.
        for metric in ("shard_parked_reads", "shard_held_updates", "shard_held_bytes"):
            wait_until(lambda: self.sum_of("server0", f"tautline_{metric}") > 0, what=metric)
        parked = self.sum_of("server0", "tautline_shard_parked_reads")
        self.assertLessEqual(parked, 4, "one read of each of the net's four tables")
        stood = self.sum_of("worker0", clock)
        workers[1].send_signal(signal.SIGCONT)
        wait_until(lambda: self.sum_of("worker0", clock) > stood + 5, what="further clocks")
        self.assertEqual(self.ask("stop", "1").returncode, 0)
        wait_until(lambda: self.sum_of("server0", "tautline_shard_held_updates") == 0
                   and self.sum_of("server0", "tautline_shard_parked_reads") == 0,
                   what="empty queues")

    def test_device_memory_is_the_workers_allocated_memory(self):
        self.start_cluster()
        used = "tautline_worker_device_memory_used_bytes"
        before = self.sum_of("worker0", used)
        self.assertEqual(self.ask("submit", self.job(iterations=1000000, workers=2)).returncode, 0)
        wait_until(lambda: "tautline_worker_clock" in self.scrape("worker0"), what="a job")
        wait_until(lambda: self.sum_of("worker0", used) > before, what="memory in use")
        # The allocator takes whole blocks.
        self.assertLess(self.sum_of("worker0", used), 1.1 * BUDGET)
        self.assertEqual(self.sum_of("worker0", "tautline_worker_device_memory_budget_bytes"),
                         BUDGET)
        self.assertGreater(self.sum_of("worker0", "tautline_worker_device_memory_free_bytes"),
                           BUDGET)

    def test_payloads_of_workers_arrive_at_shards_and_back(self):
        self.start_cluster()
        self.assertEqual(self.ask("submit", self.job(iterations=200, workers=2)).returncode, 0)
        self.wait_for_job(1, "DONE")
        def messages(process, role, direction):
            return self.sum_of(process, f"tautline_{role}_messages_total"
                               + r"\{[^}]*direction=\"%s\"[^}]*\}" % direction)

        for direction, other in (("in", "out"), ("out", "in")):
            at_workers = sum(messages(f"worker{i}", "worker", direction) for i in range(2))
            at_shards = messages("server0", "shard", other)
            sent, received = max(at_workers, at_shards), min(at_workers, at_shards)
            self.assertEqual(sent, at_workers if direction == "out" else at_shards, direction)
            # On a busy machine something is requested twice, and its second answer comes too late.
            self.assertGreater(received, 0.9 * sent, direction)
            self.assertGreater(received, 400, direction)
        for i in range(2):
            for metric in ("updates_under_way", "under_way_bytes", "updates_waiting"):
                self.assertEqual(self.sum_of(f"worker{i}", f"tautline_worker_{metric}"), 0, metric)

    def test_rates_are_of_counters_and_differences_of_gauges(self):
        dashboard = json.loads((MONITORING / "grafana.json").read_text())
        expressions = [expression for _, expression in queries(dashboard)]
        expressions += re.findall(r"expr: (.*)", (MONITORING / "alerts.yml").read_text())
        found = 0
        for expression in expressions:
            for function, name in re.findall(r"(rate|increase|delta)\((tautline_\w+)", expression):
                is_counter = name.endswith(("_total", "_bucket", "_sum", "_count"))
                self.assertEqual(is_counter, function != "delta", expression)
                found += 1
        self.assertGreater(found, 5)

    def test_prometheus_accepts_the_scrape_example(self):
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("no promtool here; Debian's package prometheus has it")
        config = self.folder / "monitoring"
        shutil.copytree(MONITORING, config)
        (config / "tautline.token").write_text("0123")  # the example says how it is made
        done = subprocess.run([promtool, "check", "config", config / "prometheus.yml"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
