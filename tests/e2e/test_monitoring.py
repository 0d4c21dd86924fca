"""The examples under configs/monitoring ask for nothing that a running cluster does not have."""

import json
import re
import shutil
import subprocess
import urllib.request

from cluster import *

MONITORING = SOURCE / "configs/monitoring"
HTTP = 'http { dashboard: "127.0.0.1:0" metrics: "127.0.0.1:0" }'


def queries(dashboard):
    """(panel, expression) of every panel of a Grafana dashboard."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


class Monitoring(ClusterTest):
    def exported(self):
        """Every series of the cluster: {name: {label: values}}."""
        series = {}
        for name in ("server0", "worker0", "worker1"):
            address = self.addresses(name)["http"][0]
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
                text = answer.read().decode()
            for line in re.findall(r"^(tautline_\w+)(?:\{(.*)\})? ", text, re.MULTILINE):
                labels = series.setdefault(line[0], {})
                for label, value in re.findall(r'(\w+)="([^"]*)"', line[1]):
                    labels.setdefault(label, set()).add(value)
        return series

    def test_every_query_of_the_grafana_dashboard_finds_its_metric_and_labels(self):
        self.start_daemon("server", "server0", "shards: 2 coordinator {}", more=HTTP)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        for i in range(2):
            self.start_daemon("worker", f"worker{i}", "slowdown_ms: 10", more=HTTP)
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
            self.assertTrue(names, f"{panel}: asks for nothing of ours: {expression}")
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

    def test_prometheus_accepts_the_scrape_example(self):
        promtool = shutil.which("promtool")
        if not promtool:
            self.skipTest("no promtool here; Debian's package prometheus has it")
        done = subprocess.run([promtool, "check", "config", MONITORING / "prometheus.yml"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
