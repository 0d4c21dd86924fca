"""What a run leaves is kept: folders of jobs, logs, checkpoints, and what is said about them."""

import csv
import fcntl
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import struct
import termios
import time

from cluster import *

# Clocks long enough for every order of a checkpoint to come in time.
PACE = ("--clock-time", "20")


def blow_up_in_tests(job):
    """The parameters stay finite, and what the tests make of them does not."""
    text = job.read_text()
    layer = ('layer { name: "blow" type: "Power" bottom: "ip2" top: "ip2" include { phase: TEST } '
             "power_param { scale: 3e38 } }\n  ")
    at = text.index('layer { name: "accuracy"')
    text = text[:at] + layer + text[at:]
    job.write_text(text.replace("momentum: 0.9", "momentum: 0.9 test_initialization: false"))


class Submitted(ClusterTest):
    def start_cluster(self, workers=2, settings=""):
        server = self.start_server(settings=settings)
        for i in range(workers):
            self.start_worker(f"worker{i}")
        return server

    def submit(self, job, *arguments):
        answer = self.ask("submit", job, *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return int(answer.stdout.split()[1])

    def place(self, job):
        """The job's folder, as the status names it."""
        found = next(j for j in self.status()["jobs"] if int(j["job"]) == job)
        return pathlib.Path(found["run_folder"].split(":", 1)[1])

    def rows(self, file):
        with open(file, newline="") as lines:
            return list(csv.DictReader(lines))

    def test_a_submitted_job_leaves_what_train_leaves(self):
        self.start_cluster()
        job = self.job(iterations=30, workers=2)
        answer = self.ask("submit", job, "--follow", timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        place = self.folder / "runs/job1-tiny"
        self.assertRegex(answer.stdout, rf"run folder: \S+:{place}\n")
        self.assertEqual(self.place(1), place)
        about = json.loads((place / "run.json").read_text())
        self.assertEqual(about["command"][1:3], ["submit", str(job)])
        self.assertEqual(about["kind"], "submit")
        self.assertEqual(about["working_folder"], str(self.folder))
        summary = json.loads((place / "summary.json").read_text())
        self.assertEqual((summary["state"], summary["iterations"]), ("done", 30))
        self.assertEqual(len(summary["parameters_sha256"]), 64)

        def all_rows():
            files = [place / f"job1-worker{i}/metrics.csv" for i in range(2)]
            return all(f.exists() and len([r for r in self.rows(f) if r["loss"]]) == 30
                       for f in files)
        wait_until(all_rows, 20, "every worker's metrics")
        # One of the workers has tested.
        wait_until(lambda: list(place.glob("job1-worker*/tests.csv")), 20, "the tests' outputs")
        tests, = place.glob("job1-worker*/tests.csv")
        self.assertEqual(tests.read_text(),
                         (self.folder / "records" / tests.relative_to(place)).read_text())
        self.assertEqual(summary["rate_unit"], "images/s")
        self.assertGreater(summary["rate"], 0)
        for i in range(2):
            own = self.folder / f"records/job1-worker{i}/metrics.csv"
            self.assertEqual((place / f"job1-worker{i}/metrics.csv").read_text(), own.read_text())
            log = place / f"worker{i}.log"
            wait_until(lambda: log.exists() and "from clock 0" in log.read_text(), 10, "its log")
        wait_until(lambda: (place / "server0.log").exists(), 10, "the server's log")
        self.assertIn("job 1: DONE", (place / "coordinator.log").read_text())
        # The final parameters, and the job as resolved, which trains again.
        saved = pathlib.Path(summary["checkpoints"][-1]["folder"])
        self.assertEqual(saved.name, "tiny_iter_30")
        self.assertIn(f"checkpoint at 30: {saved}\n", answer.stdout)
        self.assertTrue((saved / "manifest.textproto").exists())
        again = self.tautline("train", place / "job.textproto", "--resume", saved, "--max-iter", 40)
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_a_job_that_says_so_leaves_no_final_parameters(self):
        self.start_cluster(1)
        job = self.job(iterations=5)
        job.write_text(job.read_text().replace("momentum: 0.9",
                                               "momentum: 0.9 snapshot_after_train: false"))
        self.submit(job)
        self.assertFalse(self.wait_for_job(1, "DONE").get("checkpoints"))
        self.assertFalse((self.folder / "checkpoints").exists())

    def test_numbers_of_jobs_continue_with_a_state_folder_and_without(self):
        server = self.start_cluster(1)
        self.submit(self.job(iterations=5))
        self.wait_for_job(1, "DONE")
        records = self.folder / "records/job1-worker0/metrics.csv"
        first = records.read_text()
        for settings, number in (("", 2), ('state_folder: ""', 3), ('state_folder: "other"', 4)):
            server.terminate()
            self.assert_ends(server)
            server = self.start_daemon("server", "server0",
                                       f"coordinator {{ {settings} }}")
            wait_until(lambda: any(w["state"] == "idle" for w in self.status().get("workers", [])),
                       20, "the worker")
            self.assertEqual(self.submit(self.job(iterations=5)), number)
            self.wait_for_job(number, "DONE")
            self.assertTrue((self.folder / f"runs/job{number}-tiny/summary.json").exists())
        self.assertEqual(records.read_text(), first)

    def test_records_of_two_clusters_in_one_folder_do_not_mix(self):
        for run in range(2):
            server = self.start_cluster(1, 'state_folder: "" run_folder: ""')
            self.submit(self.job(iterations=5))
            self.wait_for_job(1, "DONE")
            for process in self.processes:
                process.terminate()
                self.assert_ends(process)
            self.coordinator = None
        for name in ("job1-worker0", "job1-worker0-2"):
            rows = self.rows(self.folder / "records" / name / "metrics.csv")
            self.assertEqual(len([row for row in rows if row["loss"]]), 5)
        # Nor do the checkpoints.
        self.assertEqual(sorted(f.name for f in (self.folder / "checkpoints").iterdir()),
                         ["tiny_iter_5", "tiny_iter_5-2"])

    def test_a_job_is_saved_before_it_is_stopped_and_resumed_by_its_number(self):
        self.start_cluster(1)
        self.submit(self.job(iterations=1000000), *PACE)
        self.wait_for_job(1, "RUNNING")
        answer = self.ask("stop", 1)
        self.assertIn("job 1 is saved, then stopped", answer.stdout)
        stopped = self.wait_for_job(1, "STOPPED")
        clock = int(stopped["checkpoints"][-1]["clock"])
        self.assertIn(f"stopped by request; saved at clock {clock}: ", stopped["message"])
        answer = self.ask("resume", 1, "--max-iter", clock + 10)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"job 2 continues job 1 from clock {clock}: ", answer.stdout)
        self.assertEqual(int(self.wait_for_job(2, "DONE")["resume"]["clock"]), clock)
        self.assert_fails(self.ask("resume", 2), "has trained all of its")
        # What the job's folder has says so too.
        place = self.place(1)
        advice = "tautline resume 1 continues it"
        self.assertEqual(json.loads((place / "summary.json").read_text())["advice"], advice)
        self.assertIn(f"job 1: {advice}\n", (place / "coordinator.log").read_text())
        follow = self.ask("resume", 2, "--max-iter", clock + 20, "--follow", timeout=60)
        self.assertEqual(follow.returncode, 0, follow.stderr)
        self.assertIn(f"job 3 continues job 2 from clock {clock + 10}: ", follow.stdout)
        self.assertIn("job 3 done", follow.stdout)
        self.assertIn(f"checkpoint at {clock + 20:,}: ", follow.stdout)

    def test_a_job_that_has_diverged_is_not_resumed_as_it_is(self):
        self.start_cluster(1)
        job = self.job(iterations=30, extra="checkpoint { every: 10 keep: 1 }")
        blow_up_in_tests(job)
        answer = self.ask("submit", job, *PACE, "--follow", timeout=60)
        self.assert_fails(answer, "the loss of the test is nan", "try a base_lr below 0.1",
                          "with a lower base_lr, continue from its last good checkpoint with: "
                          "tautline submit", f"--resume {self.folder}/checkpoints/tiny_iter_20\n")
        failed = self.wait_for_job(1, "FAILED")
        self.assertEqual([int(kept["clock"]) for kept in failed["checkpoints"]], [20])
        self.assert_fails(self.ask("resume", 1), "job 1 has diverged, and would again; with a "
                          "lower base_lr, tautline submit --resume ", "/tiny_iter_20 continues")

    def test_a_job_that_is_discarded_is_not_saved(self):
        self.start_cluster(1)
        self.submit(self.job(iterations=1000000), *PACE)
        self.wait_for_job(1, "RUNNING")
        self.assertEqual(self.ask("stop", 1, "--discard").returncode, 0)
        self.assertFalse(self.wait_for_job(1, "STOPPED").get("checkpoints"))
        self.assert_fails(self.ask("resume", 1), "has no checkpoint")

    def test_a_job_that_loses_its_server_starts_again_by_itself(self):
        self.start_server(settings="heartbeat_limit_s: 1 replication { interval: 0 }")
        victim = self.start_daemon("server", "server1")
        self.start_worker()
        folder = self.folder / "saved"
        saving = f'restart: 1 checkpoint {{ every: 5 keep: 0 folder: "{folder}" }}'
        job = self.job(iterations=150, extra=saving)
        follow = self.start("tautline", "submit", job, *PACE, "--follow", "--coordinator",
                            self.coordinator)
        manifest = folder / "tiny_iter_10/manifest.textproto"
        wait_until(manifest.exists, 30, "a checkpoint")
        victim.kill()
        out, error = follow.communicate(timeout=60)
        self.assertEqual(follow.returncode, 0, error)
        self.assertIn("job 2 continues it", out)
        self.assertIn("job 2 done", out)
        jobs = {int(job["job"]): job for job in self.status()["jobs"]}
        self.assertEqual(jobs[1]["state"], "FAILED")
        self.assertGreaterEqual(int(jobs[2]["resume"]["clock"]), 10)

    def test_a_job_is_followed_by_its_number_or_as_the_only_one(self):
        self.start_cluster()
        none = self.ask("follow")
        self.assertEqual(none.returncode, 1)
        self.assertIn("no job runs or waits", none.stderr)
        self.submit(self.job(iterations=40), *PACE)
        answer = self.ask("follow", timeout=60)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("job 1 done", answer.stdout)
        self.assertEqual(self.ask("follow", 1).returncode, 0, "it has ended well")
        for _ in range(2):  # the second one waits for the worker
            self.submit(self.job(iterations=100000), *PACE)
        several = self.ask("follow")
        self.assertEqual(several.returncode, 1)
        self.assertIn("2 jobs run or wait: name one of 2, 3", several.stderr)
        follow = self.start("tautline", "follow", "2", "--coordinator", self.coordinator)
        self.assertEqual(self.ask("stop", 2).returncode, 0)
        error = follow.communicate(timeout=60)[1]
        self.assertEqual(follow.returncode, 1)
        self.assertIn("job 2 stopped", error)

    def test_the_logs_of_a_job_are_shown_by_process_and_followed_to_its_end(self):
        self.start_cluster()
        self.submit(self.job(iterations=60, workers=2), *PACE)
        self.wait_for_job(1, "RUNNING")
        follow = self.start("tautline", "logs", "1", "--follow", "--coordinator", self.coordinator)
        out, error = follow.communicate(timeout=60)
        self.assertEqual(follow.returncode, 0, error)
        self.assertIn("job 1: starts on 2 workers", out)
        self.assertIn("job 1: DONE", out)
        for process in (("--worker", 1), ("--process", "worker1")):
            shown = wait_until(lambda: self.ask("logs", 1, *process).stdout, 10, "the log")
            self.assertIn("job 1: member 1", shown)
        self.assert_fails(self.ask("logs", 1, "--worker", 7),
                          "job 1 has no worker 7; it has 0 to 1")
        self.assert_fails(self.ask("logs", 9), "job 9 has no folder here")

    def test_what_a_process_writes_into_its_log_does_not_move_the_cursor(self):
        self.start_cluster(1)
        self.submit(self.job(iterations=10))
        self.wait_for_job(1, "DONE")
        log = self.place(1) / "worker0.log"
        wait_until(log.exists, 10, "the worker's log")
        with open(log, "ab") as file:
            file.write("red \x1b[31m and \u009b2J\n".encode())
        shown = self.ask("logs", 1, "--process", "worker0").stdout
        self.assertIn("red \\x1b[31m and \\x9b2J\n", shown)
        self.assertNotIn("\x1b", shown)

    def test_a_control_character_that_a_log_gets_in_two_parts_is_followed_as_one(self):
        self.start_cluster(1)
        self.submit(self.job(iterations=1000000), *PACE)
        self.wait_for_job(1, "RUNNING")
        log = self.place(1) / "program.log"
        log.write_bytes(b"red \xc2")
        follow = self.start("tautline", "logs", "1", "--process", "program", "--follow",
                            "--coordinator", self.coordinator)
        self.assertEqual(follow.stdout.read(4), "red ")
        time.sleep(0.5)  # it has asked for more
        with open(log, "ab") as file:
            file.write(b"\x9b2J\n")
        self.assertEqual(follow.stdout.readline(), "\\x9b2J\n")


class Trained(ClusterTest):
    def begin(self, *arguments, iterations=1000000, extra=""):
        train = self.start("tautline", "train", self.job(iterations=iterations, extra=extra),
                           "--output", self.folder / "run", *PACE, *arguments)
        log = self.folder / "run/worker0.log"
        wait_until(lambda: log.exists() and "from clock 0" in log.read_text(), what="training")
        return train

    def resume_line(self, error):
        """The words of the line that continues the run."""
        line = re.search(r"continue with: (tautline .*)$", error, re.M)
        self.assertIsNotNone(line, error)
        return shlex.split(line[1])

    def assert_continues(self, error):
        words = self.resume_line(error)
        self.assertEqual(words[0], "tautline")
        clock = int(words[-1].rsplit("_", 1)[1])
        answer = self.tautline(*words[1:], "--max-iter", clock + 5,
                               "--output", self.folder / "rest")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn(f"from clock {clock}", (self.folder / "rest/worker0.log").read_text())

    def test_an_interrupted_run_is_saved_and_says_how_it_continues(self):
        train = self.begin()
        train.send_signal(signal.SIGINT)
        _, error = train.communicate(timeout=60)
        self.assertEqual(train.returncode, 130)
        self.assertIn("saving before it ends", error)
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual(summary["state"], "stopped")
        self.assertEqual(len(summary["checkpoints"]), 1)
        self.assert_continues(error)

    def test_a_signal_while_the_processes_of_a_finished_job_end_does_not_fail_the_run(self):
        train = self.begin(iterations=30)
        log = self.folder / "run/worker0.log"
        # Its processes end within milliseconds.
        while train.poll() is None and " stopping\n" not in log.read_text():
            time.sleep(0.001)
        train.send_signal(signal.SIGINT)
        out, error = train.communicate(timeout=30)
        self.assertEqual(train.returncode, 0, error)
        self.assertRegex(out, r"iterations +30 of 30")

    def test_an_interrupted_run_that_is_discarded_is_not_saved(self):
        train = self.begin("--discard")
        train.send_signal(signal.SIGINT)
        _, error = train.communicate(timeout=30)
        self.assertEqual(train.returncode, 130)
        self.assertNotIn("continue with", error)
        self.assertEqual(list((self.folder / "run").glob("checkpoints/*/manifest.textproto")), [])

    def test_a_run_whose_last_test_is_not_finite_keeps_the_good_checkpoint_alone(self):
        job = self.job(iterations=30, extra="checkpoint { every: 10 keep: 1 }")
        blow_up_in_tests(job)
        # The checkpoint at 20 is whole before the test at 30 on a busy machine too.
        answer = self.tautline("train", job, "--output", self.folder / "run", "--clock-time", 100)
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        good = self.folder / "run/checkpoints/tiny_iter_20"
        self.assertIn("the loss of the test is nan at iteration 30: the training has diverged; try "
                      "a base_lr below 0.1", answer.stderr)
        self.assertRegex(answer.stderr, r"with a lower base_lr, continue from its last good "
                         rf"checkpoint with: tautline train .* --resume {good}\n")
        # Its cluster has ended with it.
        self.assertNotIn("tautline resume", answer.stderr)
        self.assertEqual(list(good.parent.iterdir()), [good])
        summary = json.loads((self.folder / "run/summary.json").read_text())
        self.assertEqual([kept["iteration"] for kept in summary["checkpoints"]], [20])
        self.assertIn(f"--resume {good}", summary["advice"])

    def test_a_second_ctrl_c_ends_a_run_that_cannot_be_saved(self):
        train = self.begin()
        worker = next(pid for pid, name in children_of(train.pid) if name == "worker0")
        os.kill(worker, signal.SIGSTOP)
        wait_until(lambda: state_of(worker) == "T", what="the stop")
        train.send_signal(signal.SIGINT)
        time.sleep(1)  # only then is another one a repetition
        train.send_signal(signal.SIGINT)
        _, error = train.communicate(timeout=30)
        self.assertEqual(train.returncode, 130)
        self.assertNotIn("continue with", error)

    def test_a_run_whose_process_dies_says_how_it_continues(self):
        train = self.begin(extra="checkpoint { every: 5 keep: 0 }")
        saved = self.folder / "run/checkpoints/tiny_iter_10/manifest.textproto"
        wait_until(saved.exists, 30, "a checkpoint")
        time.sleep(1)  # for a status that knows of it
        victim = next(pid for pid, name in children_of(train.pid) if name == "server0")
        os.kill(victim, signal.SIGKILL)
        _, error = train.communicate(timeout=30)
        self.assertEqual(train.returncode, 1)
        self.assertIn("server0 was killed by signal 9", error)
        self.assertIn("with two servers or more (--servers 2) it is started again", error)
        self.assert_continues(error)

    def test_a_run_whose_process_dies_starts_again_by_itself(self):
        train = self.begin(iterations=300, extra="restart: 1 checkpoint { every: 5 keep: 0 }")
        saved = self.folder / "run/checkpoints/tiny_iter_10/manifest.textproto"
        wait_until(saved.exists, 30, "a checkpoint")
        time.sleep(1)  # for a status that knows of it
        victim = next(pid for pid, name in children_of(train.pid) if name == "worker0")
        os.kill(victim, signal.SIGKILL)
        out, error = train.communicate(timeout=60)
        self.assertEqual(train.returncode, 0, error)
        self.assertIn("starts again from", error)
        self.assertIn("0 restarts left", error)
        self.assertIn(f"run folder: {self.folder / 'run-2'}", out)
        self.assertEqual(json.loads((self.folder / "run-2/summary.json").read_text())["state"],
                         "done")
        # What the first one left is all there.
        self.assertTrue((self.folder / "run/job1-worker0/metrics.csv").exists())


class Kept(ClusterTest):
    """`tautline runs`."""

    def setUp(self):
        super().setUp()
        for number, slack in (("first", 0), ("second", 2)):
            answer = self.tautline("train", self.job(iterations=10), "--slack", slack, "--output",
                                   self.folder / "runs" / number)
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def runs(self, *arguments):
        answer = self.tautline("runs", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def test_runs_are_listed_shown_noted_and_tagged(self):
        out = self.runs("list")
        self.assertRegex(out, r"(?m)^first  +train +done +BSP +1 +10 ")
        self.assertRegex(out, r"(?m)^second +train +done +SSP 2 ")
        self.runs("note", "first", "the", "baseline")
        self.assertEqual(self.runs("tag", "first", "good", "old"), "first: good old\n")
        self.assertEqual(self.runs("tag", "first", "old", "--remove"), "first: good\n")
        shown = self.runs("show", "first")
        for words in ("the baseline", "tags", "good", "tautline train", "--slack 0",
                      str(self.folder / "runs/first/checkpoints/tiny_iter_10")):
            self.assertIn(words, shown)
        listed = json.loads(self.runs("list", "--tag", "good", "--json"))["runs"]
        self.assertEqual([run["name"] for run in listed], ["first"])
        self.assertEqual(listed[0]["note"], "the baseline")
        self.assert_fails(self.tautline("runs", "show", "third"), 'no run "third" in runs')

    def test_a_note_without_a_text_is_shown_and_only_an_option_removes_it(self):
        self.assertEqual(self.runs("note", "first"), "first has no note\n")
        self.runs("note", "first", "the", "baseline")
        self.assertEqual(self.runs("note", "first"), "the baseline\n")
        answer = self.tautline("runs", "note", "first", "text", "--remove")
        self.assertEqual(answer.returncode, 2, answer.stderr)
        self.assertEqual(self.runs("note", "first"), "the baseline\n")
        self.runs("note", "first", "--remove")
        self.assertEqual(self.runs("note", "first"), "first has no note\n")

    def on_terminal(self, width, *arguments):
        """What the command prints on a terminal so wide."""
        child, terminal = pty.fork()
        if child == 0:
            fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
            os.chdir(self.folder)
            os.execv(BIN / "tautline", ["tautline", *arguments])
        out = b""
        while True:
            try:
                out += os.read(terminal, 65536) or b""
            except OSError:  # the other end has closed
                break
        os.close(terminal)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        return out.decode().replace("\r\n", "\n")

    def test_lists_and_comparisons_are_cut_to_the_terminal_and_whole_in_a_pipe(self):
        for command in (("list",), ("compare", "first", "second")):
            whole = self.runs(*command).splitlines()
            self.assertGreater(max(map(len, whole)), 60)
            self.assertNotIn("…", "".join(whole))
            shown = self.on_terminal(60, "runs", *command).splitlines()
            self.assertEqual([line if len(line) <= 60 else line[:59] + "…" for line in whole],
                             shown)

    def test_two_runs_are_compared_by_fields_figures_and_curves(self):
        out = self.runs("compare", "first", "second", "--output", "both.html")
        self.assertRegex(out, r"consistency\.slack +- +2")
        self.assertRegex(out, r"mode +BSP +SSP 2")
        self.assertRegex(out, r"images/s +\d+ +\d+ +[+-]\d+")
        # Command lines are below the table.
        self.assertRegex(out, r"command +first +\S*tautline train .*\n +second +\S*tautline ")
        self.assertLess(max(len(line) for line in out.split("command")[0].splitlines()), 100)
        # One worker reads the same under any bound: what does not differ has no difference.
        self.assertRegex(out, r"test accuracy +([\d.]+) +\1\n")
        html = (self.folder / "both.html").read_text()
        self.assertIn("Training loss", html)
        self.assertIn("consistency.slack", html)
        self.assertNotIn("<script", html)
        self.assert_fails(self.tautline("runs", "compare", "first", "second", "--output",
                                        "both.html"), "both.html exists")
        self.assertIn("the jobs do not differ", self.runs("compare", "first", "first"))

    def test_runs_are_removed_only_when_asked_twice(self):
        answer = self.tautline("runs", "rm", "first")
        self.assert_fails(answer, "--yes", status=2)
        self.assertIn("would remove", answer.stdout)
        self.assertTrue((self.folder / "runs/first/summary.json").exists())
        self.runs("rm", "first", "--yes")
        self.assertFalse((self.folder / "runs/first").exists())
        self.assertTrue((self.folder / "runs/second/summary.json").exists())

    def age(self, folder):
        """Everything in it was written two minutes ago."""
        for path in (folder, *folder.rglob("*")):
            os.utime(path, (time.time() - 120,) * 2)

    def test_a_run_or_sweep_that_writes_below_its_folder_is_not_removed(self):
        run, sweep = self.folder / "runs/first", self.folder / "runs/grid"
        (run / "summary.json").unlink()
        sweep.mkdir()
        for name in ("sweep.textproto", "base_job.textproto"):
            (sweep / name).touch()
        shutil.copytree(run, sweep / "tiny-bsp-1")
        for folder, name in ((run, "first"), (sweep, "grid")):
            metrics, = folder.rglob("job1-worker0/metrics.csv")
            self.age(folder)
            metrics.touch()
            self.assert_fails(self.tautline("runs", "rm", name, "--yes"), name,
                              "was written in the last minute")
            self.assertTrue(metrics.exists())
            self.age(folder)
            self.runs("rm", name, "--yes")
            self.assertFalse(folder.exists())

    def test_checkpoints_elsewhere_are_named_and_removed_only_when_asked(self):
        folder = self.folder / "saved"
        job = self.job(iterations=10, extra=f'checkpoint {{ folder: "{folder}" }}')
        for name in ("third", "fourth"):
            answer = self.tautline("train", job, "--output", f"runs/{name}")
            self.assertEqual(answer.returncode, 0, answer.stderr)
        kept, removed = folder / "tiny_iter_10", folder / "tiny_iter_10-2"
        (removed / "notes.txt").write_text("mine")
        out = self.runs("rm", "third", "--yes")
        self.assertIn(f"leaves its checkpoint {kept}; --checkpoints removes it too", out)
        out = self.runs("rm", "fourth", "--yes", "--checkpoints")
        self.assertIn(f"removes {removed}\n", out)
        self.assertTrue((kept / "manifest.textproto").exists())
        self.assertEqual([file.name for file in removed.iterdir()], ["notes.txt"])

    def test_a_sweep_is_shown_with_its_runs_and_they_say_how_it_was_started(self):
        job = self.job(iterations=10)
        answer = self.tautline("sweep", job, "--slack", "0,1", "--workers", 1, "--seeds", 1,
                               "--output", "runs/grid", timeout=120)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        shown = self.runs("show", "grid")
        self.assertRegex(shown, r"kind +whole sweep")
        self.assertRegex(shown, r"message +2 of 2 runs done")
        self.assertRegex(shown, r"command +\S*tautline sweep ")
        self.assertIn(str(pathlib.Path("runs/grid/report.html")), shown)
        names = re.findall(r"(?m)^(\S+) +sweep +done", shown)
        self.assertEqual(len(names), 2, shown)
        run = json.loads(self.runs("show", f"grid/{names[0]}", "--json"))
        self.assertIn("tautline sweep ", run["command"])
        self.assertEqual((run["kind"], run["job"], run["working_folder"]),
                         ("sweep", "tiny", str(self.folder)))
        self.runs("tag", "grid", "kept")
        self.assertEqual(json.loads(self.runs("show", "grid", "--json"))["tags"], ["kept"])
        self.assert_fails(self.tautline("runs", "compare", "grid", "first"),
                          "grid is a whole sweep")

    def test_the_project_of_a_run_is_the_commit_of_its_working_folder(self):
        git = self.folder / ".git"
        (git / "refs/heads").mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/work\n")
        commit = "0123456789abcdef0123456789abcdef01234567"
        (git / "refs/heads/work").write_text(commit + "\n")
        answer = self.tautline("train", self.job(iterations=5), "--output", "runs/third")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertEqual(json.loads(self.runs("show", "third", "--json"))["project"], commit)
