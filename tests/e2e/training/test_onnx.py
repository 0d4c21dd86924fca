"""Exported models in onnxruntime: it must compute what we compute, on Fashion-MNIST and on text."""

import pathlib
import re
import struct
import subprocess

import npm_packages
from cluster import *
from tensors import distance, read_shaped, write_safetensors

PACKAGES = pathlib.Path(__file__).parent.parent / "onnx"
TOOLS = BIN.parent / "onnxruntime"
FASHION = "/usr/share/datasets/fashion-mnist"
# Of an output's largest number: single precision, summed in another order.
TOLERANCE = 1e-5

SOLVER = """
solver_param {{ base_lr: {rate} momentum: 0.9 max_iter: {iterations} }}
"""

IMAGES = """
layer { name: "images" type: "Data" top: "data" top: "label"
  transform_param { scale: 0.00390625 }
  data_param { source: "%s" batch_size: 6 backend: IDX %s } }
"""

# Recurrent layers, stacked, with states that are given, constant bottoms and each kind of cell.
ROWS = """
layer { name: "markers" type: "DummyData" top: "cont" top: "mask"
  dummy_data_param { shape { dim: 28 dim: 6 } classes: 2 } }
layer { name: "states" type: "DummyData" top: "h" top: "c"
  dummy_data_param { shape { dim: 2 dim: 6 dim: 8 } data_filler { type: "gaussian" } } }
layer { name: "constants" type: "DummyData" top: "fixed"
  dummy_data_param { shape { dim: 6 dim: 3 } data_filler { type: "gaussian" } } }
"""

RECURRENT = """
layer { name: "%(name)s" type: "%(type)s" %(ports)s
  recurrent_param { num_output: 8 %(more)s weight_filler { type: "uniform" min: -0.5 max: 0.5 }
    bias_filler { type: "uniform" min: -0.5 max: 0.5 } } }
"""


def recurrent(name, kind, bottoms, more="", tops=None):
    ports = "".join(f'bottom: "{bottom}" ' for bottom in bottoms)
    ports += "".join(f'top: "{top}" ' for top in tops or [name])
    return RECURRENT % {"name": name, "type": kind, "ports": ports, "more": more}


def loss(scores, axis=1):
    return (f'layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "{scores}" bottom: "label" '
            f'top: "loss" softmax_param {{ axis: {axis} }} }}')


