"""The dashboard in a real browser, and /api and /metrics of running daemons."""

import contextlib
import http.client
import http.server
import json
import os
import re
import socket
import statistics
import sys
import threading
import time

from chromium import SHOTS, Browser
from cluster import *

HTTP = 'http { dashboard: "127.0.0.1:0" metrics: "127.0.0.1:0" }'


def ask(address, method, path, body=None, **headers):
    """(status, headers, text) of one request."""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=10)) as connection:
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()


class Served(ClusterTest):
    def begin(self, workers=2, iterations=1000000, state="", server=HTTP, slowdown_ms=20):
        self.server = self.start_daemon("server", "server0",
                                        f"shards: 2 coordinator {{ {state} }}", more=server)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        self.page = self.addresses("server0")["http"][0]
        self.workers = [self.start_daemon("worker", f"worker{i}",
                                          f"slowdown_ms: {slowdown_ms if i else 3 * slowdown_ms}",
                                          more=HTTP) for i in range(workers)]
        if iterations:
            job = self.job(iterations=iterations, workers=workers)
            self.assertEqual(self.ask("submit", job).returncode, 0)
            self.wait_for_job(1, "RUNNING")


    def request(self, address, method, path, body=None, **headers):
        """As ask(), of someone who is logged in."""
        if not hasattr(self, "own_token"):
            self.own_token = self.token()
        return ask(address, method, path, body,
                   **{"Authorization": f"Bearer {self.own_token}", **headers})


