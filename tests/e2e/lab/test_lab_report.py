"""`tautline lab report`, its figures, and the page that plays a run of the lab."""

import csv
import json
import re
import xml.etree.ElementTree

from chromium import SHOTS, Browser
from cluster import *

CLUSTER = """
host { name: "server" cores: 2 workers: 0 servers: 1 link: "card" }
host { name: "node" count: 4 workers: 1 link: "card" }
link { name: "card" gbit_per_s: 0.1 latency_us: 50 }
compute { clock_ms: 40 spread: LOGNORMAL deviation: 0.4 }
outage { host: "node1" at_s: 0.8 back_s: 0.9 }
control { heartbeat_limit_s: 0.5 }
"""
FIGURES = ["accuracy", "clocks", "hosts", "lead", "links", "loss", "rate", "staleness", "states"]
STATES = ["computing", "waiting", "paused", "serving", "away"]


def many(workers=1000, bins=128):
    """A made-up playback of many workers."""
    def row(seed):
        return [(seed * 7919 + bin * 31) % 1001 for bin in range(bins)]

    hosts = [{"name": "server", "servers": [0], "workers": [], "computing": [], "waiting": [],
              "paused": [], "serving": [700] * bins}]
    for i in range(workers):
        computing = row(i)
        hosts.append({"name": f"node{i}", "servers": [], "workers": [i], "computing": computing,
                      "waiting": [1000 - part for part in computing], "paused": [],
                      "serving": []})
    links = [{"name": f"node{i} out", "gbit_per_s": 10, "bytes": 1, "messages": 1,
              "busy_share": i / workers, "load": row(i + 1)} for i in range(workers)]
    clocks = [[bin * 3 + i * bin % 9 for bin in range(bins)] for i in range(workers)]
    return {"format": 1, "job": "many", "state": "done", "message": "", "mode": "SSP", "slack": 8,
            "max_iter": 400, "servers": 1, "shards_per_server": 1, "rate": 5e5,
            "rate_unit": "images/s", "waiting_share": 0.5, "mean_staleness": 1.5,
            "parameters_sha256": "", "virtual_s": 0.5 * bins - 0.2, "submitted_s": 0.1,
            "bin_s": 0.5, "bins": bins, "iterations_per_s": [2000] * bins,
            "loss": [None] + [2 / bin for bin in range(1, bins)], "staleness": [1.5] * bins,
            "tests": [], "hosts": hosts, "links": links,
            "hosts_lost": [{"host": "node7", "at_s": 20, "back_s": None, "had_notice": False}],
            "workers": [{"name": f"worker{i}", "host": i + 1, "clock": clocks[i]}
                        for i in range(workers)]}


