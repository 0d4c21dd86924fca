"""Trained models: started from, exported, tested, predicted with, sampled."""

import gzip
import hashlib
import json
import random
import re
import struct
import zlib

from cluster import *
from tensors import read_safetensors, write_safetensors

# The tables of cluster.NET over 8x8 images, in their order.
SHAPES = {"ip1/weight": (16, 64), "ip1/bias": (16,), "ip2/weight": (10, 16), "ip2/bias": (10,)}

CHARS = """
layer { name: "text" type: "Data" top: "data" top: "label" top: "cont"
  data_param { source: "input.txt" batch_size: 2 backend: TEXT } text_param { steps: 4 } }
layer { name: "embed" type: "Embed" bottom: "data" top: "embed"
  embed_param { input_dim: 5 num_output: 4 bias_term: false } }
layer { name: "lstm" type: "LSTM" bottom: "embed" bottom: "cont" top: "lstm"
  recurrent_param { num_output: 6 } }
layer { name: "scores" type: "InnerProduct" bottom: "lstm" top: "scores"
  inner_product_param { num_output: 5 axis: 2 } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label" top: "loss"
  softmax_param { axis: 2 } }
"""


def numbers(shape, draw):
    count = 1
    for extent in shape:
        count *= extent
    return struct.pack(f"<{count}f", *(draw.uniform(-0.5, 0.5) for _ in range(count)))


