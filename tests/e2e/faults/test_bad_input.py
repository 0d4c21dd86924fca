"""Users' mistakes are reported in one line with a remedy, and nothing hangs or is lost."""

import gzip
import json
import socket

from cluster import *


class BadFiles(ClusterTest):
    """Found by `validate` and by `train` before anything is started."""

    def assert_both_refuse(self, job, *words):
        self.assert_fails(self.tautline("validate", job), *words)
        run = self.folder / "run"
        self.assert_fails(self.tautline("train", job, "--output", run), *words)
        self.assertFalse((run / "server0.log").exists(), "a server was started for it")

    def changed(self, before, after):
        """The job with a part of its text replaced."""
        job = self.job()
        text = job.read_text()
        self.assertIn(before, text)
        job.write_text(text.replace(before, after, 1))
        return job

    def test_a_misspelled_field_is_an_error_with_line_and_column(self):
        job = self.changed("momentum: 0.9", "momentom: 0.9")
        self.assert_both_refuse(job, "job.textproto:", "momentom", 'did you mean "momentum"?')
        self.assertRegex(self.tautline("validate", job).stderr, r"job\.textproto:\d+:\d+: ")

    def test_an_unknown_layer_type_names_the_layer(self):
        job = self.changed('type: "ReLU"', 'type: "ReLUU"')
        self.assert_both_refuse(job, "relu1", "ReLUU")

    def test_a_bottom_that_no_layer_produces_is_named(self):
        job = self.changed('bottom: "ip1" top: "ip1"', 'bottom: "ip7" top: "ip1"')
        self.assert_both_refuse(job, "relu1", "ip7")

    def test_a_top_that_two_layers_make_is_named(self):
        job = self.changed('bottom: "ip1" top: "ip2"', 'bottom: "ip1" top: "data"')
        self.assert_both_refuse(job, "ip2", "data")

    def test_a_shape_that_cannot_work_names_the_layer(self):
        job = self.changed('type: "ReLU" bottom: "ip1" top: "ip1"',
                           'type: "Pooling" bottom: "data" top: "p" '
                           'pooling_param { kernel_size: 99 }')
        line = 1 + job.read_text()[:job.read_text().index('layer { name: "relu1"')].count("\n")
        self.assert_both_refuse(job, f'{job}:{line}:3: layer "relu1"')

    def test_a_layer_in_a_net_file_is_placed_there(self):
        net = self.file("net.prototxt", NET.replace("net_param {", "", 1).rstrip().rstrip("}")
                        .replace('type: "ReLU"', 'type: "Relu"'))
        job = self.file("job.textproto", f'net: "{net}"' + SOLVER % (10, 10))
        self.assert_both_refuse(job, f'{net}:9:3: layer "relu1"', 'did you mean "ReLU"?')

    def test_an_abbreviated_field_and_an_unknown_word_are_explained(self):
        job = self.changed('type: "ReLU" bottom: "ip1" top: "ip1"',
                           'type: "Convolution" bottom: "data" top: "c" conv_param { }')
        self.assert_both_refuse(job, 'did you mean "convolution_param"?')
        job = self.changed("backend: IDX", "backend: CSV")
        self.assert_both_refuse(job, 'backend: no value "CSV"', "known are", "LMDB", "IDX")

    def test_a_solver_number_that_cannot_work_is_named(self):
        job = self.changed("base_lr: 0.1", "base_lr: -0.1")
        self.assert_both_refuse(job, "base_lr", "-0.1")

    def test_a_job_file_that_is_not_there_is_named(self):
        self.assert_both_refuse(self.folder / "nowhere.textproto", "nowhere.textproto")

    def test_a_net_file_that_is_not_there_is_named(self):
        job = self.file("job.textproto", 'net: "missing.prototxt"' + SOLVER % (10, 10))
        self.assert_both_refuse(job, "missing.prototxt")

    def test_a_file_of_nothing_known_is_refused(self):
        self.assert_both_refuse(self.file("job.textproto", "hello { world: 1 }\n"),
                                "job.textproto")

    def test_a_net_without_a_loss_is_refused_before_anything_starts(self):
        job = self.changed('layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip2" '
                           'bottom: "label" top: "loss" }', "")
        self.assert_both_refuse(job, f"{job}: the net's TRAIN phase has no loss")
        unnamed = self.changed('name: "tiny"\n  layer', "layer")
        self.assertIn("\n  unnamed net, phase TRAIN: 5 layers",
                      self.tautline("validate", unnamed).stdout)

    def test_validate_names_mode_and_slack_and_prints_json(self):
        job = self.job(extra="consistency { mode: SSP slack: 3 }\n")
        self.assertIn("SSP, slack 3", self.tautline("validate", job).stdout)
        bad = self.file("bad.textproto", "hello: 1\n")
        answer = self.tautline("validate", "--json", job, bad)
        self.assertEqual(answer.returncode, 1)
        fine, refused = map(json.loads, answer.stdout.splitlines())
        self.assertEqual((fine["kind"], fine["fine"], fine["error"]), ("job", True, None))
        self.assertFalse(refused["fine"])
        self.assertIn("bad.textproto", refused["error"])

    def test_validate_continues_after_a_bad_file_and_fails(self):
        bad = self.file("bad.textproto", "hello: 1\n")
        answer = self.tautline("validate", bad, self.job())
        self.assert_fails(answer, "bad.textproto")
        self.assertIn("a job file, fine", answer.stdout)

    def test_validate_refuses_a_cluster_file_that_a_daemon_refuses(self):
        server = 'coordinator_address: "127.0.0.1:0"\nserver { name: "s" coordinator {} }\n'
        for line, what in (("data_security: TOKEN insecure: true", ":3:1: data_security: TOKEN"),
                           ("start_wait_s: -1", "start_wait_s"),
                           ("io_threads: 65", ":3:1: io_threads must be from 0 to 64, is 65")):
            config = self.file("cluster.textproto", server + line + "\n")
            self.assert_fails(self.tautline("validate", config), what)
            self.assert_fails(self.run_program("tautline-server", "--config", config), what)

    def test_the_shipped_configurations_are_all_valid(self):
        files = [f for kind in ("clusters", "jobs", "models")
                 for f in (SOURCE / "configs" / kind).rglob("*")
                 if f.suffix in (".textproto", ".prototxt")]
        self.assertGreater(len(files), 4)
        answer = self.tautline("validate", *files)
        self.assertEqual(answer.returncode, 0, answer.stderr)


