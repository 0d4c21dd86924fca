"""PyTorch models as members: tautline.torch against PyTorch itself."""

from training.python_members import PythonMembers

MODEL = """
    import hashlib, sys
    import torch, tautline, tautline.torch
    torch.set_num_threads(1)

    def make_model(norm):
        torch.manual_seed(7)
        layers = [torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                  torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(8 * 16, 32),
                  torch.nn.ReLU(), torch.nn.Linear(32, 10)]
        return torch.nn.Sequential(*(one for one in layers
                                     if norm or not isinstance(one, torch.nn.BatchNorm2d)))

    def batch(clock, slot, slots):
        classes = torch.randn(10, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        draw = torch.Generator().manual_seed(clock)
        labels = torch.randint(0, 10, (16,), generator=draw)
        images = classes[labels] + 0.5 * torch.randn(16, 1, 8, 8, generator=draw)
        return images[slot::slots], labels[slot::slots]

    criterion = torch.nn.CrossEntropyLoss()

    def apart_from(model):
        # How far the members' parameters are from a model's, relative to the largest of each.
        apart = 0
        for slot in range(2):
            ended = torch.load(f"end{slot}.pt")
            for ours, theirs in zip(ended.values(), model.state_dict().values(), strict=True):
                apart = max(apart, float((ours - theirs).abs().max() / theirs.abs().max()))
        return apart
"""

MEMBER = MODEL + """
    model = make_model(norm=sys.argv[4] == "norm")
    job = tautline.connect(sys.argv[1], wait_s=20).job(int(sys.argv[2]))
    with job.member() as me:
        print("joined", flush=True)
        optimizer = me.optimizer(model, overlap=sys.argv[5] == "overlap")
        first = None
        for clock in range(me.clock, int(sys.argv[3]) + 1):
            images, labels = batch(clock, me.slot, me.slots)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step(loss, items=len(images))
            first = first or float(loss)
        optimizer.synchronize()
        text = hashlib.sha256()
        for value in model.state_dict().values():
            text.update(value.numpy().tobytes())
        torch.save(model.state_dict(), f"end{me.slot}.pt")
        print("end", text.hexdigest(), first > 2 * float(loss), max(me.staleness()))
"""

REFERENCE = MODEL + """
    model = make_model(norm=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.001)
    for clock in range(1, int(sys.argv[1]) + 1):
        images, labels = batch(clock, 0, 1)
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    print(apart_from(model))
"""

DDP = MODEL + """
    import os
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    rank = int(sys.argv[1])
    torch.distributed.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meeting",
                                         rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(make_model(norm=False))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.001)
    for clock in range(1, int(sys.argv[2]) + 1):
        images, labels = batch(clock, rank, 2)
        optimizer.zero_grad()
        criterion(model(images), labels).backward()
        optimizer.step()
    print(apart_from(model.module))
    torch.distributed.destroy_process_group()
"""


# Each member changes its own gradients before the mean is taken.
CHANGE = MODEL + """
    class Scaler:
        # The part of torch.cuda.amp.GradScaler's interface that a loop calls.
        def __init__(self): self.factor, self.skipped, self.bad = 1024.0, 0, False
        def is_enabled(self): return True
        def scale(self, loss): return loss * self.factor
        def unscale_(self, optimizer):
            for group in optimizer.param_groups:
                for one in group["params"]: one.grad.div_(self.factor)
        def step(self, optimizer, *report):
            self.unscale_(optimizer)
            self.bad = not all(one.grad.isfinite().all() for group in optimizer.param_groups
                               for one in group["params"])
            if not self.bad: optimizer.step(*report)
        def update(self):
            if self.bad: self.factor, self.skipped = self.factor / 2, self.skipped + 1

    kind = sys.argv[1]
    OPTIONS = {"add": {}, "norm": {"clip_norm": 0.5}, "value": {"clip_value": 0.01},
               "scale": {"scaler": Scaler()}, "by hand": {"overlap": False}}.get(kind, {})

    def groups_of(model, **rates):
        return [{"params": model[0].parameters(), **rates}]

    def parts_of(clock, slot):
        images, labels = batch(clock, slot, 2)
        return [(images[:4], labels[:4]), (images[4:], labels[4:])]
"""

