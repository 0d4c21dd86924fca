"""PyTorch models as members: the optimizer's place in a training loop.

    import torch, tautline

    with job.member() as me:
        optimizer = me.optimizer(model)
        for clock in me.clocks(1000):
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()                   # each gradient leaves as soon as it is made
            optimizer.step(loss)              # the rule is the job's

Optimizer says what may be done with gradients on their way: adding up several batches, clipping,
scaling. DDPHook is for machines whose processes form a DistributedDataParallel group: together they
are one member. Meetings is for models that train on their own, with an optimizer of PyTorch's, and
meet now and then.
"""

from tautline.torch.ddp import DDPHook
from tautline.torch.meetings import Meetings
from tautline.torch.optimizer import Optimizer

__all__ = ["DDPHook", "Meetings", "Optimizer"]
