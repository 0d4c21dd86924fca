"""The commands of docs/SCALE.md, by its sections: each with what it is for. FOLDER is where outputs
are kept. tests/e2e/lab/test_scale.py holds that they are those of the page."""

import dataclasses
import shlex

NETS = "Nets over workers, links and servers"
MESSAGES = "What messages take"
LAWS = "Laws of messages and bytes, and the first bottleneck"
REAL_MEMORY = "Memory of real processes"
AGAINST = "The lab against real runs"
THOUSANDS = "More workers than a real coordinator takes"
MANY_JOBS = "Many jobs"
ORDERINGS = "The orderings that the papers publish"
FORMULA = "The formula against the lab"
EXCHANGES = "Exchanges among workers"
BOUNDS = "How stale may 64 workers be?"

# What it measures is of this machine: it runs alone, and another run prints other figures.
OF_THE_MACHINE = ("scripts/bench/lab/memory", "scripts/bench/lab/accuracy_against_real",
                  "scripts/bench/lab_against_real", "scripts/bench/lab/both_ways")

SEEDS = (1, 2, 3)
GAVEL = "tautline lab schedule --poisson gavel --jobs 2000"
TYPES = "--hosts 8x4:V100,8x4:P100,8x4:K80 --policy gavel,gavel-blind"
LENT = "--hosts 8x4 --lend 8x4%s --policy lyra,lyra-own"
LARGE = "tautline lab schedule --poisson gavel --jobs 80000 --hosts 64x8"
SORTING = ("shortest", "srtf", "fifo", "srtf-predicted", "backfill", "las", "tiresias")
OTHERS = ("themis", "gandiva", "network", "network-blind", "optimus", "lyra", "muri")
TRACES = "tautline lab schedule --trace ../shared/data/traces"
LENET = "tautline lab configs/jobs/fashion_lenet.textproto --cluster configs/lab"
PLAN = ("tautline lab plan --cluster configs/lab/ten_gigabit.textproto --workers 1..128 "
        "--servers 4 --slack")
CPU_NETS = "--net lenet --net cifar10_quick --net lstm"
GPU_NETS = "--net resnet50 --net alexnet"
ALL_MODES = ("BSP", "'SSP 3'", "ASYNC")
MORE = "--at-least 4000"  # for the nets whose clocks are simulated soon
RATES = "--workers 16 --gbps 1,10,25,100,200"
NUMBERS = "--workers 64 --servers 1,4,16,64"
NO_LEARNING = "--mode bsp --max-iter %d --no-learning --no-records --workers %d"


def scaling(table):
    return f"scripts/bench/scaling {table}"


