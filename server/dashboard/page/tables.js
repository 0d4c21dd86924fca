// The tables: workers, followers, shards, the queue, jobs, and the log.
"use strict";

const Tables = (() => {
  const { $, text } = Page;
  const { group } = Draw;
  const { percent, bytes, modeName, clockOf } = Words;
  const kRows = 16;

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

  function showWorkers(job, waits) {
    const w = job.by_worker;
    const order = w.name.map((_, i) => i);
    // As in the chart: of all workers at one moment, or a worker's own report if it has left.
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
      cell(row, trains ? group(w.rate[i]) : "–", "n");
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
  function protection(now) {
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

  /** How far the whole backups are behind their primaries; empty if no lag has been reported. */
  function lag(shards) {
    const known = shards.flatMap((shard) => shard.backups)
      .filter((backup) => backup.is_whole && backup.behind_s !== null);
    if (known.length === 0) return "";
    const most = (key) => Math.max(...known.map((backup) => backup[key]));
    const clocks = most("behind_clocks");
    return `, at most ${most("behind_s").toFixed(1)} s (${group(clocks)} ` +
      `${clocks === 1 ? "clock" : "clocks"}) behind`;
  }

  function showShards(now, past) {
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
    text("shard-note", `${parts.length} on ${servers}, ${bytes(all)}/s${protection(now)}`);
    $("shard-grid").replaceChildren(...parts);
  }

  /** Jobs that run and that wait, in the queue's order: which has what, and what it waits for. */
  function showQueue(now) {
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

  function showJobs(now) {
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

  function showLog(now) {
    const box = $("log-lines");
    const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");
    const lines = now.log.map(([time, line]) => `${clock(time)}  ${line}`).join("\n");
    if (box.textContent === lines) return;
    box.textContent = lines;
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  return { showWorkers, showFollowers, showShards, showQueue, showJobs, showLog };
})();
