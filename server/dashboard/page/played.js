// A lab's run from its playback.json: its state at any time, and tables of it. Pure functions.
"use strict";

const Played = (() => {
  const kStates = ["computing", "waiting", "paused", "serving", "away"];
  const kFormat = 1;
  // The states of a host from the bottom of its row on.
  const kStacked = ["computing", "serving", "paused", "waiting", "away"];

  const share = (row, bin) => (row.length ? row[bin] / 1000 : 0);

  /** When a bin ends; the last one with the run. */
  const endOf = (run, bin) => (bin + 1 >= run.bins ? run.virtual_s : (bin + 1) * run.bin_s);

  const binOf = (run, t) => Math.max(0, Math.min(run.bins - 1, Math.floor(t / run.bin_s)));

  /** When hosts were away, as shares of the bins like their other states. */
  function addLosses(run) {
    const hosts = new Map(run.hosts.map((host) => [host.name, host]));
    for (const loss of run.hosts_lost) {
      const host = hosts.get(loss.host);
      if (!host) continue;
      if (!host.away.length) host.away = new Array(run.bins).fill(0);
      const back = loss.back_s ?? run.virtual_s;
      for (let bin = 0; bin < run.bins; bin++) {
        const begin = bin * run.bin_s;
        const away = Math.min(back, endOf(run, bin)) - Math.max(loss.at_s, begin);
        if (away <= 0) continue;
        const part = Math.round((1000 * away) / (endOf(run, bin) - begin));
        host.away[bin] = Math.min(1000, host.away[bin] + part);
      }
    }
  }

  function check(run) {
    if (typeof run !== "object" || run === null || !("bins" in run)) {
      throw new Error("this is no playback.json of a lab's run");
    }
    if (run.format !== kFormat) {
      throw new Error(`format ${run.format}; this page reads ${kFormat}`);
    }
    const lists = [run.hosts, run.links, run.workers, run.tests, run.hosts_lost];
    if (!lists.every(Array.isArray)) throw new Error("a list is missing");
    if (!run.hosts.length) throw new Error("it has no host");
    const fits = (row) => Array.isArray(row) && (row.length === 0 || row.length === run.bins);
    const all = [run.iterations_per_s, run.loss, run.staleness, run.bound,
                 ...run.hosts.flatMap((host) => kStates.slice(0, 4).map((state) => host[state])),
                 ...run.links.map((link) => link.load), ...run.workers.map((one) => one.clock)];
    const covered = run.bin_s * run.bins;
    const isCovered = run.bin_s > 0 && run.virtual_s > 0 &&
      run.virtual_s <= covered * (1 + 1e-9) && run.virtual_s >= covered - run.bin_s;
    if (!isCovered || !all.every(fits)) throw new Error("a row does not fit the bins of time");
    if (!run.workers.every((one) => run.hosts[one.host])) throw new Error("a worker has no host");
  }

  /** Parses a run's text. Throws an Error that says what is wrong. */
  function parse(text) {
    let run;
    try {
      run = JSON.parse(text);
    } catch {
      throw new Error("this is no whole JSON");
    }
    // Runs of earlier builds do not have it.
    if (typeof run === "object" && run !== null) run.bound ??= [];
    check(run);
    for (const host of run.hosts) host.away = [];
    addLosses(run);
    return run;
  }

  /** What a host mostly does in a bin: an index in kStates; -1: mostly nothing. */
  function stateOf(host, bin) {
    let most = -1;
    let highest = 0;
    let used = 0;
    for (let state = 0; state < kStates.length; state++) {
      const part = share(host[kStates[state]], bin);
      used += part;
      if (part > highest) {
        highest = part;
        most = state;
      }
    }
    return highest < 1 - used ? -1 : most;
  }

  /** What part of a host's time is below each of kStacked in the end; together at most 1. */
  function stackAt(host, bin) {
    let sum = 0;
    const tops = kStacked.map((state) => (sum += share(host[state], bin)));
    return sum > 1 ? tops.map((top) => top / sum) : tops;
  }

  /** The mean of all hosts' shares of each state, and of none. */
  function meanAt(run, bin) {
    const sums = { idle: 0 };
    for (const host of run.hosts) {
      let low = 0;
      stackAt(host, bin).forEach((top, i) => {
        sums[kStacked[i]] = (sums[kStacked[i]] || 0) + top - low;
        low = top;
      });
      sums.idle += 1 - low;
    }
    for (const state of Object.keys(sums)) sums[state] /= Math.max(1, run.hosts.length);
    return sums;
  }

  /** The bound at the end of a bin, where a policy moves it that of then; null: there is none. */
  const boundAt = (run, bin) => run.bound[bin] ?? run.slack;

  /** The share of the workers' hosts in each state, weighted by their workers. */
  function sharesAt(run, bin) {
    const sums = Object.fromEntries(kStates.map((state) => [state, 0]));
    let workers = 0;
    for (const host of run.hosts) {
      const count = host.workers.length;
      workers += count;
      if (count) for (const state of kStates) sums[state] += count * share(host[state], bin);
    }
    for (const state of kStates) sums[state] /= Math.max(1, workers);
    return sums;
  }

  /** The clocks of the workers that are members, ascending; of the last bin that has some. */
  const membersAt = (run, bin) => run.workers.map((one) => one.clock[bin] ?? -1)
    .filter((clock) => clock >= 0).sort((a, b) => a - b);
  function clocksAt(run, bin) {
    for (let at = bin; at >= 0; at--) {
      const here = membersAt(run, at);
      if (here.length) return here;
    }
    return [0];
  }

  /** The clocks by bin: of 0, 10, 25, 50, 75, 90 and 100 % of the workers. */
  function quantiles(run) {
    const parts = [0, 0.1, 0.25, 0.5, 0.75, 0.9, 1];
    return Array.from({ length: run.bins }, (_, bin) => {
      const clocks = clocksAt(run, bin);
      return parts.map((part) => clocks[Math.round(part * (clocks.length - 1))]);
    });
  }

  /** The job at a time, in the form in which the page draws a live one. */
  function jobAt(run, bin) {
    const clock = run.workers.map((one) => one.clock[bin] ?? -1);
    const away = clock.map((at) => at < 0);
    const done = run.max_iter > 0 ? run.max_iter : Infinity;
    return {
      slack: boundAt(run, bin), version: null,
      by_worker: {
        name: run.workers.map((one) => one.name), clock, at: clock,
        state: away.map((gone, i) => (gone ? "lost" : clock[i] >= done ? "finished" : "running")),
        is_stale: away,
      },
    };
  }

  // ---- figures as text

  const percent = (part) => (100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0) + " %";
  const whole = (part) => Math.round(100 * part) + " %";
  const digits = (run) => (run.virtual_s < 10 ? 3 : run.virtual_s < 1000 ? 2 : 0);
  const inSeconds = (run, s) => s.toFixed(digits(run)) + " s";
  const short = (value) => {
    if (Math.abs(value) >= 1e6) return Number((value / 1e6).toPrecision(3)) + " M";
    if (Math.abs(value) >= 1e4) return Number((value / 1e3).toPrecision(3)) + " k";
    return String(Number(value.toPrecision(3)));
  };
  const plural = (n, word) => `${Draw.group(n)} ${word}${n === 1 ? "" : "s"}`;

  // ---- tables

  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const figure = (value) => (value === null || value === undefined
    ? "" : String(Number(value.toPrecision(6))));
  const part = (row, bin) => (row.length && row[bin] ? share(row, bin).toFixed(3) : "0");

  function table(run, head, cells) {
    const lines = [["virtual_s", ...head].join(",")];
    for (let bin = 0; bin < run.bins; bin++) {
      lines.push([endOf(run, bin).toFixed(6), ...cells(bin)].join(","));
    }
    return lines.join("\n") + "\n";
  }

  const tables = {
    clocks: (run) => table(run, run.workers.map((one) => quoted(one.name)), (bin) =>
      run.workers.map((one) => (one.clock[bin] >= 0 ? one.clock[bin] : ""))),
    links: (run) => table(run, run.links.map((one) => quoted(one.name)), (bin) =>
      run.links.map((one) => part(one.load, bin))),
    hosts: (run) => {
      const lines = [["virtual_s", "host", ...kStates].join(",")];
      for (let bin = 0; bin < run.bins; bin++) {
        const time = endOf(run, bin).toFixed(6);
        for (const host of run.hosts) {
          const cells = kStates.map((state) => part(host[state], bin));
          lines.push([time, quoted(host.name), ...cells].join(","));
        }
      }
      return lines.join("\n") + "\n";
    },
    training: (run) => table(
      run, ["iterations_per_s", "loss", "mean_staleness", "slowest", "median", "fastest",
            "bound"],
      (bin) => {
        const clocks = membersAt(run, bin);
        const middle = clocks[Math.floor(clocks.length / 2)];
        return [figure(run.iterations_per_s[bin]), figure(run.loss[bin]),
                figure(run.staleness[bin]), clocks[0] ?? "", middle ?? "",
                clocks[clocks.length - 1] ?? "", figure(boundAt(run, bin))];
      }),
    tests: (run) => ["virtual_s,iteration,accuracy,loss", ...run.tests.map((test) =>
      [test.at_s.toFixed(6), test.iteration, figure(test.accuracy), figure(test.loss)].join(","))]
      .join("\n") + "\n",
  };

  return { kStates, kStacked, parse, share, endOf, binOf, stateOf, stackAt, meanAt, boundAt,
           sharesAt, quantiles, jobAt, percent, whole, inSeconds, short, plural, tables };
})();
