#!/usr/bin/python3
"""A CNN on Fashion-MNIST by the processes of one DistributedDataParallel, on this machine.

    python3 python/examples/fashion_ddp.py

fashion_cnn.py is the same training as members of a job.
"""

import argparse
import multiprocessing
import tempfile

import fashion
import torch


def train(rank, options, meeting):
    torch.set_num_threads(1)
    images, labels = fashion.read(options.data, "train")
    model = fashion.make_model()
    criterion = torch.nn.CrossEntropyLoss()
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                         world_size=options.processes)
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for clock in range(1, options.clocks + 1):
        inputs, targets = fashion.draw(clock, options.batch, rank, options.processes, images,
                                       labels)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
    torch.distributed.destroy_process_group()
    if rank == 0:
        print(f"test accuracy: {fashion.accuracy(model.module, options.data):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", default=fashion.DATA)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="of all processes together")
    parser.add_argument("--clocks", type=int, default=500)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=train, args=(rank, options, f"{folder}/meeting"))
                     for rank in range(options.processes)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    raise SystemExit(max(process.exitcode != 0 for process in processes))


if __name__ == "__main__":
    main()
