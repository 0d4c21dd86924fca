"""PyTorch models as members: tautline.torch against PyTorch itself."""

import pathlib
import subprocess

from cluster import SLOWER, SOURCE
from training.python_members import PythonMembers

MODEL = """
    import hashlib, sys
    import torch, tautline
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
    apart = 0
    for slot in range(2):
        for ours, theirs in zip(torch.load(f"end{slot}.pt").values(), model.state_dict().values()):
            apart = max(apart, float((ours - theirs).abs().max() / theirs.abs().max()))
    print(apart)
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

    def test_bsp_members_repeat_bit_for_bit_and_end_where_one_process_does(self):
        self.start_cluster()
        runs = [self.train(self.submit_sgd(2, "mode: BSP"), overlap=overlap)
                for overlap in ("overlap", "overlap", "at once")]
        digests = {end[1] for run in runs for end in run}
        self.assertEqual(len(digests), 1, "members, runs, with overlap and without: one result")
        self.assertEqual([end[2:] for run in runs for end in run], [["True", "0"]] * 6)
        self.assertLess(float(self.run_python(REFERENCE, 100)), 1e-4)

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
                optimizer.zero_grad()
                model(torch.ones(1, 2)).sum().backward()
                fails("backward() a second time", model(torch.ones(1, 2)).sum().backward)
                optimizer.step()
            """, self.coordinator, job)
        self.assertEqual(out, "")

    def example(self, name, *arguments):
        """The accuracy that one of the examples prints."""
        done = subprocess.run(
            [self.interpreter, str(SOURCE / "python" / "examples" / name), *arguments],
            env=self.environment | {"GLOO_SOCKET_IFNAME": "lo"}, capture_output=True, text=True,
            timeout=100 * SLOWER, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return float(done.stdout.split("test accuracy: ")[1])

    def test_the_example_in_bsp_is_as_good_as_the_one_in_ddp(self):
        if not pathlib.Path("/usr/share/datasets/fashion-mnist").exists():
            self.skipTest("no Fashion-MNIST here; scripts/install_packages installs it")
        ours = self.example("fashion_cnn.py", "--slack", "0", "--clocks", "100")
        self.assertGreater(ours, 0.7)
        self.assertAlmostEqual(ours, self.example("fashion_ddp.py", "--clocks", "100"), delta=0.02)