class BadData(ClusterTest):
    def test_missing_data_is_reported_with_a_remedy_and_validate_only_warns(self):
        job = self.job(data=self.folder / "no-data")
        answer = self.tautline("validate", job)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("no-data", answer.stderr)
        self.assertIn("warning", answer.stderr)
        self.assert_fails(self.tautline("validate", "--strict", job), "no-data")
        self.assert_fails(self.tautline("train", job), "no-data", "scripts/get_data", "--data")

    def refused_when_training(self, *words):
        answer = self.tautline("train", self.job(), "--output", self.folder / "run")
        self.assert_fails(answer, *words)

    def test_a_truncated_idx_file_is_named(self):
        data = write_data(self.folder / "data")
        images = data / "train-images-idx3-ubyte.gz"
        with gzip.open(images) as file:
            whole = file.read()
        with gzip.open(images, "wb") as file:
            file.write(whole[:-100])
        self.refused_when_training("train-images-idx3-ubyte.gz")

    def test_a_truncated_gzip_file_is_named(self):
        data = write_data(self.folder / "data")
        images = data / "train-images-idx3-ubyte.gz"
        images.write_bytes(images.read_bytes()[:-200])
        self.refused_when_training("train-images-idx3-ubyte.gz")

    def test_a_wrong_magic_number_is_named(self):
        data = write_data(self.folder / "data")
        with gzip.open(data / "train-labels-idx1-ubyte.gz", "wb") as file:
            file.write(b"\0\0\x0d\x01" + bytes(1000))
        self.refused_when_training("train-labels-idx1-ubyte.gz")

    def test_a_label_out_of_range_is_named(self):
        data = write_data(self.folder / "data")
        labels = bytes([200]) + bytes(199)
        write_idx(data / "train-labels-idx1-ubyte.gz", (200,), labels)
        self.refused_when_training("200")

    def test_images_and_labels_of_different_number_are_refused(self):
        data = write_data(self.folder / "data")
        write_idx(data / "train-labels-idx1-ubyte.gz", (10,), bytes(10))
        self.refused_when_training("200", "10")