class Recorded(ClusterTest):
    def lab(self, *arguments, cluster=CLUSTER, workers=4, iterations=60):
        path = self.folder / "cluster.textproto"
        path.write_text(cluster)
        answer = self.tautline("lab", self.job(workers=workers, iterations=iterations), "--slack",
                               2, "--cluster", path, "--output", self.folder / "run", "--force",
                               *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        run = self.folder / "run"
        return [json.loads((run / name).read_text()) for name in ("playback.json", "summary.json")]

    def report(self, *arguments, run=None):
        answer = self.tautline("lab", "report", run or self.folder / "run", *arguments)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        return answer.stdout

    def table(self, name):
        with open(self.folder / "figures" / name, newline="") as file:
            return list(csv.DictReader(file))


class Report(Recorded):
    def test_a_playback_has_what_the_summary_of_the_run_has_over_virtual_time(self):
        playback, summary = self.lab()
        keys, of_host = documented("playback.json")
        self.assertEqual(set(playback), set(keys))
        self.assertEqual(set(playback["hosts"][0]), set(of_host))
        bins = playback["bins"]
        self.assertTrue(128 < bins <= 512, bins)
        # Of each bin; the last one is shorter.
        lengths = [playback["bin_s"]] * (bins - 1)
        lengths.append(playback["virtual_s"] - sum(lengths))
        self.assertTrue(0 < lengths[-1] <= playback["bin_s"])

        def seconds(row):
            self.assertIn(len(row), (0, bins))
            self.assertTrue(all(0 <= part <= 1000 for part in row))
            return sum(part * length for part, length in zip(row, lengths)) / 1000

        hosts = {host["name"]: host for host in playback["hosts"]}
        self.assertEqual(list(hosts), ["server", "node0", "node1", "node2", "node3"])
        for worker in summary["workers"]:
            host = hosts[f"node{worker['name'][-1]}"]
            if host["name"] == "node1":
                continue  # two processes, the first of which was killed
            # The summary has clocks alone; a test and the wait for the start are on the host too.
            self.assertAlmostEqual(seconds(host["computing"]), worker["compute_s"],
                                   delta=0.1 * worker["compute_s"])
            self.assertGreater(seconds(host["waiting"]), worker["wait_s"] - 0.1)
        self.assertGreater(seconds(hosts["server"]["serving"]), 0.005)
        self.assertEqual(hosts["server"]["computing"], [])
        used = {link["name"]: link for link in summary["lab"]["links"]}
        self.assertEqual([link["name"] for link in playback["links"]], list(used))
        for link in playback["links"]:
            self.assertEqual(link["bytes"], used[link["name"]]["bytes"])
            busy = used[link["name"]]["busy_share"] * playback["virtual_s"]
            self.assertAlmostEqual(seconds(link["load"]), busy, delta=0.02 * busy + 5e-3)
        for worker in playback["workers"]:
            self.assertEqual(worker["clock"][-1], 60)
            here = [clock for clock in worker["clock"] if clock >= 0]
            self.assertEqual(here, sorted(here))
            first = worker["clock"].index(here[0])
            self.assertEqual(len(here) == bins - first, worker["name"] != "worker1")
        for bin in range(bins):
            here = [worker["clock"][bin] for worker in playback["workers"]
                    if worker["clock"][bin] >= 0]
            self.assertTrue(not here or max(here) - min(here) <= 2, bin)
        finished = sum(rate * length
                       for rate, length in zip(playback["iterations_per_s"], lengths))
        # What the lost worker would have done while it was away is done by none.
        self.assertTrue(3 * 60 < finished < 4 * 60, finished)
        self.assertTrue(all(value is None or 0 <= value <= 2 for value in playback["staleness"]))
        self.assertGreater(len([value for value in playback["loss"] if value]), 30)
        self.assertEqual([(test["iteration"], test["accuracy"]) for test in playback["tests"]],
                         [(test["iteration"], test["accuracy"])
                          for test in summary["evaluations"]])
        times = [test["at_s"] for test in playback["tests"]]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(times[-1], playback["virtual_s"])
        lost, = playback["hosts_lost"]
        self.assertAlmostEqual(lost["at_s"], playback["submitted_s"] + 0.8, places=3)
        gone = range(int(lost["at_s"] / playback["bin_s"]) + 2,
                     int(lost["back_s"] / playback["bin_s"]) - 1)
        self.assertGreater(len(gone), 20)
        for state in STATES[:3]:
            self.assertFalse(any(hosts["node1"][state][bin] for bin in gone
                                 if hosts["node1"][state]), state)

    def test_the_bound_is_the_one_that_a_policy_has_made_of_it_in_each_bin(self):
        policy = "consistency { dynamic_slack { least: 1 most: 6 } }"
        path = self.folder / "cluster.textproto"
        path.write_text(CLUSTER.split("outage")[0])
        answer = self.tautline("lab", self.job(workers=4, iterations=60, extra=policy),
                               "--cluster", path, "--output", self.folder / "run",
                               "--straggler", "worker: 0 slowdown: 3")
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        playback = json.loads((self.folder / "run/playback.json").read_text())
        bounds = [bound for bound in playback["bound"] if bound is not None]
        self.assertEqual(len(playback["bound"]), playback["bins"])
        self.assertGreater(len(bounds), playback["bins"] / 2)
        self.assertTrue(all(1 <= bound <= 6 for bound in bounds), bounds)
        self.assertGreater(len(set(bounds)), 1)
        self.report("--figures", self.folder / "figures")
        training = self.table("training.csv")
        self.assertEqual([row["bound"] for row in training],
                         [str(playback["slack"] if bound is None else bound)
                          for bound in playback["bound"]])
        lead = (self.folder / "figures/lead.svg").read_text()
        self.assertIn(f"bound: slack {min(bounds)} to {max(bounds)}", lead)
        plain, _ = self.lab()
        self.assertEqual(plain["bound"], [])

    def test_a_report_is_one_file_that_loads_nothing_and_has_the_run_in_it(self):
        playback, _ = self.lab("--straggler", "worker: 0 slowdown: 2")
        said = self.report()
        page = (self.folder / "run/report.html").read_text()
        self.assertIn(f"report: {self.folder / 'run/report.html'}\n", said)
        inside = re.search(r'id="playback">(.*?)</script>', page, re.S).group(1)
        self.assertEqual(json.loads(inside), playback)
        for loads in (r'\bsrc=', r'<link rel="style', "@import", r"url\(", r"\bfetch\(",
                      "EventSource", r'href="/', "<!-- playback -->", "<!-- figures -->"):
            self.assertIsNone(re.search(loads, page), loads)
        # The only addresses are names of the SVG format.
        self.assertEqual(set(re.findall(r'"(https?://[^"]*)"', page)),
                         {"http://www.w3.org/2000/svg"})
        self.assertEqual(sorted(re.findall(r'<figure data-name="(\w+)">', page)), FIGURES)
        # A name cannot end the script that has the data.
        evil = dict(playback, job="</script><b>x")
        (self.folder / "evil.json").write_text(json.dumps(evil))
        self.report("--output", self.folder / "evil.html", run=self.folder / "evil.json")
        inside = re.search(r'id="playback">(.*?)</script>',
                           (self.folder / "evil.html").read_text(), re.S).group(1)
        self.assertEqual(json.loads(inside), evil)
        # A run that replaces it leaves nothing of it.
        self.lab("--max-iter", 2)
        self.assertFalse((self.folder / "run/report.html").exists())

    def test_the_figures_of_a_run_are_svg_that_stands_alone_and_its_numbers_as_csv(self):
        playback, _ = self.lab()
        said = self.report("--figures", self.folder / "figures")
        self.assertIn(f"figures: {self.folder / 'figures'}\n", said)
        files = sorted(path.name for path in (self.folder / "figures").iterdir())
        self.assertEqual([name for name in files if name.endswith(".svg")],
                         [f"{name}.svg" for name in FIGURES])
        for name in FIGURES:
            text = (self.folder / f"figures/{name}.svg").read_text()
            root = xml.etree.ElementTree.fromstring(text)
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            self.assertNotIn("var(", text)
            self.assertNotIn("nan", text.lower().replace("nanum", ""))
            _, _, width, height = map(float, root.get("viewBox").split())
            for cell in root.iter("{http://www.w3.org/2000/svg}rect"):
                if cell.get("width") != "100%":
                    self.assertLess(float(cell.get("x")) + float(cell.get("width")), width + 1)
                    self.assertLess(float(cell.get("y")) + float(cell.get("height")), height + 1)
        legend = "".join(xml.etree.ElementTree.parse(self.folder / "figures/hosts.svg").getroot()
                         .itertext())
        for word in ("node3", "computing", "away", "virtual time, s"):
            self.assertIn(word, legend)
        bins = playback["bins"]
        clocks = self.table("clocks.csv")
        self.assertEqual(len(clocks), bins)
        self.assertEqual(list(clocks[-1].values())[1:], ["60"] * 4)
        self.assertAlmostEqual(float(clocks[-1]["virtual_s"]), playback["virtual_s"], places=5)
        for i, row in enumerate(clocks):
            for worker in playback["workers"]:
                clock = worker["clock"][i]
                self.assertEqual(row[worker["name"]], str(clock) if clock >= 0 else "")
        self.assertGreater(len([row for row in clocks if row["worker1"] == ""]), 20)
        links = self.table("links.csv")
        for link in playback["links"]:
            if link["load"]:
                self.assertEqual([round(1000 * float(row[link["name"]])) for row in links],
                                 link["load"])
        hosts = self.table("hosts.csv")
        self.assertEqual(len(hosts), bins * 5)
        self.assertEqual(list(hosts[0])[2:], STATES)
        away = [row for row in hosts if float(row["away"]) > 0]
        self.assertEqual({row["host"] for row in away}, {"node1"})
        self.assertAlmostEqual(sum(float(row["away"]) for row in away) * playback["bin_s"], 0.9,
                               delta=0.1)
        training = self.table("training.csv")
        self.assertEqual([training[-1][name] for name in ("slowest", "median", "fastest")],
                         ["60"] * 3)
        tests = self.table("tests.csv")
        self.assertEqual(len(tests), len(playback["tests"]))

    def test_what_is_no_playback_is_refused_in_a_line(self):
        playback, _ = self.lab("--max-iter", 3, workers=1)
        # One worker, for a moment, and without learning.
        self.report("--figures", self.folder / "figures")
        playback, _ = self.lab("--no-learning", "--no-records", "--max-iter", 3, workers=1)
        self.assertEqual((playback["loss"], playback["tests"]), ([], []))
        self.report()
        file = self.folder / "run/playback.json"
        whole = file.read_text()
        for text, words in ((whole[:200], "is not a complete JSON object"),
                            ("[]", "is not a complete JSON object"),
                            ("{}", "is not a playback of a lab run"),
                            (json.dumps(dict(playback, format=9)),
                             "format 9, this version reads 1; run the lab again"),
                            (json.dumps(dict(playback, bins=3)), "3 bins of"),
                            (json.dumps(dict(playback, bins=0)), "0 bins of"),
                            (json.dumps(dict(playback, virtual_s=-1)), "those of -1 s"),
                            (json.dumps(dict(playback, virtual_s="x")), "not a playback"),
                            (json.dumps(dict(playback, bin_s=0)), "bins of 0 s cannot be")):
            file.write_text(text)
            answer = self.tautline("lab", "report", self.folder / "run")
            self.assert_fails(answer, "playback.json: ", words)
            self.assertEqual(len(answer.stderr.splitlines()), 1, answer.stderr)
        file.unlink()
        self.assert_fails(self.tautline("lab", "report", self.folder / "run"),
                          "has no playback.json: it is not a run of the lab")
        self.assert_fails(self.tautline("lab", "report", self.folder / "nothing"), "nothing")


class Player(Browser, Recorded):
    """A browser with a report open."""

    NOW = "Number(document.body.dataset.bin)"

    def shots(self, name):
        page = "document.documentElement"
        for wide, device in ((1360, "desk"), (360, "phone")):
            self.do("size", width=wide, height=800)
            for look in ("light", "dark"):
                self.do("run", js="new Promise((done) => setTimeout(done, 300))")
                for vision in ("none", "deuteranopia"):
                    self.do("vision", type=vision)
                    self.do("shot", file=str(SHOTS / f"{name}-{device}-{look}-{vision}.png"))
                self.do("vision", type="none")
                self.assertTrue(self.do("run", js=f"{page}.scrollWidth <= {page}.clientWidth"),
                                f"wider than a {device}")
                self.do("click", at="#theme")
        self.do("size", width=1360, height=900)

    def test_a_report_plays_by_keyboard_and_pointer_and_fits_desk_and_phone(self):
        playback, _ = self.lab()
        self.report("--figures", self.folder / "figures")
        self.do("open", url=f"file://{self.folder / 'run/report.html'}")
        self.assertEqual(self.text("#job-title"), "tiny")
        self.assertEqual(self.text("#job-state"), "done, SSP, slack 2")
        self.assertTrue(self.do("run", js="document.querySelector('#open').hidden"))
        last = playback["bins"] - 1
        self.assertEqual(self.do("run", js=self.NOW), 0)
        self.do("press", key="ArrowRight")
        self.assertEqual(self.do("run", js=self.NOW), 1)
        self.do("press", key="Shift+ArrowRight")
        self.assertEqual(self.do("run", js=self.NOW), 11)
        self.do("press", key="ArrowLeft")
        self.assertEqual(self.do("run", js=self.NOW), 10)
        self.do("press", key="End")
        self.assertEqual(self.do("run", js=self.NOW), last)
        self.assertRegex(self.text("#gap"),
                         "^0 clocks between the slowest and the fastest; slack 2$")
        self.do("press", key="Home")
        self.assertEqual(self.do("run", js=self.NOW), 0)
        self.do("press", key="Space")
        self.assertEqual(self.text("#play"), "Pause")
        self.do("await", js=f"{self.NOW} > 20")
        self.do("press", key="Space")
        self.assertEqual(self.text("#play"), "Play")
        at = self.do("run", js=self.NOW)
        self.do("run", js="new Promise((done) => setTimeout(done, 300))")
        self.assertEqual(self.do("run", js=self.NOW), at)
        # Faster, to its end.
        self.do("run", js="document.querySelector('#speed').value = '5'")
        self.do("click", at="#play")
        self.do("await", js=f"{self.NOW} === {last} && "
                            "document.querySelector('#play').textContent === 'Play'")
        # A strip is a scrubber, and says what is under the pointer.
        width = self.do("run", js="document.querySelector('#course').clientWidth")
        self.do("run", js="document.querySelector('#course').scrollIntoView()")
        self.do("hover", at="#course", x=int(width / 2), y=60)
        self.do("await", js="/s: slowest \\d+, median \\d+, fastest \\d+/.test("
                            "document.querySelector('.tip').textContent)")
        self.do("run", js="""(() => {
          const at = document.querySelector("#course");
          const box = at.getBoundingClientRect();
          const where = { clientX: box.left + box.width * 0.75, clientY: box.top + 50,
                          pointerId: 1, bubbles: true };
          at.setPointerCapture = () => {};
          at.dispatchEvent(new PointerEvent("pointerdown", where));
        })()""")
        # The axis is 64 pixels from the left and 12 from the right.
        self.assertAlmostEqual(self.do("run", js=self.NOW) / last,
                               (0.75 * width - 64) / (width - 76), delta=0.01)
        # While a host is away it is shown as such, and its worker as lost.
        lost = playback["hosts_lost"][0]
        bin = int((lost["at_s"] + lost["back_s"]) / 2 / playback["bin_s"])
        self.do("run", js=f"""(() => {{
          const at = document.querySelector("#at");
          at.value = "{bin}";
          at.dispatchEvent(new Event("input"));
        }})()""")
        self.assertIn("1 away", self.text("#hosts-card .note"))
        self.assertEqual(self.do("run", js="document.querySelector('#at').getAttribute("
                                           "'aria-valuetext')"), self.text("#time"))
        self.shots("lab")
        # The tables are those of the command line.
        for name in ("clocks", "links", "hosts", "training", "tests"):
            text = self.do("run", js=f"Played.tables.{name}(Played.parse("
                                     "document.querySelector('#playback').textContent))")
            rows = [line.split(",") for line in text.splitlines()]
            with open(self.folder / f"figures/{name}.csv", newline="") as stored:
                known = list(csv.reader(stored))
            self.assertEqual(len(rows), len(known), name)
            for one, two in zip(rows, known):
                for a, b in zip(one, two, strict=True):
                    if a != b:
                        self.assertAlmostEqual(float(a), float(b), places=6, msg=name)
        self.assertEqual(self.do("faults"), [])
        self.assertEqual(self.do("outside"), [])

    def test_a_thousand_workers_are_played_within_100_ms_a_frame(self):
        (self.folder / "playback.json").write_text(json.dumps(many()))
        self.report(run=self.folder / "playback.json")
        page = self.folder / "report.html"
        self.assertLess(page.stat().st_size, 12e6)
        self.do("open", url=f"file://{page}")
        self.assertEqual(self.text("#job-title"), "many")
        took = []
        for _ in range(20):
            self.do("press", key="ArrowRight")
            took.append(float(self.do("run", js="document.body.dataset.renderMs")))
        self.assertLess(sorted(took)[len(took) // 2], 100, took)
        self.assertIn("the 24 busiest of 1,000", self.text("#links-card .note"))
        self.do("run", js="document.querySelector('#all-links').click()")
        self.assertNotIn("busiest of", self.text("#links-card .note"))
        self.do("press", key="End")
        self.assertIn("1 away", self.text("#hosts-card .note"))
        self.shots("lab-thousand")
        self.assertEqual(self.do("faults"), [])

    def test_the_page_of_a_cluster_plays_a_run_whose_file_is_chosen(self):
        self.lab(iterations=20)
        self.start_daemon("server", "server0", "coordinator {}",
                          more='http { dashboard: "127.0.0.1:0" metrics: "127.0.0.1:0" }')
        self.coordinator = self.addresses("server0")["coordinator"][0]
        page = self.addresses("server0")["http"][0]
        self.assertEqual(self.do("open", url=self.page_link(page)), 200)
        self.do("click", at="a[href='/lab']")
        self.do("await", js="Boolean(document.querySelector('#file'))")
        (self.folder / "other.json").write_text("{}")
        self.do("files", at="#file", file=str(self.folder / "other.json"))
        self.do("await", js="document.querySelector('#problem').textContent.includes("
                            "'other.json: this is no playback.json')")
        self.do("files", at="#file", file=str(self.folder / "run/playback.json"))
        self.do("await", js="document.querySelector('#job-title').textContent === 'tiny'")
        self.assertTrue(self.do("run", js="document.querySelector('#problem').hidden"))
        self.do("press", key="Escape")
        self.do("run", js="document.querySelector('#play').click()")
        self.do("await", js=f"{self.NOW} > 3")
        self.do("shot", file=str(SHOTS / "lab-page.png"))
        self.assertEqual(self.do("faults"), [])
        self.assertEqual(self.do("outside"), [])
