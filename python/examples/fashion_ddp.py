#!/usr/bin/python3
"""A CNN on Fashion-MNIST by DistributedDataParallel, in processes of this machine.

fashion_cnn.py is the same training with Tautline.
"""

import fashion
import launch
import torch

from torch.nn.parallel import DistributedDataParallel


def train(options, place):
    images, labels = (one.to(options.device) for one in fashion.read(options.data, "train"))
    model = fashion.make_model().to(options.device)
    criterion = torch.nn.CrossEntropyLoss()
    with launch.process_group(options, place) as me:
        model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for clock in range(1, options.clocks + 1):
            inputs, targets = fashion.draw(clock, options.batch, me, images, labels)
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step()
    if place.rank == 0:
        print(f"test accuracy: {fashion.accuracy(model, options.data):.4f}")


if __name__ == "__main__":
    given = launch.options(__doc__, data=fashion.DATA, batch=64, clocks=500,
                           device="cpu")
    launch.ddp(train, given)
