"""Fashion-MNIST for the examples: its images, a CNN and its accuracy."""

import gzip
import pathlib

import numpy
import torch
from torch import nn

DATA = "/usr/share/datasets/fashion-mnist"  # Debian's dataset-fashion-mnist


def read(folder, part):
    """part  "train" or "t10k". Returns [count, 1, 28, 28] in [0, 1] and [count] labels."""
    def values(kind, header):
        path = pathlib.Path(folder) / f"{part}-{kind}-ubyte"
        with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz") as file:
            return numpy.frombuffer(file.read()[header:], numpy.uint8)

    images = torch.from_numpy(values("images-idx3", 16).astype(numpy.float32) / 255)
    return images.reshape(-1, 1, 28, 28), torch.from_numpy(values("labels-idx1", 8).astype(int))


def make_model():
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def draw(clock, batch, me, images, labels):
    """A process's share of the batch of this clock, the same batch in every run."""
    chosen = torch.randint(len(images), (batch,), generator=torch.Generator().manual_seed(clock))
    share = chosen[me.slot::me.slots].to(images.device)
    return images[share], labels[share]


def accuracy(model, folder):
    device = next(model.parameters()).device
    images, labels = (one.to(device) for one in read(folder, "t10k"))
    model = getattr(model, "module", model)  # inside of a DistributedDataParallel
    model.eval()
    with torch.no_grad():
        right = sum(int((model(images[i:i + 500]).argmax(1) == labels[i:i + 500]).sum())
                    for i in range(0, len(images), 500))
    return right / len(images)
