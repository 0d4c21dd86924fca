"""PyTorch's state_dict by .safetensors, both ways: the same outputs, and the same bits back."""

import pathlib

from cluster import BIN
from tensors import distance, read_safetensors, read_shaped
from training.python_members import PythonMembers

FASHION = "/usr/share/datasets/fashion-mnist"
TOLERANCE = 1e-5  # of the largest output

NETS = {"cnn": """
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 8 kernel_size: 5 stride: 2 bias_term: false
    weight_filler { type: "xavier" } } }
layer { name: "norm" type: "BatchNorm" bottom: "conv1" top: "conv1" }
layer { name: "scale" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "part/conv2" type: "Convolution" bottom: "conv1" top: "conv2"
  convolution_param { num_output: 12 kernel_size: 3 pad: 1 group: 4
    weight_filler { type: "xavier" } } }
layer { name: "slopes" type: "PReLU" bottom: "conv2" top: "prelu" }
layer { name: "pool" type: "Pooling" bottom: "prelu" top: "pool"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 20 transpose: true weight_filler { type: "xavier" } } }
layer { name: "tanh" type: "TanH" bottom: "ip" top: "ip" }
layer { name: "scores" type: "InnerProduct" bottom: "ip" top: "scores"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
"""}
for kind in ("LSTM", "GRU"):
    NETS[kind.lower()] = """
layer { name: "rnn" type: "%s" bottom: "data" top: "rnn"
  recurrent_param { num_output: 24 num_layers: 2 last_step: true
    weight_filler { type: "uniform" min: -0.2 max: 0.2 }
    bias_filler { type: "uniform" min: -0.2 max: 0.2 } } }
layer { name: "scores" type: "InnerProduct" bottom: "rnn" top: "scores"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
""" % kind

# What both PyTorch programs have: the nets as modules, and files of tensors.
MODULES = """
    import json, struct, sys
    import torch
    from torch import nn

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 8, 5, stride=2, bias=False)
            self.norm = nn.BatchNorm2d(8)
            self.part = nn.ModuleDict({"conv2": nn.Conv2d(8, 12, 3, padding=1, groups=4)})
            self.slopes = nn.PReLU(12)
            self.ip = nn.Linear(12 * 36, 20)
            self.scores = nn.Linear(20, 10)

        def forward(self, x):
            x = self.slopes(self.part["conv2"](torch.relu(self.norm(self.conv1(x)))))
            x = torch.flatten(nn.functional.max_pool2d(x, 2), 1)
            return self.scores(torch.tanh(self.ip(x)))

    class Rows(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.rnn = kind(28, 24, num_layers=2)
            self.scores = nn.Linear(24, 10)

        def forward(self, x):
            return self.scores(self.rnn(x)[0][-1])

    def module(kind):
        torch.manual_seed(3)
        return Cnn() if kind == "cnn" else Rows(getattr(nn, kind.upper()))

    def load(path):
        data = bytearray(open(path, "rb").read())
        start = 8 + struct.unpack("<Q", data[:8])[0]
        head = json.loads(data[8:start])
        head.pop("__metadata__", None)
        types = {"F32": torch.float32, "I64": torch.int64}
        return {name: torch.frombuffer(data[start + entry["data_offsets"][0]:]
                                       [:entry["data_offsets"][1] - entry["data_offsets"][0]],
                                       dtype=types[entry["dtype"]]).reshape(entry["shape"])
                for name, entry in head.items()}

    def save(tensors, path):
        types = {torch.float32: "F32", torch.int64: "I64"}
        head, parts, offset = {}, [], 0
        for name, tensor in tensors.items():
            parts.append(tensor.detach().contiguous().numpy().tobytes())
            head[name] = {"dtype": types[tensor.dtype], "shape": list(tensor.shape),
                          "data_offsets": [offset, offset + len(parts[-1])]}
            offset += len(parts[-1])
        text = json.dumps(head).encode()
        open(path, "wb").write(struct.pack("<Q", len(text)) + text + b"".join(parts))
"""

# Computes with the parameters of a file and saves them again: KIND STATE BLOBS OUT BACK.
RUN = MODULES + """
    kind, state, blobs, out, back = sys.argv[1:]
    model = module(kind)
    model.load_state_dict(load(state))
    model.eval()
    with torch.no_grad():
        save({"scores": model(load(blobs)["data"])}, out)
    save(model.state_dict(), back)
"""

# A module as PyTorch initializes and trains it: KIND STATE.
MAKE = MODULES + """
    kind, state = sys.argv[1:]
    model = module(kind)
    if kind == "cnn":
        model.train()
        model(torch.rand(50, 1, 28, 28))                # statistics
    save(model.state_dict(), state)
"""

BOTH_ORDERS = ("import torch, tautline; print(torch.ones(2).sum(), tautline.__version__)",
               "import tautline, torch; print(torch.ones(2).sum(), tautline.__version__)")


