#!/usr/bin/python3
"""Runs a net's training phase in PyTorch, read from its prototxt: the peer of run_net.

Times it on synthetic images, one thread; or with --compare FOLDER, which `run_net --dump` has
written, computes the loss and all gradients of the same weights and batch in float64 and in
float32, and prints the errors of run_net and of float32 against float64. Ends with 1 where
run_net's is more than twice float32's, and with 77 where PyTorch is not installed.

example: tests/bench/torch_net.py configs/models/resnet18.prototxt --batch 16
"""
import argparse
import pathlib
import re
import statistics
import sys
import time

try:
    import torch
    from torch.nn import functional as F
except ImportError:
    print("skipped: PyTorch is not installed (apt install python3-torch libopenblas0)")
    sys.exit(77)


def parse(text):
    """A text protobuf as a list of (name, value); a message's value is such a list."""
    tokens = re.findall(r'"[^"]*"|[{}]|[^\s{}:]+', re.sub(r"#.*", "", text))
    place = 0

    def message():
        nonlocal place
        fields = []
        while place < len(tokens) and tokens[place] != "}":
            name, value = tokens[place], tokens[place + 1]
            place += 2
            if value == "{":
                value = message()
                place += 1
            fields.append((name, value.strip('"') if isinstance(value, str) else value))
        return fields
    return message()


class Layer:
    def __init__(self, fields):
        self.name, self.type = self.one(fields, "name"), self.one(fields, "type")
        self.bottoms = [value for name, value in fields if name == "bottom"]
        self.tops = [value for name, value in fields if name == "top"]
        phases = [self.one(value, "phase") for name, value in fields if name == "include"]
        self.trains = not phases or "TRAIN" in phases
        self.loss_weight = float(self.one(fields, "loss_weight", 1))
        self.parameter = next((value for name, value in fields if name.endswith("_param")
                               and name not in ("transform_param", "data_param")), [])

    @staticmethod
    def one(fields, name, otherwise=None):
        return next((value for key, value in fields if key == name), otherwise)

    def number(self, name, otherwise=0, kind=int):
        return kind(self.one(self.parameter, name, otherwise))

    def flag(self, name, otherwise):
        return self.one(self.parameter, name, otherwise) == "true"


