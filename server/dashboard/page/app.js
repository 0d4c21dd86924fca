// The dashboard's page: takes the coordinator's events, draws, and hands commands back.
"use strict";

(() => {
  const { $, text } = Page;
  const { duration, boundName } = Words;
  const { toast, send, ask } = Commands;
  const { kOld_s, wantedSlack } = JobView;
  const kWindow_s = 4; // rates are over the last seconds
  let now = null; // the newest status
  let past = []; // statuses of the last seconds; empty only if there is none now
  let series = Series.empty(0); // the shown job's history
  let pinned = 0; // the job that was chosen; 0: the running or newest one
  let pinnedJob = null;
  let slackTouched = false;
  let drawn = false;
  let connected = false;
  let heard = 0; // when the newest status arrived

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
  /** Shows the page as stale, gray and with its age, if nothing has arrived for some seconds. */
  function showLink() {
    const age_s = heard ? (performance.now() - heard) / 1000 : 0;
    const old = !connected || age_s > kOld_s;
    $("link").classList.toggle("off", old);
    document.body.classList.toggle("old", old && heard > 0);
    const age = heard && age_s >= 1 ? `, these figures are ${duration(age_s)} old` : "";
    text("link", old ? (connected ? "no news" : "reconnecting") + age : "live");
  }
  function takeHistory(history) {
    if (history) series = Series.joined(series, history);
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
    if (job) {
      if (series.job !== job.id) series = Series.empty(job.id);
      Series.add(series, job);
    }
    if (!drawn) requestAnimationFrame(render);
    drawn = true;
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
      const waits = JobView.waiting(job, now, past);
      JobView.show(job, waits, pinned !== 0);
      JobView.showClocks(job, slackTouched);
      Charts.show(job, series);
      JobView.showStaleness(job, series);
      Tables.showWorkers(job, waits);
    }
    Tables.showFollowers(job);
    Tables.showShards(now, past);
    Tables.showQueue(now);
    Tables.showJobs(now);
    Tables.showLog(now);
    $("trace").hidden = false;
    text("trace", now.trace ? "Stop timeline" : "Start timeline");
    document.body.dataset.renderMs = (performance.now() - began).toFixed(1);
    document.body.dataset.frames = Number(document.body.dataset.frames || 0) + 1;
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
      series = Series.empty(0);
      takeHistory(status.history);
      takeStatus(status);
    } catch {
      toast("the coordinator cannot be reached");
    }
  }

  // ---- what the page's buttons do

  window.addEventListener("hashchange", choose);
  $("back").addEventListener("click", () => { location.hash = ""; });

  for (const id of ["slack", "no-bound"]) {
    $(id).addEventListener("input", () => {
      slackTouched = true;
      JobView.showClocks(now.job, slackTouched);
    });
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
      button.setAttribute("aria-pressed", String(Charts.turn()));
      render();
    });
  }

  Page.followTheme(() => {
    Charts.recolour();
    if (now) render();
  });
  if (location.hash) choose();
  new ResizeObserver(() => now && now.job && render()).observe(document.querySelector("main"));
  setInterval(showLink, 1000);
  connect();
})();
