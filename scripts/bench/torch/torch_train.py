#!/usr/bin/python3
"""Times one process's share of a training in PyTorch, on synthetic images: as a member of a job of
Tautline, or as a process of DistributedDataParallel over gloo. The programs of `torch_members`.
Prints its rate in images/s, of each repetition. Exits with 77 where PyTorch is not installed.
"""
import argparse
import os
import pathlib
import sys
import time

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "bench"), str(ROOT / "python")]
from torch_lenet import blas, lenet  # noqa: E402  (it exits with 77 without PyTorch)

import torch  # noqa: E402
from torch import nn  # noqa: E402


class Block(nn.Module):
    """The basic block of He et al. (2016), section 4.1."""

    def __init__(self, bottom, top, stride):
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(bottom, top, 3, stride, 1, bias=False), nn.BatchNorm2d(top), nn.ReLU(),
            nn.Conv2d(top, top, 3, 1, 1, bias=False), nn.BatchNorm2d(top))
        self.shortcut = nn.Identity() if stride == 1 and bottom == top else nn.Sequential(
            nn.Conv2d(bottom, top, 1, stride, bias=False), nn.BatchNorm2d(top))

    def forward(self, x):
        return torch.relu(self.path(x) + self.shortcut(x))


def resnet18():
    """For images of 32x32: a first convolution of 3x3, no pooling before the blocks."""
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    bottom = 64
    for top in (64, 128, 256, 512):
        layers += [Block(bottom, top, 1 if top == 64 else 2), Block(top, top, 1)]
        bottom = top
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


MODELS = {"lenet": (lenet, (1, 28, 28)), "resnet18": (resnet18, (3, 32, 32))}


def time_training(options, model, optimizer, meet):
    """meet  returns once every process has called it"""
    criterion = nn.CrossEntropyLoss()
    images = torch.rand(options.batch, *MODELS[options.model][1])
    labels = torch.randint(0, 10, (options.batch,))

    def train(iterations):
        for _ in range(iterations):
            optimizer.zero_grad(set_to_none=True)
            criterion(model(images), labels).backward()
            optimizer.step()

    train(options.warm_up)
    if options.rank == 0:
        print(f"PyTorch {torch.__version__}, {blas()}", file=sys.stderr, flush=True)
    for _ in range(options.repetitions):
        meet()
        begin = time.perf_counter()
        train(options.iterations)
        print(f"{options.batch * options.iterations / (time.perf_counter() - begin):.2f}",
              flush=True)


def run_member(options):
    import tautline  # noqa: PLC0415  (only this side needs it)
    model = MODELS[options.model][0]()
    job = tautline.connect(options.address, options.keys).job(options.job)
    with job.member() as me:
        time_training(options, model, me.optimizer(model), lambda: None)


def run_ddp(options):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{options.meeting}",
                                         rank=options.rank, world_size=options.processes)
    model = nn.parallel.DistributedDataParallel(MODELS[options.model][0]())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    time_training(options, model, optimizer, torch.distributed.barrier)
    torch.distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--model", choices=MODELS, default="lenet")
    parser.add_argument("--batch", type=int, default=64, help="of this process")
    parser.add_argument("--iterations", type=int, default=60, help="in one repetition")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--warm-up", type=int, default=10, help="iterations before the first")
    parser.add_argument("--address", help="a coordinator's: train as a member")
    parser.add_argument("--keys", help="the folder of the cluster's keys")
    parser.add_argument("--job", type=int, default=1)
    parser.add_argument("--meeting", help="a file: train in DistributedDataParallel")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1 + options.rank)
    (run_member if options.address else run_ddp)(options)


if __name__ == "__main__":
    main()