class Net:
    """Layers in order. `parameters`: "<layer>/<name>" to tensor."""

    def __init__(self, path, parameters):
        fields = parse(pathlib.Path(path).read_text(encoding="utf-8"))
        layers = [Layer(value) for name, value in fields if name == "layer"]
        self.layers = [layer for layer in layers if layer.trains and layer.type != "Data"]
        self.parameters = parameters

    def of(self, layer, name):
        return self.parameters.get(f"{layer.name}/{name}")

    def loss(self, images, labels):
        blobs = {"data": images, "label": labels}
        total = 0
        normalized = None  # a batch normalization that its Scale will complete
        for layer in self.layers:
            bottoms = [blobs[name] for name in layer.bottoms]
            if layer.type == "SoftmaxWithLoss":
                total = total + layer.loss_weight * F.cross_entropy(*bottoms)
            elif layer.type == "BatchNorm":
                normalized = layer
            elif layer.type == "Scale":
                eps = normalized.number("eps", 1e-5, float)
                blobs[layer.tops[0]] = F.batch_norm(bottoms[0], None, None, self.of(layer, "scale"),
                                                    self.of(layer, "bias"), True, 0, eps)
            else:
                blobs[layer.tops[0]] = getattr(self, layer.type)(layer, *bottoms)
        return total

    def Convolution(self, layer, x):
        return F.conv2d(x, self.of(layer, "weight"), self.of(layer, "bias"),
                        layer.number("stride", 1), layer.number("pad"), 1,
                        layer.number("group", 1))

    def InnerProduct(self, layer, x):
        return F.linear(x.flatten(1), self.of(layer, "weight"), self.of(layer, "bias"))

    def Pooling(self, layer, x):
        if layer.flag("global_pooling", "false"):
            return F.adaptive_avg_pool2d(x, 1)
        pool = F.avg_pool2d if layer.one(layer.parameter, "pool") == "AVE" else F.max_pool2d
        return pool(x, layer.number("kernel_size"), layer.number("stride", 1), layer.number("pad"),
                    ceil_mode=True)

    def LRN(self, layer, x):
        size, alpha, beta = (layer.number("local_size", 5), layer.number("alpha", 1, float),
                             layer.number("beta", 0.75, float))
        if layer.one(layer.parameter, "norm_region") == "WITHIN_CHANNEL":
            return x * (1 + alpha * F.avg_pool2d(x * x, size, 1, size // 2)) ** -beta
        return F.local_response_norm(x, size, alpha, beta, 1)

    def ReLU(self, _, x):
        return F.relu(x)  # not in place: a normalization before it keeps its top

    def Dropout(self, _, x):
        return x

    def Concat(self, _, *bottoms):
        return torch.cat(bottoms, 1)

    def Eltwise(self, _, *bottoms):
        return sum(bottoms[1:], bottoms[0])


def read_dump(folder):
    lines = (folder / "index.txt").read_text(encoding="utf-8").split("\n")
    tables = [line.split() for line in lines[1:] if line]
    read = {}
    for file in ("parameters", "gradients"):
        whole = torch.from_file(str(folder / f"{file}.bin"), False,
                                (folder / f"{file}.bin").stat().st_size // 4)
        place = 0
        for name, kind, *extents in tables:
            shape = [int(extent) for extent in extents]
            count = torch.Size(shape).numel()
            if kind == "trained":
                read.setdefault(name, []).append(whole[place:place + count].view(shape))
            place += count
    batch = torch.from_file(str(folder / "batch.bin"), False,
                            (folder / "batch.bin").stat().st_size // 4)
    return float(lines[0]), read, batch


def gradients_of(net_path, read, images, labels, dtype):
    parameters = {name: value.to(dtype).clone().requires_grad_()
                  for name, (value, _) in read.items()}
    loss = Net(net_path, parameters).loss(images.to(dtype), labels)
    loss.backward()
    return loss.item(), {name: value.grad.double() for name, value in parameters.items()}


def compare(options):
    loss, read, batch = read_dump(options.compare)
    count = options.batch
    images = batch[:-count].view(count, 3, options.size, options.size)
    labels = batch[-count:].long()
    exact_loss, exact = gradients_of(options.net, read, images, labels, torch.float64)
    single_loss, single = gradients_of(options.net, read, images, labels, torch.float32)

    def error(gradients):
        """The root mean square over the tables of |difference| / |exact|."""
        shares = [((gradients[name] - value).norm() / value.norm()).item() ** 2
                  for name, value in exact.items() if value.norm() > 0]
        return statistics.mean(shares) ** 0.5
    ours = error({name: gradient.double() for name, (_, gradient) in read.items()})
    theirs = error(single)
    good = ours <= 2 * theirs
    print(f"{pathlib.Path(options.net).stem}, batch {count}: gradients of {len(exact)} tables are "
          f"off by {ours:.3g}, PyTorch's float32 by {theirs:.3g}: ratio {ours / theirs:.2f} "
          f"(required <= 2: {'yes' if good else 'NO'}); loss {loss:.7g}, off by "
          f"{abs(loss - exact_loss):.2g}, PyTorch's by {abs(single_loss - exact_loss):.2g}")
    return good


def shapes_of(options):
    """The net's first parameters, of shapes that are found by running it."""
    parameters = {}

    class Shaping(Net):
        def of(self, layer, name):
            key = f"{layer.name}/{name}"
            if key not in parameters:
                parameters[key] = self.make(layer, name)
            return parameters[key]

        def make(self, layer, name):
            outputs = layer.number("num_output")
            if name in ("bias", "scale") and layer.type == "Scale":
                return torch.full((self.channels,), 1.0 if name == "scale" else 0.0)
            if name == "bias":
                return torch.zeros(outputs) if layer.flag("bias_term", "true") else None
            return torch.randn(outputs, *self.shape) * (2 / torch.Size(self.shape).numel()) ** 0.5

        def Convolution(self, layer, x):
            kernel = layer.number("kernel_size")
            self.shape = [x.shape[1] // layer.number("group", 1), kernel, kernel]
            top = super().Convolution(layer, x)
            self.channels = top.shape[1]
            return top

        def InnerProduct(self, layer, x):
            self.shape = [x.flatten(1).shape[1]]
            return super().InnerProduct(layer, x)
    with torch.no_grad():
        Shaping(options.net, {}).loss(torch.randn(2, 3, options.size, options.size),
                                      torch.zeros(2, dtype=torch.long))
    return {name: value.requires_grad_() for name, value in parameters.items() if value is not None}


def blas():
    """The BLAS that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    return next((name for name in ("openblas", "mkl", "blis")
                 if name in loaded.replace("mkldnn", "")), "reference BLAS")


def time_training(options):
    torch.manual_seed(1)
    parameters = shapes_of(options)
    net = Net(options.net, parameters)
    optimizer = torch.optim.SGD(parameters.values(), lr=1e-4)
    images = torch.randn(options.batch, 3, options.size, options.size)
    labels = torch.arange(options.batch) * 7 % 10

    def train(iterations):
        for _ in range(iterations):
            optimizer.zero_grad(set_to_none=True)
            loss = net.loss(images, labels)
            loss.backward()
            optimizer.step()
        return loss.item()
    train(1)
    rates = []
    for _ in range(options.repetitions):
        start = time.perf_counter()
        loss = train(options.iterations)
        rates.append(options.batch * options.iterations / (time.perf_counter() - start))
    print(f"torch {torch.__version__} ({blas()}) {pathlib.Path(options.net).stem} batch "
          f"{options.batch}, 1 thread: {statistics.median(rates):.2f} images/s "
          f"(min {min(rates):.2f}, max {max(rates):.2f}; loss {loss:.4f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net")
    parser.add_argument("--compare", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.compare:
        sys.exit(0 if compare(options) else 1)
    time_training(options)


if __name__ == "__main__":
    main()