CHANGING_MEMBER = CHANGE + """
    model = make_model(norm=False)
    with tautline.connect(sys.argv[2], wait_s=20).job(int(sys.argv[3])).member() as me:
        pushed, push = [], me.push
        me.push = lambda table, gradient: (pushed.append(table.name), push(table, gradient))
        if "groups" in kind:
            OPTIONS = {"groups": groups_of(model, lr_mult=0.1, decay_mult=0)}
        optimizer = me.optimizer(model, **OPTIONS)
        seen = []
        for clock in me.clocks(20):
            seen.append(clock)
            optimizer.zero_grad()
            first, second = parts_of(clock, me.slot)
            def half(part):
                return criterion(model(part[0]), part[1]) / 2
            pushed.clear()
            if kind == "add":
                with optimizer.no_sync(): half(first).backward()
                assert not pushed
                half(second).backward()
            elif kind == "scale":
                scaler = OPTIONS["scaler"]
                for part in (first, second): scaler.scale(half(part)).backward()
                if clock == 5 and me.slot == 1 and not scaler.skipped:
                    model[0].weight.grad[0] = float("inf")
            else:
                (half(first) + half(second)).backward()
            assert len(pushed) == (6 if kind in ("add", "value") or "groups" in kind else 0), pushed
            if kind == "scale":
                scaler.step(optimizer, clock)
                scaler.update()
            else:
                if kind == "by hand": torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step(clock)
        optimizer.synchronize()
        assert seen == sorted([*range(1, 21)] + [5] * (kind == "scale" and me.slot == 1)), seen
        torch.save(model.state_dict(), f"end{me.slot}.pt")
"""

CHANGING_REFERENCE = CHANGE + """
    model = make_model(norm=False)
    groups, rate = [{"params": model.parameters()}], 0.002 if "AdamW" in kind else 0.05
    if "groups" in kind:
        groups = groups_of(model, lr=rate / 10, weight_decay=0) + [
            {"params": [one for layer in model[1:] for one in layer.parameters()]}]
    if "AdamW" in kind:
        optimizer = torch.optim.AdamW(groups, lr=rate, weight_decay=0.5)
    else:
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=0.9, weight_decay=0.001)
    for clock in range(1, 21):
        mean = [torch.zeros_like(one) for one in model.parameters()]
        for slot in range(2):
            model.zero_grad()
            for images, labels in parts_of(clock, slot):
                (criterion(model(images), labels) / 2).backward()
            if kind in ("norm", "by hand"): torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            if kind == "value": torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
            for of, one in zip(mean, model.parameters()):
                of += one.grad if "SUM" in kind else one.grad / 2
        for of, one in zip(mean, model.parameters()): one.grad = of
        optimizer.step()
    apart = 0
    for slot in range(2):
        for ours, theirs in zip(torch.load(f"end{slot}.pt").values(), model.state_dict().values()):
            apart = max(apart, float((ours - theirs).abs().max() / theirs.abs().max()))
    print(apart)
"""


