"""The timelines of running processes: rows, switching, and what a killed process leaves."""

import json
import re

from cluster import *


class Timeline(ClusterTest):
    def events(self, file):
        """A timeline's events; it must be whole JSON."""
        return json.loads(file.read_text())

    def wait_for_events(self, file, count=200):
        """What is being written at this moment may be read in part."""
        def are_there():
            try:
                return file.exists() and len(self.events(file)) > count
            except json.JSONDecodeError:
                return False
        wait_until(are_there, what=file.name)

    def rows(self, file):
        """{row name: number of events} of one process."""
        names, counts = {}, {}
        for event in self.events(file):
            if event["name"] == "thread_name":
                names[event["tid"]] = event["args"]["name"]
        for event in self.events(file):
            if event["ph"] in "Xb":
                row = names[event["tid"]]
                counts[row] = counts.get(row, 0) + 1
        return counts

    def begin(self, records=""):
        records = f'records {{ folder: "{self.folder}" {records} }}'
        server = self.start_daemon("server", "server0", "shards: 2 coordinator {}", more=records)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        worker = self.start_daemon("worker", "worker0", more=records)
        answer = self.ask("submit", self.job(iterations=1000000))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        # A state folder may know jobs of an earlier server.
        self.wait_for_job(int(re.match(r"job (\d+)", answer.stdout).group(1)), "RUNNING")
        return server, worker

    def trace(self, word):
        answer = self.ask("trace", word)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def test_a_timeline_is_begun_and_ended_while_the_job_runs(self):
        self.begin()
        files = [self.folder / f"{name}.trace.json" for name in ("server0", "worker0")]
        self.assertFalse(any(file.exists() for file in files))
        self.assertIn("2 processes start", self.trace("start"))
        for file in files:
            self.wait_for_events(file)
        self.trace("stop")
        for name in ("server0", "worker0"):
            log = self.folder / f"{name}.log"
            wait_until(lambda: "the timeline has ended" in log.read_text(), what="the end")
        worker = self.rows(files[1])
        self.assertEqual(set(worker), {"compute", "wait", "push", "pull", "copy"})
        server = self.rows(files[0])
        for shard in (0, 1):
            for kind in ("push", "update", "pull"):
                self.assertGreater(server[f"shard {shard} {kind}"], 0)
        sizes = [file.stat().st_size for file in files]
        before = int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
        wait_until(lambda: int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
                   > before + 20, what="clocks")
        self.assertEqual(sizes, [file.stat().st_size for file in files])
        merged = self.folder / "merged.json"
        answer = self.tautline("trace", "merge", *files, "--output", merged)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        events = self.events(merged)
        self.assertEqual(len(events), sum(len(self.events(file)) for file in files))
        self.assertEqual(len({event["pid"] for event in events}), 2)

    def test_a_killed_process_leaves_a_complete_timeline(self):
        merged = self.folder / "merged.json"
        for _ in range(5):
            server, worker = self.begin("timeline: true")
            files = sorted(self.folder.glob("*.trace*.json"))[-2:]
            wait_until(lambda: all(f.stat().st_size > 100000 for f in files), what="events")
            for process in (worker, server):
                process.kill()
                process.wait()
            for file in self.folder.glob("*.trace*.json"):
                # Killed within a write, a process leaves a part of a last line at most.
                answer = self.tautline("trace", "merge", file, "--output", merged)
                self.assertEqual(answer.returncode, 0, answer.stderr)
                whole = file.read_text().count("\n{")
                self.assertIn(len(self.events(merged)), (whole - 1, whole))
                self.assertGreater(whole, 100)
                file.unlink()
            self.coordinator = None

    def test_merging_another_file_than_a_timeline_is_refused_by_name(self):
        other = self.file("other.json", "hello\n")
        answer = self.tautline("trace", "merge", other, "--output", self.folder / "out.json")
        self.assert_fails(answer, "other.json", "not a timeline")
        answer = self.tautline("trace", "merge", other, "--output", other)
        self.assert_fails(answer, "is read and written", "--output")
        answer = self.tautline("trace", "merge", self.folder / "none.json", "--output",
                               self.folder / "out.json")
        self.assert_fails(answer, "none.json", "cannot be read")
