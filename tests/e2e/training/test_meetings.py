"""PyTorch members that train by themselves and meet at an outer rule, against PyTorch alone."""

from cluster import wait_until
from training.python_members import PythonMembers

MODEL = """
    import hashlib, sys
    import torch, tautline
    torch.set_num_threads(1)

    def make_model():
        torch.manual_seed(7)
        return torch.nn.Sequential(torch.nn.Linear(12, 16, bias=False), torch.nn.BatchNorm1d(16),
                                   torch.nn.ReLU(), torch.nn.Linear(16, 4))

    def batch(step, slot):
        draw = torch.Generator().manual_seed(100 * step + slot)
        inputs = torch.randn(16, 12, generator=draw)
        return inputs, inputs[:, :4].argmax(1)

    def train(model, optimizer, step, slot, **arguments):
        inputs, labels = batch(step, slot)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(**arguments)
        return float(loss)

    def inner_of(model):
        return torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.05)
"""

MEMBER = MODEL + """
    from tautline.meetings import Meetings
    model = make_model()
    job = tautline.connect(sys.argv[1], wait_s=20).job(int(sys.argv[2]))
    with job.member() as me:
        inner = inner_of(model)
        optimizer = Meetings(me, model, inner, interval=10)
        for step in range(int(sys.argv[3])):
            loss = train(model, optimizer, step, me.slot)
            first = loss if step == 0 else first
        slot, meetings = me.slot, me
    text = hashlib.sha256()
    for value in model.state_dict().values():
        text.update(value.numpy().tobytes())
    torch.save(model.state_dict(), f"end{slot}.pt")
    print("end", text.hexdigest(), first > 1.5 * loss, meetings.clock)
"""

# Both members in one process; the outer rule is PyTorch's own. With two fragments the servers make
# the first one of the first layer's weights, which meet at every other clock from the first on.
REFERENCE = MODEL + """
    steps, fragments = int(sys.argv[1]), int(sys.argv[2])

    def is_due(clock, name):
        return fragments == 1 or (name == "0.weight") == (clock % 2 == 1)

    models = [make_model() for _ in range(2)]
    inners = [inner_of(model) for model in models]
    shared = make_model()
    outer = torch.optim.SGD(shared.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    def meet(clock):
        for name, one in shared.named_parameters():
            own = [model.state_dict()[name] for model in models]
            one.grad = sum(one.detach() - each for each in own) / 2 if is_due(clock, name) else None
        outer.step()
        with torch.no_grad():
            for name, one in shared.named_buffers():
                if one.is_floating_point() and is_due(clock, name):
                    one.copy_(sum(model.state_dict()[name] for model in models) / 2)
            for name, one in shared.state_dict().items():
                for model in models:
                    if one.is_floating_point() and is_due(clock, name):
                        model.state_dict()[name].copy_(one)

    clock, of_clock = 0, 10 // fragments
    for step in range(steps):
        for slot in range(2):
            train(models[slot], inners[slot], step, slot)
        if (step + 1) % of_clock == 0 or step + 1 == steps:
            clock += 1
            meet(clock)
    # What has trained since its last meeting meets once more.
    for clock in range(clock + 1, clock + fragments):
        meet(clock)
    ours, theirs = torch.load("end0.pt"), shared.state_dict()
    print(max(float((ours[name] - theirs[name]).abs().max() / theirs[name].abs().max())
              for name in ours if ours[name].is_floating_point()))
"""


