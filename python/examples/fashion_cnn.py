#!/usr/bin/python3
"""A CNN on Fashion-MNIST by the processes of one job, on this machine.

    python3 python/examples/fashion_cnn.py --slack 1

fashion_ddp.py is the same training with DistributedDataParallel.
"""

import argparse
import multiprocessing

import fashion
import torch

import tautline


def train(rank, options, address, keys, job):
    torch.set_num_threads(1)
    images, labels = fashion.read(options.data, "train")
    model = fashion.make_model()
    criterion = torch.nn.CrossEntropyLoss()
    with tautline.connect(address, keys).job(job).member() as me:
        optimizer = me.optimizer(model)
        for clock in range(me.clock, options.clocks + 1):
            inputs, targets = fashion.draw(clock, options.batch, me.slot, me.slots, images, labels)
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step(loss, len(inputs))
        optimizer.synchronize()
    if rank == 0:
        print(f"test accuracy: {fashion.accuracy(model, options.data):.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", default=fashion.DATA)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64, help="of all processes together")
    parser.add_argument("--clocks", type=int, default=500)
    parser.add_argument("--slack", type=int, default=1)
    options = parser.parse_args()
    with tautline.local(servers=1) as cluster:
        job = cluster.submit(rule=tautline.SGD(lr=0.01, momentum=0.9), workers=options.processes,
                             slack=options.slack)
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=train, args=(rank, options, cluster.address,
                                                         cluster.keys, job.number))
                     for rank in range(options.processes)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    raise SystemExit(max(process.exitcode != 0 for process in processes))


if __name__ == "__main__":
    main()