STATES = MODEL + """
    def steps(me, model, optimizer, clocks):
        for clock in me.clocks(clocks):
            images, labels = batch(clock, 0, 1)
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step(loss)
        return float(loss)
    def fails(words, call):
        try:
            call()
        except tautline.InvalidError as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    cluster = tautline.connect(sys.argv[1])
    model = make_model(norm=True)
    with cluster.job(int(sys.argv[2])).member() as me:
        optimizer = me.optimizer(model)
        before = steps(me, model, optimizer, 10)
        torch.save(optimizer.state_dict(), "state.pt")
        fails("load_state_dict() at clock 11 of a job",
              lambda: optimizer.load_state_dict(torch.load("state.pt")))
    state = torch.load("state.pt")
    assert (state["clock"], state["slot"], state["slots"]) == (11, 0, 1), state
    for name, value in model.named_parameters():
        assert state["tables"][name].equal(value), name
    other = make_model(norm=True)
    with cluster.job(int(sys.argv[3])).member() as me:
        optimizer = me.optimizer(other)
        fails("is in the state alone",
              lambda: optimizer.load_state_dict({"tables": state["tables"] | {"x": 1}}))
        fails("has shape [1] in the state", lambda: optimizer.load_state_dict(
            {"tables": state["tables"] | {"0.bias": torch.zeros(1)}}))
        optimizer.load_state_dict(state)
        optimizer.synchronize()
        for name, value in other.named_parameters():
            assert state["tables"][name].equal(value), name
        print(steps(me, other, optimizer, 1) < before)
"""


