// The shown job's history, as columns: of all clocks, or of every second, fourth, ... one.
"use strict";

const Series = (() => {
  const kPoints = 1200;
  const kColumns = ["t", "clock", "loss", "rate", "apart"];

  function empty(job) {
    return { job, t: [], clock: [], loss: [], rate: [], apart: [], changes: [] };
  }

  /** Appends what the coordinator knows of a job to what this page already knew. */
  function joined(series, history) {
    // A coordinator that restarted knows less than this page, which keeps its history.
    if (series.job === history.job && series.t.length) {
      const first = history.t.length ? history.t[0] : Infinity;
      const kept = series.t.filter((t) => t < first).length;
      for (const column of kColumns) {
        history[column] = series[column].slice(0, kept).concat(history[column]);
      }
      const known = history.changes.length ? history.changes[0].t : Infinity;
      const before = series.changes.filter((change) => change.t < known);
      history.changes = before.concat(history.changes);
    }
    return history;
  }

  /** Adds what a job's newest status says. */
  function add(series, job) {
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
    series.rate.push(job.rate);
    series.apart.push(job.fastest - job.clock);
    if (series.t.length < kPoints) return;
    for (const column of kColumns) {
      series[column] = series[column].filter((_, i) => i % 2 === 0);
    }
  }

  return { empty, joined, add };
})();
