"""The command lines of the three programs: help, versions, mistakes and their exit statuses."""

import re

from cluster import *

PROGRAMS = ("tautline", "tautline-server", "tautline-worker")


class Commands(ClusterTest):
    """`tautline --help` is where the commands are found."""

    def commands(self):
        text = self.tautline("--help").stdout
        names = re.findall(r"^  ([a-z][a-z-]+)(?:  |$)", text, re.MULTILINE)
        self.assertGreater(len(names), 15, text)
        return names

    def test_the_guide_lists_every_command(self):
        table = (SOURCE / "docs" / "guide" / "commands.md").read_text()
        words = set(re.findall(r"[a-z][a-z-]+", " ".join(re.findall(r"`([^`]+)`", table))))
        self.assertEqual([name for name in self.commands() if name not in words], [])
        rows = [line.split("|")[1].split("`")[1] for line in table.splitlines()
                if line.startswith("| `")]
        self.assertEqual(sorted(rows), sorted(set(rows)), "a command has two rows")

    def test_help_of_every_command_has_an_example_of_it(self):
        for command in self.commands():
            answer = self.tautline(command, "--help")
            self.assertEqual(answer.returncode, 0, command)
            self.assertIn(f"Example: tautline {command}", answer.stdout)
            for path in re.findall(r"configs/[\w/.-]+", answer.stdout.split("Example:")[1]):
                self.assertTrue((SOURCE / path).exists(), f"{command}: {path}")

    def test_help_names_a_command_and_prints_its_help(self):
        for words in (["train"], ["trace", "merge"]):
            answer = self.tautline("help", *words)
            self.assertEqual(answer.returncode, 0, answer.stderr)
            self.assertEqual(answer.stdout, self.tautline(*words, "--help").stdout)
        self.assertEqual(self.tautline("help").stdout, self.tautline("--help").stdout)

    def test_help_is_plain_text_of_at_most_eighty_columns(self):
        for command in (*self.commands(), ""):
            text = self.tautline(*([command] if command else []), "--help").stdout
            self.assertFalse([c for c in text if not c.isprintable() and c != "\n"], command)
            for line in text.splitlines():
                if "Example" not in line and not line.startswith("Usage"):
                    self.assertLessEqual(len(line), 80, line)

    def test_every_program_prints_its_version(self):
        versions = set()
        for program in PROGRAMS:
            answer = self.run_program(program, "--version")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            versions.add(answer.stdout)
        self.assertEqual(len(versions), 1)
        self.assertRegex(versions.pop(), r"tautline \d+\.\d+\.\d+")


