"""The place of a PyTorch optimizer: gradients to the servers, parameters back."""

import contextlib
import threading
from typing import Any, Iterable, Iterator, Optional

import torch

from tautline.errors import InvalidError
from tautline.member import Member, Table
from tautline.torch.tensors import tensors_of

_MULTIPLES = {"lr_mult": 1.0, "decay_mult": 1.0}
Groups = Optional[Iterable[dict[str, Any]]]


def _check_limits(clip_norm: Optional[float], clip_value: Optional[float]) -> None:
    for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
        if limit is not None and not limit > 0:
            raise InvalidError(
                f"{name} is {limit}; it must be greater than 0, or None to clip nothing")
    if clip_norm is not None and clip_value is not None:
        raise InvalidError("clip_norm and clip_value are both given; choose one")


def _check_scaler(scaler: Any) -> None:
    if scaler is not None and not scaler.is_enabled():
        raise InvalidError(
            f"the {type(scaler).__name__} is disabled: PyTorch {torch.__version__} has none for "
            "the CPU, on which members compute in float32 and gradients need no scale; omit it")


def _group(given: dict[str, Any]) -> dict[str, Any]:
    """A group with its parameters as a list; PyTorch takes one alone, too."""
    if "params" not in given:
        raise InvalidError("a group of parameters has no \"params\", which name its parameters")
    one = given["params"]
    return {**given, "params": [one] if isinstance(one, torch.Tensor) else list(one)}


def _check_groups(groups: list[dict[str, Any]]) -> None:
    for group in groups:
        for name, value in group.items():
            if name != "params" and name not in _MULTIPLES:
                raise InvalidError(f"a group of parameters has {name!r}; the rule is the job's, "
                                   "and a group has lr_mult and decay_mult, multiples of its rate "
                                   "and decay")
            if name in _MULTIPLES and not 0 <= value < float("inf"):
                raise InvalidError(f"{name} of a group is {value}; it must be at least 0")


def _check_members(groups: list[dict[str, Any]], model: torch.nn.Module) -> None:
    trained = {one for one in model.parameters() if one.requires_grad}
    seen: set[torch.Tensor] = set()
    for one in (one for group in groups for one in group["params"]):
        if one not in trained or one in seen:
            what = "is in a group already" if one in seen else (
                "is not a parameter of the model that requires a gradient")
            raise InvalidError(f"a group has a tensor of shape {list(one.shape)} that {what}; name "
                               "each trained parameter once")
        seen.add(one)