GROUPS = (
    (ORDERINGS, "mean completion time under the policies", [
        *(f"{GAVEL} --load 1 --hosts 16x4 --seed {seed}" for seed in SEEDS),
        *(f"{GAVEL} --load {load} {TYPES} --seed {seed}" for load in (0.9, 0.7, 0.5)
          for seed in SEEDS),
        *(f"{GAVEL} --load 1 {LENT % of} --seed {seed}" for of in (":T4", "") for seed in SEEDS),
        *(f"{GAVEL} --load 1 --hosts 16x4 --rack-hosts 4 --policy network,network-blind,fifo "
          f"--seed {seed}" for seed in SEEDS),
    ]),
    (ORDERINGS, "the traces that are there", [
        f"{TRACES}/muri-trace1.csv.gz --hosts 8x8",
        f"{TRACES}/tiresias-60.csv --hosts 15x4",
    ]),
    (ORDERINGS, "80,000 jobs: the processor's time, and that of a decision", [
        f"{LARGE} --policy fifo,backfill,tiresias",
        *(f"{LARGE} --load 1 --policy {policy}" for policy in (*SORTING, *OTHERS)),
        *(f"{LARGE} --load 0.9 --policy {policy}" for policy in ("gavel", "allox")),
    ]),
    (FORMULA, "the closed formula's errors, and what is soonest", [
        *(f"{PLAN} {slack} --check" for slack in ("0", "3", "async")),
        f"{PLAN} 0,3,async --records 6000000",
    ]),
    ("What 250 and 1,000 workers showed: answers that are late are not lost", "late answers", [
        *(f"{LENET}/large.textproto --servers 8 {NO_LEARNING % (20, workers)}"
          for workers in (250, 1000)),
    ]),
    (THOUSANDS, "events, the processor's time and memory", [
        *(f"{LENET}/large.textproto --servers 16 {NO_LEARNING % (2, workers)}"
          for workers in (1000, 1500, 2000)),
        scaling("servers --net cifar10_quick --mode BSP --workers 64 --servers 64 --clocks 4 "
                "--at-least 4"),
        scaling("servers --net resnet50 --mode BSP --workers 64 --servers 64 --clocks 2 "
                "--at-least 2"),
        *(f"{LENET}/ten_thousand.textproto --servers 16 {NO_LEARNING % (clocks, 10000)}"
          for clocks in (1, 2)),
    ]),
    (NETS, "weak scaling", list(map(scaling, (
        f"weak {CPU_NETS} --workers 1,4,16,64,256 {MORE}",
        f"weak {CPU_NETS} --workers 1,1024 --clocks 8 {MORE}",
        "weak --net resnet50 --workers 1,2,4,8",
        *(f"weak --net {net} --workers {workers}" for net, workers in (
            ("resnet50", "1,16,64"), ("resnet50", "1,256 --clocks 6"),
            ("alexnet", "1,4,16,64"), ("alexnet", "1,256 --clocks 6"))),
        *(f"weak --net {net} --mode {mode} --workers 1,1024 --clocks 4"
          for net in ("resnet50", "alexnet") for mode in ALL_MODES),
    )))),
    (NETS, "weak scaling with 64 servers", list(map(scaling, (
        f"weak {GPU_NETS} --mode BSP --workers 1,16,64 --servers 64",
        *(f"weak --net {net} --mode BSP --workers 1,256 --servers 64 --clocks 6"
          for net in ("resnet50", "alexnet", "lenet")),
        *(f"weak --net {net} --mode BSP --workers 1,1024 --servers 64 --clocks 3"
          for net in ("resnet50", "alexnet")),
    )))),
    (NETS, "the closed formula", list(map(scaling, (
        "formula --servers 16",
        f"formula {GPU_NETS} --mode BSP --servers 64 --workers 1,16,64,256,1024",
    )))),
    (NETS, "minutes of an epoch", [scaling(
        "weak --net resnet50 --mode BSP --mode 'SSP 3' --workers 1,2,4,8 --gflops 2280"
    )]),
    (NETS, "over links", [scaling(f"links {net} {RATES}") for net in (
        f"{CPU_NETS} {MORE}", "--net resnet50", "--net alexnet")]),
    (NETS, "over servers", [scaling(f"servers {net} {NUMBERS}") for net in (
        f"{CPU_NETS} {MORE}", "--net resnet50", "--net alexnet")]),
    (NETS, "with the rate of an H100", [
        scaling(f"weak --device h100 {GPU_NETS} --net lenet --mode BSP --workers {workers} "
                f"--gbps {gbps}")
        for workers in ("1,4,16,64", "1,256 --clocks 6") for gbps in (100, 200)
    ]),
    (NETS, "strong scaling", list(map(scaling, (
        f"strong {CPU_NETS} --workers 1,4,16,64,256 {MORE}",
        f"strong {CPU_NETS} --workers 1,1024 --clocks 8 {MORE}",
        *(f"strong --net {net} --workers {workers}" for net in ("resnet50", "alexnet")
          for workers in ("1,4,16,64", "1,256 --clocks 6")),
        *(f"strong --net {net} --mode {mode} --workers 1,1024 --clocks 3"
          for net in ("resnet50", "alexnet") for mode in ALL_MODES),
    )))),
    (MESSAGES, "with messages as measured", [
        scaling(f"costs {CPU_NETS} --mode BSP --workers 1,16,64,256 {MORE}"),
        scaling(f"costs {GPU_NETS} --mode BSP --workers 1,16,64,256 --clocks 6"),
    ]),
    (MESSAGES, "one worker, and a real one of an H100", [
        scaling("costs --device h100 --net lenet --net alexnet --mode BSP --workers 1 --servers 1 "
                "--gbps 1000"),
    ]),
    (EXCHANGES, "servers, sums and averages", [
        "scripts/bench/lab/exchanges --workers 4,16,64 --gbit 1,10,100",
        "scripts/bench/lab/exchanges --workers 256 --gbit 1,10",
        "scripts/bench/lab/exchanges --workers 1024 --gbit 10 --clocks 3 --limit 3000 "
        "--ways 'servers 1' 'servers 4' 'servers 16' ring halving 'two trees' 'gossip ring' "
        "'gossip ring, async'",
    ]),
    (EXCHANGES, "a wide net", [
        "scripts/bench/lab/exchanges --net wide --workers 4,16 --gbit 1,10",
        "scripts/bench/lab/exchanges --net wide --workers 64 --gbit 1,10 --ways 'servers 1' "
        "'servers 4' 'servers 16' ring halving 'two trees'",
    ]),
    (EXCHANGES, "four workers a host", [
        "scripts/bench/lab/exchanges --workers 16,64 --per-host 4 --gbit 10 --ways 'servers 4' "
        "ring hierarchical",
    ]),
    (BOUNDS, "time to an accuracy under each bound", [
        "scripts/bench/lab/best_bound --kind bursts --seeds 2",
        "scripts/bench/lab/best_bound --kind slow --kind tail --seeds 1",
        "scripts/bench/lab/best_bound --kind spread --deviation 0.1,0.3,1 --seeds 1",
        "scripts/bench/lab/best_bound --kind bursts --burst-factor 2,8 --seeds 1",
    ]),
    (LAWS, "messages and bytes of servers and the coordinator", list(map(scaling, (
        "laws --net lenet --mode BSP --mode ASYNC --workers 1,4,16,64 --clocks 4",
        "laws --net lenet --mode BSP --workers 1,16,64 --servers 1,4,16,64 --clocks 4",
        "laws --net alexnet --mode BSP --mode ASYNC --workers 1,4,16 --clocks 2",
        "control --net lenet --mode BSP --workers 1,4,16,64 --servers 4,16 --clocks 60",
    )))),
    (LAWS, "the first bottleneck", list(map(scaling, (
        f"links --net lenet --mode BSP --workers 16 --gbps 1,10,100 {MORE}",
        f"servers --net lenet --mode BSP --workers 16 --servers 1,4,16 {MORE}",
    )))),
    (LAWS, "memory of a real coordinator", [
        "scripts/bench/lab/memory --servers 2 --workers 1,8,24 --slack 0 --megabytes 0.1",
        "scripts/bench/lab/memory --servers 2 --shards 1,8,32 --workers 2,8 --slack 0 "
        "--megabytes 0.1",
    ]),
    (REAL_MEMORY, "memory of servers and workers", [
        "scripts/bench/lab/memory --workers 1,2,4 --megabytes 4,64",
        "scripts/bench/lab/memory --shards 1,4 --workers 2 --slack 0 --megabytes 16",
        "scripts/bench/lab/memory --servers 2 --workers 1,4,8 --slack 0 --megabytes 4,16",
    ]),
    ("Memory of workers that learn", "peaks of memory, the processor's time", [
        f"{LENET}/large.textproto --servers 8 --mode bsp --max-iter {clocks} --no-records "
        f"--workers {workers} --memory-limit 4GiB"
        for workers, clocks in ((100, 3), (300, 3), (1000, 2))
    ] + [
        f"{LENET}/large.textproto --servers 8 --slack 1 --max-iter 2 --no-records --workers 1000",
    ]),
    ("Accuracy in the lab and in real runs", "accuracy", [
        "scripts/bench/lab/accuracy_against_real --workers 2 --slack 0,1,3,async --seeds 5 "
        "--clocks 60 --cpus 0",
    ]),
    (AGAINST, "with 2 workers behind cards, without learning", [
        f"{LENET}/slow_cards.textproto --workers 2 --slack 1 --no-learning --max-iter 60",
    ]),
    (AGAINST, "rate, waiting and staleness", list(map("scripts/bench/lab_against_real {}".format, (
        "--matrix --append FOLDER/matrix.md",
        "--rate 100mbit --congestion reno --sharing FAIR --iterations 60 --workers 2,4",
        "--rate 1gbit --congestion reno --sharing FAIR --iterations 80 --runs 3 --workers 2",
    )))),
    (AGAINST, "what TCP brings both ways", ["scripts/bench/lab/both_ways"]),
)


