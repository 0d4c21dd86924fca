// The dashboard's page: takes the coordinator's events, draws, and hands commands back.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const { css, group } = Draw;
  const kWindow_s = 4; // rates are over the last seconds
  const kPoints = 1200;
  const kRows = 16;
  let now = null; // the newest status
  let past = []; // those of the last seconds
  let series = empty(0); // the shown job's history
  let byClock = false;
  let charts = [];
  let slackTouched = false;
  let drawn = false;

  function empty(job) {
    return { job, t: [], clock: [], loss: [], images_per_second: [], apart: [] };
  }
  const text = (id, value) => {
    if ($(id).textContent !== value) $(id).textContent = value;
  };
  const percent = (share) =>
    share === null ? "–" : (100 * share).toFixed(share < 0.1 ? 1 : 0) + " %";
  function duration(s) {
    const two = (n) => String(n).padStart(2, "0");
    s = Math.floor(s);
    return s >= 3600 ? `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
                     : `${Math.floor(s / 60)}:${two(s % 60)}`;
  }
  function bytes(n) {
    for (const unit of ["B", "kB", "MB", "GB"]) {
      if (n < 999.5) return (n < 10 ? n.toFixed(1) : n.toFixed(0)) + " " + unit;
      n /= 1000;
    }
    return n.toFixed(1) + " TB";
  }
  const slackName = (slack) => (slack === null ? "none" : String(slack));
  const boundName = (slack) => (slack === null ? "no bound" : `slack ${slack}`);
  const modeName = (job) => (job.mode === "SSP" ? `SSP, slack ${job.slack}` : job.mode);

  // ---- what comes in

  function connect() {
    const source = new EventSource("/api/events");
    source.addEventListener("history", (event) => takeHistory(JSON.parse(event.data)));
    source.addEventListener("status", (event) => takeStatus(JSON.parse(event.data)));
    source.onopen = () => link(true);
    source.onerror = () => {
      link(false);
      // A refusal (not a loss) closes the source for good: begin anew.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    };
  }
  function link(on) {
    $("link").classList.toggle("off", !on);
    text("link", on ? "live" : "reconnecting");
  }
  function takeHistory(history) {
    if (!history) return;
    // A coordinator that restarted knows less than this page: what came before stays.
    if (series.job === history.job && series.t.length) {
      const first = history.t.length ? history.t[0] : Infinity;
      const kept = series.t.filter((t) => t < first).length;
      for (const column of ["t", "clock", "loss", "images_per_second", "apart"]) {
        history[column] = series[column].slice(0, kept).concat(history[column]);
      }
    }
    series = history;
  }
  function takeStatus(status) {
    const job = status.job;
    if (now && now.job && job && now.job.id !== job.id) {
      past = [];
      slackTouched = false;
    }
    now = status;
    past.push(status);
    while (past.length > 2 && status.time - past[0].time > kWindow_s) past.shift();
    if (job) addPoint(job);
    if (!drawn) requestAnimationFrame(render);
    drawn = true;
  }
  function addPoint(job) {
    if (series.job !== job.id) series = empty(job.id);
    const last = series.t.length - 1;
    if (job.fastest === 0 || (last >= 0 && job.clock <= series.clock[last])) return;
    series.t.push(job.running_s);
    series.clock.push(job.clock);
    series.loss.push(job.loss);
    series.images_per_second.push(job.images_per_second);
    series.apart.push(job.fastest - job.clock);
    if (series.t.length < kPoints) return;
    for (const column of ["t", "clock", "loss", "images_per_second", "apart"]) {
      series[column] = series[column].filter((_, i) => i % 2 === 0);
    }
  }

  // ---- what is shown

  function render() {
    drawn = false;
    const began = performance.now();
    const job = now.job;
    $("empty").hidden = Boolean(job);
    for (const id of ["job", "clocks", "stale", "workers"]) $(id).hidden = !job;
    for (const card of document.querySelectorAll(".charts")) card.hidden = !job;
    if (job) {
      const waits = waiting(job);
      showJob(job, waits);
      showClocks(job);
      showCharts(job);
      showStaleness(job);
      showWorkers(job, waits);
    }
    showShards();
    showJobs();
    showLog();
    $("trace").hidden = false;
    text("trace", now.trace ? "Stop timeline" : "Start timeline");
    document.body.dataset.renderMs = (performance.now() - began).toFixed(1);
    document.body.dataset.frames = Number(document.body.dataset.frames || 0) + 1;
  }

  /** Each worker's share of waiting over the last seconds; null where it did nothing. */
  function waiting(job) {
    const w = job.by_worker;
    const old = past[0].job && past[0].job.id === job.id ? past[0].job.by_worker : null;
    return w.name.map((name, i) => {
      const same = old && old.name[i] === name ? i : -1;
      const wait = w.wait_s[i] - (same < 0 ? 0 : old.wait_s[same]);
      const spent = wait + w.compute_s[i] - (same < 0 ? 0 : old.compute_s[same]);
      return spent > 0 ? Math.min(1, Math.max(0, wait / spent)) : null;
    });
  }

  function showJob(job, waits) {
    text("job-title", `Job ${job.id}: ${job.name}`);
    const state = job.state === "running" ? `running, ${modeName(job)}` : job.state;
    text("job-state", state);
    $("job-state").className = "state " + job.state;
    $("job-message").hidden = !job.message;
    text("job-message", job.message);
    const share = job.max_iter > 0 ? Math.min(1, job.clock / job.max_iter) : 0;
    $("bar").firstElementChild.style.width = 100 * share + "%";
    $("bar").setAttribute("aria-valuenow", (100 * share).toFixed(0));
    text("t-clock", `${group(job.clock)} of ${group(job.max_iter)}`);
    text("t-loss", job.loss === null ? "–" : job.loss.toFixed(4));
    text("t-accuracy", job.accuracy === null ? "–" : (100 * job.accuracy).toFixed(2) + " %");
    text("t-rate", group(job.images_per_second));
    const known = waits.filter((share) => share !== null);
    text("t-wait", percent(known.length ? known.reduce((a, b) => a + b, 0) / known.length : null));
    const left = job.state === "running" && share > 0 && share < 1
      ? `, ${duration(job.running_s * (1 / share - 1))} left` : "";
    text("t-time", duration(job.running_s) + left);
    $("stop").hidden = job.state !== "running" && job.state !== "submitted";
    const done = job.state === "running" ? (100 * share).toFixed(0) + " % " : "";
    document.title = `${done}${job.name} – Tautline`;
  }

  function showClocks(job) {
    Draw.clocks($("clock-plot"), job);
    const apart = job.fastest - job.clock;
    const bound = job.slack === null ? "no bound" : `slack ${job.slack}`;
    const clocks = apart === 1 ? "clock" : "clocks";
    const sentence = `${group(apart)} ${clocks} between the slowest and the fastest; ${bound}`;
    text("gap", sentence);
    $("clock-plot").setAttribute("aria-label", `${job.by_worker.name.length} workers: ${sentence}`);
    const ends = job.state !== "running" && job.state !== "submitted";
    for (const id of ["slack", "no-bound"]) $(id).disabled = ends;
    if (!slackTouched) {
      const slider = $("slack");
      slider.max = String(Math.max(16, job.slack || 0));
      if (job.slack !== null) slider.value = String(job.slack);
      $("no-bound").checked = job.slack === null;
    }
    $("slack").disabled = ends || $("no-bound").checked;
    text("slack-value", slackName(wantedSlack()));
    $("slack-apply").disabled = ends || wantedSlack() === job.slack;
  }
  const wantedSlack = () => ($("no-bound").checked ? null : Number($("slack").value));

  function chart(id, label, color, values, points, fromZero) {
    const host = $(id);
    const axis = {
      stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 },
      ticks: { stroke: css("--line") }, font: "11px system-ui, 'DejaVu Sans', sans-serif",
    };
    const x = (u, at) => at.map((v) => (byClock ? group(v) : duration(v)));
    // A single value would otherwise stand on an axis up to 100.
    const range = (u, low, high) =>
      fromZero || low === high
        ? [Math.min(low, 0), 1.1 * (Math.max(0, ...u.data[1]) || 1)]
        : uPlot.rangeNum(low, high, 0.1, true);
    return new uPlot({
      width: host.clientWidth, height: host.clientHeight, legend: { show: false },
      cursor: { y: false },
      scales: { x: { time: false }, y: { range } },
      axes: [{ ...axis, values: x, space: 70, size: 36 },
             { ...axis, size: 58, values: (u, at) => at.map(values) }],
      series: [{}, {
        label, stroke: css(color), width: 2, spanGaps: true,
        points: { show: points, size: 7, fill: css(color) },
      }],
    }, [[], []], host);
  }
  function remake() {
    for (const one of charts) one.destroy();
    const digits = (v) => {
      if (v === null) return "";
      if (Math.abs(v) >= 1e6) return Number((v / 1e6).toPrecision(4)) + " M";
      if (Math.abs(v) >= 1e4) return Number((v / 1e3).toPrecision(4)) + " k";
      return String(Number(v.toPrecision(4)));
    };
    const percents = (v) => Number((100 * v).toPrecision(4)) + " %";
    charts = [
      chart("loss-plot", "loss", "--blue", digits, false),
      chart("accuracy-plot", "accuracy", "--green", percents, true),
      chart("rate-plot", "images/s", "--orange", digits, false, true),
    ];
  }
  function showCharts(job) {
    const size = $("loss-plot").clientWidth;
    if (!charts.length || size !== charts[0].width) remake();
    const x = byClock ? series.clock : series.t;
    charts[0].setData([x, series.loss]);
    charts[2].setData([x, series.images_per_second]);
    const { clock, accuracy } = job.tests;
    charts[1].setData([byClock ? clock : clock.map(timeOf), accuracy]);
  }
  /** When the slowest worker stood at a clock, between the points that are known. */
  function timeOf(clock) {
    const { t, clock: c } = series;
    if (!t.length) return 0;
    let high = c.findIndex((at) => at >= clock);
    if (high < 0) return t[t.length - 1];
    if (high === 0) return c[0] > 0 ? (t[0] * clock) / c[0] : t[0];
    const share = (clock - c[high - 1]) / (c[high] - c[high - 1]);
    return t[high - 1] + share * (t[high] - t[high - 1]);
  }

  function cell(row, value, kind) {
    const td = row.insertCell();
    td.textContent = value;
    if (kind) td.className = kind;
    return td;
  }
  function shareBar(share) {
    const track = document.createElement("span");
    track.className = "share";
    const fill = document.createElement("span");
    fill.style.width = 100 * share + "%";
    track.append(fill);
    return track;
  }

  function showStaleness(job) {
    const total = job.staleness.reduce((sum, [, n]) => sum + n, 0);
    const most = Math.max(1, ...job.staleness.map(([, n]) => n));
    text("stale-note", total ? `${group(total)} reads` : "nothing read yet");
    let bins = job.staleness;
    if (bins.length > 14) { // a long tail as one bar
      const rest = bins.slice(13);
      const count = rest.reduce((sum, [, n]) => sum + n, 0);
      bins = bins.slice(0, 13).concat([[rest[0][0] + "+", count]]);
    }
    const parts = [];
    for (const [staleness, n] of bins) {
      const name = document.createElement("span");
      name.textContent = staleness + (staleness === 1 ? " clock" : " clocks");
      const track = document.createElement("div");
      track.className = "track";
      const fill = document.createElement("span");
      fill.style.width = (100 * n) / most + "%";
      track.append(fill);
      const share = document.createElement("span");
      share.className = "n";
      share.textContent = percent(total ? n / total : 0);
      parts.push(name, track, share);
    }
    $("stale-bars").replaceChildren(...parts);
  }

  function showWorkers(job, waits) {
    const w = job.by_worker;
    const order = w.name.map((_, i) => i);
    const many = order.length > kRows;
    if (many) order.sort((a, b) => w.clock[a] - w.clock[b] || a - b);
    const shown = $("all-workers").checked ? order : order.slice(0, kRows);
    const rows = shown.map((i) => {
      const row = document.createElement("tr");
      if (w.state[i] === "lost") row.className = "lost";
      cell(row, w.name[i]);
      const silent = w.state[i] === "running" && w.silent_s[i] > 3;
      cell(row, w.state[i] + (silent ? `, silent ${w.silent_s[i].toFixed(0)} s` : ""));
      cell(row, group(w.clock[i]), "n");
      cell(row, w.state[i] === "running" ? group(w.images_per_second[i]) : "–", "n");
      const waited = cell(row, "");
      waited.append(shareBar(waits[i] || 0), percent(waits[i]));
      return row;
    });
    $("worker-rows").replaceChildren(...rows);
    text("worker-note", many && shown.length < order.length
      ? `the ${kRows} slowest of ${group(order.length)}` : "");
  }

  function showShards() {
    const parts = [];
    const old = past[0];
    let all = 0;
    for (const [s, server] of now.servers.entries()) {
      const known = old.servers[s] && old.servers[s].name === server.name;
      const before = known ? old.servers[s] : server;
      const span = Math.max(0.001, now.time - old.time);
      for (let i = 0; i < server.shard_count; i++) {
        const load = server.shards[i];
        const then = before.shards[i] || load;
        const rate = (column) => (load ? Math.max(0, (load[column] - then[column]) / span) : 0);
        all += rate(2) + rate(3);
        const box = document.createElement("div");
        box.className = "shard" + (server.state === "lost" ? " lost" : "");
        const name = document.createElement("div");
        name.textContent = `${server.name}/${i}` + (server.state === "lost" ? " lost" : "");
        const busy = Math.min(1, rate(0));
        const small = document.createElement("small");
        small.textContent = `${percent(busy)} busy, ${group(rate(1))}/s`;
        box.append(name, shareBar(busy), small);
        parts.push(box);
      }
    }
    $("shards").hidden = parts.length === 0;
    const count = now.servers.length;
    const servers = `${count} ${count === 1 ? "server" : "servers"}`;
    text("shard-note", `${parts.length} on ${servers}, ${bytes(all)}/s`);
    $("shard-grid").replaceChildren(...parts);
  }

  function showJobs() {
    $("jobs").hidden = now.jobs.length === 0;
    $("job-rows").replaceChildren(...now.jobs.map((job) => {
      const row = document.createElement("tr");
      if (now.job && job.id === now.job.id) row.className = "now";
      cell(row, String(job.id));
      cell(row, job.name);
      cell(row, job.state);
      cell(row, modeName(job));
      cell(row, `${group(job.clock)}/${group(job.max_iter)}`, "n");
      cell(row, job.accuracy === null ? "–" : (100 * job.accuracy).toFixed(2) + " %", "n");
      return row;
    }));
  }

  function showLog() {
    const box = $("log-lines");
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");
    const lines = now.log.map(([time, line]) => `${clock(time)}  ${line}`).join("\n");
    if (box.textContent === lines) return;
    box.textContent = lines;
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  // ---- what goes out

  function toast(message) {
    text("toast", message);
    $("toast").hidden = false;
    clearTimeout(toast.timer);
    toast.timer = setTimeout(() => { $("toast").hidden = true; }, 6000);
  }
  async function send(path, body) {
    try {
      const reply = await fetch(path, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      const answer = await reply.json();
      toast(answer.message || answer.error || "done");
      return reply.ok;
    } catch {
      toast("the coordinator cannot be reached");
      return false;
    }
  }
  function ask(question, yes, then) {
    text("ask-text", question);
    text("ask-yes", yes);
    $("ask-yes").onclick = () => { $("ask").close(); then(); };
    $("ask-no").onclick = () => $("ask").close();
    $("ask").showModal();
  }

  for (const id of ["slack", "no-bound"]) {
    $(id).addEventListener("input", () => { slackTouched = true; showClocks(now.job); });
  }
  $("slack-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const job = now.job;
    const slack = wantedSlack();
    const effect = slack === 0 || job.slack === 0
      ? " Updates are then applied in another way, from a clock ahead of every worker." : "";
    ask(`Change job ${job.id} from ${boundName(job.slack)} to ${boundName(slack)}?${effect}`,
        "Change", async () => {
          await send(`/api/jobs/${job.id}/slack`, { slack });
          slackTouched = false;
        });
  });
  $("stop").addEventListener("click", () => {
    const job = now.job;
    ask(`Stop job ${job.id}, ${job.name}? It cannot be resumed from here.`, "Stop job",
        () => send(`/api/jobs/${job.id}/stop`, {}));
  });
  $("trace").addEventListener("click", () => send("/api/trace", { on: !now.trace }));
  $("all-workers").addEventListener("change", () => now && render());
  for (const button of document.querySelectorAll(".axis")) {
    button.addEventListener("click", () => {
      byClock = !byClock;
      button.setAttribute("aria-pressed", String(byClock));
      remake();
      render();
    });
  }

  function theme(dark) {
    document.documentElement.classList.toggle("dark", dark);
    text("theme", dark ? "Light" : "Dark");
    if (charts.length) remake();
    if (now) render();
  }
  let dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  try {
    const kept = localStorage.getItem("theme");
    if (kept) dark = kept === "dark";
  } catch { /* a browser without storage keeps nothing */ }
  theme(dark);
  $("theme").addEventListener("click", () => {
    dark = !dark;
    try { localStorage.setItem("theme", dark ? "dark" : "light"); } catch { /* as above */ }
    theme(dark);
  });
  new ResizeObserver(() => now && now.job && render()).observe(document.querySelector("main"));
  connect();
})();
