// The shown job: its figures, its workers' clocks with the form of the slack, and what reads got.
"use strict";

const JobView = (() => {
  const { $, text } = Page;
  const { group } = Draw;
  const { percent, duration, slackName, boundName, modeName, clockOf } = Words;
  const kSpan_s = 1; // over a shorter time a share means little
  const kOld_s = 3; // without news

  /** Each worker's share of waiting over the last seconds, with a wait that still continues; null
   *  before it has reported for a second. */
  function waiting(job, now, past) {
    const w = job.by_worker;
    const old = past[0].job && past[0].job.id === job.id ? past[0].job.by_worker : null;
    return w.name.map((name, i) => {
      if (!old || old.name[i] !== name) return null;
      const span = now.time - w.silent_s[i] - (past[0].time - old.silent_s[i]);
      const wait = w.wait_s[i] - old.wait_s[i];
      return span >= kSpan_s && wait >= 0 ? Math.min(1, wait / span) : null;
    });
  }

  function show(job, waits, isPinned) {
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
    text("t-rate", group(job.rate));
    for (const id of ["rate-name", "rate-column"]) text(id, job.rate_unit);
    text("rate-title", `Throughput, ${job.rate_unit}`);
    const w = job.by_worker;
    const known = waits.filter((share, i) => share !== null && !w.is_stale[i]);
    text("t-wait", percent(known.length ? known.reduce((a, b) => a + b, 0) / known.length : null));
    const rest = job.left_s === null ? "" : `, ${duration(job.left_s)} left`;
    text("t-time", duration(job.running_s) + rest);
    $("stop").hidden = job.state !== "running" && job.state !== "submitted";
    $("back").hidden = !isPinned;
    const kept = job.checkpoint
      ? `Saved at clock ${group(job.checkpoint.clock)}: ${job.checkpoint.folder}` : "";
    const left = job.run_folder ? `Run folder: ${job.run_folder}` : "";
    const words = [kept, job.checkpoint_failure, left].filter(Boolean);
    text("job-kept", words.join("\n"));
    $("job-kept").hidden = words.length === 0;
    const done = job.state === "running" ? (100 * share).toFixed(0) + " % " : "";
    document.title = `${done}${job.name} – Tautline`;
  }

  function showClocks(job, slackTouched) {
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

  function showStaleness(job, series) {
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

  return { kOld_s, waiting, show, showClocks, wantedSlack, showStaleness };
})();
