#!/usr/bin/python3
"""A small GPT over tiny Shakespeare's characters by the members of a job on this machine.

small_gpt.py --slack 1 is the training of small_gpt_ddp.py with Tautline.
"""

import launch
import shakespeare

import tautline


def train(options, place):
    codes, held_out = shakespeare.read(options.data)
    model = shakespeare.SmallGPT(int(codes.max()) + 1)
    with tautline.connect(place.address, place.keys).job(place.job).member() as me:
        optimizer = me.optimizer(model)
        for clock in me.clocks(options.clocks):
            inputs, targets = shakespeare.draw(clock, options.batch, me, codes)
            optimizer.zero_grad()
            loss = shakespeare.loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step(loss, inputs.numel())
    if place.rank == 0:
        print(f"held-out loss: {shakespeare.held_out_loss(model, held_out):.4f}")


if __name__ == "__main__":
    given = launch.options(__doc__, data=shakespeare.DATA, batch=32, clocks=500)
    launch.members(train, given, tautline.AdamW(lr=0.003))
