"""What workers write down, read back by readers that share no code with the writers."""

import csv
import json
import struct
import subprocess

from cluster import *


def crc32c(data):
    """The checksum bit by bit, from its polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def tf_records(data):
    """The records of a TFRecord file; every checksum is checked."""
    at = 0
    while at < len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at:at + 8]), f"length at {at}"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, f"truncated at {at}"
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(body), f"body at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """A protobuf message as {field number: [value, ...]}; nested ones stay bytes."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        elif kind == 5:
            value, at = struct.unpack_from("<f", data, at)[0], at + 4
        else:
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found


def tensorboard_values(file):
    """{tag: [(step, number or (buckets, total))]} of an event file."""
    events = [fields(record) for record in tf_records(file.read_bytes())]
    assert events[0][3] == [b"brain.Event:2"]
    values = {}
    for event in events[1:]:
        for one in fields(event[5][0])[1]:
            value = fields(one)
            if 2 in value:
                number = value[2][0]
            else:
                histogram = fields(value[5][0])
                buckets = histogram[7][0]
                number = (sum(struct.unpack(f"<{len(buckets) // 8}d", buckets)), histogram[3][0])
            values.setdefault(value[1][0].decode(), []).append((event.get(2, [0])[0], number))
    return values


def read_by_protoc(record):
    """A protobuf message as Google's own tool prints it without any schema, one field a line."""
    done = subprocess.run(["protoc", "--decode_raw"], input=record, capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr.decode()
    return [line.strip() for line in done.stdout.decode().splitlines()]


def bits(code, value):
    """A number as protoc prints a fixed field."""
    width = struct.calcsize(code)
    return f"0x{int.from_bytes(struct.pack(code, value), 'little'):0{2 * width}x}"


class Records(ClusterTest):
    def train(self, *arguments, workers=2):
        run = self.folder / "run"
        answer = self.tautline("train", self.job(workers=workers, iterations=30), "--output", run,
                               "--force", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return run, json.loads((run / "summary.json").read_text())

    def rows(self, run, worker):
        with open(run / f"job1-{worker}/metrics.csv", newline="") as file:
            return list(csv.DictReader(file))

    def test_metrics_csv_agrees_with_the_summary_clock_by_clock(self):
        run, summary = self.train("--slack", 2)
        for worker in summary["workers"]:
            rows = [row for row in self.rows(run, worker["name"]) if row["loss"]]
            self.assertEqual([int(row["clock"]) for row in rows], list(range(30)))
            self.assertEqual(sum(int(row["images"]) for row in rows), worker["images"])
            self.assertAlmostEqual(sum(float(row["wait_s"]) for row in rows), worker["wait_s"],
                                   places=3)
            self.assertTrue(all(int(row["staleness_max"]) <= 2 for row in rows))
            walls = [float(row["wall_s"]) for row in rows]
            self.assertEqual(walls, sorted(walls))
        reads = sum(int(row["reads"] or 0) for worker in summary["workers"]
                    for row in self.rows(run, worker["name"]))
        self.assertEqual(reads, sum(one["reads"] for one in summary["staleness"]))
        tests = [(int(row["clock"]), float(row["test_accuracy"]))
                 for worker in summary["workers"] for row in self.rows(run, worker["name"])
                 if row["test_accuracy"]]
        for (clock, accuracy), one in zip(tests, summary["evaluations"], strict=True):
            self.assertEqual(clock, one["iteration"])
            self.assertAlmostEqual(accuracy, one["accuracy"], places=4)

    def test_the_reference_names_every_column_and_key_of_a_run(self):
        run, summary = self.train()
        self.assertEqual(list(self.rows(run, "worker0")[0]), documented("metrics.csv")[0])
        tests, = run.glob("job1-worker*/tests.csv")  # of the worker that runs tests
        with open(tests, newline="") as file:
            self.assertEqual(next(csv.reader(file)), documented("tests.csv")[0])
        keys, of_worker = documented("summary.json")
        self.assertEqual(set(summary), set(keys))
        self.assertEqual(set(summary["workers"][0]), set(of_worker))

    def test_tensorboard_files_are_read_back_by_another_reader(self):
        run, summary = self.train("--records", "all")
        rows = [row for row in self.rows(run, "worker0") if row["loss"]]
        files = list((run / "job1-worker0").glob("events.out.tfevents.*"))
        self.assertEqual(len(files), 1)
        values = tensorboard_values(files[0])
        self.assertEqual([step for step, _ in values["train/loss"]], list(range(30)))
        for (_, loss), row in zip(values["train/loss"], rows, strict=True):
            self.assertAlmostEqual(loss, float(row["loss"]), places=4)
        evaluator = [w for w in ("worker0", "worker1")
                     if any(row["test_accuracy"] for row in self.rows(run, w))]
        self.assertEqual(len(evaluator), 1)
        file = next((run / f"job1-{evaluator[0]}").glob("events.out.tfevents.*"))
        accuracies = tensorboard_values(file)["test/accuracy"]
        self.assertEqual([step for step, _ in accuracies],
                         [one["iteration"] for one in summary["evaluations"]])
        for what in ("value", "gradient"):
            tags = [tag for tag in values if tag.startswith(what + "/")]
            self.assertEqual(len(tags), 4)  # weights and biases of two layers
            for tag in tags:
                step, (counted, total) = values[tag][0]
                self.assertEqual((step, counted), (0, total))
                self.assertGreater(total, 0)

    def test_the_protobuf_tool_reads_every_tensorboard_event(self):
        run, _ = self.train("--records", "all", workers=1)
        rows = [row for row in self.rows(run, "worker0") if row["loss"]]
        file = next((run / "job1-worker0").glob("events.out.tfevents.*"))
        events = [read_by_protoc(record) for record in tf_records(file.read_bytes())]
        # TensorBoard's event.proto: 1 wall_time, 2 step, 3 file_version, 5 summary.
        self.assertIn('3: "brain.Event:2"', events[0])
        losses, histograms = [], []
        for event in events[1:]:
            self.assertRegex(event[0], "^1: 0x[0-9a-f]{16}$")
            wall = struct.unpack("<d", int(event[0][3:], 16).to_bytes(8, "little"))[0]
            self.assertGreater(wall, 1.6e9)  # seconds since 1970
            self.assertIn("5 {", event)
            # summary.proto: of a value 1 tag, 2 simple_value; 5 histo, whose 3 is num.
            if '1: "train/loss"' in event:
                step = next((line for line in event if line.startswith("2: ")), "")
                losses.append((step, event[event.index('1: "train/loss"') + 1]))
            histograms += [event for line in event if line.startswith('1: "gradient/ip1')]
        # The clock 0 is no field: proto3 omits zeros.
        self.assertEqual([step for step, _ in losses[1:]], [f"2: {i}" for i in range(1, 30)])
        for (_, value), row in zip(losses, rows, strict=True):
            self.assertRegex(value, "^2: 0x[0-9a-f]{8}$")
            loss = struct.unpack("<f", int(value[3:], 16).to_bytes(4, "little"))[0]
            self.assertAlmostEqual(loss, float(row["loss"]), places=4)
        sizes = {bits("<d", 64 * 16), bits("<d", 16)}  # weights and biases of the first layer
        found = {line[3:] for event in histograms for line in event if line[3:] in sizes}
        self.assertEqual(found, sizes)

    def test_tensorboard_itself_reads_the_files(self):
        try:
            from tensorboard.backend.event_processing import event_accumulator
        except ImportError:
            self.skipTest("TensorBoard is not installed for this Python")
        run, _ = self.train("--records", "tensorboard")
        read = event_accumulator.EventAccumulator(str(run / "job1-worker0"))
        read.Reload()
        self.assertEqual(len(read.Scalars("train/loss")), 30)
        self.assertTrue(read.Tags()["histograms"])

    def test_no_record_leaves_no_file(self):
        run, _ = self.train("--records", "none")
        self.assertEqual(list(run.glob("job1-*")), [])

    def test_records_end_with_the_last_clocks_when_the_worker_is_killed(self):
        self.start_server()
        folder = self.folder / "records"
        worker = self.start_daemon("worker", "worker0",
                                   more=f'records {{ folder: "{folder}" metrics: true }}')
        self.ask("submit", self.job(iterations=1000000))
        file = folder / "job1-worker0/metrics.csv"
        wait_until(lambda: file.exists() and len(file.read_text().splitlines()) > 50, what="lines")
        worker.kill()
        worker.wait()
        lines = file.read_text().splitlines()
        self.assertEqual(lines[0].split(",")[0], "clock")
        self.assertTrue(all(line.count(",") == lines[0].count(",") for line in lines[:-1]))

    def test_an_unknown_record_is_a_usage_mistake_that_names_the_known_ones(self):
        answer = self.tautline("train", self.job(), "--records", "metrics,tensorbord")
        self.assert_fails(answer, "tensorbord", "metrics, tensorboard, timeline, all", status=2)