class MeetingsTest(PythonMembers):
    module = "torch"

    def submit_outer(self, mode, outer="", workers=2, fragments=1):
        return self.submit(workers, f"{mode} periodic_averaging {{ interval: 10 fragments: "
                                    f"{fragments} outer {{ {outer} }} }}")

    def train(self, job, steps=45, members=2):
        programs = [self.program(MEMBER, self.coordinator, job, steps) for _ in range(members)]
        ends = [self.result(one, timeout=100).splitlines()[-1].split() for one in programs]
        self.wait_for_job(job, "DONE")
        return ends

    def test_members_in_bsp_meet_at_diloco_as_pytorch_computes_it_and_repeat_their_bits(self):
        self.start_cluster()
        ends = [self.train(self.submit_outer("mode: BSP")) for _ in range(2)]
        digests = {digest for end in ends for _, digest, _, _ in end}
        self.assertEqual(len(digests), 1)
        # Four meetings of ten steps and one of five, after the members' opening.
        self.assertEqual({end[3] for end in ends[0]}, {"6"})
        self.assertEqual({end[2] for end in ends[0]}, {"True"})
        apart = float(self.run_python(REFERENCE, 45, 1))
        self.assertLess(apart, 1e-4)

    def test_fragments_meet_in_turn_as_pytorch_computes_it(self):
        self.start_cluster()
        ends = self.train(self.submit_outer("mode: BSP", fragments=2))
        self.assertEqual(len({digest for _, digest, _, _ in ends}), 1)
        # Nine meetings of five steps, of one part each, and one for what the last left out.
        self.assertEqual({end[3] for end in ends}, {"11"})
        apart = float(self.run_python(REFERENCE, 45, 2))
        self.assertLess(apart, 1e-4)
        # Another part at each clock is another training.
        self.assertGreater(float(self.run_python(REFERENCE, 45, 1)), 1e-3)

    def test_a_table_whose_fragment_does_not_meet_is_refused_and_need_not_be_pushed(self):
        self.start_cluster()
        job = self.submit_outer("mode: BSP", workers=1, fragments=2)
        out = self.run_python("""
    import numpy, sys, tautline
    with tautline.connect(sys.argv[1], wait_s=20).job(int(sys.argv[2])).member() as me:
        tables = [me.table(name, numpy.zeros(4, numpy.float32)) for name in "ab"]
        for clock in me.clocks(4):
            for table in tables:
                if not me.is_due(table):
                    try:
                        me.push(table, numpy.ones(4))
                    except tautline.InvalidError as error:
                        print(error)
                    continue
                me.push(table, numpy.ones(4))
                me.pull(table)
                print(clock, table.name)
        try:
            me.end_clock()
        except tautline.InvalidError as error:
            print(error)
            """, self.coordinator, job)
        late = ('table "{}" is of a fragment that meets at clock {} next, not at {}; push the '
                'tables that are due')
        self.assertEqual(out.splitlines(), [
            "1 a", late.format("b", 2, 1), late.format("a", 3, 2), "2 b", "3 a",
            late.format("b", 4, 3), late.format("a", 5, 4), "4 b",
            'table "a" was not pushed at clock 5; each table that is due is pushed once a clock'])
        self.wait_for_job(job, "DONE")

    def test_members_learn_under_a_slack_of_meetings_and_with_a_buffer(self):
        self.start_cluster()
        for slack, outer in ((1, 'momentum=0.5'), (1, 'momentum=0.5, fragments=5'),
                             (None, 'type="SGD", lr=1, momentum=0, buffer=2')):
            job = self.run_python(f"""
    import sys, tautline
    with tautline.connect(sys.argv[1]) as cluster:
        print(cluster.submit(tautline.Outer(interval=10, {outer}), workers=2, slack={slack}).number)
                """, self.coordinator)
            ends = self.train(int(job), steps=100)
            self.assertEqual([end[2] for end in ends], ["True", "True"])

    def test_a_rule_for_meetings_that_does_not_fit_is_refused_at_its_place(self):
        self.start_cluster()
        out = self.run_python("""
    import sys, tautline
    with tautline.connect(sys.argv[1]) as cluster:
        for rule, slack in ((tautline.Outer(interval=0), 1),
                            (tautline.Outer(interval=10, lr=0), 1),
                            (tautline.Outer(interval=10, type="LARS"), 1),
                            (tautline.Outer(interval=10, type="SGD", momentum2=0.5), 1),
                            (tautline.Outer(interval=10, type="Adam", eps=-1), 1),
                            (tautline.Outer(interval=10, fragments=3), 1),
                            (tautline.Outer(interval=10, buffer=2), 0)):
            try:
                cluster.submit(rule, workers=1, slack=slack)
            except tautline.InvalidError as error:
                print(error)
            """, self.coordinator)
        words = ("interval is 0; it must be from 1", "outer.lr is 0; it must be greater than 0",
                 "outer.type is LARS, which scales", "outer.momentum2 is 0.5: type SGD does not",
                 "outer.delta is -1; it must be greater than 0",
                 "fragments is 3, by which the interval of 10", "outer.buffer is 2, but in BSP")
        self.assertEqual(len(out.splitlines()), len(words), out)
        for line, expected in zip(out.splitlines(), words):
            self.assertIn(expected, line)

    def test_steps_count_on_where_a_member_is_drained_and_another_one_takes_its_place(self):
        self.start_cluster()
        job = self.submit_outer("mode: BSP", workers=1)
        code = MODEL + """
    from tautline.torch import Meetings
    with tautline.connect(sys.argv[1], wait_s=20).job(int(sys.argv[2])).member() as me:
        model = make_model()
        optimizer = Meetings(me, model, inner_of(model))
        sampler = me.sampler(1000, 16, end=int(sys.argv[3]))
        first, drawn = optimizer.next_batch, iter(sampler)
        print("steps from", first, flush=True)
        for step in optimizer.steps(int(sys.argv[3])):
            assert next(drawn) == sampler.indices(step), step
            train(model, optimizer, step, 0)
            if sys.argv[4] == "slowly":
                import time
                time.sleep(0.02)
        print("ends at", step, me.is_drained, optimizer.interval)
            """
        one = self.program(code, self.coordinator, job, 10000, "slowly")
        self.assertEqual(one.stdout.readline(), "steps from 1\n")
        name = wait_until(lambda: [worker["name"] for worker in self.job_status(job)["workers"]
                                   if int(worker["progress"]["clock"]) > 2])[0]
        self.assertEqual(self.ask("drain", name).returncode, 0)
        words = self.result(one).split()
        self.assertEqual(words[3:], ["True", "10"])
        last = int(words[2])
        self.assertEqual(last % 10, 0, "it leaves at a meeting")
        # Its opening, at which it reads the values, is before the clock of its first meeting.
        out = self.run_python(code, self.coordinator, job, last + 40, "").split()
        self.assertGreater(int(out[2]), last)
        self.assertEqual(int(out[2]) % 10, 1)
        self.assertEqual(out[5:], [str(last + 40), "False", "10"])
        self.wait_for_job(job, "DONE")

    def test_a_member_that_meets_counts_clocks_too(self):
        self.start_cluster()
        job = self.submit_outer("mode: BSP", workers=1)
        out = self.run_python(MODEL + """
    from tautline.torch import Meetings
    with tautline.connect(sys.argv[1], wait_s=20).job(int(sys.argv[2])).member() as me:
        model = make_model()
        optimizer = Meetings(me, model, inner_of(model), 10)
        clocks = []
        for clock in me.clocks(3):
            clocks.append(clock)
            train(model, optimizer, len(clocks), 0)
    assert clocks == [1] * 10 + [2] * 10 + [3] * 10, clocks
            """, self.coordinator, job)
        self.assertEqual(out, "")

    def test_wrong_use_is_an_error_with_the_way_out(self):
        self.start_cluster()
        job = self.submit_outer("mode: BSP", workers=1)
        out = self.run_python(MODEL + """
    from tautline.meetings import Meetings
    job = tautline.connect(sys.argv[1], wait_s=20).job(int(sys.argv[2]))
    me = job.member()
    for model, interval in ((make_model(), 0), (make_model(), 20), (make_model().double(), 10),
                            (torch.nn.ReLU(), None)):
        inner = torch.optim.SGD(make_model().parameters(), lr=1)
        try:
            Meetings(me, model, inner, interval)
        except tautline.InvalidError as error:
            print(error)
    steps = Meetings(me, make_model(), inner).steps()
    next(steps)
    try:
        next(steps)
    except tautline.InvalidError as error:
        print(error)
    me.fail("ends")
    me = tautline.connect(sys.argv[1]).job(int(sys.argv[3])).member()
    try:
        Meetings(me, make_model(), inner)
    except tautline.InvalidError as error:
        print(error)
    me.fail("ends")
            """, self.coordinator, job, self.submit(1, "mode: BSP"))
        words = ("interval is 0", "interval is 20, but the job's is 10", "torch.float64",
                 "no parameter that requires a gradient", "step 1 passed without step()",
                 "the job has no periodic_averaging")
        self.assertEqual(len(out.splitlines()), len(words), out)
        for line, expected in zip(out.splitlines(), words):
            self.assertIn(expected, line)
