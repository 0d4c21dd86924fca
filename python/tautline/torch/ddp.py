"""DistributedDataParallel inside of a machine, Tautline between machines."""

import threading
from types import TracebackType
from typing import Any, Iterator, Optional, Sized, Union

import torch
import torch.distributed

from tautline.errors import InvalidError
from tautline.member import Member
from tautline.progress import Progress
from tautline.sampler import Sampler
from tautline.torch.optimizer import Groups, Optimizer


def _exchange(hook: "DDPHook",
              bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return hook.exchange(bucket)


class DDPHook:
    """A communication hook of DistributedDataParallel: the processes of a machine add up their
    gradients as they do without it, and one of them, the member of a job, exchanges the
    machine's with those of other machines, under the job's staleness bound. It takes the
    optimizer's place too, because the rule is the job's.

        torch.distributed.init_process_group("gloo", ...)     # of this machine's processes
        model = torch.nn.parallel.DistributedDataParallel(model)
        me = job.member() if torch.distributed.get_rank() == 0 else None
        with tautline.torch.DDPHook(model, me) as hook:
            for clock in hook.clocks(1000):
                inputs, targets = batch(clock, hook.slot, hook.slots)
                hook.zero_grad()
                loss = criterion(model(inputs), targets)
                loss.backward()                  # added up here, and sent bucket by bucket
                hook.step(loss)                  # new parameters, the same in all processes

    An update is the mean over the machine's processes, so all machines should have equally
    many. DDP's model.no_sync() adds up several batches. As with DDP, all processes make the same
    calls; if one ends, the others' calls fail.

    model    a DistributedDataParallel without a hook, of processes of this machine
    member   in the process of the group's rank 0, without tables; None in all others
    overlap, clip_norm, clip_value, groups  as tautline.torch.Optimizer's, for the machine's mean
             gradient
    """

    def __init__(self, model: torch.nn.parallel.DistributedDataParallel, member: Optional[Member],
                 overlap: bool = True, *, clip_norm: Optional[float] = None,
                 clip_value: Optional[float] = None,
                 groups: Groups = None) -> None:
        if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
            raise InvalidError(f"the model is a {type(model).__name__}; DDPHook takes a "
                               "DistributedDataParallel, and me.optimizer(model) any other")
        self._group = model.process_group
        self.rank = torch.distributed.get_rank(self._group)
        self.ranks = torch.distributed.get_world_size(self._group)
        if (member is None) == (self.rank == 0):
            raise InvalidError(
                f"rank {self.rank} of the group has {'no' if member is None else 'a'} member; the "
                "process of rank 0 is the member, and all others give None")
        self._model = model.module
        self._member = member
        self._optimizer: Optional[Optimizer] = None
        # Buckets are ready in threads of the process group, and a member serves one at a time.
        self._lock = threading.Lock()
        self._failure: Optional[BaseException] = None
        self._overlaps = overlap and clip_norm is None
        if member is not None:
            self._optimizer = Optimizer(member, self._model, overlap=False, clip_norm=clip_norm,
                                        clip_value=clip_value, groups=groups)
        self._values = [one.data for one in self._model.parameters() if one.requires_grad]
        self._values += [one for one in self._model.buffers()
                         if one.is_floating_point() and one.numel() > 0]
        self._first_rank = torch.distributed.get_global_rank(self._group, 0)
        self.clock = 0
        self.slot, self.slots = 0, 0
        self._leaves = False
        self._refresh()
        wrapped: Any = model
        wrapped.register_comm_hook(self, _exchange)

    def exchange(self,
                 bucket: torch.distributed.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Called by DDP when a bucket's gradients are ready."""
        parameters, gradients = bucket.parameters(), bucket.gradients()  # views of its buffer
        whole = bucket.buffer().div_(self.ranks)
        added = torch.distributed.all_reduce(whole, group=self._group, async_op=True).get_future()

        def leave(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            if self._overlaps and self._optimizer is not None and self._failure is None:
                try:
                    with self._lock:
                        for parameter, gradient in zip(parameters, gradients):
                            self._optimizer.push(parameter, gradient)
                except BaseException as error:  # step() raises it, in the program's thread
                    self._failure = error
            return done.value()[0]

        return added.then(leave)

    def step(self, loss: Any = None, items: int = 0) -> Any:
        """Ends the clock: all processes have the new parameters afterwards.

        loss   of this process, a number or a tensor of one; rank 0's is shown by status and page
        items  how many this process trained at this clock
        """
        if self._failure is not None:
            raise self._failure
        if self._optimizer is not None:
            self._optimizer.step(loss, items * self.ranks)
        self._refresh()
        return loss

    def zero_grad(self) -> None:
        """Forgets the gradients of the clock before, as an optimizer does."""
        for parameter in self._model.parameters():
            parameter.grad = None

    def _refresh(self) -> None:
        """Gives all processes what the member has read: its values, its clock and its place."""
        device = self._values[0].device
        place = torch.zeros(4, dtype=torch.int64, device=device)
        if self._member is not None and self._optimizer is not None:
            self._optimizer.synchronize()
            place = torch.tensor([self._member.clock, self._member.slot, self._member.slots,
                                  self._member.is_drained], device=device)
        torch.distributed.broadcast(place, self._first_rank, self._group)
        self.clock, slot, slots, leaves = place.tolist()
        self.slot, self.slots = slot * self.ranks + self.rank, slots * self.ranks
        self._leaves = bool(leaves)
        with torch.no_grad():
            whole = torch.cat([value.reshape(-1) for value in self._values])
            torch.distributed.broadcast(whole, self._first_rank, self._group)
            if self._member is None:
                for value, part in zip(self._values,
                                       whole.split([value.numel() for value in self._values])):
                    value.copy_(part.view_as(value))

    def clocks(self, end: Optional[int] = None, progress: Optional[bool] = None) -> Iterator[int]:
        """Clocks until `end` is done, from where the member joined, in all processes alike. It
        stops early if the member is drained.

        end       the last clock; None: without end
        progress  whether rank 0 shows a bar; None: in notebooks
        """
        with Progress("clocks", end, progress if self.rank == 0 else False,
                      begin=self.clock - 1) as bar:
            while (end is None or self.clock <= end) and not self._leaves:
                clock = self.clock
                yield clock
                if self.clock == clock:
                    raise InvalidError(f"clock {clock} passed without the hook's step(); call it "
                                       "once a clock")
                bar.show(clock)
        if self._leaves and self._member is not None:
            self._member.leave()

    def sampler(self, records: Union[int, Sized], batch: int, *, seed: int = 1,
                shuffle: bool = True, end: Optional[int] = None) -> Sampler:
        """Draws this process's share of a data set, as Member.sampler() does for a member.

        batch  how many this process reads at a clock
        """
        count = records if isinstance(records, int) else len(records)
        return Sampler(count, batch, slot=self.slot, slots=self.slots, seed=seed, shuffle=shuffle,
                       start=lambda: self.clock, end=end)

    def __enter__(self) -> "DDPHook":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._member is not None:
            self._member.__exit__(kind, error, trace)