class Onnx(ClusterTest):
    def setUp(self):
        super().setUp()
        npm_packages.fetch(self, PACKAGES, TOOLS)

    def train(self, net, iterations=4, rate=0.01, data=FASHION):
        """A trained model of the net's text."""
        job = self.file("job.textproto", f'name: "m"\nworkers: 1\ndata {{ folder: "{data}" }}\n'
                        + "net_param {\n" + net + "\n}\n"
                        + SOLVER.format(rate=rate, iterations=iterations))
        run = self.folder / "run"
        answer = self.tautline("train", job, "--output", run)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return run / "checkpoints"

    def config(self, name):
        """A model's text without its data layers."""
        text = (SOURCE / "configs/models" / f"{name}.prototxt").read_text()
        layers = re.split(r"^(?=layer \{)", text, flags=re.M)
        return "".join(one for one in layers[1:] if '"Data"' not in one)

    def compare(self, model, batch=5, states=None, more=()):
        """Runs both; returns what the export printed, and the names of the outputs.
        batch   None: the net's own
        states  the shapes of the net's inputs of zeros"""
        onnx = self.folder / "model.onnx"
        answer = self.tautline("export", model, "--onnx", onnx, *more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        ours = self.folder / "ours.safetensors"
        records = [] if batch is None else ["--batch", batch]
        done = self.tautline("outputs", model, *records, "--output", ours)
        self.assertEqual(done.returncode, 0, done.stderr)
        tensors, _ = read_shaped(ours)
        for name, shape in (states or {}).items():
            count = 1
            for extent in shape:
                count *= extent
            tensors[name] = (shape, struct.pack(f"<{count}f", *[0.0] * count))
        given = write_safetensors(self.folder / "given.safetensors", tensors)
        found = self.folder / "theirs.safetensors"
        run = subprocess.run(["node", TOOLS / "run.mjs", onnx, given, found], cwd=TOOLS,
                             capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        theirs, _ = read_shaped(found)
        compared = 0
        for name, (shape, data) in theirs.items():
            if name not in tensors:
                self.assertRegex(name, "/[hc]_T$", "an output that is not ours")
                continue
            self.assertEqual(shape, tensors[name][0], name)
            apart = distance(tensors[name][1], data)
            print(f"{name}: {apart:.1e}")
            self.assertLessEqual(apart, TOLERANCE, name)
            compared += 1
        self.assertGreater(compared, 0)
        return answer.stdout, {name for name in theirs if name in tensors}

    def test_lenet_gives_our_outputs_in_onnxruntime(self):
        model = self.train(IMAGES % (FASHION, "") + self.config("lenet"), iterations=20)
        printed, outputs = self.compare(model, batch=50)
        self.assertIn("data Nx1x28x28 to ip2 Nx10", printed)
        self.assertEqual(outputs, {"ip2"})

    def test_resnet18_gives_our_outputs_in_onnxruntime(self):
        model = self.train(IMAGES % (FASHION, "") + self.config("resnet18"), iterations=3)
        _, outputs = self.compare(model, batch=4)
        self.assertEqual(outputs, {"fc1000"})

    def test_an_lstm_over_rows_gives_our_outputs_in_onnxruntime(self):
        model = self.train(IMAGES % (FASHION, "rows: true") + self.config("row_lstm"))
        printed, outputs = self.compare(model)
        self.assertIn("data 28xNx28 to scores Nx10", printed)
        self.assertEqual(outputs, {"scores"})

    def test_a_transformer_over_rows_gives_our_outputs_in_onnxruntime(self):
        text = self.config("transformer")
        text = text[text.index('layer {\n  name: "position"'):]
        rows = ('layer { name: "embed" type: "InnerProduct" bottom: "data" top: "embed" '
                'inner_product_param { num_output: 64 axis: 2 weight_filler { type: "xavier" } } }')
        text = text[:text.index('layer {\n  name: "loss"')]
        last = ('layer { name: "steps" type: "Slice" bottom: "scores" top: "before" top: "last" '
                'slice_param { axis: 0 slice_point: 27 } }\n'
                'layer { name: "classes" type: "Reshape" bottom: "last" top: "classes" '
                'reshape_param { shape { dim: -1 dim: 66 } } }\n')
        model = self.train(IMAGES % (FASHION, "rows: true") + rows + text + last + loss("classes"),
                           rate=0.1)
        _, outputs = self.compare(model)
        self.assertEqual(outputs, {"before", "classes"})

    def text_data(self):
        """A folder with a text of at most 66 different characters."""
        text = (SOURCE / "docs/ARCHITECTURE.md").read_text().lower()
        text = re.sub(r"[^a-z .,\n]", "", text)
        folder = self.folder / "text"
        folder.mkdir()
        (folder / "input.txt").write_text(text)
        return folder

    def test_a_transformer_over_text_gives_our_outputs_in_onnxruntime(self):
        text = (SOURCE / "configs/models/transformer.prototxt").read_text()
        model = self.train(text[text.index("layer {"):], data=self.text_data(), rate=0.1)
        printed, outputs = self.compare(model)
        self.assertIn("data 64xN to scores 64xNx66", printed)
        self.assertEqual(outputs, {"scores"})

    def test_a_state_that_is_carried_is_an_input_and_an_output_of_the_onnx_file(self):
        text = (SOURCE / "configs/models/char_lstm.prototxt").read_text()
        model = self.train(text[text.index("layer {"):], data=self.text_data())
        printed, _ = self.compare(model, states={"lstm/h_0": [2, 5, 128], "lstm/c_0": [2, 5, 128]})
        self.assertIn("lstm/h_0 2xNx128", printed)
        self.assertIn("lstm/c_T 2xNx128", printed)

    def test_every_other_layer_gives_our_outputs_in_onnxruntime(self):
        model = self.train(IMAGES % (FASHION, "") + (PACKAGES / "layers.prototxt").read_text()
                           + loss("scores"))
        printed, outputs = self.compare(model)
        self.assertIn("any batch", printed)
        self.assertIn("best_class", outputs)
        self.assertNotIn("whole", outputs)
        # A batch that is fixed.
        printed, _ = self.compare(model, batch=3, more=("--batch", 3))
        self.assertIn("data 3x1x28x28", printed)

    def test_every_recurrent_layer_gives_our_outputs_in_onnxruntime(self):
        last = "last_step: true"
        net = IMAGES % (FASHION, "rows: true") + ROWS
        net += recurrent("plain", "RNN", ["data"], "num_layers: 2 " + last)
        net += recurrent("own_output", "RNN", ["data"], "output_transform: false")
        net += recurrent("gru", "GRU", ["data"], "num_layers: 2")
        # Sequences that start anywhere are a Scan.
        net += recurrent("gru_cont", "GRU", ["data", "cont"], "num_layers: 2 carry_state: false")
        net += recurrent("rnn_cont", "RNN", ["data", "cont", "fixed"], "carry_state: false")
        net += recurrent("lstm_cont", "LSTM", ["data", "cont"])
        net += recurrent("lstm_given", "LSTM", ["data", "cont", "fixed", "h", "c"],
                         "num_layers: 2 expose_hidden: true",
                         ["lstm_given", "last_h", "last_c"])
        net += """
            layer { name: "queries" type: "InnerProduct" bottom: "data" top: "queries"
              inner_product_param { num_output: 8 axis: 2 weight_filler { type: "xavier" } } }
            layer { name: "norm" type: "LayerNorm" bottom: "queries" top: "norm"
              layer_norm_param { axis: 2 affine: false } }
            layer { name: "seen" type: "MultiHeadAttention" bottom: "norm" bottom: "mask"
              top: "seen" attention_param { num_heads: 2 causal: true bias_term: false
                weight_filler { type: "xavier" } } }
            layer { name: "scores" type: "InnerProduct" bottom: "plain" top: "scores"
              inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }"""
        model = self.train(net + loss("scores"))
        _, outputs = self.compare(
            model, batch=None, states={"lstm_cont/h_0": [1, 6, 8], "lstm_cont/c_0": [1, 6, 8]})
        self.assertEqual(outputs, {"own_output", "gru", "gru_cont", "rnn_cont", "lstm_cont",
                                   "lstm_given", "last_h", "last_c", "seen", "scores"})

    def test_an_export_without_a_file_or_into_no_folder_is_refused(self):
        model = self.train(IMAGES % (FASHION, "") + self.config("lenet"), iterations=1)
        self.assert_fails(self.tautline("export", model), "--output FILE", "--onnx FILE", status=2)
        self.assert_fails(self.tautline("export", model, "--onnx", "nowhere/x.onnx"), "nowhere")


if __name__ == "__main__":
    import unittest
    unittest.main()
