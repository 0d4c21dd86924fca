// What is drawn by hand: every worker's clock on one axis. Pure functions of the job and a canvas.
"use strict";

const Draw = (() => {
  const kLanes = 24; // more workers than this are dots without names
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const group = (n) => Math.round(n).toLocaleString("en-US");

  /** Workers that still count, with their lead over the slowest: as one shard sees them at one
   *  moment, or before it has said so as they last reported. */
  function leads(job) {
    const w = job.by_worker;
    const here = [];
    const known = job.version !== null;
    for (let i = 0; i < w.name.length; i++) {
      if (w.state[i] === "lost" || (known && w.at[i] === null)) continue;
      here.push({ name: w.name[i], clock: known ? w.at[i] : w.clock[i], state: w.state[i],
                  stale: w.is_stale[i] && w.state[i] === "running" });
    }
    let slowest = known ? job.version : Infinity;
    for (const one of here) slowest = Math.min(slowest, one.clock);
    for (const one of here) one.lead = one.clock - slowest;
    return { here, slowest: here.length ? slowest : 0 };
  }

  /** A worker computes no clock further ahead of the slowest one's than this. */
  const bound = (job) => (job.slack === null ? null : job.slack);

  function prepare(canvas, height) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth;
    canvas.style.height = height + "px";
    const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== wide || canvas.height !== high) {
      [canvas.width, canvas.height] = [wide, high];
    }
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    g.textBaseline = "middle";
    return { g, width };
  }

  function step(span, width) {
    for (const s of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 100000]) {
      if ((s / span) * width >= 54) return s;
    }
    return span;
  }

  function axis(g, x, y, span, width, slowest) {
    g.fillStyle = css("--soft");
    g.textAlign = "center";
    const every = step(span, width);
    for (let lead = 0; lead <= span; lead += every) {
      g.fillText(lead === 0 ? group(slowest) : "+" + group(lead), x(lead), y);
    }
  }

  function frame(g, x, top, bottom, job, fastest) {
    const limit = bound(job);
    g.fillStyle = css("--fill");
    g.fillRect(x(0), top, Math.max(2, x(fastest) - x(0)), bottom - top);
    if (limit === null) return;
    g.strokeStyle = css("--red");
    g.lineWidth = 2;
    g.setLineDash([6, 4]);
    g.beginPath();
    g.moveTo(x(limit), top - 4);
    g.lineTo(x(limit), bottom + 2);
    g.stroke();
    g.setLineDash([]);
    g.fillStyle = css("--red");
    const room = g.measureText("bound").width + 8;
    g.textAlign = "left";
    g.fillText("bound", Math.min(x(limit) + 5, g.canvas.clientWidth - room), top - 2);
  }

  function clocks(canvas, job) {
    const { here, slowest } = leads(job);
    const fastest = here.reduce((most, one) => Math.max(most, one.lead), 0);
    const limit = bound(job);
    const span = Math.max(limit === null ? 1 : limit, fastest, 1) * 1.04;
    return here.length <= kLanes
      ? lanes(canvas, job, here, slowest, fastest, span)
      : swarm(canvas, job, here, slowest, fastest, span);
  }

  function lanes(canvas, job, here, slowest, fastest, span) {
    const lane = here.length > 12 ? 18 : 24;
    const top = 22;
    const bottom = top + Math.max(1, here.length) * lane;
    const { g, width } = prepare(canvas, bottom + 24);
    const widest = Math.max(40, ...here.map((one) => g.measureText(one.name).width));
    const names = Math.min(width * 0.25, widest + 14);
    const x = (lead) => names + 8 + (lead / span) * (width - names - 62);
    frame(g, x, top, bottom, job, fastest);
    here.forEach((one, i) => {
      const y = top + (i + 0.5) * lane;
      g.strokeStyle = css("--line");
      g.lineWidth = 1;
      g.beginPath();
      g.moveTo(x(0), y);
      g.lineTo(x(span), y);
      g.stroke();
      g.fillStyle = css("--text");
      g.textAlign = "left";
      g.fillText(one.name, 0, y, names - 6);
      g.fillStyle = css(one.stale ? "--soft" : one.lead === 0 ? "--orange" : "--blue");
      g.beginPath();
      if (one.lead === 0) g.rect(x(0) - 5, y - 5, 10, 10);
      else g.arc(x(one.lead), y, 6, 0, 7);
      g.fill();
      g.fillStyle = css("--soft");
      g.textAlign = "right";
      g.fillText("+" + group(one.lead), width - 2, y);
    });
    axis(g, x, bottom + 14, span, width - names - 62, slowest);
  }

  // One dot per worker, stacked over its clock; with many clocks, over a range of them.
  function swarm(canvas, job, here, slowest, fastest, span) {
    const height = 210;
    const { g, width } = prepare(canvas, height);
    const top = 22;
    const bottom = height - 26;
    const clock = (width - 60) / (span + 1);
    const margin = Math.max(16, Math.min(clock * 0.4, 90));
    const x = (lead) => margin + (lead / span) * (width - margin - 44);
    frame(g, x, top, bottom, job, fastest);
    const bin = Math.max(1, Math.ceil(span / ((width - 60) / 14)));
    const columns = new Map();
    for (const one of here) {
      const at = Math.floor(one.lead / bin);
      columns.set(at, (columns.get(at) || 0) + 1);
    }
    const most = Math.max(...columns.values());
    const room = Math.max(8, Math.min((x(bin) - x(0)) * 0.72, 2 * margin - 14));
    let dot = 9;
    const rows = () => Math.ceil(most / Math.max(1, Math.floor(room / dot)));
    while (dot > 1.5 && rows() * dot > bottom - top) dot -= 0.5;
    const across = Math.max(1, Math.floor(room / dot));
    for (const [at, count] of columns) {
      g.fillStyle = at === 0 ? css("--orange") : css("--blue");
      const used = Math.min(across, count);
      const left = x(at * bin + (bin - 1) / 2) - ((used - 1) * dot) / 2;
      for (let i = 0; i < count; i++) {
        g.beginPath();
        const y = bottom - dot / 2 - Math.floor(i / across) * dot;
        g.arc(left + (i % across) * dot, y, dot * 0.42, 0, 7);
        g.fill();
      }
    }
    axis(g, x, bottom + 14, span, width - margin - 44, slowest);
  }

  return { clocks, leads, bound, css, group, kLanes };
})();