@dataclasses.dataclass(frozen=True)
class Command:
    section: str
    title: str
    line: str

    @property
    def name(self):
        """A file's name, which no other command has."""
        line = self.line.removeprefix("scripts/bench/").removeprefix("tautline ")
        words = "".join(c if c.isalnum() or c in ",.=" else " " for c in line).split()
        return "-".join(words)

    @property
    def words(self):
        return shlex.split(self.line)

    @property
    def is_of_the_machine(self):
        return self.line.startswith(OF_THE_MACHINE)

    @property
    def needs_root(self):
        """Network namespaces."""
        return bool({"--rate", "--matrix"} & set(self.words)) or "both_ways" in self.line


COMMANDS = [Command(section, title, line) for section, title, lines in GROUPS for line in lines]

# About what the longest take, in seconds of a core that has nothing else to do, by parts of the
# command: from earlier runs as docs/SCALE.md has them or had them, and from what
# scripts/bench/lab_against_real --estimate says. Those of best_bound are from the time of a
# gradient. The others take a minute or less.
ABOUT_S = (
    ("lab_against_real --matrix", 5200),
    ("lab_against_real --rate 100mbit --congestion", 730),
    ("lab_against_real", 340),
    ("best_bound --kind spread", 1300),
    ("best_bound", 870),
    ("accuracy_against_real", 800),
    ("lab/memory", 120),
    ("strong --net resnet50", 400),
    ("strong --net alexnet", 400),
    ("--workers 1,1024", 300),
    ("links --net resnet50", 400),
    ("links --net alexnet", 400),
    ("servers --net resnet50", 500),
    ("servers --net alexnet", 500),
    ("costs --net resnet50", 500),
    ("weak --", 150),
    ("ten_thousand.textproto --servers 16 --mode bsp --max-iter 2", 330),
    ("ten_thousand.textproto", 120),
    ("exchanges --workers 1024", 1500),
    ("exchanges --workers 256", 600),
    ("exchanges --workers 16,64", 60),
    ("exchanges", 300),
    ("--jobs 80000", 120),
    ("scaling control", 120),
)


def about_s(command):
    """The first that fits, or a minute."""
    return next((seconds for part, seconds in ABOUT_S if part in command.line), 60)