class StateDict(PythonMembers):
    module = "torch"

    def fine(self, *arguments):
        answer = self.tautline(*arguments)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def net(self, kind, rate=0.01):
        rows = "" if kind == "cnn" else "rows: true"
        return self.file(f"{kind}.textproto", f"""
            name: "{kind}" workers: 1 data {{ folder: "{FASHION}" }}
            net_param {{
              layer {{ name: "images" type: "Data" top: "data" top: "label"
                transform_param {{ scale: 0.00390625 }}
                data_param {{ source: "{FASHION}" batch_size: 16 backend: IDX {rows} }} }}
              {NETS[kind]}
              layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "scores" bottom: "label"
                top: "loss" }}
            }}
            solver_param {{ base_lr: {rate} momentum: 0.9 max_iter: 5 }}""")

    def trained(self, kind):
        self.fine("train", self.net(kind), "--output", self.folder / kind)
        return self.folder / kind / "checkpoints"

    def outputs(self, kind, model, name, *more):
        self.fine("outputs", model, "--output", self.folder / name, *more)
        return read_shaped(self.folder / name)[0]["scores"][1]

    def assert_close(self, what, ours, theirs):
        apart = distance(ours, theirs)
        print(f"{what}: {apart:.1e}")
        self.assertLessEqual(apart, TOLERANCE, what)

    def in_pytorch(self, kind, state, blobs):
        """The scores, and the file that PyTorch saved."""
        back = self.folder / "back.safetensors"
        self.run_python(RUN, kind, self.folder / state, self.folder / blobs,
                        self.folder / "out.safetensors", back)
        return read_safetensors(self.folder / "out.safetensors")[0]["scores"], back

    def there_and_back(self, kind):
        model = self.trained(kind)
        ours = self.outputs(kind, model, "ours.safetensors")
        self.fine("export", model, "--pytorch", self.folder / "state.safetensors", "--output",
                  self.folder / "tables.safetensors")
        theirs, back = self.in_pytorch(kind, "state.safetensors", "ours.safetensors")
        self.assert_close(f"{kind} in PyTorch", ours, theirs)
        # Back again: the same state_dict, tables and outputs, bit for bit.
        net = ("--net", self.net(kind))
        self.fine("export", back, *net, "--pytorch", self.folder / "again.safetensors",
                  "--output", self.folder / "tables_again.safetensors")
        self.assertEqual(read_safetensors(self.folder / "again.safetensors")[0],
                         read_safetensors(back)[0])
        self.assertEqual(read_safetensors(self.folder / "state.safetensors")[0],
                         read_safetensors(back)[0])
        tables, _ = read_safetensors(self.folder / "tables.safetensors")
        again, _ = read_safetensors(self.folder / "tables_again.safetensors")
        for name in tables:
            if not name.startswith("norm/"):  # sums, of which PyTorch has the means
                self.assertEqual(tables[name], again[name], name)
        third = self.outputs(kind, back, "third.safetensors", *net)
        if kind == "cnn":  # its statistics were divided in double precision, and are floats now
            self.assert_close(f"{kind} back again", ours, third)
        else:
            self.assertEqual(third, ours)

    def from_pytorch(self, kind):
        """A module of PyTorch's gives its outputs here."""
        state = self.folder / "made.safetensors"
        self.run_python(MAKE, kind, state)
        ours = self.outputs(kind, state, "ours.safetensors", "--net", self.net(kind))
        theirs, _ = self.in_pytorch(kind, "made.safetensors", "ours.safetensors")
        self.assert_close(f"{kind} of PyTorch's", theirs, ours)

    def test_a_cnn_moves_to_pytorch_and_back(self):
        self.there_and_back("cnn")

    def test_an_lstm_moves_to_pytorch_and_back(self):
        self.there_and_back("lstm")

    def test_a_gru_moves_to_pytorch_and_back(self):
        self.there_and_back("gru")

    def test_modules_of_pytorch_give_their_outputs_here(self):
        for kind in NETS:
            with self.subTest(kind):
                self.from_pytorch(kind)

    def test_a_training_starts_from_a_state_dict(self):
        for kind in NETS:
            with self.subTest(kind):
                state = self.folder / f"{kind}.safetensors"
                self.run_python(MAKE, kind, state)
                run = self.folder / f"from_{kind}"
                self.fine("train", self.net(kind, rate=0), "--weights", state, "--output", run,
                          "--max-iter", 1)
                learned = self.folder / "learned.safetensors"
                self.fine("export", run / "checkpoints", "--pytorch", learned)
                arrays, _ = read_safetensors(state)
                for name, data in read_safetensors(learned)[0].items():
                    if "running" in name or "tracked" in name or "bias_" in name:
                        continue  # moved by the batch, or two in one
                    self.assertEqual(data, arrays[name], name)

    def test_modules_of_other_names_are_renamed(self):
        model = self.trained("gru")
        names = self.file("names.txt", "# ours theirs\nrnn encoder.cells\nscores head.1\n")
        state = self.folder / "renamed.safetensors"
        self.fine("export", model, "--pytorch", state, "--names", names)
        found, _ = read_safetensors(state)
        self.assertIn("encoder.cells.weight_ih_l0", found)
        self.assertIn("head.1.bias", found)
        self.fine("export", state, "--net", self.net("gru"), "--names", names, "--output",
                  self.folder / "back.safetensors")
        self.fine("export", model, "--output", self.folder / "tables.safetensors")
        self.assertEqual(read_safetensors(self.folder / "back.safetensors")[0],
                         read_safetensors(self.folder / "tables.safetensors")[0])
        # Without the names it is no file of this net.
        self.assert_fails(self.tautline("export", state, "--net", self.net("gru"), "--output",
                                        self.folder / "x.safetensors"), "names of the net's layers")
        wrong = self.file("wrong.txt", "rmn encoder\n")
        self.assert_fails(self.tautline("export", model, "--pytorch", state, "--names", wrong),
                          "wrong.txt:1", '"rmn"')

    def test_pytorch_and_our_library_load_in_either_order(self):
        """PyTorch has ONNX's schema in the same protobuf registry."""
        library = pathlib.Path(self.environment["TAUTLINE_LIBRARY"]).read_bytes()
        self.assertNotIn(b"taut.onnx", library)
        self.assertNotIn(b"taut/onnx", library)
        self.assertIn(b"taut.onnx", (BIN / "tautline").read_bytes())
        for code in BOTH_ORDERS:
            self.assertIn("tensor(2.)", self.run_python(code))


if __name__ == "__main__":
    import unittest
    unittest.main()
