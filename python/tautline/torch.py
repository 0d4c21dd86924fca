"""PyTorch models as members: the optimizer's place in a training loop.

    import torch, tautline

    with job.member() as me:
        optimizer = me.optimizer(model)
        for clock in range(1000):
            optimizer.zero_grad()
            loss = criterion(model(inputs), targets)
            loss.backward()                   # each gradient leaves as soon as it is made
            optimizer.step(loss)              # the rule is the job's
"""

import torch

from tautline.errors import InvalidError


def _check(name, tensor):
    if tensor.device.type != "cpu" or tensor.dtype != torch.float32:
        raise InvalidError(f"{name} is {tensor.dtype} on {tensor.device}; members take float32 on "
                           "the CPU")
    if not tensor.is_contiguous():
        raise InvalidError(f"{name} is not contiguous; replace it by its .contiguous()")


class Optimizer(torch.optim.Optimizer):
    """Sends a model's gradients to the servers and takes the parameters that come back, into the
    parameters' own memory. What the servers do with gradients is the job's rule.

    A gradient leaves when autograd has made it, while backward continues; the parameters that a
    module reads are waited for before its next forward, module by module. Floating-point buffers,
    such as running statistics, are averaged over the members.

    member   from job.member(), without tables of its own that are in use already
    model    its parameters are float32 on the CPU; those without requires_grad stay as they are
    overlap  False: gradients leave in step(), for loops that change them before (clipping,
             accumulation, a GradScaler)
    """

    def __init__(self, member, model, overlap=True):
        self._member = member
        self._tables = {}   # by the parameter
        self._buffers = []  # (table, buffer)
        self._pushed = set()
        self._waiting = set()
        self._has_stepped = False
        self._report = (None, 0)
        parameters = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                parameters[parameter] = name
        if not parameters:
            raise InvalidError("the model has no parameter that requires a gradient")
        buffers = {name: buffer for name, buffer in model.named_buffers()
                   if buffer.is_floating_point() and buffer.numel() > 0}
        for parameter, name in parameters.items():
            _check(name, parameter)
        for name, buffer in buffers.items():
            _check(name, buffer)
        for parameter, name in parameters.items():
            self._tables[parameter] = member.table(name, parameter.data)
        for name, buffer in buffers.items():
            self._buffers.append((member.table(name, buffer, "averaged"), buffer))
        super().__init__(list(parameters), {})
        member.open()
        member.before_leaving(self.synchronize)
        # Whatever is read last is waited for by the module that reads it.
        for module in model.modules():
            own = [self._tables[one] for one in module.parameters(recurse=False)
                   if one in self._tables]
            held = {buffer.data_ptr() for buffer in module.buffers(recurse=False)}
            own += [table for table, buffer in self._buffers if buffer.data_ptr() in held]
            if own:
                module.register_forward_pre_hook(lambda *_, own=own: self._await(own))
        if overlap:
            # The node that adds a gradient up: its hook runs when that is whole. Kept alive here.
            self._nodes = [one.expand_as(one).grad_fn.next_functions[0][0] for one in parameters]
            for node, parameter in zip(self._nodes, parameters):
                node.register_hook(lambda *_, one=parameter: self._leave_at_once(one))

    def _leave_at_once(self, parameter):
        """Called when autograd has made its gradient."""
        if parameter in self._pushed:
            raise InvalidError("backward() a second time before step(): the first one's gradients "
                               "have left; to add gradients up, choose overlap=False")
        self._push(parameter)

    def _push(self, parameter):
        if not self._pushed:
            self.synchronize()  # ends the clock before
        table = self._tables[parameter]
        gradient = parameter.grad
        self._member.push(table, torch.zeros_like(parameter) if gradient is None else gradient)
        self._pushed.add(parameter)
        self._waiting.add(table)

    def _await(self, tables):
        # Before step() their gradients may be on the way, but this clock still reads them.
        if self._pushed:
            return
        for table in tables:
            if table in self._waiting:
                self._member.pull(table)
                self._waiting.discard(table)

    def synchronize(self):
        """Waits for every parameter of the last step: before they are read outside of the model, or
        the member leaves."""
        for table in list(self._waiting):
            self._member.pull(table)
        self._waiting.clear()
        if self._has_stepped:
            self._has_stepped = False
            loss, items = self._report
            self._member.end_clock(loss, items)

    def step(self, loss=None, items=0):
        """Sends what has not left yet. Parameters without a gradient send zeros.

        loss   a number or a tensor of one, for status and page
        items  how many were trained at this clock
        """
        if callable(loss):
            raise InvalidError("step() takes the loss and no closure: gradients leave once a clock")
        with torch.no_grad():
            for parameter in self._tables:
                if parameter not in self._pushed:
                    self._push(parameter)
            for table, buffer in self._buffers:
                self._member.push(table, buffer)
                self._waiting.add(table)
        self._pushed.clear()
        self._has_stepped = True
        self._report = (None if loss is None else float(loss), items)
        return loss