class Http(Served):
    def test_nobody_is_answered_without_a_login(self):
        self.begin(workers=1)
        metrics = self.addresses("worker0")["http"][0]
        for address, path in ((self.page, "/"), (self.page, "/api/status"), (self.page, "/metrics"),
                              (self.page, "/api/events"), (self.page, "/none"),
                              (metrics, "/metrics")):
            status, headers, text = ask(address, "GET", path)
            self.assertEqual(status, 401, path)
            self.assertEqual(headers["WWW-Authenticate"], "Bearer")
            self.assertIn("tautline page", text)
        for wrong in ("", "Bearer ", "Bearer 0123", "Basic dXNlcjpwYXNz"):
            self.assertEqual(ask(self.page, "POST", "/api/jobs/1/stop", "{}",
                                 Authorization=wrong)[0], 401)
        # A reader's token changes nothing.
        read = {"Authorization": f"Bearer {self.token('read')}"}
        self.assertEqual(ask(metrics, "GET", "/metrics", **read)[0], 200)
        self.assertEqual(ask(self.page, "GET", "/api/status", **read)[0], 200)
        self.assertEqual(ask(self.page, "POST", "/api/jobs/1/stop", "{}", **read)[0], 403)
        self.assertEqual(self.status()["jobs"][0]["state"], "RUNNING")
        # A link leaves a cookie, and works once.
        path = self.page_link(self.page).removeprefix(f"http://{self.page}")
        status, headers, _ = ask(self.page, "GET", path)
        self.assertEqual((status, headers["Location"]), (303, "/"))
        self.assertIn("HttpOnly", headers["Set-Cookie"])
        cookie = {"Cookie": headers["Set-Cookie"].split(";")[0]}
        self.assertEqual(ask(self.page, "GET", "/", **cookie)[0], 200)
        self.assertEqual(ask(self.page, "GET", path)[0], 401)
        self.assertEqual(ask(metrics, "GET", "/metrics", **cookie)[0], 401)

    def test_metrics_are_open_where_the_config_says_so(self):
        more = 'http { dashboard: "127.0.0.1:0" metrics: "127.0.0.1:0" open_metrics: true }'
        self.start_daemon("server", "server0", "coordinator {}", more=more)
        self.coordinator = self.addresses("server0")["coordinator"][0]
        self.start_daemon("worker", "worker0", more=more)
        for name in ("server0", "worker0"):
            self.assertEqual(ask(self.addresses(name)["http"][0], "GET", "/metrics")[0], 200)
        self.assertEqual(ask(self.addresses("server0")["http"][0], "GET", "/api/status")[0], 401)

    def test_a_page_that_asks_for_no_login_is_said_to(self):
        config = self.file("open.textproto", "http { insecure: true }")
        answer = self.tautline("page", "--config", config)
        self.assert_fails(answer, "open.textproto", "insecure: true", "http://127.0.0.1:7680/")
    def test_slack_is_set_and_the_job_stopped_through_the_api(self):
        self.begin()
        status, _, text = self.request(self.page, "POST", "/api/jobs/1/slack", '{"slack": 5}')
        self.assertEqual(status, 200, text)
        wait_until(lambda: self.status()["jobs"][0]["slack"] == 5, what="slack 5")
        shown = json.loads(self.request(self.page, "GET", "/api/status")[2])
        self.assertEqual(shown["job"]["slack"], 5)
        self.assertEqual(self.request(self.page, "POST", "/api/jobs/1/stop", "{}")[0], 200)
        self.wait_for_job(1, "STOPPED")
        status, _, text = self.request(self.page, "POST", "/api/jobs/1/stop", "{}")
        self.assertEqual(status, 409)
        self.assertIn("has ended", text)

    def test_the_reference_names_every_key_of_the_api(self):
        self.begin()
        _, keys, of_job, of_queue = documented("/api")
        shown = json.loads(self.request(self.page, "GET", "/api/status")[2])
        self.assertEqual(set(shown), set(keys))
        self.assertEqual(set(shown["job"]), set(of_job))
        self.assertEqual(set(shown["queue"]["jobs"][0]), set(of_queue))

    def test_bad_requests_are_refused_and_the_daemons_continue(self):
        self.begin(workers=1)
        metrics = self.addresses("worker0")["http"][0]
        big = "x" * 100000
        for address, path in ((self.page, "/api/jobs/1/slack"), (metrics, "/metrics")):
            self.assertEqual(self.request(address, "GET", "/none")[0], 404)
            self.assertEqual(self.request(address, "DELETE", path)[0], 405)
            self.assertEqual(self.request(address, "POST", path, "{}", Host="evil.example")[0], 421)
            self.assertEqual(self.request(address, "POST", path, '{"slack": 9}',
                                 Origin="http://evil.example")[0], 403)
            self.assertEqual(self.request(address, "POST", path, big)[0], 413)
            host, port = address.split(":")
            slow = [socket.create_connection((host, int(port))) for _ in range(10)]
            for one in slow:
                one.sendall(b"GET / HT")
                self.addCleanup(one.close)
            with socket.create_connection((host, int(port))) as garbage:
                garbage.sendall(os.urandom(3000) + b"\r\n\r\n")
        self.assertEqual(self.status()["jobs"][0]["slack"], 1)
        self.assertEqual(self.request(self.page, "GET", "/")[0], 200)
        before = int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
        wait_until(lambda: int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"])
                   > before + 5, what="clocks")

    def test_prometheus_can_read_every_process(self):
        self.begin()
        wait_until(lambda: int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"]) > 3,
                   what="clocks")
        shard = 'server="server0",shard="1"'
        wanted = {"server0": ["tautline_build_info{", "tautline_shard_busy_seconds_total{",
                              f'tautline_shard_bytes_total{{{shard},direction="in"}}',
                              'tautline_jobs{state="running"} 1', "tautline_job_slack_clocks{"],
                  "worker0": ["tautline_build_info{", "tautline_worker_clock{",
                              "tautline_worker_wait_seconds_total{",
                              "tautline_worker_read_staleness_clocks_bucket{",
                              "tautline_process_resident_bytes "]}
        line = re.compile(r'(#.*|[a-z_]+(\{([a-z]+="([^"\\]|\\.)*",?)*\})? [-+0-9.eInf]+)')
        for name, parts in wanted.items():
            def scrape():
                address = self.addresses(name)["http"][0]
                status, headers, text = self.request(address, "GET", "/metrics")
                self.assertEqual(status, 200)
                self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
                for one in text.splitlines():
                    self.assertTrue(line.fullmatch(one), one)
                return all(part in text for part in parts)
            wait_until(scrape, what=f"the metrics of {name}")

    def test_http_that_is_not_configured_listens_nowhere(self):
        self.start_server()
        self.assertNotIn("http", self.addresses("server0"))

    def test_an_address_that_is_not_loopback_needs_a_word(self):
        config = self.file("open.textproto", 'coordinator_address: "127.0.0.1:0"\n'
                           'server { coordinator {} } http { dashboard: "0.0.0.0:0" }\n')
        answer = self.run_program("tautline-server", "--config", config)
        self.assert_fails(answer, "0.0.0.0:0", "insecure: true")


