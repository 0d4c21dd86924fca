"""PyTorch models that train by themselves and meet now and then: an optimizer of PyTorch's inside,
the job's outer rule outside (DiLoCo).

    import torch, tautline
    from tautline.meetings import Meetings

    with job.member() as me:              # of a job with periodic_averaging { outer { ... } }
        inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
        optimizer = Meetings(me, model, inner, interval=100)
        for step in range(10000):
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()
            optimizer.step(loss)          # inner.step(), and a meeting after each 100th
"""

from typing import Any

import torch

from tautline.errors import InvalidError
from tautline.member import Member, Table


class Meetings:
    """Steps an optimizer at this member, and after each `interval` steps lets the model meet those
    of the other members: what it has gone since the last meeting is pushed, and it continues from
    what the servers have made of all members' ways. A meeting is a clock of the member: the job's
    slack counts meetings. The optimizer's state (momentum, Adam's moments) stays this member's.

    Floating-point buffers, such as running statistics, are averaged at meetings.

    member    from job.member(), without tables of its own that are in use already
    model     its parameters are float32 on the CPU; those without requires_grad stay as they are
    inner     an optimizer of those parameters
    interval  steps between two meetings, at least 1; the same at every member
    """

    def __init__(self, member: Member, model: torch.nn.Module, inner: torch.optim.Optimizer,
                 interval: int) -> None:
        if int(interval) != interval or interval < 1:
            raise InvalidError(f"interval is {interval}; it must be a whole number of steps, at "
                               "least 1")
        self.inner = inner
        self.interval = int(interval)
        self._member = member
        self._steps = 0  # since the last meeting
        self._items = 0
        self._loss: Any = None
        # (table, parameter), and the same of buffers
        self._parameters: list[tuple[Table, torch.Tensor]] = []
        self._buffers: list[tuple[Table, torch.Tensor]] = []
        parameters = {name: one for name, one in model.named_parameters() if one.requires_grad}
        buffers = {name: one for name, one in model.named_buffers()
                   if one.is_floating_point() and one.numel() > 0}
        if not parameters:
            raise InvalidError("the model has no parameter that requires a gradient")
        for name, one in [*parameters.items(), *buffers.items()]:
            if one.device.type != "cpu" or one.dtype != torch.float32:
                raise InvalidError(f"{name} is {one.dtype} on {one.device}; members take float32 "
                                   "on the CPU")

        # The tables' memory is the shared values', from which the model goes its own way.
        def shared(name: str, one: torch.Tensor, kind: str) -> tuple[Table, torch.Tensor]:
            memory = one.detach().clone(memory_format=torch.contiguous_format)
            return member.table(name, memory, kind), one

        self._parameters += [shared(name, one, "trained") for name, one in parameters.items()]
        self._buffers += [shared(name, one, "averaged") for name, one in buffers.items()]
        member.open()
        self._take_shared()
        member.before_leaving(self.synchronize)

    def zero_grad(self, *arguments: Any, **options: Any) -> None:
        """Forgets the gradients of the step before."""
        self.inner.zero_grad(*arguments, **options)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The inner optimizer's."""
        return self.inner.param_groups

    def state_dict(self) -> dict[str, Any]:
        """The inner optimizer's; the outer rule's state is the servers', and part of the job's
        checkpoints."""
        return self.inner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes the inner optimizer's state."""
        self.inner.load_state_dict(state)

    def step(self, loss: Any = None, items: int = 0) -> Any:
        """Steps the inner optimizer, and meets if it is time.

        loss   a number or a tensor of one, for status and page
        items  how many were trained at this step
        """
        if callable(loss):
            raise InvalidError("step() takes the loss and no closure")
        self.inner.step()
        self._steps += 1
        self._items += items
        self._loss = loss
        if self._steps == self.interval:
            self.meet()
        return loss

    def synchronize(self) -> None:
        """Meets, unless nothing was trained since the last meeting: what the member does before it
        leaves, so that none of its steps is lost."""
        if self._steps > 0:
            self.meet()

    def meet(self) -> None:
        """Pushes how far the model has gone back from the shared values, and continues from the new
        ones as soon as the job's slack allows."""
        with torch.no_grad():
            for table, parameter in self._parameters:
                self._member.push(table, torch.from_numpy(table.value) - parameter)
            for table, buffer in self._buffers:
                self._member.push(table, buffer)
        for table, _ in self._parameters + self._buffers:
            self._member.pull(table)
        self._take_shared()
        loss = None if self._loss is None else float(self._loss)
        self._member.end_clock(loss, self._items)
        self._steps, self._items = 0, 0

    def _take_shared(self) -> None:
        with torch.no_grad():
            for table, one in self._parameters + self._buffers:
                one.copy_(torch.from_numpy(table.value))