class Optimizer(torch.optim.Optimizer):
    """Sends a model's gradients to the servers and receives the new parameters into the parameters'
    own memory. What the servers do with gradients is the job's rule. Made by
    me.optimizer(model).

    A gradient is sent when autograd has computed it, while backward continues; the parameters that
    a module reads are waited for before its next forward, module by module. Floating-point buffers,
    such as running statistics, are averaged over the members.

    member      from job.member(), without tables that are already in use
    model       its parameters are float32, on the CPU or on CUDA devices, where copies are queued
                on the current stream; those without requires_grad stay as they are
    overlap     False: gradients are sent in step(), for loops that change them before
    clip_norm   before they are sent, gradients are scaled so that the norm of all of this member's
                is at most this; they are sent in step(), as the norm needs all of them
    clip_value  every element is limited to [-clip_value, clip_value] before it is sent
    scaler      a GradScaler: gradients are sent in its step(optimizer), once unscaled. If
                it finds one that is not finite, that clock is computed again with a lower scale.
    groups      parameters with their own rates, [{"params": ..., "lr_mult": 0.1, "decay_mult": 0}]:
                multiples of the job's rate and weight decay, 1 if not given and for parameters
                of no group. The servers apply them, whatever the rule, so they must not change
                here; all members give the same
    """

    def __init__(self, member: Member, model: torch.nn.Module, overlap: bool = True, *,
                 clip_norm: Optional[float] = None, clip_value: Optional[float] = None,
                 scaler: Any = None, groups: Groups = None) -> None:
        listed = [_group(group) for group in groups or []]
        _check_groups(listed)
        _check_members(listed, model)
        _check_limits(clip_norm, clip_value)
        _check_scaler(scaler)
        self._member = member
        self._tables: dict[torch.Tensor, Table] = {}
        self._buffers: list[tuple[Table, torch.Tensor]] = []
        self._left: dict[torch.Tensor, Any] = {}  # (gradient, its version) of this clock
        self._waiting: set[Table] = set()
        # Tables whose modules were called at the clock before, and at this one.
        self._covered: set[Table] = set()
        self._called: set[Table] = set()
        self._hooks: list[Any] = []  # of the model
        self._leaving = threading.Lock()
        self._is_begun = False  # the forward of this clock
        self._holds = False
        self._has_stepped = False
        self._may_skip = scaler is not None
        self._clip_norm, self._clip_value = clip_norm, clip_value
        self._report: tuple[Any, int] = (None, 0)
        parameters, buffers = tensors_of(model, in_place=True)
        named = {one for group in listed for one in group["params"]}
        rest = [one for one in parameters.values() if one not in named]
        super().__init__([*listed, {"params": rest}] if rest else listed, dict(_MULTIPLES))
        self._given = self._multiples()
        member.attach(self)  # before tables are added, as those of a second optimizer would stay
        group_of = {one: group for group in listed for one in group["params"]}
        for name, parameter in parameters.items():
            group = group_of.get(parameter)
            multiples: dict[str, Any] = {} if group is None else {
                of: float(group.get(of, usual)) for of, usual in _MULTIPLES.items()}
            self._tables[parameter] = member.table(name, parameter.data, **multiples)
        for name, buffer in buffers.items():
            self._buffers.append((member.table(name, buffer, "averaged"), buffer))
        self._wait_in_modules(model)
        if overlap and clip_norm is None and scaler is None:
            # The node that adds up a gradient: its hook runs when that is whole. Kept alive here.
            self._nodes = [one.expand_as(one).grad_fn.next_functions[0][0] for one in self._tables]
            for node, parameter in zip(self._nodes, self._tables):
                self._hooks.append(
                    node.register_hook(lambda *_, one=parameter: self._leave_at_once(one)))

    def _multiples(self) -> list[tuple[int, float, float]]:
        """How many parameters each group has, and their multiples."""
        return [(len(group["params"]), group["lr_mult"], group["decay_mult"])
                for group in self.param_groups]

    def _wait_in_modules(self, model: torch.nn.Module) -> None:
        for module in model.modules():
            own = [self._tables[one] for one in module.parameters(recurse=False)
                   if one in self._tables]
            held = {buffer.data_ptr() for buffer in module.buffers(recurse=False)}
            own += [table for table, buffer in self._buffers if buffer.data_ptr() in held]
            if own:
                self._hooks.append(
                    module.register_forward_pre_hook(lambda *_, own=own: self._await(own)))

    def _leave_at_once(self, parameter: torch.Tensor) -> None:
        """Called when autograd has computed its gradient."""
        if self._holds:
            return
        # Autograd has a thread for each device.
        with self._leaving:
            if parameter in self._left:
                raise InvalidError(
                    "backward() a second time before step(): the first one's gradients have left; "
                    "to add gradients up, call all but the last backward() in "
                    "`with optimizer.no_sync():`")
            self.push(parameter, parameter.grad)

    def push(self, parameter: torch.Tensor, gradient: Optional[torch.Tensor]) -> None:
        """Sends a parameter's gradient of this clock; None is one of zeros. step() does it for all
        that were not sent yet."""
        if not self._left:
            self.synchronize()  # ends the clock before
        table = self._tables[parameter]
        sent = gradient
        with torch.no_grad():
            if sent is None:
                sent = torch.zeros_like(parameter)
            elif self._clip_value is not None:
                # Into separate memory: the parts of a bucket of DDP count changes together.
                sent = sent.clamp(-self._clip_value, self._clip_value)
        self._member.push(table, sent)
        self._left[parameter] = (gradient, None if gradient is None else gradient._version)
        self._waiting.add(table)

    def _await(self, tables: list[Table]) -> None:
        """Called before a module's forward, with the tables of the module's own parameters."""
        if self._left:
            # Between backward() and step(). What was sent may be overwritten at any time.
            if on_the_way := self._waiting.intersection(tables):
                name = min(table.name for table in on_the_way)
                raise InvalidError(
                    f"a forward between backward() and step() reads {name}, whose next values are "
                    "on the way; call step() before, add gradients up in `with "
                    "optimizer.no_sync():`, or choose me.optimizer(model, overlap=False)")
            return
        self._member.open()
        if not self._is_begun:
            # Some modules read others' parameters without a call of those: MultiheadAttention does.
            # So what was not requested at the clock before is waited for at the beginning.
            self._is_begun = True
            self._covered, self._called = self._called, set()
            self._pull(self._waiting - self._covered)
        self._called.update(tables)
        self._pull(self._waiting.intersection(tables))

    def _pull(self, tables: set[Table]) -> None:
        for table in sorted(tables, key=lambda one: one.name):
            self._member.pull(table)
            self._waiting.discard(table)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Gradients of a backward() in its block stay, and the next ones are added to them: for
        batches in several parts, with the backward() of the last part outside of the block.

            with optimizer.no_sync():
                criterion(model(first), targets).backward()
            criterion(model(second), targets).backward()
            optimizer.step()
        """
        before, self._holds = self._holds, True
        try:
            yield
        finally:
            self._holds = before

    def synchronize(self) -> None:
        """Waits for every parameter of the last step: call it before they are read outside of
        the model, or the member leaves."""
        self._member.open()
        self._pull(set(self._waiting))
        if self._has_stepped:
            loss, items = self._report
            value = None if loss is None else float(loss)
            self._has_stepped = False
            self._member.end_clock(value, items)

    @property
    def next_clock(self) -> int:
        """The clock of the next step()."""
        return self._member.clock + self._has_stepped

    @property
    def next_batch(self) -> int:
        """The clock of the next batch."""
        return self.next_clock

    @property
    def may_skip(self) -> bool:
        """Whether a clock may pass without a step, after which it is computed again."""
        return self._may_skip

    def release(self) -> None:
        """Called when its member is closed: the model may be trained by another member, or without
        one."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()

    def step(self, loss: Any = None, items: int = 0) -> Any:
        """Sends what was not sent yet. Parameters without a gradient send zeros.

        loss   a number or a tensor of one, for status and page
        items  how many were trained at this clock
        """
        if callable(loss):
            raise InvalidError("step() takes the loss and no closure: gradients leave once a clock")
        if isinstance(loss, torch.Tensor) and loss.numel() != 1:
            raise InvalidError(f"the loss has shape {list(loss.shape)}; report its mean or sum")
        if self._multiples() != self._given:
            raise InvalidError(
                "groups of parameters were changed after the optimizer was made, but the servers "
                "apply the multiples that it was made with; give others to a new job, and a "
                "schedule of rates to its rule")
        for gradient, version in self._left.values():
            if gradient is not None and gradient._version != version:
                raise InvalidError(
                    "a gradient was changed after it had left; to change gradients before step(), "
                    "choose me.optimizer(model, overlap=False), or clip_norm, clip_value or scaler")
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._tables, self._clip_norm)
        for parameter in self._tables:
            if parameter not in self._left:
                self.push(parameter, parameter.grad)
        for table, buffer in self._buffers:
            self._member.push(table, buffer)
            self._waiting.add(table)
        self._left.clear()
        self._has_stepped = True
        self._is_begun = False
        # Read when the clock ends: one on a device would be waited for here, with all of backward.
        if isinstance(loss, torch.Tensor):
            self._report = (loss.detach().clone(), items)
        else:
            self._report = (None if loss is None else float(loss), items)
        return loss

    def state_dict(self) -> dict[str, Any]:
        """A checkpoint of what this member holds, for torch.save(): the values of all tables, and
        the next clock. Waits for the last step's values.

        The rule's state, such as momentum, is at the servers: the job's own checkpoints
        (`checkpoint=` of submit()) have it too, and `resume=` continues from them.
        """
        if self._left:
            raise InvalidError("state_dict() between backward() and step(): parameters are on the "
                               "way; call it after step()")
        self.synchronize()
        values = [(self._tables[one], one) for one in self._tables] + self._buffers
        return {"clock": self._member.clock, "slot": self._member.slot,
                "slots": self._member.slots,
                "tables": {table.name: value.detach().clone() for table, value in values}}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes a state_dict()'s values the initial ones of a new job: before its first clock. With
        several members, the values of the first count, so let all of them load the same.

        The new job's clocks count from 1; state["clock"] is how far the other one had got.
        """
        if self._member.is_open or self._member.clock > 1:
            raise InvalidError(
                f"load_state_dict() at clock {self._member.clock} of a job, whose values are the "
                "servers'; load before the first clock of a new job, or submit with resume=")
        values = {table.name: value for table, value in self._buffers}
        values |= {table.name: value for value, table in self._tables.items()}
        tables = state.get("tables", {})
        if differing := sorted(values.keys() ^ tables.keys()):
            raise InvalidError(
                f"load_state_dict(): {differing[0]!r} is in the "
                f"{'state' if differing[0] in tables else 'model'} alone; load it into the model "
                "that it was made of")
        for name, value in values.items():
            if value.shape != tables[name].shape:
                raise InvalidError(f"load_state_dict(): {name!r} has shape "
                                   f"{list(tables[name].shape)} in the state, {list(value.shape)} "
                                   "in the model")
        with torch.no_grad():
            for name, value in values.items():
                value.copy_(tables[name])
