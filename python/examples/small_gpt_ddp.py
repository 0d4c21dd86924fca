#!/usr/bin/python3
"""A small GPT over tiny Shakespeare's characters by DistributedDataParallel on this machine.

small_gpt.py is the same training with Tautline.
"""

import launch
import shakespeare
import torch

from torch.nn.parallel import DistributedDataParallel


def train(options, place):
    codes, held_out = shakespeare.read(options.data)
    model = shakespeare.SmallGPT(int(codes.max()) + 1)
    with launch.process_group(options, place) as me:
        model = DistributedDataParallel(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
        for clock in range(1, options.clocks + 1):
            inputs, targets = shakespeare.draw(clock, options.batch, me, codes)
            optimizer.zero_grad()
            loss = shakespeare.loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
    if place.rank == 0:
        print(f"held-out loss: {shakespeare.held_out_loss(model, held_out):.4f}")


if __name__ == "__main__":
    given = launch.options(__doc__, data=shakespeare.DATA, batch=32, clocks=500)
    launch.ddp(train, given)
