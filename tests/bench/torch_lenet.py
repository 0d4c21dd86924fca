#!/usr/bin/python3
"""Times Caffe's LeNet in PyTorch: forward, backward and SGD on synthetic images, one thread.

The peer of bench_lenet: the same net, batch and update. Prints the median of the repetitions, and
which BLAS did the work: with Debian's reference BLAS PyTorch is several times slower than with
libopenblas0. Exits with 77 where PyTorch is not installed.
Run it pinned to one core: taskset -c 1 tests/bench/torch_lenet.py
"""
import argparse
import os
import statistics
import sys
import time

# Before the library is loaded: its waiting threads would take turns with the one that works.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

try:
    import torch
    from torch import nn
except ImportError:
    print("skipped: PyTorch is not installed (apt install python3-torch libopenblas0)")
    sys.exit(77)


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 20, 5), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(800, 500), nn.ReLU(inplace=True), nn.Linear(500, 10))


def blas():
    """The BLAS that this process has loaded."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = maps.read()
    for name in ("openblas", "mkl", "blis"):
        if name in loaded.replace("mkldnn", ""):
            return name
    return "reference BLAS"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=100, help="in one repetition")
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--channels-last", action="store_true",
                        help="let PyTorch keep images channels last: not its default")
    options = parser.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(1)
    net = lenet()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    images = torch.rand(options.batch, 1, 28, 28)
    if options.channels_last:
        net = net.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (options.batch,))

    def train(iterations):
        for _ in range(iterations):
            optimizer.zero_grad(set_to_none=True)
            loss = criterion(net(images), labels)
            loss.backward()
            optimizer.step()
        return loss.item()

    train(10)
    rates = []
    for _ in range(options.repetitions):
        start = time.perf_counter()
        loss = train(options.iterations)
        rates.append(options.batch * options.iterations / (time.perf_counter() - start))
    print(f"torch {torch.__version__} ({blas()}) lenet batch {options.batch}, 1 thread: "
          f"{statistics.median(rates):.0f} images/s "
          f"(min {min(rates):.0f}, max {max(rates):.0f}; last loss {loss:.4f})")


if __name__ == "__main__":
    main()
