"""The jobs that are trained here, written into a folder: published nets on synthetic images, a deep
net of inner products, and LeNet on Fashion-MNIST with deterministic algorithms."""
import re


def without_data(text):
    """A net's text without its Data layers."""
    kept, at = [], 0
    for begin in re.finditer(r"^layer \{", text, re.MULTILINE):
        if begin.start() < at:
            continue
        depth, end = 0, begin.start()
        while True:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
            if depth == 0 and text[end - 1] == "}":
                break
        if re.search(r'type: "Data"', text[begin.start():end]):
            kept.append(text[at:begin.start()])
            at = end
    return "".join(kept + [text[at:]])


def fed(shape, filler, classes):
    """A layer that feeds data of a shape, and labels."""
    dims = " ".join(f"dim: {extent}" for extent in shape)
    return (f'layer {{ name: "made" type: "DummyData" top: "data" top: "label"\n'
            f"  dummy_data_param {{ shape {{ {dims} }} shape {{ dim: {shape[0]} }}\n"
            f"    data_filler {{ {filler} }} data_filler {{ }}\n"
            f"    classes: 0 classes: {classes} }} }}\n")


class Jobs:
    def __init__(self, configs, output):
        self.models = configs / "models"
        self.configs = configs
        self.output = output

    def write(self, name, net, solver, job):
        (self.output / f"{name}.prototxt").write_text(net, encoding="utf-8")
        path = self.output / f"{name}.textproto"
        path.write_text(f'name: "{name}"\nnet: "{self.output / name}.prototxt"\n'
                        f"solver_param {{ {solver} }}\nworkers: 1\n{job}\n", encoding="utf-8")
        return path

    def synthetic(self, name, model, shape, iterations, mode):
        """A published net on images that are the same at every clock, so that making them costs
        nothing.
        mode  of consistency: "BSP", or "SSP slack: 1" """
        net = without_data((self.models / model).read_text(encoding="utf-8"))
        solver = f"base_lr: 1e-5 momentum: 0.9 max_iter: {iterations} precision: TF32"
        return self.write(name, fed(shape, 'type: "constant" value: 1', 10) + net, solver,
                          f"consistency {{ mode: {mode} }}")

    def deep(self, name, width, layers, batch, iterations):
        """Inner products of width x width, which hold nearly all of its bytes."""
        net = [fed((batch, 64), 'type: "gaussian" std: 1', 10)]
        below = "data"
        for layer in range(layers):
            net.append(
                f'layer {{ name: "ip{layer}" type: "InnerProduct"\n'
                f'  bottom: "{below}" top: "ip{layer}"\n'
                f"  inner_product_param {{ num_output: {width}\n"
                f'    weight_filler {{ type: "xavier" }} }} }}\n'
                f'layer {{ name: "relu{layer}" type: "ReLU"\n'
                f'  bottom: "ip{layer}" top: "ip{layer}" }}\n')
            below = f"ip{layer}"
        net.append(
            f'layer {{ name: "last" type: "InnerProduct" bottom: "{below}" top: "last"\n'
            f'  inner_product_param {{ num_output: 10 weight_filler {{ type: "xavier" }} }} }}\n'
            'layer { name: "loss" type: "SoftmaxWithLoss"\n'
            '  bottom: "last" bottom: "label" top: "loss" }\n')
        solver = f"base_lr: 0.01 momentum: 0.9 max_iter: {iterations} deterministic: true"
        return self.write(name, "".join(net), solver, "")

    def fashion(self, name, iterations, tests, job):
        """The default job by algorithms that promise the same bits.
        tests  batches of 100 images that are tested, once at the end; job: further fields of it"""
        solver = (self.models / "lenet_solver.prototxt").read_text(encoding="utf-8")
        solver = re.sub(r"^(net|max_iter|test_iter|test_interval):.*\n", "", solver,
                        flags=re.MULTILINE)
        return self.write(name, (self.models / "lenet.prototxt").read_text(encoding="utf-8"),
                          f"{solver} max_iter: {iterations} test_iter: {tests} deterministic: true",
                          job)
