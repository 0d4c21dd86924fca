#!/usr/bin/python3
"""Times Caffe's LeNet in PyTorch's DistributedDataParallel over gloo: processes with one thread
each on this machine, synthetic images, SGD. The peer of two Tautline workers under BSP with a
server. Prints the median of the repetitions, in images/s over all processes. Exits with 77 where
PyTorch is not installed.
"""
import argparse
import os
import pathlib
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests" / "bench"))
from torch_lenet import blas, lenet  # noqa: E402  (it exits with 77 without PyTorch)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402


def work(rank, options, meeting):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    torch.manual_seed(1 + rank)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                            world_size=options.processes)
    net = DistributedDataParallel(lenet())
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    images = torch.rand(options.batch, 1, 28, 28)
    labels = torch.randint(0, 10, (options.batch,))

    def train(iterations):
        for _ in range(iterations):
            optimizer.zero_grad(set_to_none=True)
            criterion(net(images), labels).backward()
            optimizer.step()

    train(20)
    rates = []
    for _ in range(options.repetitions):
        dist.barrier()
        start = time.perf_counter()
        train(options.iterations)
        dist.barrier()
        drawn = options.processes * options.batch * options.iterations
        rates.append(drawn / (time.perf_counter() - start))
    if rank == 0:
        print(f"torch {torch.__version__} ({blas()}) lenet batch {options.batch}, "
              f"{options.processes} processes over gloo: {statistics.median(rates):.0f} images/s "
              f"(min {min(rates):.0f}, max {max(rates):.0f})", flush=True)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="of each process")
    parser.add_argument("--iterations", type=int, default=100, help="in one repetition")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (options, os.path.join(folder, "meeting")),
                                    nprocs=options.processes)


if __name__ == "__main__":
    main()