class TorchTest(PythonMembers):
    module = "torch"

    def submit_sgd(self, workers, consistency):
        return self.submit(workers, consistency,
                           solver='type: "SGD" base_lr: 0.05 momentum: 0.9 weight_decay: 0.001')

    def train(self, job, norm="plain", overlap="overlap", clocks=100):
        members = [self.program(MEMBER, self.coordinator, job, clocks, norm, overlap)
                   for _ in range(2)]
        ends = [self.result(one, timeout=100).splitlines()[-1].split() for one in members]
        self.wait_for_job(job, "DONE")
        return ends

    def test_bsp_members_repeat_bit_for_bit_and_end_where_one_process_and_ddp_do(self):
        self.start_cluster()
        runs = [self.train(self.submit_sgd(2, "mode: BSP"), overlap=overlap)
                for overlap in ("overlap", "overlap", "at once")]
        digests = {end[1] for run in runs for end in run}
        self.assertEqual(len(digests), 1, "members, runs, with overlap and without: one result")
        self.assertEqual([end[2:] for run in runs for end in run], [["True", "0"]] * 6)
        self.assertLess(float(self.run_python(REFERENCE, 100)), 1e-4)
        ranks = [self.program(DDP, rank, 100) for rank in range(2)]
        for rank in ranks:
            self.assertLess(float(self.result(rank, timeout=100)), 1e-4)

    def test_members_under_a_slack_learn_and_average_their_statistics(self):
        self.start_cluster()
        ends = self.train(self.submit_sgd(2, "mode: SSP slack: 1"), norm="norm")
        self.assertEqual({end[2] for end in ends}, {"True"})
        self.assertLessEqual(max(int(end[3]) for end in ends), 1)
        job = self.submit_sgd(2, "mode: BSP")
        self.assertEqual(len({end[1] for end in self.train(job, norm="norm", clocks=10)}), 1)

    def test_wrong_models_and_loops_are_refused(self):
        self.start_cluster()
        job = self.submit_sgd(1, "mode: BSP")
        out = self.run_python("""
            import sys, torch, tautline
            def fails(words, call):
                try:
                    call()
                except tautline.InvalidError as error:
                    assert words in str(error), error
                else:
                    raise AssertionError(words)
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                fails("weight is torch.float64 on cpu",
                      lambda: me.optimizer(torch.nn.Linear(2, 2).double()))
                fails("no parameter that requires", lambda: me.optimizer(torch.nn.ReLU()))
                sparse = torch.nn.Linear(2, 3)
                sparse.weight.data = torch.zeros(2, 3).t()
                fails("weight is not contiguous", lambda: me.optimizer(sparse))
                model = torch.nn.Linear(2, 2)
                optimizer = me.optimizer(model)
                fails("takes the loss and no closure", lambda: optimizer.step(lambda: 0))
                fails("the loss has shape [2]", lambda: optimizer.step(torch.zeros(2)))
                optimizer.zero_grad()
                first, second = (model(torch.ones(1, 2)).sum() for _ in range(2))
                first.backward()
                fails("backward() a second time", second.backward)
                fails("a forward between backward() and step() reads bias",
                      lambda: model(torch.ones(1, 2)))
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                fails("was changed after it had left", optimizer.step)
                fails("between backward() and step()", optimizer.state_dict)
                fails("has an optimizer already", lambda: me.attach(optimizer))
                me.fail("it was a test")
            """, self.coordinator, job)
        self.assertEqual(out, "")

    def test_wrong_options_of_an_optimizer_are_refused(self):
        self.start_cluster()
        job = self.submit_sgd(1, "mode: BSP")
        out = self.run_python("""
            import sys, warnings, torch, tautline
            warnings.simplefilter("ignore")  # PyTorch's own, about a scaler without a device
            def fails(words, call):
                try:
                    call()
                except tautline.InvalidError as error:
                    assert words in str(error), error
                else:
                    raise AssertionError(words)
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                model = torch.nn.Linear(2, 2)
                fails("clip_norm is 0", lambda: me.optimizer(model, clip_norm=0))
                fails("clip_value is nan", lambda: me.optimizer(model, clip_value=float("nan")))
                fails("both given", lambda: me.optimizer(model, clip_norm=1, clip_value=1))
                fails("GradScaler is disabled: PyTorch", lambda: me.optimizer(
                    model, scaler=torch.cuda.amp.GradScaler(enabled=torch.cuda.is_available())))
                def grouped(**more):
                    return lambda: me.optimizer(model, groups=[
                        {"params": model.parameters()} | more])
                fails('has no "params"', lambda: me.optimizer(model, groups=[{"lr_mult": 2}]))
                fails("has 'lr'", grouped(lr=1))
                fails("lr_mult of a group is -1", grouped(lr_mult=-1))
                fails("shape [3] that is not a parameter", lambda: me.optimizer(
                    torch.nn.Linear(1, 1),
                    groups=[{"params": torch.ones(3)}]))
                fails("shape [2, 2] that is in a group already", lambda: me.optimizer(
                    model, groups=[{"params": [model.weight] * 2}]))
                optimizer = me.optimizer(model)
                names = [table.name for table in me._tables]
                fails("has an optimizer already", lambda: me.optimizer(torch.nn.Linear(3, 3)))
                assert [table.name for table in me._tables] == names
                clocks = me.clocks(3)
                next(clocks)
                fails("clock 1 passed without the optimizer's step", lambda: next(clocks))
                optimizer.param_groups[0]["lr_mult"] = 0.5
                fails("groups of parameters were changed after", optimizer.step)
                me.fail("it was a test")
            """, self.coordinator, job)
        self.assertEqual(out, "")

    def changed(self, kind, job=None):
        """How far members that change their gradients end from one process that does the same."""
        job = job or self.submit_sgd(2, "mode: BSP")
        for member in [self.program(CHANGING_MEMBER, kind, self.coordinator, job)
                       for _ in range(2)]:
            self.result(member, timeout=100)
        self.wait_for_job(job, "DONE")
        return float(self.run_python(CHANGING_REFERENCE, kind))

    def test_gradients_of_several_backward_passes_are_added_up(self):
        self.start_cluster()
        self.assertLess(self.changed("add"), 1e-4)

    def test_gradients_are_clipped_by_their_norm(self):
        self.start_cluster()
        self.assertLess(self.changed("norm"), 1e-4)
        self.assertLess(self.changed("by hand"), 1e-4)

    def test_gradients_are_clipped_by_value_as_they_leave(self):
        self.start_cluster()
        self.assertLess(self.changed("value"), 1e-4)

    def test_groups_of_parameters_have_rates_of_their_own(self):
        self.start_cluster()
        self.assertLess(self.changed("groups"), 1e-4)

    def test_groups_of_parameters_have_rates_of_their_own_where_updates_are_added(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP", "reduction: SUM", solver="""
            type: "SGD" base_lr: 0.05 momentum: 0.9 weight_decay: 0.001""")
        self.assertLess(self.changed("SUM groups", job), 1e-4)

    def test_groups_of_parameters_have_rates_of_their_own_under_adamw(self):
        self.start_cluster()
        job = self.submit(2, "mode: BSP", solver="""type: "AdamW" base_lr: 0.002 momentum: 0.9
            momentum2: 0.999 delta: 1e-8 weight_decay: 0.5""")
        self.assertLess(self.changed("AdamW groups", job), 1e-4)

    def test_a_scaler_that_skips_a_step_has_the_clock_computed_again(self):
        self.start_cluster()
        self.assertLess(self.changed("scale"), 1e-4)

    def test_a_state_dict_holds_the_members_values_and_begins_another_job(self):
        self.start_cluster()
        first, second = (self.submit_sgd(1, "mode: BSP") for _ in range(2))
        out = self.run_python(STATES, self.coordinator, first, second)
        self.assertEqual(out, "True\n")

    def test_a_model_trains_in_one_job_after_another_and_without_one(self):
        out = self.run_python("""
            import torch, tautline, tautline.torch
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(),
                                        torch.nn.Linear(8, 1))
            # An attention mask is a buffer too.
            model.register_buffer("mask", torch.triu(torch.full((3, 3), float("-inf")), 1))
            mask = model.mask.clone()
            inputs = torch.randn(16, 4)
            def loss_of(): return (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            losses = [float(loss_of())]
            with tautline.local() as cluster:
                for _ in range(2):
                    job = cluster.submit(rule=tautline.SGD(lr=0.1), workers=1, slack=0)
                    with job.member() as me:
                        optimizer = me.optimizer(model)
                        for clock in me.clocks(10):
                            optimizer.zero_grad()
                            loss_of().backward()
                            optimizer.step()
                    losses.append(float(loss_of()))
            alone = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(10):
                alone.zero_grad()
                loss_of().backward()
                alone.step()
            losses.append(float(loss_of()))
            print(losses == sorted(losses, reverse=True), torch.equal(model.mask, mask))
            """)
        self.assertEqual(out.strip(), "True True")

    def test_parameters_that_a_module_reads_of_another_are_waited_for(self):
        out = self.run_python("""
            import torch, tautline.torch
            class Table:
                def __init__(self, name): self.name = name
            class Member:  # that notes what is waited for
                clock, pulled = 1, []
                def attach(self, optimizer): pass
                def open(self): pass
                def table(self, name, value, kind="trained"): return Table(name)
                def push(self, table, gradient): pass
                def pull(self, table): self.pulled.append(table.name)
                def end_clock(self, loss, items): self.clock += 1
            class Model(torch.nn.Module):
                def __init__(self):
                    super().__init__()
                    self.front = torch.nn.Linear(4, 4)
                    self.attention = torch.nn.MultiheadAttention(4, 2)
                    self.last = torch.nn.Linear(4, 4)
                def forward(self, x):
                    x = self.front(x)
                    self.last_of_all = "last.weight" in me.pulled
                    return self.last(self.attention(x, x, x)[0])
            me, model = Member(), Model()
            optimizer = tautline.torch.Optimizer(me, model)
            names = sorted(name for name, _ in model.named_parameters())
            for clock in range(1, 5):
                me.pulled.clear()
                out = model(torch.ones(3, 1, 4))
                # Attention reads the weights of its module out_proj without a call.
                assert sorted(me.pulled) == (names if clock > 1 else []), (clock, me.pulled)
                assert not model.last_of_all, "modules wait for their own parameters alone"
                out.sum().backward()
                optimizer.step()
            """)
        self.assertEqual(out, "")