def write_png(path, side, pixels):
    """A gray image."""
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body
                + struct.pack(">I", zlib.crc32(kind + body)))
    rows = b"".join(b"\0" + pixels[i:i + side] for i in range(0, len(pixels), side))
    path.write_bytes(b"\x89PNG\r\n\x1a\n"
                     + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
                     + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    return path


class Models(ClusterTest):
    def weights(self, name="w.safetensors", seed=3):
        draw = random.Random(seed)
        self.tensors = {table: (shape, numbers(shape, draw)) for table, shape in SHAPES.items()}
        return write_safetensors(self.folder / name, self.tensors)

    def digest(self):
        """Of the parameters as a run prints it, where it starts with `weights` and learns
        nothing."""
        return hashlib.sha256(b"".join(data for _, data in self.tensors.values())).hexdigest()

    def still_job(self, **more):
        """A job that ends where it starts."""
        job = self.job(iterations=1, **more)
        job.write_text(job.read_text().replace("base_lr: 0.1", "base_lr: 0"))
        return job

    def fine(self, *arguments):
        answer = self.tautline(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer.stdout

    def fails(self, *arguments):
        answer = self.tautline(*arguments)
        self.assertEqual(answer.returncode, 1, answer.stdout + answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        return answer.stderr

    def test_a_run_starts_from_the_weights_bit_for_bit_with_servers_and_without(self):
        weights, job = self.weights(), self.still_job()
        alone = self.run_program("tautline-worker", "--local", job, "--weights", weights)
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertIn(self.digest(), alone.stdout)
        out = self.fine("train", job, "--weights", weights, "--servers", 2, "--shards", 2,
                        "--workers", 2, "--output", self.folder / "run")
        self.assertIn("weights: 4 of 4 parameters found\n", out)
        self.assertIn(self.digest(), out)
        # The run's own job file has it too, and a job's field is as good as the option.
        out = self.fine("train", self.folder / "run/job.textproto", "--output", self.folder / "two")
        self.assertIn(self.digest(), out)

    def test_a_submitted_job_starts_from_weights_of_which_a_part_exists(self):
        weights = self.weights()
        self.tensors.pop("ip2/bias")
        self.tensors["fc8/weight"] = ((2,), bytes(8))
        write_safetensors(weights, self.tensors)
        self.start_server(shards=2)
        self.start_worker("worker0")
        answer = self.ask("submit", self.still_job(), "--weights", weights)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertIn("weights: 3 of 4 parameters found; 1 start from their fillers: ip2/bias; "
                      "1 in the file not used: fc8/weight\n", answer.stdout)
        status = self.wait_for_job(1, "DONE")
        # The bias's filler is the constant 0.
        self.tensors.pop("fc8/weight")
        self.tensors["ip2/bias"] = ((10,), bytes(40))
        self.assertEqual(status["parameters_sha256"], self.digest())

    def test_weights_that_cannot_be_meant_end_in_one_line(self):
        job = self.still_job()
        self.weights()
        wide = dict(self.tensors, **{"ip1/weight": ((8, 128), bytes(4096))})
        path = write_safetensors(self.folder / "wide.safetensors", wide)
        self.assertIn('ip1/weight has shape 8x128, but layer "ip1" requires 16x64',
                      self.fails("train", job, "--weights", path))
        (self.folder / "old.caffemodel").write_bytes(b"\x89HDF\r\n\x1a\n")
        self.assertIn("old.caffemodel: cannot be read as HDF5: ",
                      self.fails("train", job, "--weights", "old.caffemodel"))
        self.assertIn("none.safetensors", self.fails("train", job, "--weights", "none.safetensors"))
        cut = self.folder / "cut.safetensors"
        cut.write_bytes(self.weights().read_bytes()[:-1])
        self.assertIn("cut.safetensors: ip2/bias is at bytes",
                      self.fails("train", job, "--weights", cut))

    def test_an_exported_model_holds_the_same_bits_in_all_formats(self):
        weights, job = self.weights(), self.job()
        self.fine("export", weights, "--net", job, "--output", "net.caffemodel")
        self.fine("export", "net.caffemodel", "--net", job, "--output", "net.caffemodel.h5")
        out = self.fine("export", "net.caffemodel.h5", "--net", job, "--output", "back.safetensors")
        self.assertEqual(out, "back.safetensors: 1,210 numbers in 4 tables\n")
        tensors, notes = read_safetensors(self.folder / "back.safetensors")
        self.assertEqual(tensors, {name: data for name, (_, data) in self.tensors.items()})
        self.assertIn("net_param", notes["tautline.job"])
        # What was exported knows its net.
        self.fine("export", "back.safetensors", "--output", "again.safetensors")
        self.assertEqual(read_safetensors(self.folder / "again.safetensors")[0], tensors)
        self.assertIn("does not say which net its parameters belong to; name it with --net",
                      self.fails("export", weights, "--output", "x.safetensors"))
        self.assert_fails(self.tautline("export", weights, "--output", "x.pt"),
                          "must be a .safetensors, a .caffemodel or a .caffemodel.h5 file",
                          status=2)
        out = self.fine("train", self.still_job(), "--weights", "net.caffemodel.h5", "--servers", 2,
                        "--output", self.folder / "run")
        self.assertIn(self.digest(), out)

    def test_a_tested_model_is_as_good_as_it_was_in_training(self):
        weights, job = self.weights(), self.still_job()
        alone = self.run_program("tautline-worker", "--local", job, "--weights", weights)
        accuracy = float(re.search(r"test accuracy: ([0-9.]+)", alone.stdout)[1])
        loss = float(re.search(r"test loss: ([0-9.]+)", alone.stdout)[1])
        # The job tests 4 batches of 8, which are the first of the data.
        tested = json.loads(self.fine("test", weights, "--net", job, "--iterations", 4, "--json"))
        self.assertEqual(tested["records"], 32)
        self.assertAlmostEqual(tested["outputs"]["accuracy"], accuracy, places=4)
        self.assertAlmostEqual(tested["outputs"]["loss"], loss, places=5)
        out = self.fine("test", weights, "--net", job)
        self.assertRegex(out, r"40 records in 5 batches\naccuracy: 0\.\d{6}\nloss: \d\.\d{6}\n")

    def test_predictions_of_records_agree_with_the_accuracy(self):
        weights, job = self.weights(), self.job()
        tested = json.loads(self.fine("test", weights, "--net", job, "--json"))
        self.file("names.txt", "".join(f"class, {i}\n" for i in range(10)))
        lines = self.fine("predict", weights, "--net", job, "--csv", "--names", "names.txt",
                          "--top", 3).splitlines()
        self.assertEqual(lines[0], "item,label,rank,class,name,score")
        self.assertEqual(len(lines), 1 + 40 * 3)
        self.assertRegex(lines[1], r'^0,\d,1,(\d),"class, \1",0\.\d{6}$')
        best = [line.split(",") for line in lines[1::3]]
        right = sum(item[1] == item[3] for item in best)
        self.assertAlmostEqual(right / 40, tested["outputs"]["accuracy"], places=5)
        text = self.fine("predict", weights, "--net", job, "--count", 5)
        self.assertEqual(text.count("\n"), 6)
        self.assertRegex(text, r"the best class is the label of \d of 5 items \(\d+\.0 %\)\n$")

    def test_predictions_as_json_are_those_as_csv(self):
        weights, job = self.weights(), self.job()
        items = [json.loads(line) for line in
                 self.fine("predict", weights, "--net", job, "--json", "--top", 2).splitlines()]
        rows = self.fine("predict", weights, "--net", job, "--csv", "--top", 2).splitlines()[1:]
        self.assertEqual(len(items), 40)
        for at, item in enumerate(items):
            first = rows[2 * at].split(",")
            self.assertEqual((item["item"], str(item["label"])), (first[0], first[1]))
            self.assertEqual(str(item["classes"][0]["class"]), first[3])
            self.assertAlmostEqual(item["classes"][0]["score"], float(first[5]), places=5)

    def test_an_image_that_cannot_be_read_is_named_as_it_was_given(self):
        weights, job = self.weights(), self.job()
        broken = self.file("broken.png", "no image")
        for image in (broken, self.folder / "nowhere.png"):
            error = self.fails("predict", weights, image, "--net", job)
            self.assertIn(str(image), error)
            self.assertNotIn("tautline-images", error)

    def test_an_image_is_predicted_as_the_record_with_its_pixels(self):
        weights, job = self.weights(), self.job()
        with gzip.open(self.folder / "data/t10k-images-idx3-ubyte.gz") as file:
            pixels = file.read()[16:]
        images = [write_png(self.folder / f"{i} .png", 8, pixels[64 * i:64 * i + 64])
                  for i in range(3)]
        of_images = self.fine("predict", weights, *images, "--net", job, "--top", 2).splitlines()
        of_records = self.fine("predict", weights, "--net", job, "--count", 3,
                               "--top", 2).splitlines()
        for i in range(3):
            self.assertEqual(of_images[i].split(".png:")[1],
                             re.sub(r"^\d+ \(label \d\):", "", of_records[i]))
        (self.folder / "cut.png").write_bytes(images[0].read_bytes()[:40])
        self.assertIn("cut.png", self.fails("predict", weights, "cut.png", "--net", job))
        self.assertIn("gone.png", self.fails("predict", weights, "gone.png", "--net", job))

    def test_a_model_that_does_not_fit_its_net_is_refused_by_name(self):
        weights, job = self.weights(), self.job()
        self.tensors.pop("ip2/bias")
        part = write_safetensors(self.folder / "part.safetensors", self.tensors)
        self.assertIn('tautline test: ' + str(part) + ': has nothing for "ip2/bias"',
                      self.fails("test", part, "--net", job))
        self.assertIn("tautline predict: ", self.fails("predict", self.folder / "none"))
        self.assertIn("holds no whole checkpoint", self.fails("test", self.folder / "data"))
        self.assertIn("text is sampled from", self.fails("sample", weights, "--net", job))

    def test_a_seed_samples_the_same_text_again(self):
        self.file("input.txt", "abcab\n" * 60)
        net = self.file("net.prototxt", CHARS)
        draw = random.Random(5)
        shapes = {"embed/weight": (5, 4), "lstm/weight_x": (24, 4), "lstm/bias_x": (24,),
                  "lstm/weight_h": (24, 6), "scores/weight": (5, 6), "scores/bias": (5,)}
        model = write_safetensors(self.folder / "chars.safetensors",
                                  {name: (shape, numbers(shape, draw))
                                   for name, shape in shapes.items()})
        sample = ["sample", model, "--net", net, "--prime", "ab", "--length", 40]
        one, again = self.fine(*sample, "--seed", 4), self.fine(*sample, "--seed", 4)
        self.assertEqual(one, again)
        self.assertEqual(len(one), 2 + 40 + 1)
        self.assertTrue(one.startswith("ab") and set(one) <= set("abc\n"), one)
        self.assertNotEqual(one, self.fine(*sample, "--seed", 5))
        likeliest = self.fine(*sample, "--temperature", 0)
        self.assertEqual(likeliest, self.fine(*sample, "--temperature", 0, "--seed", 9))

    def test_a_summary_counts_the_cost_of_a_net(self):
        out = self.fine("summary", SOURCE / "configs/models/lenet.prototxt", "--batch", 1)
        self.assertIn("parameters: 431,080; 8 tables\n", out)
        self.assertIn("one forward pass: 2.29 M multiply-adds (4.59 M FLOPs)\n", out)
        self.assertTrue(all(len(line) <= 100 for line in out.splitlines()))
        counted = json.loads(self.fine("summary", SOURCE / "configs/models/lenet.prototxt",
                                       "--batch", 2, "--json"))
        self.assertEqual(counted["multiply_adds"], 2 * 2_293_000)


if __name__ == "__main__":
    unittest.main()
