// The dashboard's page: takes the coordinator's events, draws, and hands commands back.
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const { css, group } = Draw;
  const kWindow_s = 4; // rates are over the last seconds
  const kSpan_s = 1; // over a shorter one a share says little
  const kPoints = 1200;
  const kRows = 16;
  const kOld_s = 3; // without an event
  let now = null; // the newest status
  let past = []; // those of the last seconds; empty only where there is none now
  let series = empty(0); // the shown job's history
  let byClock = false;
  let pinned = 0; // the job that was chosen; 0: the running or newest one
  let pinnedJob = null;
  let charts = [];
  let slackTouched = false;
  let drawn = false;
  let connected = false;
  let heard = 0; // when the newest status came

  function empty(job) {
    return { job, t: [], clock: [], loss: [], images_per_second: [], apart: [], changes: [] };
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

  // ---- incoming data

  function connect() {
    const source = new EventSource("/api/events");
    source.addEventListener("history", (event) => takeHistory(JSON.parse(event.data)));
    source.addEventListener("status", (event) => takeStatus(JSON.parse(event.data)));
    source.onopen = () => link(true);
    source.onerror = () => {
      link(false);
      // A refusal (not a loss) closes the source permanently: reconnect.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    };
  }
  function link(on) {
    connected = on;
    showLink();
  }
  /** What is shown is old where nothing has come for some seconds: grey, with its age. */
  function showLink() {
    const age_s = heard ? (performance.now() - heard) / 1000 : 0;
    const old = !connected || age_s > kOld_s;
    $("link").classList.toggle("off", old);
    document.body.classList.toggle("old", old && heard > 0);
    const age = heard && age_s >= 1 ? `, these figures are ${duration(age_s)} old` : "";
    text("link", old ? (connected ? "no news" : "reconnecting") + age : "live");
  }
  function takeHistory(history) {
    if (!history) return;
    // A coordinator that restarted knows less than this page, which keeps its history.
    if (series.job === history.job && series.t.length) {
      const first = history.t.length ? history.t[0] : Infinity;
      const kept = series.t.filter((t) => t < first).length;
      for (const column of ["t", "clock", "loss", "images_per_second", "apart"]) {
        history[column] = series[column].slice(0, kept).concat(history[column]);
      }
      const known = history.changes.length ? history.changes[0].t : Infinity;
      const before = series.changes.filter((change) => change.t < known);
      history.changes = before.concat(history.changes);
    }
    series = history;
  }
  function takeStatus(status) {
    // A job that was chosen stays until it is left; what it leaves is asked for once.
    if (pinned && (!status.job || status.job.id !== pinned)) status.job = pinnedJob;
    heard = performance.now();
    showLink();
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
    if (series.slack !== undefined && series.slack !== job.slack) {
      const { running_s: t, clock, staleness } = job;
      const seen = series.changes.some((change) => Math.abs(change.t - t) < 2);
      if (!seen) series.changes.push({ t, clock, from: series.slack, to: job.slack, staleness });
    }
    series.slack = job.slack;
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

  // ---- rendering

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
    showFollowers(job);
    showShards();
    showQueue();
    showJobs();
    showLog();
    $("trace").hidden = false;
    text("trace", now.trace ? "Stop timeline" : "Start timeline");
    document.body.dataset.renderMs = (performance.now() - began).toFixed(1);
    document.body.dataset.frames = Number(document.body.dataset.frames || 0) + 1;
  }

  /** Each worker's share of waiting over the last seconds, with a wait that still continues; null
   *  before it has reported for a second. */
  function waiting(job) {
    const w = job.by_worker;
    const old = past[0].job && past[0].job.id === job.id ? past[0].job.by_worker : null;
    return w.name.map((name, i) => {
      if (!old || old.name[i] !== name) return null;
      const span = now.time - w.silent_s[i] - (past[0].time - old.silent_s[i]);
      const wait = w.wait_s[i] - old.wait_s[i];
      return span >= kSpan_s && wait >= 0 ? Math.min(1, wait / span) : null;
    });
  }

  // A job without an end is over when its members say so.
  function clockOf(job, of) {
    return group(job.clock) + (job.max_iter > 0 ? of + group(job.max_iter) : "");
  }

  function showJob(job, waits) {
    text("job-title", `Job ${job.id}: ${job.name}`);
    const state = job.state === "running" ? `running, ${modeName(job)}` : job.state;
    text("job-state", state);
    $("job-state").className = "state " + job.state;
    const note = [job.message, job.advice].filter(Boolean).join("; ");
    $("job-message").hidden = !note;
    text("job-message", note);
    const share = job.max_iter > 0 ? Math.min(1, job.clock / job.max_iter) : 0;
    $("bar").firstElementChild.style.width = 100 * share + "%";
    $("bar").setAttribute("aria-valuenow", (100 * share).toFixed(0));
    text("t-clock", clockOf(job, " of "));
    text("t-loss", job.loss === null ? "–" : job.loss.toFixed(4));
    text("t-accuracy", job.accuracy === null ? "–" : (100 * job.accuracy).toFixed(2) + " %");
    const tested = job.tests.clock;
    text("t-tested", tested.length ? `at ${group(tested[tested.length - 1])}` : "");
    text("t-rate", group(job.images_per_second));
    for (const id of ["rate-name", "rate-column"]) text(id, job.rate_unit);
    const w = job.by_worker;
    const known = waits.filter((share, i) => share !== null && !w.is_stale[i]);
    text("t-wait", percent(known.length ? known.reduce((a, b) => a + b, 0) / known.length : null));
    const rest = job.left_s === null ? "" : `, ${duration(job.left_s)} left`;
    text("t-time", duration(job.running_s) + rest);
    $("stop").hidden = job.state !== "running" && job.state !== "submitted";
    $("back").hidden = !pinned;
    const kept = job.checkpoint
      ? `Saved at clock ${group(job.checkpoint.clock)}: ${job.checkpoint.folder}` : "";
    const left = job.run_folder ? `Run folder: ${job.run_folder}` : "";
    const words = [kept, job.checkpoint_failure, left].filter(Boolean);
    text("job-kept", words.join("\n"));
    $("job-kept").hidden = words.length === 0;
    const done = job.state === "running" ? (100 * share).toFixed(0) + " % " : "";
    document.title = `${done}${job.name} – Tautline`;
  }

  function showClocks(job) {
    Draw.clocks($("clock-plot"), job);
    const apart = job.fastest - job.clock;
    const bound = job.slack === null ? "no bound" : `slack ${job.slack}`;
    const clocks = apart === 1 ? "clock" : "clocks";
    const old = job.clocks_age_s > kOld_s ? `, ${duration(job.clocks_age_s)} ago` : "";
    const gap = `${group(apart)} ${clocks} between the slowest and the fastest`;
    const sentence = `${gap}${old}; ${bound}`;
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

  // Steps between ticks: whole clocks, or seconds that people count in.
  const kSeconds = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
                    14400, 28800, 86400, 172800, 604800];
  const kClocks = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5,
                   1e6, 2e6, 5e6, 1e7];
  const atX = (v) => (byClock
    ? group(v) : duration(v) + (v > 0 && v < 1 ? v.toFixed(1).slice(1) : ""));
  /** The axis that all charts share: from the start to the newest point of any of them. */
  function reach() {
    const x = byClock ? series.clock : series.t;
    return Math.max(x.length ? x[x.length - 1] : 0, byClock ? 10 : 1);
  }
  /** A line where the slack changed, with what it became. */
  function drawMarks(u) {
    const ratio = window.devicePixelRatio || 1;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = css("--red");
    ctx.font = `${11 * ratio}px system-ui, 'DejaVu Sans', sans-serif`;
    ctx.textAlign = "left"; // the axes leave another one
    ctx.textBaseline = "alphabetic";
    ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    let free = -Infinity;
    for (const change of series.changes) {
      const x = u.valToPos(byClock ? change.clock : change.t, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      const name = boundName(change.to);
      const wide = ctx.measureText(name).width + 6 * ratio;
      const fits = x + wide <= bbox.left + bbox.width;
      const left = fits ? x + 3 * ratio : x - wide + 3 * ratio;
      if (left < free) continue; // labels do not cover each other; every line is drawn
      ctx.fillText(name, left, bbox.top + 10 * ratio);
      free = left + wide;
    }
    ctx.restore();
  }
  /** What is under the pointer, in figures. */
  function showTip(u, tip, label, values) {
    const at = u.cursor.idx;
    const value = at === null || at === undefined ? null : u.data[1][at];
    tip.hidden = value === null || value === undefined;
    if (tip.hidden) return;
    const x = byClock ? `clock ${group(u.data[0][at])}` : atX(u.data[0][at]);
    tip.textContent = `${x}: ${label} ${values(value)}`;
    // Below the names of the marks.
    tip.style.top = u.over.offsetTop + 18 + "px";
    const right = u.cursor.left > u.over.clientWidth / 2;
    tip.style.left = right ? "" : u.over.offsetLeft + u.cursor.left + 10 + "px";
    tip.style.right = right
      ? u.over.parentElement.clientWidth - u.over.offsetLeft - u.cursor.left + 10 + "px" : "";
  }
  function chart(id, label, color, values, points, fromZero) {
    const host = $(id);
    const axis = {
      stroke: css("--soft"), grid: { stroke: css("--line"), width: 1 },
      ticks: { stroke: css("--line") }, font: "11px system-ui, 'DejaVu Sans', sans-serif",
    };
    // A single value would otherwise be on an axis up to 100.
    const range = (u, low, high) =>
      fromZero || low === high
        ? [Math.min(low, 0), 1.1 * (Math.max(0, ...u.data[1]) || 1)]
        : uPlot.rangeNum(low, high, 0.1, true);
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    host.append(tip);
    const one = new uPlot({
      width: host.clientWidth, height: host.clientHeight, legend: { show: false },
      cursor: { y: false, sync: { key: "charts", setSeries: false } },
      scales: { x: { time: false, range: () => [0, reach()] }, y: { range } },
      axes: [{ ...axis, values: (u, at) => at.map(atX), space: 70, size: 48,
               incrs: byClock ? kClocks : kSeconds, labelSize: 16, labelFont: axis.font,
               label: byClock ? "clocks of the slowest worker" : "running time, min:s" },
             { ...axis, size: 58, values: (u, at) => at.map(values) }],
      series: [{}, {
        label, stroke: css(color), width: 2, spanGaps: true,
        points: { show: points, size: 7, fill: css(color) },
      }],
      hooks: { draw: [drawMarks], setCursor: [(u) => showTip(u, tip, label, values)] },
    }, [[], []], host);
    one.tip = tip;
    return one;
  }
  function remake() {
    for (const one of charts) {
      one.tip.remove();
      one.destroy();
    }
    const digits = (v) => {
      if (v === null) return "";
      if (Math.abs(v) >= 1e6) return Number((v / 1e6).toPrecision(4)) + " M";
      if (Math.abs(v) >= 1e4) return Number((v / 1e3).toPrecision(4)) + " k";
      return String(Number(v.toPrecision(4)));
    };
    const percents = (v) => (v === null ? "" : Number((100 * v).toPrecision(4)) + " %");
    charts = [
      chart("loss-plot", "loss", "--blue", digits, false),
      chart("accuracy-plot", "accuracy", "--green", percents, true),
      chart("rate-plot", "rate", "--orange", digits, false, true),
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
  /** When the slowest worker was at a clock, interpolated. */
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
    const change = series.job === job.id ? series.changes[series.changes.length - 1] : undefined;
    const before = new Map(change ? change.staleness : []);
    let bins = job.staleness.map(([staleness, n]) => [staleness, n - (before.get(staleness) || 0)]);
    if (change) bins = bins.filter(([, n]) => n > 0);
    const total = bins.reduce((sum, [, n]) => sum + n, 0);
    const most = Math.max(1, ...bins.map(([, n]) => n));
    const since = change
      ? ` since ${boundName(change.to)}, from clock ${group(change.clock)} on` : "";
    text("stale-note", total ? `${group(total)} reads${since}` : `no reads yet${since}`);
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
    // As in the chart, of all workers at one moment; its own report of one that has left.
    const clock = order.map((i) => w.at[i] ?? w.clock[i]);
    const many = order.length > kRows;
    if (many) order.sort((a, b) => clock[a] - clock[b] || a - b);
    const shown = $("all-workers").checked ? order : order.slice(0, kRows);
    const rows = shown.map((i) => {
      const row = document.createElement("tr");
      const stale = w.is_stale[i] && w.state[i] === "running";
      row.className = w.state[i] === "lost" ? "lost" : stale ? "stale" : "";
      cell(row, w.name[i]);
      const share = (w.share && w.share[i]) ? `, ${group(w.share[i])} records a batch` : "";
      cell(row, w.state[i] + (stale ? `, silent ${w.silent_s[i].toFixed(0)} s` : share));
      cell(row, group(clock[i]), "n");
      const trains = w.state[i] === "running" && !stale;
      cell(row, trains ? group(w.images_per_second[i]) : "–", "n");
      const waited = cell(row, "");
      waited.append(shareBar((trains && waits[i]) || 0), percent(trains ? waits[i] : null));
      return row;
    });
    $("worker-rows").replaceChildren(...rows);
    text("worker-note", many && shown.length < order.length
      ? `the ${kRows} slowest of ${group(order.length)}` : "");
  }

  /** Readers of the job: which version each has, and how far that is behind. */
  function showFollowers(job) {
    const followers = (job && job.followers) || [];
    $("followers").hidden = followers.length === 0;
    const rows = followers.map((follower) => {
      const row = document.createElement("tr");
      cell(row, follower.name);
      cell(row, follower.bounded ? "training waits for it" : "plain");
      cell(row, follower.source || "servers");
      cell(row, follower.version === null ? "–" : group(follower.version), "n");
      cell(row, follower.behind === null ? "–" : group(follower.behind), "n");
      return row;
    });
    $("follower-rows").replaceChildren(...rows);
    text("follower-note", job && job.cut_followers > 0 ? `${job.cut_followers} were cut` : "");
  }

  /** What is lost with a server, or why no shard has a backup, as on one server. */
  function protection() {
    const shards = (now.job && now.job.shards) || [];
    const none = now.job && now.job.no_backups;
    if (none) return `; no shard has a backup: ${none.reason}`;
    if (shards.length === 0) return "";
    const bare = shards.filter((shard) => !shard.is_protected);
    const problem = shards.map((shard) => shard.problem).find(Boolean);
    const why = problem ? ` (${problem})` : "";
    if (bare.length > 0) {
      const numbers = bare.slice(0, 8).map((shard) => shards.indexOf(shard)).join(", ");
      return `; ${bare.length} of ${shards.length} without a whole backup (number ${numbers}` +
        `${bare.length > 8 ? ", ..." : ""}), so a lost server ends the job${why}`;
    }
    const whole = shards.map((shard) => shard.backups.filter((backup) => backup.is_whole).length);
    const fewest = Math.min(...whole);
    const wanted = shards[0].wanted_backups || 1;
    if (fewest < wanted) {
      return `; each has ${fewest} of ${wanted} whole backups on other servers${lag(shards)}${why}`;
    }
    return (fewest === 1 ? "; each has a whole backup on another server"
      : `; each has ${fewest} whole backups on other servers`) + lag(shards);
  }

  /** How far the whole backups are behind their primaries; nothing where none has been heard of. */
  function lag(shards) {
    const known = shards.flatMap((shard) => shard.backups)
      .filter((backup) => backup.is_whole && backup.behind_s !== null);
    if (known.length === 0) return "";
    const most = (key) => Math.max(...known.map((backup) => backup[key]));
    const clocks = most("behind_clocks");
    return `, at most ${most("behind_s").toFixed(1)} s (${group(clocks)} ` +
      `${clocks === 1 ? "clock" : "clocks"}) behind`;
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
    text("shard-note", `${parts.length} on ${servers}, ${bytes(all)}/s${protection()}`);
    $("shard-grid").replaceChildren(...parts);
  }

  /** Jobs that run and that wait, in the queue's order: which has what, and what it waits for. */
  function showQueue() {
    const queue = now.queue;
    $("queue").hidden = queue.running < 2 && queue.waiting === 0;
    if ($("queue").hidden) return;
    const idle = now.idle.filter(([, state]) => state === "idle").length;
    const hidden = queue.running + queue.waiting - queue.jobs.length;
    text("queue-note", `${group(queue.running)} running, ${group(queue.waiting)} waiting, ` +
      `${group(idle)} idle worker${idle === 1 ? "" : "s"}` +
      (hidden > 0 ? `; ${group(hidden)} more` : ""));
    $("queue-rows").replaceChildren(...queue.jobs.map((job) => {
      const row = document.createElement("tr");
      const runs = job.state === "running";
      if (now.job && job.id === now.job.id) row.className = "now";
      cell(row, runs ? "runs" : job.held ? "held" : String(job.place ?? "–"));
      const link = document.createElement("a");
      link.href = `#job=${job.id}`;
      link.textContent = `${job.id} ${job.name}`;
      cell(row, "").append(link);
      cell(row, job.user || "–");
      cell(row, String(job.priority), "n");
      const count = runs ? job.working : job.required_workers;
      const workers = job.max_workers > count ? `${count} ${runs ? "of" : "to"} ${job.max_workers}`
        : String(count);
      cell(row, workers, "n");
      const more = job.working - job.worker_names.length;
      cell(row, runs ? job.worker_names.join(", ") + (more > 0 ? ` and ${group(more)} more` : "")
        : job.message, "why");
      return row;
    }));
  }

  function showJobs() {
    $("jobs").hidden = now.jobs.length === 0;
    $("job-rows").replaceChildren(...now.jobs.map((job) => {
      const row = document.createElement("tr");
      if (now.job && job.id === now.job.id) row.className = "now";
      const link = document.createElement("a");
      link.href = `#job=${job.id}`;
      link.textContent = String(job.id);
      cell(row, "").append(link);
      cell(row, job.name);
      cell(row, job.state);
      cell(row, modeName(job));
      cell(row, clockOf(job, "/"), "n");
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
  /** also: a second, dangerous answer with its words. */
  function ask(question, yes, then, also) {
    text("ask-text", question);
    text("ask-yes", yes);
    $("ask-yes").onclick = () => { $("ask").close(); then(); };
    $("ask-no").onclick = () => $("ask").close();
    $("ask-also").hidden = !also;
    if (also) {
      text("ask-also", also.words);
      $("ask-also").onclick = () => { $("ask").close(); also.then(); };
    }
    $("ask").showModal();
  }

  // ---- which job is shown

  async function choose() {
    const wanted = Number((/^#job=(\d+)$/.exec(location.hash) || [])[1] || 0);
    const running = now && now.jobs.find((job) => job.state === "running");
    pinned = wanted && !(running && running.id === wanted) ? wanted : 0;
    pinnedJob = null;
    slackTouched = false;
    try {
      const reply = await fetch(pinned ? `/api/jobs/${pinned}` : "/api/status");
      const status = await reply.json();
      if (!reply.ok) {
        toast(status.error);
        location.hash = "";
        return;
      }
      pinnedJob = pinned ? status.job : null;
      // Not before: what is drawn in the meantime has a status of the past.
      past = [];
      series = empty(0);
      takeHistory(status.history);
      takeStatus(status);
    } catch {
      toast("the coordinator cannot be reached");
    }
  }
  window.addEventListener("hashchange", choose);
  $("back").addEventListener("click", () => { location.hash = ""; });

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
    const stop = (discard) => send(`/api/jobs/${job.id}/stop`, { discard });
    if (job.state !== "running") {
      ask(`Remove job ${job.id}, ${job.name}, from the queue?`, "Remove", () => stop(true));
      return;
    }
    ask(`Save job ${job.id}, ${job.name}, first, then stop it? Without saving, what it has ` +
        "learned since its last checkpoint is lost.", "Save first, then stop", () => stop(false),
        { words: "Stop without saving", then: () => stop(true) });
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
  if (location.hash) choose();
  new ResizeObserver(() => now && now.job && render()).observe(document.querySelector("main"));
  setInterval(showLink, 1000);
  connect();
})();
