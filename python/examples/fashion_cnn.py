#!/usr/bin/python3
"""A CNN on Fashion-MNIST by the members of a job, which are processes of this machine.

fashion_cnn.py --slack 1 is the training of fashion_ddp.py with Tautline.
"""

import fashion
import launch
import torch

import tautline


def train(options, place):
    images, labels = (one.to(options.device) for one in fashion.read(options.data, "train"))
    model = fashion.make_model().to(options.device)
    criterion = torch.nn.CrossEntropyLoss()
    with tautline.connect(place.address, place.keys).job(place.job).member() as me:
        optimizer = me.optimizer(model)
        for clock in me.clocks(options.clocks):
            inputs, targets = fashion.draw(clock, options.batch, me, images, labels)
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step(loss, len(inputs))
    if place.rank == 0:
        print(f"test accuracy: {fashion.accuracy(model, options.data):.4f}")


if __name__ == "__main__":
    given = launch.options(__doc__, data=fashion.DATA, batch=64, clocks=500,
                           device="cpu")
    launch.members(train, given, tautline.SGD(lr=0.01, momentum=0.9))