class BadClusters(ClusterTest):
    def test_a_misspelled_field_of_a_cluster_file_ends_the_daemon(self):
        config = self.file("cluster.textproto", "server { shrads: 2 coordinator {} }\n")
        for program in ("tautline-server", "tautline-worker"):
            process = self.start(program, "--config", config)
            _, error = process.communicate(timeout=10)
            self.assertEqual(process.returncode, 1)
            self.assertIn("cluster.textproto:1:10", error)
            self.assertIn('did you mean "shards"?', error)

    def test_a_port_in_use_is_reported_with_its_setting(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            for settings, name in ((f'coordinator_address: "127.0.0.1:{port}"\n'
                                    "server { coordinator {} }\n", "coordinator_address"),
                                   ('coordinator_address: "127.0.0.1:0"\n'
                                    f"server {{ port_base: {port} coordinator {{}} }}\n",
                                    "port_base")):
                config = self.file("cluster.textproto", settings)
                process = self.start("tautline-server", "--config", config)
                _, error = process.communicate(timeout=10)
                self.assertEqual(process.returncode, 1)
                self.assertIn(str(port), error)
                self.assertIn(name, error)

    def test_insecure_warns_at_the_start(self):
        config = self.file("cluster.textproto", 'coordinator_address: "127.0.0.1:0"\n'
                           "insecure: true\nserver { coordinator {} }\n")
        ready = self.folder / "ready"
        process = self.start("tautline-server", "--config", config, "--ready-file", ready)
        wait_until(ready.exists, what="ready")
        process.terminate()
        _, error = process.communicate(timeout=5)
        self.assertIn("insecure", error)

    def test_a_coordinator_that_never_starts_is_named_with_its_address(self):
        config = self.file("cluster.textproto", 'coordinator_address: "127.0.0.1:9"\n'
                           "start_wait_s: 1\nworker {}\nserver {}\n")
        for program in ("tautline-worker", "tautline-server"):
            process = self.start(program, "--config", config)
            _, error = process.communicate(timeout=10)
            self.assertEqual(process.returncode, 1)
            self.assertIn("coordinator", error)
            self.assertIn("127.0.0.1:9", error)

    def test_a_second_live_worker_with_the_same_name_is_refused(self):
        self.start_server()
        first = self.start_worker("worker0")
        (self.folder / "worker0.ready").unlink()
        second = self.start_daemon("worker", "worker0", wait=False)
        _, error = second.communicate(timeout=10)
        self.assertEqual(second.returncode, 1)
        self.assertIn("worker0", error)
        self.assertIsNone(first.poll())
        self.assert_still_trains()

    def test_a_worker_that_ended_may_return_under_its_name(self):
        self.start_server()
        first = self.start_worker("worker0")
        first.terminate()
        self.assert_ends(first)
        self.start_worker("worker0")
        self.assert_still_trains()

    def test_a_job_for_no_workers_is_refused(self):
        self.start_server()
        answer = self.ask("submit", self.job())
        self.assert_fails(answer, "no worker has joined", "tautline-worker")
        self.start_worker()
        self.assert_still_trains()

    def test_a_job_whose_data_is_missing_fails_and_the_daemons_continue(self):
        self.start_server()
        self.start_worker()
        answer = self.ask("submit", self.job(data=self.folder / "no-data"))
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("no-data", self.wait_for_job(1, "FAILED")["message"])
        self.assert_still_trains()

    def test_commands_for_a_job_that_is_not_there_name_it(self):
        self.start_server()
        for command in (("status", 7), ("stop", 7), ("set-slack", 7, 2)):
            self.assert_fails(self.ask(*command), "job 7")


    def test_tables_beyond_a_servers_memory_limit_fail_the_job_with_their_bytes(self):
        server = self.start_daemon("server", "server0", "memory_limit: 1000 coordinator {}")
        self.coordinator = self.addresses("server0")["coordinator"][0]
        self.start_worker()
        self.assertEqual(self.ask("submit", self.job()).returncode, 0)
        message = self.wait_for_job(1, "FAILED")["message"]
        for word in ('table "', "bytes here", "memory_limit", "1000"):
            self.assertIn(word, message)
        self.assertIsNone(server.poll())


class BadCommands(ClusterTest):
    def test_a_page_that_train_cannot_serve_is_a_usage_mistake_and_starts_nothing(self):
        for address, word in (("nonsense", "HOST:PORT"), ("0.0.0.0:7680", "ssh -L")):
            answer = self.tautline("train", self.job(), "--dashboard", address,
                                   "--output", self.folder / "run")
            self.assert_fails(answer, "--dashboard", address, word, status=2)
            self.assertFalse((self.folder / "run").exists())

    def test_a_usage_mistake_exits_with_two(self):
        for arguments in ((), ("fly",), ("submit",), ("stop", "x"), ("stop", "0"),
                          ("set-slack", "1", "-1"), ("set-slack", "1", "soon"),
                          ("train", "--mode", "sometimes"), ("train", "--workers", "0"),
                          ("train", "--mode", "bsp", "--slack", "2"),
                          ("train", "--pin", "0:1", "--workers", "3"),
                          ("status", "--coordinator", "a", "--config", "b")):
            answer = self.tautline(*arguments)
            self.assertEqual(answer.returncode, 2, arguments)
            self.assertTrue(answer.stderr, arguments)

    def test_a_missing_coordinator_is_reported_with_a_remedy(self):
        for arguments in (("status",), ("stop", 1), ("set-slack", 1, 0), ("submit", self.job())):
            answer = self.tautline(*arguments, "--coordinator", "127.0.0.1:9", "--wait", "0.3")
            self.assert_fails(answer, "no coordinator at 127.0.0.1:9 answered in 0.3 s",
                              "--coordinator")

    def test_the_coordinator_is_found_through_the_cluster_file(self):
        self.start_server()
        config = self.file("mine.textproto", f'coordinator_address: "{self.coordinator}"\n')
        answer = self.tautline("status", "--config", config)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("server0", answer.stdout)
