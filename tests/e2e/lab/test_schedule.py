"""`tautline lab schedule`: traces of both formats under each policy, and traces that cannot be."""

import csv
import gzip
import os
import pathlib
import random
import xml.etree.ElementTree

from cluster import *

TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
MURI = ("job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
        "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority")
ALIBABA = ("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
           "deletion_time,scheduled_time")
NETS = ("vgg19", "alexnet", "resnet50", "inception4")


def tiresias(jobs=24):
    """Jobs of 1 to 8 devices, several of which wait on 8."""
    draw = random.Random(3)
    return [TIRESIAS] + [f"{i},{2 ** draw.randrange(4)},{40 * i},606,{draw.choice(NETS)},"
                         f"{draw.randrange(60, 600)},30" for i in range(jobs)]


def muri(jobs=24):
    draw = random.Random(4)
    nets = ("dqn", "bert")
    return [MURI] + [f"{i},{2 ** draw.randrange(3)},{40000 * i},1000,{draw.choice(nets)},"
                     f"128,{1000 * draw.randrange(60, 600)},30000,490,446,8,0.5,0"
                     for i in range(jobs)]


class Schedule(ClusterTest):
    def trace(self, name, lines):
        path = self.folder / name
        text = "\n".join(lines) + "\n"
        if name.endswith(".gz"):
            path.write_bytes(gzip.compress(text.encode()))
        else:
            path.write_text(text)
        return path

    def schedule(self, *words, status=0):
        hosts = () if "--hosts" in words else ("--hosts", "2x4")
        answer = self.tautline("lab", "schedule", *hosts, *words)
        self.assertEqual(answer.returncode, status, answer.stdout + answer.stderr)
        return answer

    def figures(self, trace, *words, name="table.csv"):
        self.schedule("--trace", trace, "--csv", self.folder / name, *words)
        with open(self.folder / name, newline="") as file:
            return list(csv.DictReader(file))

    def test_each_policy_ends_all_jobs_of_a_trace_of_either_format(self):
        traces = (self.trace("tiresias.csv", tiresias()), self.trace("muri.csv.gz", muri()))
        names = None
        for trace in traces:
            rows = self.figures(trace, "--svg", self.folder / "curves.svg")
            names = names or [row["policy"] for row in rows]
            self.assertEqual([row["policy"] for row in rows], names)
            self.assertGreaterEqual(len(names), 18)
            for row in rows:
                self.assertEqual(row["jobs"], "24")
                self.assertGreater(float(row["mean_s"]), 0, row)
                self.assertGreaterEqual(float(row["makespan_s"]), 23 * 40, row)
                self.assertTrue(0 < float(row["utilization"]) <= 1, row)
            # They are different policies: few have the same times.
            self.assertGreater(len({row["mean_s"] for row in rows}), 9)
            root = xml.etree.ElementTree.parse(self.folder / "curves.svg").getroot()
            words = " ".join(root.itertext())
            for name in ("fifo", "muri", "network"):
                self.assertIn(name, words)

    def test_the_same_command_writes_the_same_bits(self):
        trace = self.trace("tiresias.csv", tiresias())
        for words in (("--trace", trace), ("--poisson", "gavel", "--jobs", "60", "--seed", "5")):
            files = []
            for one in ("a", "b"):
                self.schedule(*words, "--csv", self.folder / f"{one}.csv", "--svg",
                              self.folder / f"{one}.svg")
                files.append([(self.folder / f"{one}.{kind}").read_bytes()
                              for kind in ("csv", "svg")])
            self.assertEqual(files[0], files[1])
        self.schedule("--poisson", "gavel", "--jobs", "60", "--seed", "6", "--csv",
                      self.folder / "c.csv")
        self.assertNotEqual((self.folder / "c.csv").read_bytes(), files[0][0])

    def test_options_of_random_jobs_are_refused_with_a_trace(self):
        trace = self.trace("tiresias.csv", tiresias())
        for words in (("--load", "0.5"), ("--seed", "2")):
            answer = self.schedule("--trace", trace, "--policy", "fifo", *words, status=2)
            self.assertIn(f"{words[0]} is for --poisson", answer.stderr)

    def test_the_traces_that_are_here_are_read(self):
        mirror = os.environ.get("TAUTLINE_DATA_MIRROR", "")
        folder = pathlib.Path(mirror) / "traces"
        if not mirror or not folder.is_dir():
            self.skipTest("no folder traces in TAUTLINE_DATA_MIRROR")
        rows = self.figures(folder / "tiresias-60.csv", "--hosts", "15x4", "--policy", "fifo,muri")
        self.assertEqual([row["jobs"] for row in rows], ["60", "60"])
        rows = self.figures(folder / "muri-trace1.csv.gz", "--hosts", "8x8", "--jobs", "200",
                            "--policy", "fifo,srtf")
        self.assertEqual([row["jobs"] for row in rows], ["200", "200"])
        self.assertLess(float(rows[1]["mean_s"]), float(rows[0]["mean_s"]))

    def test_shares_of_devices_let_jobs_share_them(self):
        def lines(milli):
            return [ALIBABA] + [f"j{i},4000,1024,1,{milli},,LS,Succeeded,{i},{1000 + i},{i}"
                                for i in range(32)]
        half = self.figures(self.trace("half.csv", lines(250)), "--policy", "fifo,srtf,allox")
        # 8 devices have all 32 at a quarter each; a policy that counts no shares has 8 of them.
        self.assertEqual([row["mean_s"] for row in half[:2]], ["1000.000", "1000.000"])
        self.assertGreater(float(half[2]["mean_s"]), 1500)
        whole = self.figures(self.trace("whole.csv", lines(1000)), "--policy", "fifo")
        self.assertGreater(float(whole[0]["mean_s"]), 2000)

    def test_the_hosts_may_be_those_of_a_file_of_nodes(self):
        nodes = self.trace("nodes.csv.gz", ["sn,cpu_milli,memory_mib,gpu,model", "a,1,1,4,V100M16",
                                            "b,1,1,0,", "c,1,1,4,V100M32"])
        trace = self.trace("tiresias.csv", tiresias())
        answer = self.tautline("lab", "schedule", "--trace", trace, "--policy", "fifo,srtf",
                               "--nodes", nodes, "--csv", self.folder / "nodes.out.csv")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        self.assertIn("on 2 hosts with 8 devices", answer.stdout)
        self.figures(trace, "--policy", "fifo,srtf")  # on 2x4
        rows = [[{name: value for name, value in row.items() if "decide" not in name}
                 for row in csv.DictReader((self.folder / name).read_text().splitlines())]
                for name in ("nodes.out.csv", "table.csv")]
        self.assertEqual(rows[0], rows[1])
        self.assertIn("give either --hosts or --nodes", self.schedule(
            "--trace", trace, "--hosts", "2x4", "--nodes", nodes, status=2).stderr)
        trace = self.trace("large.csv", [TIRESIAS, "7,64,0,606,vgg19,5,30"])
        answer = self.tautline("lab", "schedule", "--trace", trace, "--nodes", nodes)
        self.assertEqual(answer.stderr, f"tautline lab schedule: {trace}: job 7 asks for 64 "
                         f"devices, and {nodes} has 8; give more hosts\n")

    def test_jobs_are_as_fast_as_a_plan_says(self):
        cluster, plan = self.folder / "cluster.textproto", self.folder / "plan.csv"
        cluster.write_text("""
            host { name: "server" cores: 2 workers: 0 servers: 1 link: "card" }
            host { name: "V100" count: 2 workers: 4 devices: 4 cores: 8 speed: 4 link: "card" }
            host { name: "node" count: 2 workers: 4 devices: 4 cores: 8 link: "card" }
            link { name: "card" gbit_per_s: 1 latency_us: 50 }
            compute { clock_ms: 40 }
        """)
        words = ("lab", "plan", self.job(), "--cluster", cluster, "--workers", "1..8", "--slack", 0)
        answer = self.tautline(*words, "--throughput", plan)
        self.assert_fails(answer, f'{cluster}:4:20: host "node": for --throughput its name must be')
        answer = self.tautline(*words, "--throughput", plan, "--host-type", "node=K80")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        with open(plan, newline="") as file:
            rates = list(csv.DictReader(file))
        self.assertIn(f"throughput: {plan}, {len(rates)} rates", answer.stdout)
        self.assertEqual([row["placement"] for row in rates[:6]], 3 * ["host"] + 3 * ["across"])
        alone = {row["type"]: float(row["iterations_per_s"]) for row in rates
                 if row["workers"] == "1"}
        self.assertAlmostEqual(alone["V100"] / alone["K80"], 4, delta=0.4)
        # A trace of Philly names no nets, so its job has the plan's.
        trace = self.trace("philly.csv", ["timestamp,duration,num_gpus,gpu_time,cluster",
                                          "2017-10-03 00:00:00,1000,1,1000,a"])
        for hosts, took in (("1x1:V100", 1000), ("1x1:K80", 1000 * alone["V100"] / alone["K80"])):
            row, = self.figures(trace, "--policy", "fifo", "--hosts", hosts, "--throughput", plan)
            self.assertAlmostEqual(float(row["mean_s"]), took, delta=1)
        answer = self.schedule("--trace", trace, "--hosts", "1x1:T4", "--throughput", plan,
                               status=1)
        self.assertIn(f"{plan}: model ", answer.stderr)
        plan.write_text(plan.read_text().replace(",K80,", ",P4,", 1))
        answer = self.schedule("--trace", trace, "--throughput", plan, status=1)
        self.assertIn('type must be V100, P100, K80 or T4, is "P4"', answer.stderr)

    def test_a_trace_that_cannot_be_is_refused_with_line_and_column(self):
        def refused(lines, what, *words):
            path = self.trace("bad.csv", lines)
            answer = self.schedule("--trace", path, *words, status=1)
            self.assertEqual(answer.stdout, "")
            self.assertEqual(answer.stderr, f"tautline lab schedule: {path}{what}\n")
        refused(tiresias(3) + ["3,1,0,606,vgg19,0,30"],
                ':5:17: duration must be a number greater than 0, is "0"')
        refused(tiresias(3) + ["3,x,0,606,vgg19,5,30"],
                ':5:3: num_gpu must be a whole number from 1 to 65536, is "x"')
        refused(tiresias(3) + ["3,1,0"], ":5:6: a line must have 7 fields as the first one has, "
                                         "has 3")
        refused(["a,b", "1,2"], ":1:1: the columns must be those of a trace of Tiresias, Muri, "
                                'Philly or Alibaba 2023, are "a,b"')
        refused([TIRESIAS, "7,64,0,606,vgg19,5,30"],
                ": job 7 asks for 64 devices, and --hosts 2x4 has 8; give more hosts")