class Mistakes(ClusterTest):
    """A usage mistake has exit status 2 and one line with the way out, and starts nothing."""

    def assert_usage(self, program, arguments, *words):
        answer = self.run_program(program, *arguments)
        self.assert_fails(answer, *words, status=2)
        self.assertEqual(answer.stdout, "")
        self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        self.assertEqual(answer.stderr.count("\x1b"), 0)

    def test_an_unknown_command_is_guessed(self):
        self.assert_usage("tautline", ["trian"], 'no command "trian"', 'did you mean "train"?')
        self.assert_usage("tautline", ["trace", "merg"], 'did you mean "merge"?')
        self.assert_usage("tautline", ["help", "statsu"], 'did you mean "status"?')
        self.assert_usage("tautline", [], "no command is given", "tautline --help")

    def test_an_unknown_option_is_guessed(self):
        self.assert_usage("tautline", ["train", "--slakc", "3"], 'did you mean "--slack"?')
        self.assert_usage("tautline-server", ["--confg=x"], 'did you mean "--config"?')
        self.assert_usage("tautline", ["stop", "1", "2"], '"2" is one argument too many')

    def test_an_option_without_its_value_says_what_it_takes(self):
        self.assert_usage("tautline", ["train", "--mode"],
                          "--mode has no value: bsp|ssp|async is required")
        self.assert_usage("tautline", ["submit", "--slack"], "--slack has no value: SLACK is")
        self.assert_usage("tautline", ["train", "--seed", "1", "--seed", "2"],
                          "--seed is given more than once")

    def test_a_daemon_without_a_config_is_a_usage_mistake(self):
        self.assert_usage("tautline-server", [], "--config")
        self.assert_usage("tautline-worker", [], "--config or --local")
        self.assert_usage("tautline-worker", ["--config", "a", "--local", "b"], "--local")
        for program in ("tautline-server", "tautline-worker"):
            self.assert_usage(program, ["--config", "a", "--name", ""], "--name: must not be empty")

    def test_a_number_out_of_range_names_the_range(self):
        for arguments, word in ((["status", "abc"], "whole number of at least 1"),
                                (["stop", "0"], "whole number of at least 1"),
                                (["status", "9" * 300], "whole number of at least 1"),
                                (["train", "--workers", "300"], "from 1 to 256"),
                                (["train", "--threads", "0"], "from 1 to 1024"),
                                (["train", "--max-iter", "-5"], "from 1 to 2147483647"),
                                (["train", "--seed", "x"], "whole number"),
                                (["top", "--interval", "0"], "0.1 to 3600"),
                                (["status", "--wait", "never"], "greater than 0"),
                                (["sweep", "--target", "85"], "greater than 0 and less than 1"),
                                (["sweep", "--seeds", "0"], "from 1 to 1000"),
                                (["plan", "job", "--budget", "much"], "64MiB")):
            self.assert_usage("tautline", arguments, word)
        self.assert_usage("tautline-worker", ["--local", "job", "--threads", "x"], "from 1 to 1024")

    def test_a_value_of_many_bytes_is_cut_and_control_bytes_are_not_printed(self):
        self.assert_usage("tautline", ["status", "\x1b[2J" + "x" * 5000], "?[2J", "xxx...")

    def test_slack_is_a_number_or_async_in_every_command_that_takes_one(self):
        for command in (["train"], ["submit", "job"], ["sweep"], ["config", "show", "job"]):
            self.assert_usage("tautline", [*command, "--slack", "x"],
                              'must be a number of clocks from 0 to 4294967295, or async, is "x"')
        self.assert_usage("tautline", ["sweep", "--slack", "0,x"], 'is "x"')
        self.assert_usage("tautline", ["set-slack", "1", "-1"])
        for command in (["train"], ["submit", "job"]):
            self.assert_usage("tautline", [*command, "--mode", "ssp", "--slack", "async"],
                              "--slack async contradicts --mode ssp")

    def test_an_option_that_the_job_cannot_take_is_a_usage_mistake_and_a_bad_job_is_none(self):
        job = self.job(workers=2)
        for command in ("train", "submit"):
            self.assert_usage("tautline", [command, job, "--straggler", "worker: 7 slowdown: 2"],
                              "names worker 7; the job has 2")
        bad = self.job(workers=2, extra="straggler { worker: 7 slowdown: 2 }")
        for command in ("train", "submit"):
            self.assert_fails(self.tautline(command, bad, "--seed", 3), "names worker 7")

    def test_a_straggler_that_cannot_be_read_is_a_usage_mistake_everywhere(self):
        for command in (["train"], ["submit", "job"], ["sweep"]):
            self.assert_usage("tautline", [*command, "--straggler", "slowdwon: 3"],
                              'did you mean "slowdown"?')
        self.assert_usage("tautline-worker", ["--config", "c", "--straggler", "slowdown 3"])

    def test_an_option_of_convert_for_the_other_kind_of_source_is_refused(self):
        for option in (("--mean", "m"), ("--part", "test"), ("--root", "."),
                       ("--height", "8", "--width", "8"), ("--gray",), ("--skip-corrupt",)):
            self.assert_usage("tautline", ["convert", "table.csv", "out", *option],
                              f"{option[0]} is for images, not for a table")
        for option in (("--label", "a"), ("--drop", "a"), ("--classes",), ("--header",),
                       ("--no-header",), ("--separator", "tab"), ("--features", "2"),
                       ("--test-share", "0.5"), ("--seed", "1")):
            self.assert_usage("tautline", ["convert", "images", "out", *option],
                              f"{option[0]} is for a table, not for images")

    def test_conflicting_options_are_reported(self):
        self.assert_usage("tautline", ["convert", "images"], "OUT", "--mean or both")
        self.assert_usage("tautline", ["train", "--device", "gpu"], "auto, cpu, cuda")
        self.assert_usage("tautline", ["train", "--device-index", "0:x"], "--device-index")
        self.assert_usage("tautline", ["train", "--records", "metric"], 'did you mean "metrics"?')
        self.assert_usage("tautline", ["predict", "m", "--resize", "9"], "HEIGHTxWIDTH")
        self.assert_usage("tautline", ["export", "m", "--pytorch", "f.safetensors", "--batch", "3"],
                          "--batch: is for --onnx FILE")
        ten_gigabit = SOURCE / "configs/lab/ten_gigabit.textproto"
        self.assert_usage("tautline", ["lab", "plan", self.job(), "--cluster", ten_gigabit,
                                       "--workers", "64..2"],
                          'the first of "64..2" is more than the last')
        local = SOURCE / "configs/clusters/local.textproto"
        self.assert_usage("tautline", ["config", "show", local, "--slack", "3"],
                          "local.textproto is a cluster file")
        run = self.folder / "run"
        self.assert_usage("tautline", ["train", self.job(), "--output", run,
                                       "--device-index", "0:0:0"], "the job has 1")
        self.assertFalse(run.exists())


