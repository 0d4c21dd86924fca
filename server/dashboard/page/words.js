// How the dashboard writes figures, and what a job has.
"use strict";

const Words = (() => {
  const { group } = Draw;

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
  // A job without an end is over when its members say so.
  function clockOf(job, of) {
    return group(job.clock) + (job.max_iter > 0 ? of + group(job.max_iter) : "");
  }

  return { percent, duration, bytes, slackName, boundName, modeName, clockOf };
})();
