"""DDPHook: DistributedDataParallel over gloo within machines, Tautline between them."""

from cluster import wait_until
from training.python_members import PythonMembers
from training.test_torch import MODEL, REFERENCE

# One process of a machine: rank 0 of its group is the member.
PROCESS = MODEL + """
    address, job, clocks, meeting, rank, norm, dies_at = sys.argv[1:8]
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=int(rank),
                                         world_size=2)
    model = make_model(norm=norm == "norm")
    with torch.no_grad():
        for one in model.parameters(): one += int(rank)  # which the first one's values replace
    model = torch.nn.parallel.DistributedDataParallel(model)
    me = None
    if rank == "0":
        me = tautline.connect(address, wait_s=20).job(int(job)).member()
    with tautline.torch.DDPHook(model, me, **eval(sys.argv[8])) as hook:
        first = None
        for clock in hook.clocks(int(clocks)):
            if clock == int(dies_at): raise ValueError("no such batch")
            images, labels = batch(clock, hook.slot, hook.slots)
            hook.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            hook.step(loss, len(images))
            first = first or float(loss)
        text = hashlib.sha256()
        for value in model.module.state_dict().values():
            text.update(value.numpy().tobytes())
        if rank == "0": torch.save(model.module.state_dict(), f"end{me.slot}.pt")
        print("end", text.hexdigest(), first > 2 * float(loss),
              max(me.staleness()) if me else 0, hook.slot)
"""


# All four processes in one: the mean of a machine's two is clipped before that of both machines.
CLIPPED = MODEL + """
    model = make_model(norm=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.001)
    for clock in range(1, int(sys.argv[1]) + 1):
        mean = [torch.zeros_like(one) for one in model.parameters()]
        for machine in range(2):
            model.zero_grad()
            for rank in range(2):
                images, labels = batch(clock, 2 * machine + rank, 4)
                (criterion(model(images), labels) / 2).backward()
            torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)
            for of, one in zip(mean, model.parameters()): of += one.grad / 2
        for of, one in zip(mean, model.parameters()): one.grad = of
        optimizer.step()
    theirs = model.state_dict()
    print(max(float((ours - theirs[name]).abs().max() / theirs[name].abs().max())
              for name, ours in torch.load("end0.pt").items()))
"""


class DDPHookTest(PythonMembers):
    module = "torch"

    def setUp(self):
        super().setUp()
        self.environment["GLOO_SOCKET_IFNAME"] = "lo"

    def submit_sgd(self, consistency):
        return self.submit(2, consistency,
                           solver='type: "SGD" base_lr: 0.05 momentum: 0.9 weight_decay: 0.001')

    def machine(self, job, name, norm="plain", dies_at=0, clocks=50, options="{}"):
        """The two processes of a machine; the second one fails at a clock."""
        return [self.program(PROCESS, self.coordinator, job, clocks, self.folder / name, rank,
                             norm, dies_at * rank, options) for rank in range(2)]

    def ends(self, job, **options):
        processes = [one for name in ("a", "b")
                     for one in self.machine(job, f"{name}{job}", **options)]
        ends = [self.result(one, timeout=100).split() for one in processes]
        self.wait_for_job(job, "DONE")
        return ends

    def test_two_machines_in_bsp_end_where_one_process_does(self):
        self.start_cluster()
        for options in ("{}", "{'overlap': False}"):
            ends = self.ends(self.submit_sgd("mode: BSP"), clocks=100, options=options)
            self.assertEqual(len({end[1] for end in ends}), 1, "one result in all four processes")
            self.assertEqual({end[2] for end in ends}, {"True"})
            self.assertEqual(sorted(int(end[4]) for end in ends), [0, 1, 2, 3])
            self.assertLess(float(self.run_python(REFERENCE, 100)), 1e-4)

    def test_two_machines_under_a_slack_learn_and_average_their_statistics(self):
        self.start_cluster()
        ends = self.ends(self.submit_sgd("mode: SSP slack: 1"), norm="norm")
        self.assertEqual({end[2] for end in ends}, {"True"})
        self.assertLessEqual(max(int(end[3]) for end in ends), 1)

    def test_a_machines_gradients_are_clipped_by_value_as_they_leave(self):
        self.start_cluster()
        ends = self.ends(self.submit_sgd("mode: BSP"), clocks=20, options="{'clip_value': 0.01}")
        self.assertEqual(len({end[1] for end in ends}), 1, "one result in all four processes")
        self.assertLess(float(self.run_python(CLIPPED, 20)), 1e-4)

    def test_a_process_that_fails_ends_its_machine_and_the_other_one_continues(self):
        self.start_cluster()
        job = self.submit_sgd("mode: SSP slack: 1")
        other = self.machine(job, "a")
        rank0, rank1 = self.machine(job, "b", dies_at=5)
        self.assertIn("ValueError: no such batch", self.result(rank1, status=1))
        self.assertIn("RuntimeError", self.result(rank0, status=1))
        wait_until(lambda: "RuntimeError" in self.job_status(job)["message"] or
                   self.job_status(job)["state"] == "DONE")
        for process in other:
            self.assertIn("end", self.result(process))
        self.wait_for_job(job, "DONE")

    def test_wrong_groups_and_loops_are_refused(self):
        self.start_cluster()
        job = self.submit(1, "mode: BSP")
        out = self.run_python("""
            import sys, torch, tautline, tautline.torch
            def fails(words, call):
                try:
                    call()
                except tautline.InvalidError as error:
                    assert words in str(error), error
                else:
                    raise AssertionError(words)
            torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[3],
                                                 rank=0, world_size=1)
            plain = torch.nn.Linear(2, 2)
            model = torch.nn.parallel.DistributedDataParallel(plain)
            with tautline.connect(sys.argv[1]).job(int(sys.argv[2])).member() as me:
                fails("the model is a Linear", lambda: tautline.torch.DDPHook(plain, me))
                fails("rank 0 of the group has no member",
                      lambda: tautline.torch.DDPHook(model, None))
                hook = tautline.torch.DDPHook(model, me)
                clocks = hook.clocks(2)
                next(clocks)
                fails("clock 1 passed without the hook's step", lambda: next(clocks))
            """, self.coordinator, job, self.folder / "meeting")
        self.assertEqual(out, "")