class Settings(ClusterTest):
    def test_config_show_says_which_settings_are_from_a_flag_a_line_of_a_file_or_a_default(self):
        text = self.job().read_text()
        solver = text.index("solver_param {")
        self.file("solver.prototxt", text[solver + len("solver_param {"):text.rindex("}")])
        job = self.file("split.textproto", text[:solver] + 'solver: "solver.prototxt"\n'
                        "consistency { mode: SSP\nslack: 2 }\n")
        answer = self.tautline("config", "show", job, "--seed", 7)
        self.assertEqual(answer.returncode, 0, answer.stderr)

        def place(file, word):
            lines = (self.folder / file).read_text().splitlines()
            return rf"\S*{file}:{next(i for i, line in enumerate(lines, 1) if word in line)}"
        for line in (r"^seed: 7 +# flag$", r"^workers: 1 +# " + place("split.textproto", "workers"),
                     r"^  slack: 2 +# " + place("split.textproto", "slack: 2"),
                     r"^  base_lr: 0.1 +# " + place("solver.prototxt", "base_lr"),
                     r"^  snapshot: 0 +# default",
                     r'^# net_param: "tiny", 6 layers +# ' + place("split.textproto", "net_param")):
            self.assertRegex(answer.stdout, re.compile(line + "$", re.MULTILINE))
        flagged = self.tautline("config", "show", job, "--slack", "async").stdout
        self.assertRegex(flagged, re.compile(r"^  mode: ASYNC +# flag$", re.MULTILINE))

    def test_data_that_both_phases_read_is_missed_once(self):
        net = self.file("net.prototxt", 'name: "n"' + "".join(
            'layer { name: "d" type: "Data" top: "data" top: "label" include { phase: %s } '
            'data_param { source: "nowhere" backend: LMDB batch_size: 4 } }' % phase
            for phase in ("TRAIN", "TEST")) +
            'layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" '
            "inner_product_param { num_output: 10 } } "
            'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" }')
        answer = self.tautline("validate", net)
        self.assertEqual(answer.stderr.count('data "nowhere" does not exist'), 1, answer.stderr)

    def test_a_cluster_file_with_which_no_daemon_would_serve_http_is_invalid(self):
        def validated(text):
            return self.tautline("validate", self.file("cluster.textproto", text))
        hosts, works = "server { coordinator {} }\n", "worker {}\n"
        for text, field in ((hosts + 'http { dashboard: "0.0.0.0:7680" }', "http.dashboard"),
                            (works + 'http { metrics: "0.0.0.0:0" }', "http.metrics")):
            self.assert_fails(validated(text), "cluster.textproto: " + field,
                              "0.0.0.0", "not a loopback address")
        for text in (hosts + 'http { dashboard: "0.0.0.0:7680" insecure: true }',
                     # What another process would serve.
                     works + 'http { dashboard: "0.0.0.0:7680" }',
                     hosts + 'http { metrics: "0.0.0.0:0" }'):
            self.assertEqual(validated(text).returncode, 0, text)

    def test_a_plan_that_is_too_small_is_refused_in_the_name_of_the_command(self):
        answer = self.tautline("plan", self.job(), "--budget", 1)
        self.assert_fails(answer, "tautline plan: ")
        self.assertNotIn("tautline-worker:", answer.stderr)

    def test_config_show_reads_cluster_files(self):
        answer = self.tautline("config", "show", SOURCE / "configs/clusters/local.textproto")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^heartbeat_interval_s: [\d.]+ +# default$")
