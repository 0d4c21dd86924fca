"""The rows: the trainings, their targets, and the sources of the figures."""
import math

import bound
from runs import Failed


class Rows:
    """runs, jobs; sizes: how large everything is; judge(what, value, reach, fine): takes a row
    down."""

    def __init__(self, runs, jobs, sizes, judge):
        self.runs = runs
        self.jobs = jobs
        self.sizes = sizes
        self.judge = judge
        self.limits = None

    def measured(self):
        """Bytes/s of copies and of the host's memory, as bench_gpu measures them. Raises Failed."""
        if self.limits is None:
            file = self.runs.output / "limits.json"
            self.runs.bench("limits", ["bench_gpu", "--limits", "--device", self.runs.places.device,
                                       "--mib", self.sizes.mib, "--host-threads",
                                       self.sizes.shards, "--json", file])
            self.limits = bound.Limits(file)
        return self.limits

    # Bits and accuracy.

    def bits(self):
        """LeNet on Fashion-MNIST by two workers under BSP: the same bits twice, the CPU's
        accuracy."""
        job = self.jobs.fashion("fashion", self.sizes.fashion, self.sizes.tests,
                                "consistency { mode: BSP }")
        options = ["--workers", 2, *self.data()]
        first = self.runs.served("fashion_first", job, *options)
        second = self.runs.served("fashion_second", job, *options)
        same = first.digest() == second.digest() and len(first.digest()) == 64
        what = "LeNet, 2 workers on the device, BSP, deterministic"
        self.judge(what + ": two runs", "same bits" if same else "other bits", "same bits", same)
        within = self.runs.served("fashion_budget", job, *options, "--device-memory-budget",
                                   self.sizes.within)
        same = first.digest() == within.digest()
        self.judge(f"{what}: within {self.sizes.within} each",
                   "same bits" if same else "other bits", "same bits", same)
        here = self.runs.places.device
        self.runs.places.device = "cpu"
        try:
            peer = self.runs.served("fashion_cpu", job, *options, limit=90)
        finally:
            self.runs.places.device = here
        off = abs(first.accuracy() - peer.accuracy())
        self.judge("the same: accuracy", f"{100 * first.accuracy():.2f} %, on the CPU "
                   f"{100 * peer.accuracy():.2f} %", "within 0.5", off <= 0.005)

    def together(self):
        """Several workers on one device, with policies that keep parameters elsewhere too."""
        ways = {
            "4 workers, SSP 2": (4, "consistency { mode: SSP slack: 2 }"),
            "3 workers, async": (3, "consistency { mode: ASYNC }"),
            "2 workers, elastic averaging": (
                2, "consistency { mode: SSP slack: 1 elastic_averaging { interval: 5 } }"),
        }
        for name, (workers, consistency) in ways.items():
            word = name.replace(" ", "_").replace(",", "")
            job = self.jobs.fashion(word, self.sizes.together, self.sizes.tests, consistency)
            run = self.runs.served(word, job, "--workers", workers, *self.data())
            clocks = [worker["clock"] for worker in run.summary["workers"]]
            fine = (run.summary["state"] == "done" and len(clocks) == workers
                    and min(clocks) >= self.sizes.together
                    and run.accuracy() >= self.sizes.learned)
            self.judge(f"LeNet on one device, {name}",
                       f"{run.summary['state']}, accuracy {100 * run.accuracy():.1f} %",
                       f">= {100 * self.sizes.learned:.0f} %", fine)
        self.shared_batch()

    def shared_batch(self):
        """One worker with two replicas, which exchange as two devices would: by copies, since NCCL
        takes a device once. Two replicas of half a batch and one of the whole learn alike."""
        job = self.jobs.fashion("shared_batch", self.sizes.together, self.sizes.tests,
                                "consistency { mode: BSP }")
        options = ["--workers", 1, *self.data()]
        alone = self.runs.served("shared_batch_alone", job, *options)
        shared = self.runs.served("shared_batch", job, *options, "--device-index", "0,0")
        off = abs(alone.accuracy() - shared.accuracy())
        self.judge("LeNet, two replicas in one worker",
                   f"accuracy {100 * shared.accuracy():.2f} %, "
                   f"alone {100 * alone.accuracy():.2f} %", "within 1", off <= 0.01)

    def data(self):
        return ["--data", self.runs.places.data]

    # What a server costs.

    def alexnet(self):
        self.beside_a_server(self.sizes.alexnet, 0.95, True)

    def lenet(self):
        self.beside_a_server(self.sizes.lenet, 0.80, False)

    def beside_a_server(self, net, share, stalls):
        """One worker with a server under SSP 1 and BSP next to the same worker without one.
        stalls   whether to ask how long the device waits for parameters"""
        name, model, shape, iterations = net
        word = model.split(".")[0]
        served = ["--workers", 1, "--shards", self.sizes.shards]
        ssp_job = self.jobs.synthetic(word + "_ssp", model, shape, iterations, "SSP slack: 1")
        alone = self.runs.alone(word + "_alone", ssp_job).clocks
        ssp = self.runs.served(word + "_ssp1", ssp_job, *served).clocks
        reached = ssp.images_per_second() / alone.images_per_second()
        self.judge(f"{name}, TF32, 1 worker and a server, SSP 1",
                   f"{ssp.images_per_second():.0f} images/s, {100 * reached:.1f} % of "
                   f"{alone.images_per_second():.0f} without a server",
                   f">= {100 * share:.0f} %", reached >= share, speed=True)
        if stalls:
            self.stalls(name, word, ssp_job, served, alone, ssp)
        self.bsp(name, word, net, served, alone)

    def stalls(self, name, word, job, served, alone, ssp):
        """Whatever a clock takes longer than without a server is counted as waiting for parameters:
        more than the truth, never less. Next to it the time that the compute thread reports as
        waiting."""
        bare = self.runs.served(word + "_bare", job, *served, "--no-overlap").clocks
        for what, clocks, reach in (("", ssp, "<= 5 %"), (", overlap off", bare, "")):
            share = max(0.0, 1 - alone.seconds() / clocks.seconds())
            self.judge(f"{name}, SSP 1{what}: waiting for parameters",
                       f"{100 * share:.1f} % of a clock; the host's thread waited "
                       f"{100 * clocks.waiting_share():.1f} %", reach,
                       share <= 0.05 if reach else None, speed=True)

    def bsp(self, name, word, net, served, alone):
        _, model, shape, iterations = net
        limits = self.measured()
        file = self.runs.output / f"{word}_layers.json"
        self.runs.bench(word + "_layers", [
            "time_net", self.jobs.models / model, "--device", self.runs.places.device,
            "--precision", "tf32", "--batch", shape[0], "--channels", shape[1], "--size", shape[2],
            "--iterations", 5, "--repetitions", 1, "--no-graphs", "--layers", file])
        least = bound.bsp_seconds(bound.read_layers(file), alone.seconds(), limits.down,
                                  limits.memory, limits.up)
        job = self.jobs.synthetic(word + "_bsp", model, shape, iterations, "BSP")
        run = self.runs.served(word + "_bsp", job, *served).clocks
        reached = least / run.seconds()
        self.judge(f"{name}, TF32, 1 worker and a server, BSP",
                   f"{run.images_per_second():.0f} images/s, {100 * reached:.1f} % of the bound's "
                   f"{shape[0] / least:.0f}", ">= 90 %", reached >= 0.9, speed=True)

    # Less memory than is needed.

    def budget(self):
        """A net in a quarter of its need, and from which batch on compute covers the copies."""
        limits = self.measured()
        batch = self.sizes.deep_batch
        covered = None
        for attempt in range(4):
            need, free, kept = self.deep(batch)
            up, down = kept.moved_bytes()
            copies = up / limits.up + down / limits.down
            taken, computing = kept.clocks.seconds(), free.clocks.seconds()
            ratio = taken / max(computing, copies)
            name = f"deep net, batch {batch}, in a quarter of {need / 2**20:.0f} MiB"
            value = (f"{1000 * taken:.1f} ms a clock; {1000 * computing:.1f} without a budget, "
                     f"{1000 * copies:.1f} for {(up + down) / 2**20:.0f} MiB")
            if attempt == 0:
                self.judge(name, f"{value}: {ratio:.2f}", "<= 1.15", ratio <= 1.15, speed=True)
                self.same_curve(name, free, kept)
            if computing >= copies:
                covered = taken / computing
                self.judge(name + ": compute covers the copies", f"{value}: {covered:.2f}",
                           "<= 1.3", covered <= 1.3, speed=True)
                return
            if attempt > 0:
                self.judge(name, f"{value}: {ratio:.2f}", "", None)
            batch = min(-(-int(1.2 * batch * copies / computing) // 8) * 8, 16 * batch,
                        self.sizes.largest_batch)
        self.judge("deep net: the batch from which compute covers the copies",
                   f"none up to {batch}", "", None)

    def deep(self, batch):
        """Bytes that the net needs, the run without a budget, and the one in a quarter of them."""
        width, layers, iterations = self.sizes.deep
        job = self.jobs.deep(f"deep_{batch}", width, layers, batch, iterations)
        need = self.runs.need_bytes(f"deep_{batch}", job)
        free = self.runs.alone(f"deep_{batch}_free", job)
        kept = self.runs.alone(f"deep_{batch}_kept", job, "--device-memory-budget",
                               math.ceil(need / 4))
        return need, free, kept

    def same_curve(self, name, free, kept):
        pairs = list(zip(free.clocks.losses(), kept.clocks.losses()))
        off = max(abs(one - two) / max(abs(one), 1e-6) for one, two in pairs)
        same = free.digest() == kept.digest()
        self.judge(name + ": loss curve",
                   f"{len(pairs)} losses differ by {off:.1e} at most, parameters "
                   + ("bit for bit the same" if same else "in bits"), "<= 1e-3",
                   len(free.clocks.losses()) == len(kept.clocks.losses()) and off <= 1e-3)

    def large(self):
        """A net whose training state needs far more than its budget."""
        name, model, shape, iterations, budget, least = self.sizes.large
        job = self.jobs.synthetic("large", model, shape, iterations, "BSP")
        need = self.runs.need_bytes("large", job) / 1e9
        run = self.runs.alone("large", job, "--device-memory-budget", budget, limit=110)
        losses = run.clocks.losses()
        self.judge(f"{name} within {budget / 1e9:g} GB",
                   f"needs {need:.3g} GB; {len(losses)} clocks of {run.clocks.seconds():.2f} s, "
                   f"loss {losses[0]:.3f} to {losses[-1]:.3f}",
                   f"trains; needs >= {least} GB", need >= least and len(losses) == iterations)

    # What takes longest comes last.
    PARTS = ("bits", "alexnet", "lenet", "together", "large", "budget")

    def run(self, part):
        try:
            getattr(self, part)()
        except Failed as fault:
            self.judge(part, str(fault), "", False)
        # Unexpected text in a record costs its own row, not the rows after it.
        except (OSError, LookupError, TypeError, ValueError, AttributeError,
                StopIteration) as fault:
            self.judge(part, f"{type(fault).__name__}: {fault}", "", False)