class ManyWorkers(http.server.BaseHTTPRequestHandler):
    """Serves the page of a running cluster with a made-up job: a thousand workers that continue."""
    files = {}  # path: (type, bytes)
    status = {}  # as in /api/status, of two workers
    workers, servers, shards = 1000, 8, 8
    unprotected = ()  # of the job's shards, by number

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path == "/api/events":
            return self.stream()
        kind, body = self.files.get(self.path, ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return self.wfile.write(body)

    @classmethod
    def event(cls, number):
        """The number-th update, each worker a little further."""
        status = json.loads(json.dumps(cls.status))
        job, one = status["job"], cls.status["job"]["by_worker"]
        clocks = [100 + number * 3 + i * 7 % 9 for i in range(cls.workers)]
        many = {key: [column[i % len(column)] for i in range(cls.workers)]
                for key, column in one.items()}
        many["name"] = [f"worker{i}" for i in range(cls.workers)]
        many["clock"] = clocks
        many["wait_s"] = [number * 0.1 * (i % 10) for i in range(cls.workers)]
        many["compute_s"] = [number * 0.5 for _ in range(cls.workers)]
        job.update(by_worker=many, workers=cls.workers, clock=min(clocks), fastest=max(clocks),
                   slack=8, running_s=number * 0.5, loss=2 / (1 + number), rate_unit="tokens/s")
        backup = {"server": "server1", "is_whole": True, "behind_s": 0.44, "behind_clocks": 3}
        job["no_backups"] = None
        job["shards"] = [{"server": f"server{i}", "term": 1, "wanted_backups": 1, "problem": None,
                          "is_protected": i not in cls.unprotected, "backups": [backup]}
                         for i in range(cls.servers)]
        load = status["servers"][0]["shards"][0]
        status["time"] += number * 0.5
        status["servers"] = [{"name": f"server{i}", "state": "live", "silent_s": 0.1,
                              "shard_count": cls.shards, "shards": [load] * cls.shards}
                             for i in range(cls.servers)]
        return f"event: status\ndata: {json.dumps(status, separators=(',', ':'))}\n\n".encode()

    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        with contextlib.suppress(OSError):
            for number in range(200):
                self.wfile.write(self.event(number))
                time.sleep(0.25)


class Page(Browser, Served):
    """A browser with the page open."""

    def open(self):
        self.assertEqual(self.do("open", url=self.page_link(self.page)), 200)
        self.do("await", js="document.querySelector('#link').textContent === 'live'")
        self.do("await", js="Number(document.body.dataset.frames) > 1")

    def clock(self):
        return int(self.text("#t-clock").split(" of ")[0].replace(",", ""))

    def follow(self, clocks=10):
        before = self.clock()
        wait_until(lambda: self.clock() > before + clocks, 30, "clocks on the page")

    def test_the_page_follows_a_job_and_its_slider_is_obeyed(self):
        self.begin(workers=4)
        self.open()
        self.follow()
        self.assertEqual(self.text("#job-title"), "Job 1: tiny")
        self.assertEqual(self.text("#slack-value"), "1")
        self.do("shot", file=str(SHOTS / "light.png"))
        # By keyboard alone: the slider, the button, the question.
        self.do("run", js="document.querySelector('#slack').focus()")
        for _ in range(3):
            self.do("press", key="ArrowRight")
        self.assertEqual(self.text("#slack-value"), "4")
        self.do("press", at="#slack", key="Enter")
        self.assertIn("from slack 1 to slack 4", self.text("#ask-text"))
        self.do("press", at="#ask-no", key="Enter")
        self.assertEqual(self.status()["jobs"][0]["slack"], 1)
        self.do("press", at="#slack", key="Enter")
        self.do("shot", file=str(SHOTS / "question.png"))
        self.do("press", at="#ask-yes", key="Enter")
        wait_until(lambda: self.status()["jobs"][0]["slack"] == 4, what="slack 4")
        self.do("await", js="document.querySelector('#job-state').textContent.includes('slack 4')")
        self.follow()
        self.do("click", at="#theme")
        self.do("shot", file=str(SHOTS / "dark.png"))
        self.do("size", width=390, height=844)
        self.do("run", js="new Promise((done) => setTimeout(done, 700))")
        self.do("shot", file=str(SHOTS / "phone.png"))
        wide = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        self.assertFalse(self.do("run", js=wide), "the page is wider than a phone")
        self.do("click", at="#stop")
        self.do("click", at="#ask-yes")
        self.wait_for_job(1, "STOPPED")
        self.do("await", js="document.querySelector('#job-state').textContent === 'stopped'")
        self.assertEqual(self.do("faults"), [])
        self.assertEqual(self.do("outside"), [])

    def test_the_page_says_that_no_shard_of_a_job_on_one_server_has_a_backup(self):
        self.begin(workers=1)
        self.open()
        self.do("await", js="document.querySelector('#shard-note').textContent.endsWith("
                            "'; no shard has a backup: the job started on one server')")
        self.assertEqual(self.ask("stop", "1").returncode, 0)
        self.do("await", js="document.querySelector('#job-state').textContent === 'stopped'")
        self.assertNotIn("backup", self.text("#shard-note"))
        self.assertEqual(self.do("faults"), [])

    CUT = """(() => {
      const cut = [];
      for (const one of document.querySelectorAll("main *, header *")) {
        if (one.closest("pre, .u-wrap, .grid") || !one.checkVisibility()) continue;
        const box = one.getBoundingClientRect();
        const edge = (one.closest(".scroll") || document.documentElement).getBoundingClientRect();
        if (box.right > edge.right + 1 || one.scrollWidth > one.clientWidth + 1 &&
            getComputedStyle(one).overflowX === "hidden" && one.textContent) {
          cut.push(one.id || one.className || one.tagName);
        }
      }
      return cut;
    })()"""
    LOW = """[...document.querySelectorAll("button, input[type=range], .check")]
      .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < 44)
      .map((one) => one.id || one.textContent)"""

    def test_on_a_narrow_phone_nothing_is_cut_and_every_control_can_be_touched(self):
        self.begin(workers=4)
        self.open()
        self.follow()
        self.do("size", width=360, height=780)
        # The header is one line.
        self.assertEqual(self.text("#job-rows tr td:nth-child(2)"), "tiny")
        self.assertEqual(self.do("run", js="new Set([...document.querySelectorAll('header button')]"
                                           ".map((one) => one.offsetTop)).size"), 1)
        for dark in (False, True):
            for vision in ("none", "deuteranopia"):
                self.do("vision", type=vision)
                name = f"phone-{'dark' if dark else 'light'}-{vision}.png"
                self.do("run", js="new Promise((done) => setTimeout(done, 700))")
                self.do("shot", file=str(SHOTS / name))
                self.assertEqual(self.do("run", js=self.CUT), [])
            self.do("click", at="#theme")
        self.assertEqual(self.do("run", js=self.LOW), [])
        self.do("click", at="#stop")
        self.assertEqual(self.do("run", js=self.LOW), [])
        self.do("shot", file=str(SHOTS / "phone-question.png"))
        self.do("click", at="#ask-no")
        self.assertEqual(self.do("faults"), [])

    def test_the_queue_shows_which_job_has_what_and_why_others_wait(self):
        self.begin(workers=2)
        self.open()
        self.assertTrue(self.do("run", js="document.querySelector('#queue').hidden"))
        for priority in (0, 7):
            job = self.job(iterations=10, workers=2, extra=f"priority: {priority}")
            self.assertEqual(self.ask("submit", job).returncode, 0)
        self.assertEqual(self.ask("hold", 2).returncode, 0)
        self.assertEqual(self.ask("submit", self.job(iterations=10)).returncode, 0)
        self.do("await", js="document.querySelectorAll('#queue-rows tr').length === 4")
        self.do("await", js="document.querySelector('#queue-rows').textContent.includes('held')")
        self.assertEqual(self.text("#queue-note"), "1 running, 3 waiting, 0 idle workers")
        rows = [[self.text(f"#queue-rows tr:nth-child({row}) td:nth-child({column})")
                 for column in range(1, 7)] for row in range(1, 5)]
        self.assertEqual(rows, [
            ["runs", "1 tiny", "owner", "0", "2", "worker0, worker1"],
            ["1", "3 tiny", "owner", "7", "2", "waits for job 1 to end"],
            ["2", "4 tiny", "owner", "0", "1", "waits for job 1 to end"],
            ["held", "2 tiny", "owner", "0", "2", "is held; tautline release 2 lets it start"]])
        self.do("shot", file=str(SHOTS / "queue.png"))
        self.do("size", width=360, height=780)
        self.do("run", js="new Promise((done) => setTimeout(done, 700))")
        self.assertEqual(self.do("run", js=self.CUT), [])
        self.do("run", js="document.querySelector('#queue').scrollIntoView()")
        self.do("shot", file=str(SHOTS / "queue-phone.png"))
        self.do("click", at="#queue-rows tr:nth-child(2) a")
        self.do("await", js="document.querySelector('#job-title').textContent === 'Job 3: tiny'")
        self.assertEqual(self.do("faults"), [])

    TIP_BELOW_TOP = """(() => {
      const tip = [...document.querySelectorAll(".tip")].find((one) => !one.hidden);
      const plot = tip.parentElement.querySelector(".u-over");
      return tip.getBoundingClientRect().top - plot.getBoundingClientRect().top;
    })()"""

    # Pixels in the mark's colour before and after its line, which has most of them.
    MARK = """(() => {
      const canvas = document.querySelector("#loss-plot canvas");
      const { data, width } =
        canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const columns = new Array(width).fill(0);
      for (let i = 0; i < data.length; i += 4) {
        // A line between two columns is half as red in both.
        if (data[i + 3] > 100 && data[i] - data[i + 2] > 60) columns[(i / 4) % width] += 1;
      }
      const line = columns.indexOf(Math.max(...columns));
      const sum = (from, to) => columns.slice(from, to).reduce((a, b) => a + b, 0);
      return [sum(0, line - 2), sum(line + 3)];
    })()"""

    def test_the_tiles_have_the_accuracys_iteration_and_the_waits_of_now(self):
        self.begin(workers=2, slowdown_ms=1500)
        self.open()
        self.do("await", js="/^at [0-9,]+$/.test(document.querySelector('#t-tested').textContent)")
        self.assertRegex(self.text("#t-accuracy"), r"^[\d.]+ %$")
        # The other worker waits for the first one, whose clock takes longer than the seconds that
        # are shown: the share is known all the time.
        waits = ("[...document.querySelectorAll('#worker-rows tr')].map((row) =>"
                 " parseFloat(row.cells[4].textContent))")
        self.do("await", js=f"(([a, b]) => a < 40 && b > 30)({waits})")
        for _ in range(25):
            self.assertTrue(self.do("run", js=f"{waits}.every(Number.isFinite)"))
            time.sleep(0.2)
        self.assertEqual(self.do("faults"), [])

    def test_charts_mark_where_the_slack_changed_and_give_values_under_the_pointer(self):
        self.begin(workers=2)
        self.open()
        self.follow(30)
        self.assertNotIn("since", self.text("#stale-note"))
        self.assertEqual(self.ask("set-slack", 1, 3).returncode, 0)
        self.do("await", js="document.querySelector('#stale-note').textContent"
                            ".includes('since slack 3, from clock ')")
        self.follow(30)
        # The table has the clocks of one moment, which are never farther apart than the slack.
        for _ in range(20):
            clocks = self.do("run", js="[...document.querySelectorAll('#worker-rows tr')].map((row)"
                                       " => Number(row.cells[2].textContent.replace(/\\D/g, '')))")
            self.assertEqual(len(clocks), 2)
            self.assertLessEqual(max(clocks) - min(clocks), 3)
            time.sleep(0.05)
        before, after = self.do("run", js=self.MARK)
        self.assertEqual(before, 0, "the mark's line strikes through its name")
        self.assertGreater(after, 20, "the mark has no name")
        for dark in (False, True):
            for vision in ("none", "deuteranopia"):
                self.do("vision", type=vision)
                self.do("hover", at="#loss-plot .u-over", x=60, y=40)
                self.do("await", js="[...document.querySelectorAll('.tip')].some((tip) =>"
                                    " !tip.hidden && /: loss [0-9.]+$/.test(tip.textContent))")
                # Below the name of the mark, which is in the first line of the plot.
                self.assertGreaterEqual(self.do("run", js=self.TIP_BELOW_TOP), 14)
                name = f"desk-{'dark' if dark else 'light'}-{vision}.png"
                self.do("shot", file=str(SHOTS / name))
            self.do("click", at="#theme")
        # One axis for all charts, and a page that is opened later knows of the change too.
        self.do("open", url=f"http://{self.page}/")
        self.do("await", js="document.querySelector('#stale-note').textContent"
                            ".includes('since slack 3, from clock ')")
        self.assertEqual(self.do("faults"), [])

    def open_after_a_finished_job(self):
        """The page, where job 1 has ended and job 2 trains on."""
        self.begin(iterations=20)
        self.wait_for_job(1, "DONE")
        self.assertEqual(self.ask("submit", self.job("next.textproto", iterations=1000000))
                         .returncode, 0)
        self.wait_for_job(2, "RUNNING")
        self.open()

    def test_a_finished_job_is_opened_from_the_list_and_left_again(self):
        self.open_after_a_finished_job()
        self.assertEqual(self.text("#job-title"), "Job 2: tiny")
        self.do("click", at="#job-rows a[href='#job=1']")
        self.do("await", js="document.querySelector('#job-title').textContent === 'Job 1: tiny'")
        self.assertEqual(self.text("#job-state"), "done")
        self.assertIn("Saved at clock 20: ", self.text("#job-kept"))
        self.assertIn("runs/job1-tiny", self.text("#job-kept"))
        # It stays while the other one trains on.
        frames = int(self.do("run", js="document.body.dataset.frames"))
        self.do("await", js=f"Number(document.body.dataset.frames) > {frames + 4}", ms=20000)
        self.assertEqual(self.text("#job-title"), "Job 1: tiny")
        self.do("shot", file=str(SHOTS / "finished.png"))
        self.do("click", at="#back")
        self.do("await", js="document.querySelector('#job-title').textContent === 'Job 2: tiny'")
        self.assertEqual(self.do("faults"), [])

    def test_a_page_that_is_drawn_while_a_job_is_asked_for_keeps_what_it_shows(self):
        self.open_after_a_finished_job()
        self.do("run", js="const ask = window.fetch; window.fetch = (...what) => "
                          "new Promise(done => setTimeout(() => done(ask(...what)), 1500))")
        self.do("click", at="#job-rows a[href='#job=1']")
        self.do("size", width=700, height=800)
        self.do("await", js="document.querySelector('#job-title').textContent === 'Job 1: tiny'")
        self.assertEqual(self.do("faults"), [])

    def test_a_sweeps_report_fits_desk_and_phone_and_any_colour_vision(self):
        job = self.job(iterations=60)
        job.write_text(job.read_text().replace("test_interval: 60", "test_interval: 3"))
        answer = self.tautline("sweep", job, "--slack", "0,1,2,async", "--workers", 2, "--seeds", 1,
                               "--output", self.folder / "out", timeout=100)
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        for wide, name in ((1360, "desk"), (360, "phone")):
            self.do("size", width=wide, height=800)
            for dark in (False, True):
                self.do("scheme", dark=dark)
                self.do("open", url=f"file://{self.folder / 'out/report.html'}")
                for vision in ("none", "deuteranopia"):
                    self.do("vision", type=vision)
                    shot = f"report-{name}-{'dark' if dark else 'light'}-{vision}.png"
                    self.do("shot", file=str(SHOTS / shot))
                # The simulation has done something.
                seen = {(SHOTS / f"report-{name}-{'dark' if dark else 'light'}-{vision}.png")
                        .read_bytes() for vision in ("none", "deuteranopia")}
                self.assertEqual(len(seen), 2)
                page = "document.documentElement"
                self.assertTrue(self.do("run", js=f"{page}.scrollWidth <= {page}.clientWidth"))
        # The table is wider than the phone, and scrolls inside itself.
        self.assertTrue(self.do("run", js="(() => { const box = document.querySelector('.wide');"
                                          " return box.scrollWidth > box.clientWidth; })()"))
        self.assertEqual(self.do("faults"), [])

    def test_a_thousand_workers_and_64_shards_are_drawn_within_200_ms(self):
        self.begin()
        wait_until(lambda: int(self.status()["jobs"][0]["workers"][0]["progress"]["clock"]) > 3,
                   what="clocks")
        ManyWorkers.status = json.loads(self.request(self.page, "GET", "/api/status")[2])
        _, _, html = self.request(self.page, "GET", "/")
        paths = re.findall(r'(?:href|src)="(/\w+\.\w+)"', html)
        self.assertIn("/app.js", paths)
        for path in ("/", *paths):
            _, headers, text = self.request(self.page, "GET", path)
            ManyWorkers.files[path] = (headers["Content-Type"], text.encode())
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), ManyWorkers)
        server.daemon_threads = True
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        self.addCleanup(serving.join)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.assertEqual(self.do("open", url=f"http://127.0.0.1:{server.server_port}/"), 200)
        took = []
        for frame in range(3, 23):
            self.do("await", js=f"Number(document.body.dataset.frames) >= {frame}", ms=30000)
            took.append(float(self.do("run", js="document.body.dataset.renderMs")))
        update = len(ManyWorkers.event(20))
        page = update + sum(len(body) for _, body in ManyWorkers.files.values())
        print(f"1,000 workers, 64 shards: an update is drawn in {statistics.median(took):.1f} ms "
              f"(most {max(took):.1f}) of {update} bytes; the page is {page} bytes",
              file=sys.stderr)
        self.do("shot", file=str(SHOTS / "thousand.png"))
        self.assertEqual(self.do("faults"), [])
        self.assertIn("of 1,000", self.text("#worker-note"))
        units = [self.text(f"#rate-{part}") for part in ("name", "column", "title")]
        self.assertEqual(units, ["tokens/s", "tokens/s", "Throughput, tokens/s"])
        self.assertIn("each has a whole backup on another server, at most 0.4 s (3 clocks) behind",
                      self.text("#shard-note"))
        ManyWorkers.unprotected = (1, 3)
        self.do("await", js="document.querySelector('#shard-note').textContent.includes("
                            "'2 of 8 without a whole backup (number 1, 3)')", ms=30000)
        self.assertLess(statistics.median(took), 200)
        self.assertLess(page, 1_000_000)

    def test_the_page_survives_a_restart_of_the_coordinator(self):
        # Coordinator and page are in a server without the job's shards, and keep their ports.
        ports = []
        for _ in range(2):
            with socket.create_server(("127.0.0.1", 0)) as free:
                ports.append(free.getsockname()[1])
        self.coordinator = f"127.0.0.1:{ports[0]}"
        serve = f'http {{ dashboard: "127.0.0.1:{ports[1]}" }}'
        state = f'coordinator {{ state_folder: "{self.folder / "state"}" }}'
        server = self.start_daemon("server", "server0", state, more=serve)
        self.page = self.addresses("server0")["http"][0]
        self.start_daemon("worker", "worker0", "slowdown_ms: 20")
        self.assertEqual(self.ask("submit", self.job(iterations=200)).returncode, 0)
        self.wait_for_job(1, "DONE")
        self.open()
        self.assertEqual(self.text("#job-state"), "done")
        server.kill()
        server.wait()
        self.do("await", js="document.querySelector('#link').textContent === 'reconnecting'")
        self.start_daemon("server", "server0", state, more=serve)
        self.do("await", js="document.querySelector('#link').textContent === 'live'", ms=30000)
        self.start_daemon("worker", "worker1", "slowdown_ms: 20")
        wait_until(lambda: self.ask("submit", self.job(iterations=1000000)).returncode == 0,
                   what="another job")
        self.do("await", js="document.querySelector('#job-title').textContent.startsWith('Job 2')",
                ms=40000)
        self.follow()
