"""PyTorch models that train on their own and meet now and then: an optimizer of PyTorch's inside,
the job's outer rule outside (DiLoCo)."""

from typing import Any, Iterator, Optional

import torch

from tautline.errors import InvalidError
from tautline.member import Member, Table
from tautline.progress import Progress
from tautline.torch.tensors import tensors_of


def _interval(member: Member, given: Optional[int]) -> int:
    """The job's interval, which a program may pass to check it."""
    if given is not None and (int(given) != given or given < 1):
        raise InvalidError(f"interval is {given}; it must be a whole number of steps, at least 1")
    averaging = member.definition.get("consistency", {}).get("periodic_averaging")
    if averaging is None:
        raise InvalidError("the job has no periodic_averaging, so its rule would be applied to how "
                           "far models have gone; submit one with tautline.Outer(interval=100) as "
                           "its rule, or with consistency { periodic_averaging { interval: 100 "
                           "outer { } } } in its file, or choose me.optimizer(model)")
    if given is not None and given != averaging["interval"]:
        raise InvalidError(f"interval is {given}, but the job's is {averaging['interval']}; omit "
                           "it here, or submit the job with it")
    return int(averaging["interval"])


def _fragments(member: Member) -> int:
    """The number of parts in which the job's tables meet."""
    return int(member.definition["consistency"]["periodic_averaging"].get("fragments", 1))


class Meetings:
    """Steps an optimizer at this member, and after each interval of the job lets the model meet
    those of the other members: how far it has moved since the last meeting is pushed, and it
    continues from what the servers have made of all members' moves. The job's slack counts
    intervals. The optimizer's state (momentum, Adam's moments) stays this member's.

    A clock of the member is a meeting. With `fragments` parts of the model meet in turn: a clock is
    interval / fragments steps, and one part meets at its end.

        job = cluster.submit(rule=tautline.Outer(interval=100), workers=4, slack=1)
        with job.member() as me:
            inner = torch.optim.AdamW(model.parameters(), lr=1e-3)
            optimizer = tautline.torch.Meetings(me, model, inner)
            sampler = me.sampler(len(data), batch=64)       # counts the steps
            for step in optimizer.steps(10000):
                inputs, targets = data[sampler.indices(step)]
                optimizer.zero_grad()
                loss = criterion(model(inputs), targets)
                loss.backward()
                optimizer.step(loss)     # inner.step(), and a meeting after each 100th

    Floating-point buffers, such as running statistics, are averaged at meetings.

    member    from job.member(), without tables that are already in use
    model     its parameters are float32, on the CPU or on CUDA devices; those without
              requires_grad stay as they are
    inner     an optimizer of those parameters
    interval  steps between two meetings, for a program that relies on it; None: the job's
    """

    def __init__(self, member: Member, model: torch.nn.Module, inner: torch.optim.Optimizer,
                 interval: Optional[int] = None) -> None:
        self.interval = _interval(member, interval)
        self.steps_of_clock = self.interval // _fragments(member)
        parameters, buffers = tensors_of(model, in_place=False)
        self.inner = inner
        self._member = member
        self._steps = 0  # at this clock
        self._items = 0
        self._loss: Optional[float] = None
        member.attach(self)

        # The tables' memory has the shared values, from which the model moves on its own.
        def shared(name: str, one: torch.Tensor, kind: str) -> tuple[Table, torch.Tensor]:
            memory = one.detach().cpu().clone(memory_format=torch.contiguous_format)
            return member.table(name, memory, kind), one

        self._parameters = [shared(name, one, "trained") for name, one in parameters.items()]
        self._buffers = [shared(name, one, "averaged") for name, one in buffers.items()]
        self._all = self._parameters + self._buffers
        self._owed: set[str] = set()  # tables with steps that no meeting has included
        member.open()
        self._take_shared(self._all)

    @property
    def next_clock(self) -> int:
        """The clock of the next meeting."""
        return self._member.clock

    @property
    def next_batch(self) -> int:
        """The next step, counted from 1: a member that joins at a later clock begins at the
        steps of that clock."""
        return (self._member.clock - 1) * self.steps_of_clock + self._steps + 1

    @property
    def may_skip(self) -> bool:
        """Whether a step may pass without the end of a clock: most do."""
        return True

    def release(self) -> None:
        """Called when its member is closed: the model is as if it had never had one."""

    def steps(self, end: Optional[int] = None, progress: Optional[bool] = None) -> Iterator[int]:
        """Steps until `end` is done, from those of the clock at which the member joined: for a loop
        that calls step() once. It stops early if the member is drained, and the member then leaves.

        end       the last step; None: without end
        progress  whether a bar shows how far it is; None: in notebooks
        """
        with Progress("steps", end, progress, begin=self.next_batch - 1) as bar:
            while end is None or self.next_batch <= end:
                step = self.next_batch
                yield step
                if self.next_batch == step:
                    raise InvalidError(f"step {step} passed without step() of Meetings; call it "
                                       "once a step")
                bar.show(step)
                if self._member.is_drained:
                    self._member.leave()
                    return

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
        self._loss = None if loss is None else float(loss)
        self._owed.update(table.name for table, _ in self._all)
        if self._steps == self.steps_of_clock:
            self.meet()
        return loss

    def synchronize(self) -> None:
        """Meets until each part of the model has met since its last step: what the member does
        before it leaves, so that none of its steps is lost."""
        while self._owed:
            self.meet()

    def meet(self) -> None:
        """Pushes the shared values minus those of the part of the model that is due,
        and continues from the new ones as soon as the job's slack allows."""
        with torch.no_grad():
            for table, parameter in self._due(self._parameters):
                self._member.push(table, torch.from_numpy(table.value) - parameter.cpu())
            for table, buffer in self._due(self._buffers):
                self._member.push(table, buffer.cpu())
        due = self._due(self._all)
        for table, _ in due:
            self._member.pull(table)
        self._take_shared(due)
        self._owed.difference_update(table.name for table, _ in due)
        self._member.end_clock(self._loss, self._items)
        self._steps, self._items = 0, 0

    def _due(self, tables: list[tuple[Table, torch.Tensor]]) -> list[tuple[Table, torch.Tensor]]:
        return [(table, one) for table, one in tables if self._member.is_due(table)]

    @staticmethod
    def _take_shared(tables: list[tuple[Table, torch.Tensor]]) -> None:
        with torch.no_grad():
            for table, one in tables:
                one.copy_(torch.from_numpy(table.value))
